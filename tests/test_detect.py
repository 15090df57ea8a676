"""Detection: every device of the catalog from its host's files, whatever the files are; labels; watching."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cli.detect.command import _tell
from fairlead.cli.main import main
from fairlead.detect.catalog import SHIPPED, read_catalog
from fairlead.detect.detector import Detection, detect, measure
from fairlead.detect.host_tree import HostTree
from fairlead.detect.labels import PREFIX, feature_file, labels
from fairlead.detect.nvml import FakeNvml, Gpu
from fairlead.detect.watch import Periods, Watch
from hosts import HOSTS, lay_out, link, plug_in, strings, write
from processes import started

CATALOG = read_catalog()
LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def found_in(root: Path, **options: Any) -> Detection:
    return detect(HostTree(root), CATALOG, **options)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_is_told_exactly(name: str, tmp_path: Path) -> None:
    host = HOSTS[name]
    found = found_in(lay_out(tmp_path, host))
    by_id = {one.id: one for one in found.accelerators}
    assert list(by_id) == list(host["finds"])
    for key, facts in host["finds"].items():
        assert by_id[key].facts | facts == by_id[key].facts
    for key, figures in host.get("figures", {}).items():
        assert by_id[key].figures == figures
    assert found.problems == {}
    assert found.host["cpus"] == 6
    assert found.host["memory_mb"] == 7471


def test_every_device_of_the_catalog_has_a_host() -> None:
    told = {key.partition("@")[0] for host in HOSTS.values() for key in host["finds"]}
    assert told == {entry.name for entry in CATALOG.entries}


def test_an_orin_nano_is_not_a_nano(tmp_path: Path) -> None:
    (one,) = found_in(lay_out(tmp_path, HOSTS["jetson-orin-nano-8gb"])).accelerators
    assert "Nano" in HOSTS["jetson-orin-nano-8gb"]["model"]
    assert one.device == "jetson-orin-nano-8gb"
    assert one.facts["compute_capability"] == "8.7"


def test_power_rails_are_read(tmp_path: Path) -> None:
    found = found_in(lay_out(tmp_path, HOSTS["jetson-orin-nano-devkit"]))
    assert found.load["rails_mw"] == {"VDD_IN": pytest.approx(5.064 * 1200, abs=0.1)}
    assert found.load["hottest_c"] == 49.5


def test_unlike_gpus_of_one_name_have_no_architecture_in_common(tmp_path: Path) -> None:
    made = labels(found_in(lay_out(tmp_path, HOSTS["amd-gpus-with-kfd"])))
    assert made["fairlead.io/amd-gpu.architecture"] == "mixed"
    assert made["fairlead.io/amd-gpu.compute-units"] == "60"  # what each of them has at least


def test_of_an_amd_gpu_without_its_driver_nothing_is_made_up(tmp_path: Path) -> None:
    facts = {one.id: one.facts for one in found_in(lay_out(tmp_path, HOSTS["amd-gpus-with-kfd"])).accelerators}
    assert not {"architecture", "compute_units", "memory_mb"} & set(facts["amd-gpu@pci:0000:0c:00.0"])


def test_nvml_adds_what_it_knows(tmp_path: Path) -> None:
    gpu = Gpu("0000:01:00.0", "NVIDIA GeForce RTX 3060", {"memory_mb": 12288}, {"load_percent": 3.0})
    elsewhere = Gpu("0000:41:00.0", "NVIDIA A2", {"memory_mb": 15356})
    found = found_in(lay_out(tmp_path, HOSTS["nvidia-gpu"]), nvml=FakeNvml([gpu, elsewhere]))
    ours, other = found.accelerators
    assert (ours.title, ours.facts["memory_mb"], ours.facts["interface"]) == (gpu.title, 12288, "pcie-x16")
    assert ours.figures["load_percent"] == 3.0
    assert (other.id, other.matched) == ("nvidia-gpu@pci:0000:41:00.0", "nvml 0000:41:00.0")


def test_nvml_on_a_jetson_is_the_same_gpu(tmp_path: Path) -> None:
    gpu = Gpu("0000:01:00.0", "NVIDIA Thor")
    found = found_in(lay_out(tmp_path, HOSTS["jetson-agx-thor"]), nvml=FakeNvml([gpu]))
    assert [one.device for one in found.accelerators] == ["jetson-agx-thor"]


# --- identity ---------------------------------------------------------------------------------------------------


def test_a_coral_keeps_its_id_when_it_gets_its_firmware(tmp_path: Path) -> None:
    """It comes back with other ids and another number; another start gives its bus another number."""
    for number, ids in enumerate([("1a6e", "089a"), ("18d1", "9302")], 1):
        root = tmp_path / str(number)
        plug_in(root, f"{number}-1.2", idVendor=ids[0], idProduct=ids[1], speed=5000, devnum=number + 4)
        assert [one.id for one in found_in(root).accelerators] == ["coral-usb@usb:0000:01:00.0:1.2"]


def test_sticks_that_all_have_the_same_serial_number_are_told_apart(tmp_path: Path) -> None:
    for port in ("2-1", "2-2"):
        plug_in(tmp_path, port, idVendor="03e7", idProduct="2485", speed=5000, serial="03e72485")
    assert len(found_in(tmp_path).accelerators) == 2


def test_two_corals_are_two(tmp_path: Path) -> None:
    for port in ("2-1", "2-2"):
        plug_in(tmp_path, port, idVendor="18d1", idProduct="9302", speed=5000)
    found = found_in(tmp_path)
    assert len({one.id for one in found.accelerators}) == 2
    assert labels(found)[f"{PREFIX}/coral-usb.count"] == "2"


# --- hostile trees ----------------------------------------------------------------------------------------------


def hostile(root: Path, which: str) -> None:
    usb = "sys/bus/usb/devices/1-1"
    if which == "loops":
        link(root, "sys/bus/usb/devices/1-1", "1-2")
        link(root, "sys/bus/usb/devices/1-2", "1-1")
        link(root, "proc/device-tree", "/proc/device-tree")
    elif which == "a loop of folders":
        write(root, "sys/firmware/devicetree/base/compatible", strings(["nvidia,tegra234"]))
        link(root, "sys/firmware/devicetree/base/bus@0", ".")
    elif which == "a pipe":
        (root / usb).mkdir(parents=True)
        os.mkfifo(root / usb / "idVendor")
    elif which == "huge":
        write(root, f"{usb}/idVendor", "1" * 10_000_000)
        write(root, f"{usb}/idProduct", "089a\n")
    elif which == "binary":
        (root / usb).mkdir(parents=True)
        (root / usb / "idVendor").write_bytes(bytes(range(256)))
        (root / usb / "idProduct").write_bytes(b"\xff\xfe\x00")
    elif which == "no numbers":
        write(root, f"{usb}/speed", "nan")
        write(root, "proc/loadavg", "inf inf inf")
        write(root, "sys/class/thermal/thermal_zone0/temp", "-inf")
    elif which == "truncated":
        write(root, f"{usb}/idVendor", "1a")
        write(root, f"{usb}/idProduct", "")
        write(root, "sys/firmware/devicetree/base/compatible", "nvidia,p37")
    elif which == "out of the root":
        secret = root.parent / f"{root.name}-secret"
        write(secret, "idVendor", "1a6e\n")
        write(secret, "idProduct", "089a\n")
        link(root, usb, str(secret))  # as on that host, there is no such path
        link(root, "sys/bus/usb/devices/1-2", "../" * 30 + str(secret).lstrip("/"))
    elif which == "files for folders":
        write(root, "sys/bus/usb/devices", "")
        write(root, "sys/bus/pci", "")
        write(root, "proc/device-tree", "")
    elif which == "odd names":
        (root / usb).mkdir(parents=True)
        os.mkdir(os.fsencode(root) + b"/sys/bus/usb/devices/\xff\xfe-1")
        (root / "sys/bus/usb/devices/1-1\n2").mkdir()


HOSTILE = ("no numbers", "loops", "a loop of folders", "a pipe", "huge", "binary", "truncated", "out of the root",
           "files for folders", "odd names")  # fmt: skip


@pytest.mark.parametrize("which", HOSTILE)
def test_a_hostile_tree_costs_nothing(which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "host"
    root.mkdir()
    hostile(root, which)
    expected = ["jetson-tegra234"] if which == "a loop of folders" else []
    assert [one.device for one in found_in(root).accelerators] == expected
    assert main(["detect", "--root", str(root), "--json"]) == 0
    json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # NaN and the like are no JSON


@contextmanager
def nobody() -> Iterator[None]:
    """Without the permissions of root, if we have them."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


def test_no_permission_is_told_and_is_not_absence(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o755)
        root = lay_out(Path(folder), HOSTS["coral-pcie"])
        (root / "sys/devices/pci0000:00/0000:03:00.0/vendor").chmod(0)
        with nobody():
            assert main(["detect", "--root", folder, "--json"]) == 0
    path, shown = "/sys/bus/pci/devices/0000:03:00.0/vendor", capsys.readouterr()
    assert json.loads(shown.out)["problems"] == {path: "no permission"}
    assert shown.err == f"fairlead: {path}: no permission: hardware behind it is unknown, not absent\n"


def mutate(root: Path, draw: random.Random) -> None:
    """One change somewhere below the root."""
    paths = sorted(path for path in root.rglob("*") if not (path.is_dir() and not path.is_symlink()))
    path = draw.choice(paths)
    how = draw.randrange(7)
    content = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
    if how == 0:
        path.unlink()
    elif how == 1 and content:
        path.write_bytes(content[: draw.randrange(len(content))])
    elif how == 2 and content:
        at = draw.randrange(len(content))
        path.write_bytes(content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :])
    elif how == 3:
        path.unlink()
        path.symlink_to(draw.choice([".", "..", "/", str(path), "../" * draw.randrange(9) + "sys", "nothing"]))
    elif how == 4 and not path.is_symlink():
        path.write_bytes(draw.randbytes(draw.choice([0, 1, 7, 300])))
    elif how == 5:
        path.unlink()
        path.mkdir()
    elif content:  # exchanged with another
        other = draw.choice([one for one in paths if one.is_file() and not one.is_symlink()] or [path])
        path.write_bytes(other.read_bytes())


def tokens(root: Path) -> set[bytes]:
    """All words of all files, read without the detector: what a tree tells must be among them."""
    words: set[bytes] = set()
    for folder, _, files in os.walk(root):  # follows no links
        for file in files:
            path = os.path.join(folder, file)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as opened:
                    words |= set(re.split(rb"[\0\s]+", opened.read().lower()))
    return words


def is_in(matched: str, words: set[bytes]) -> bool:
    bus, _, told = matched.partition(" ")
    parts = told.encode().split(b":") if bus in ("usb", "pci") else [told.encode()]
    return all(part in words or b"0x" + part in words for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_mutated_trees_neither_crash_it_nor_make_it_tell_what_is_not_there(part: int, tmp_path: Path) -> None:
    """10,000 mutations in four parts; several on top of each other, then a fresh tree."""
    draw, told = random.Random(part), 0
    names = sorted(HOSTS)
    for trial in range(2500 // 5):
        root = lay_out(tmp_path / str(trial), HOSTS[draw.choice(names)])
        for _ in range(5):
            mutate(root, draw)
            found = found_in(root)
            words = tokens(root)
            for one in found.accelerators:
                assert is_in(one.matched, words), (one, trial)
                told += 1
            for name, value in labels(found).items():
                assert LABEL.fullmatch(name.partition("/")[2]), name
                assert LABEL.fullmatch(value), (name, value)
        shutil.rmtree(root)
    assert told > 500  # it does find what is left


# --- the catalog ------------------------------------------------------------------------------------------------


def test_a_new_device_is_a_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text('devices:\n  my-stick:\n    {title: My stick, vendor: me, category: npu, usb: "1234:5678"}\n')
    plug_in(tmp_path / "host", "1-1", idVendor="1234", idProduct="5678")
    assert main(["detect", "--root", str(tmp_path / "host"), "--catalog", str(mine), "--labels"]) == 0
    assert f"{PREFIX}/my-stick.count=1\n" in capsys.readouterr().out


def test_a_users_entry_goes_before_ours(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text('devices:\n  renamed:\n    {title: Mine, vendor: me, category: tpu, usb: "18d1:9302"}\n')
    plug_in(tmp_path / "host", "1-1", idVendor="18d1", idProduct="9302")
    (one,) = detect(HostTree(tmp_path / "host"), read_catalog(mine)).accelerators
    assert one.device == "renamed"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("devices: [\n", "mine.yaml:2: not valid YAML"),
        ("device: {}", "mine.yaml: expected `devices:` with an entry for each device"),
        ("devices: {x: 5}", "mine.yaml: x: expected fields (title, "),
        ("devices: {x: {usp: 1}}", "mine.yaml: x: unknown field 'usp' (did you mean 'usb'?)"),
        ("devices: {x: {title: X, vendor: v, category: npu}}", "x: needs one of compatible, node, usb, pci to be"),
        ("devices: {x: {usb: '1:2'}}", "x: lacks title, vendor, category"),
        ("devices: {x: {title: X, vendor: v, category: gpo, usb: '1:2'}}", "x: category: 'gpo' (did you mean 'gpu'?)"),
        ("devices: {x: {title: X, vendor: v, category: gpu, usb: 12}}", "x: usb: expected words (in quotes"),
        ("devices: {x: {title: X, vendor: v, category: gpu, usb: abc}}", "x: usb: 'abc': expected vendor:device"),
        ("devices: {X_: {title: X, vendor: v, category: gpu, usb: '1:2'}}", "X_: a name has small letters"),
        ("devices: {x: {title: X, vendor: v, category: gpu, usb: '1:2', dynamic: {t: {files: f, pattern: '('}}}}",
         "x: dynamic: t: pattern: missing )"),
        ("devices: {x: {title: X, vendor: v, category: gpu, usb: '1:2', dynamic: {t: {files: f, pattern: '[[a](b)'}}}}",
         "x: dynamic: t: pattern: Possible nested set"),
        ("devices: {x: {title: X, vendor: v, category: gpu, usb: '1:2', dynamic: {t: {files: f, scale: a}}}}",
         "x: dynamic: t: scale: expected a number, not 'a'"),
    ],
)  # fmt: skip
def test_a_wrong_catalog_is_told_in_one_line(
    content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(content)
    assert main(["detect", "--catalog", str(tmp_path / "mine.yaml")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_every_entry_names_its_source() -> None:
    assert all(entry.source for entry in CATALOG.entries)
    assert len({entry.name for entry in CATALOG.entries}) == len(yaml.safe_load(SHIPPED.read_text())["devices"])


# --- labels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_labels_are_valid_for_kubernetes(name: str, tmp_path: Path) -> None:
    made = labels(found_in(lay_out(tmp_path, HOSTS[name])))
    for key, value in made.items():
        prefix, _, short = key.partition("/")
        assert prefix == PREFIX
        assert short
        assert LABEL.fullmatch(short)
        assert LABEL.fullmatch(value)
    devices = {key.partition("@")[0] for key in HOSTS[name]["finds"]}
    assert {f"{PREFIX}/{device}.count" for device in devices} <= set(made)


def test_labels_say_what_placement_asks_for(tmp_path: Path) -> None:
    made = labels(found_in(lay_out(tmp_path, HOSTS["jetson-nano-with-coral"])))
    assert made == {
        "fairlead.io/coral-usb.count": "1",
        "fairlead.io/coral-usb.interface": "usb3",
        "fairlead.io/coral-usb.interface-mbps": "5000",
        "fairlead.io/gpu.count": "1",
        "fairlead.io/host.model": "a-board",
        "fairlead.io/jetson-nano.compute-capability": "5.3",
        "fairlead.io/jetson-nano.count": "1",
        "fairlead.io/jetson-nano.interface": "soc",
        "fairlead.io/jetson-nano.memory-mb": "4096",
        "fairlead.io/jetson-nano.soc": "tegra210",
        "fairlead.io/tpu.count": "1",
    }


def test_of_two_devices_the_slower_link_is_the_label(tmp_path: Path) -> None:
    plug_in(tmp_path, "1-1", idVendor="18d1", idProduct="9302", speed=480)
    plug_in(tmp_path, "2-1.1", idVendor="18d1", idProduct="9302", speed=5000)
    made = labels(found_in(tmp_path))
    assert made["fairlead.io/coral-usb.interface-mbps"] == "480"
    assert made["fairlead.io/coral-usb.interface"] == "usb2"


def test_a_feature_file_expires_and_stays_small() -> None:
    text = feature_file({"fairlead.io/tpu.count": "1"}, 60, datetime(2026, 1, 1, tzinfo=UTC))
    assert text == "# +expiry-time=2026-01-01T00:01:00Z\nfairlead.io/tpu.count=1\n"
    long = feature_file({f"fairlead.io/x{i}": "y" * 60 for i in range(2000)})
    assert len(long) <= 64 * 1024
    assert long.endswith("y" * 60 + "\n")


# --- watching ---------------------------------------------------------------------------------------------------


def watching(root: Path, **periods: float) -> Watch:
    tree = HostTree(root)
    return Watch(lambda: detect(tree, CATALOG), lambda found: measure(found, tree, CATALOG), Periods(**periods))


def test_hardware_that_flaps_is_not_forgotten(tmp_path: Path) -> None:
    coral = plug_in(tmp_path, "1-1", idVendor="1a6e", idProduct="089a", speed=480)
    key = "coral-usb@usb:0000:01:00.0:1"
    watch = watching(tmp_path, static_s=10, keep_s=30)
    assert watch.look(0) == [f"found {key}: Google Coral USB Accelerator"]
    coral.rename(tmp_path / "unplugged")
    assert watch.look(10) == [f"gone {key}; remembered for 30 s"]
    assert watch.look(20) == []
    assert [one.id for one in watch.known.accelerators] == [key]
    assert watch.missing == [key]
    (tmp_path / "unplugged").rename(coral)
    write(tmp_path, "sys/devices/pci0000:00/0000:01:00.0/usb1/1-1/speed", "5000\n")
    assert watch.look(30) == [f"back {key}"]
    assert watch.missing == []
    coral.rename(tmp_path / "unplugged")
    watch.look(40)
    assert watch.look(70) == [f"forgotten {key}"]
    assert watch.known.accelerators == ()


def test_a_change_of_facts_is_told(tmp_path: Path) -> None:
    plug_in(tmp_path, "1-1", idVendor="18d1", idProduct="9302", speed=480)
    watch = watching(tmp_path, static_s=10)
    watch.look(0)
    write(tmp_path, "sys/devices/pci0000:00/0000:01:00.0/usb1/1-1/speed", "5000\n")
    assert watch.look(10) == [
        "changed coral-usb@usb:0000:01:00.0:1: interface usb2 -> usb3, interface_mbps 480.0 -> 5000.0"
    ]


def test_static_and_dynamic_have_periods_of_their_own(tmp_path: Path) -> None:
    lay_out(tmp_path, HOSTS["coral-pcie"])
    watch = watching(tmp_path, static_s=60, dynamic_s=5)
    watch.look(0)
    assert watch.due() == 5
    write(tmp_path, "sys/devices/pci0000:00/0000:03:00.0/apex/apex_0/temp", "90000\n")
    plug_in(tmp_path, "1-1", idVendor="18d1", idProduct="9302", speed=480)
    assert watch.look(5) == []  # load and temperature alone
    assert watch.known.accelerators[0].figures["temperature_c"] == 90
    assert [line.split("@")[0] for line in watch.look(60)] == ["found coral-usb"]


def test_a_counter_becomes_a_rate(tmp_path: Path) -> None:
    lay_out(tmp_path, HOSTS["intel-npu-meteor-lake"])
    watch = watching(tmp_path, static_s=60, dynamic_s=5)
    watch.look(0)
    assert "load_percent" not in watch.known.accelerators[0].figures
    write(tmp_path, "sys/devices/pci0000:00/0000:00:0b.0/npu_busy_time_us", f"{3_600_000 + 2_500_000}\n")
    watch.look(5)
    assert watch.known.accelerators[0].figures["load_percent"] == 50


def test_watching_is_light_and_ends_when_told(tmp_path: Path) -> None:
    """Under 40 MB and, at twenty looks a second, so little that one in five seconds is under 0.5 % of a core."""
    lay_out(tmp_path, HOSTS["jetson-orin-nano-devkit"])
    plug_in(tmp_path, "1-1", idVendor="18d1", idProduct="9302", speed=480)
    command = [sys.executable, "-m", "fairlead", "detect", "--root", str(tmp_path), "--watch", "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with started([*command, "--dynamic-every", "0.05"]) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        for _ in range(60):
            line = json.loads(process.stdout.readline())
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert [one["device"] for one in first["accelerators"]] == ["jetson-orin-nano-devkit", "coral-usb"]
    assert line["accelerators"][0]["figures"]["load_percent"] == 42.3
    (peak_kb,) = re.findall(r"VmHWM:\s+(\d+) kB", status)
    assert int(peak_kb) < 40_000
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    assert (cpu_s / 60) / 5 < 0.005  # its start included


def test_a_file_of_labels_is_written_when_hardware_was_looked_at_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, written = lay_out(tmp_path / "host", HOSTS["coral-pcie"]), []
    monkeypatch.setattr("fairlead.cli.detect.command.write_whole", lambda path, text: written.append(text))
    watch = watching(root, static_s=60, dynamic_s=5)
    options = argparse.Namespace(form="nfd", output=str(tmp_path / "features"))
    for now, expected in ((0, 1), (5, 1), (55, 1), (60, 2), (65, 2)):
        _tell(watch, watch.look(now), options)
        assert len(written) == expected, now


# --- the command ------------------------------------------------------------------------------------------------


def test_the_table_names_devices_and_what_they_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--root", str(lay_out(tmp_path, HOSTS["coral-pcie"]))]) == 0
    shown = capsys.readouterr().out
    for words in ("Google Coral M.2", "tpu", "pci 1ac1:089a", "temperature_c 46.8"):
        assert words in shown


@pytest.mark.parametrize("form", ["--labels", "--nfd"])
def test_a_host_without_accelerators_is_told_from_a_command_that_did_nothing(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", "--root", str(tmp_path), form]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "no accelerator of the catalog found, so there is no label for one\n" in said.err


def test_a_feature_file_is_written_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root, out = lay_out(tmp_path / "host", HOSTS["coral-pcie"]), tmp_path / "features"
    assert main(["detect", "--root", str(root), "--nfd", "--output", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert "fairlead.io/coral-pcie.count=1\n" in out.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features", "host"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--root", "/nowhere"], "--root /nowhere: no such folder"),
        (["--catalog", "/nowhere.yaml"], "/nowhere.yaml: can't read it"),
        (["--output", "x"], "--output takes --json, --labels or --nfd"),
        (["--json", "--output", "/nowhere/x"], "the folder /nowhere does not exist"),
        (["--watch", "--keep", "0"], "--keep 0: expected seconds, more than 0"),
        (["--json", "--nfd"], "not allowed with argument --json"),
    ],
)
def test_wrong_options_are_told_in_one_line(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
