"""Degradation measured on this machine: processes, memory, disturbance, interrupts; files that other commands read."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, redirect_stdout
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import fairlead.cli.degradation.measure as command
from fairlead.cli.main import main
from fairlead.detect.host_tree import HostTree
from fairlead.domain.errors import UserError
from fairlead.profile.degradation import measurement
from fairlead.profile.degradation.foreign_load import Outside
from fairlead.profile.degradation.measurement import Measured, measure, shells
from fairlead.profile.degradation.process_pool import Memory, Mix, ProcessPool, RunnableModel
from fairlead.profile.degradation.timed_mix import Bench, Pace, Sample
from fairlead.profile.machine import Limits
from fairlead.profile.onnx_file import analyse
from fairlead.scenarios.loader import load
from fairlead.sim.serving.run_policy import simulate
from processes import alive, children, ends, started

QUICK = Pace(least_s=0.03, limit_s=0.06, width=1.0)


def tiny(folder: Path, name: str, size: int = 64) -> RunnableModel:
    """Products of matrices, some tens of microseconds."""
    weights = [numpy_helper.from_array(np.full((size, size), 1e-3, np.float32), f"w{i}") for i in range(4)]
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(4)]
    given = helper.make_tensor_value_info("t0", TensorProto.FLOAT, [size, size])
    made = helper.make_tensor_value_info("t4", TensorProto.FLOAT, [size, size])
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    path = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return RunnableModel(name, path, analyse(path).inputs)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[RunnableModel]:
    folder = tmp_path_factory.mktemp("models")
    return [tiny(folder, "small"), tiny(folder, "large", 128)]


# ---- processes


def test_exactly_the_mix_runs_and_who_rests_does_not(two: list[RunnableModel]) -> None:
    with ProcessPool(two) as pool:
        for mix in ((2, 1), (0, 1), (1, 0), (2, 1)):
            pool.run(mix)
            pool.mark()
            before = {pid: ran_ns(pid) for pid in pool.pids()}
            pool.wait(0.3)
            assert [bool(times) for times in pool.times_ms()] == [count > 0 for count in mix]
            ran = [ran_ns(pid) - before[pid] > 10_000_000 for pid in pool.pids()]  # of 300 ms
            assert ran == [*(n < mix[0] for n in range(2)), mix[1] > 0]
        assert pool.alive() == (2, 1)
        assert pool.missing((3, 3)) == [0, 1, 1]
        pids = pool.pids()
    assert not any(map(alive, pids))


def ran_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_a_process_that_dies_is_one_line(two: list[RunnableModel]) -> None:
    with ProcessPool(two) as pool:
        pool.run((1, 1))
        small, large = pool.pids()
        os.kill(large, signal.SIGKILL)
        with pytest.raises(UserError, match=r"^large: a process died \(ended by SIGKILL; out of memory\?.*\)$"):
            pool.wait(30)
    assert not alive(small)


def test_a_model_that_does_not_run_is_one_line(tmp_path: Path, two: list[RunnableModel]) -> None:
    broken = RunnableModel("broken", two[0].path, two[1].inputs)  # of another size
    with ProcessPool([broken]) as pool, pytest.raises(UserError, match=r"^broken: the model does not run: "):
        pool.memory(0)


def test_words_that_come_together_are_all_heard(two: list[RunnableModel]) -> None:
    """The worker must not lose what it has read ahead: it would never answer."""
    code = (
        "import sys; sys.path.insert(0, 'tests')\n"
        "from pathlib import Path; from test_measured_degradation import tiny\n"
        "from fairlead.profile.degradation.process_pool import ProcessPool\n"
        f"with ProcessPool([tiny(Path({str(two[0].path.parent)!r}), 'slow', 512)]) as pool:\n"
        "    pool.run((1,))\n"
        "    for _ in range(20): pool.mark(); pool.mark(); pool.times_ms()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100, cwd=Path(__file__).parents[1])


def test_no_process_outlives_a_parent_that_is_killed(two: list[RunnableModel]) -> None:
    with degrading(two, "--max", "3") as running:
        pids = workers_of(running.pid, 2)
        running.kill()
        running.wait(timeout=20)
        assert all(map(ends, pids))


def test_an_interrupt_ends_all_and_writes_nothing_half(two: list[RunnableModel], tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with degrading(two, "--max", "3", "--json", str(out)) as running:
        pids = workers_of(running.pid, 2)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
        assert running.returncode == 130
        assert said == "fairlead: interrupted\n"
        assert not out.exists()
        assert all(map(ends, pids))


def degrading(models: list[RunnableModel], *options: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """The command as a process of its own."""
    paths = [str(model.path) for model in models]
    return started([sys.executable, "-m", "fairlead", "degradation", "measure", *paths, *options])


def workers_of(pid: int, count: int) -> list[int]:
    """Its processes, once there are so many."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if len(found := children(pid)) >= count:
            return found
        time.sleep(0.01)
    raise AssertionError("no processes")


# ---- what is measured


def test_matrices_of_two_models(two: list[RunnableModel]) -> None:
    found = measure(two, 1, repeats=2, wait_s=0.0, pace=QUICK)
    small, large = found.matrices
    assert [(m.arriving, m.axes) for m in found.matrices] == [
        ("small", ("small", "large")),
        ("large", ("small", "large")),
    ]
    assert 0 < small.alone_ms < large.alone_ms
    for matrix, spread in zip(found.matrices, found.spreads, strict=True):
        assert matrix.cells[0][0] == 1.0
        assert len(matrix.cells) == len(matrix.cells[0]) == 2
        assert all(0.1 < cell < 100 for row in matrix.cells for cell in row)
        assert all(0 <= one < 2 for row in spread for one in row)
    assert all(5 < one.process_mb < 500 and one.process_mb > one.model_mb for one in found.memory)
    assert (found.most, found.interrupted, found.machine.cores) == (1, False, Limits().cores())


def test_one_model_is_a_column_and_three_are_pairs(two: list[RunnableModel], tmp_path: Path) -> None:
    (one,) = measure(two[:1], 2, repeats=1, wait_s=0.0, pace=QUICK).matrices
    assert one.axes == ("small",)
    assert [len(row) for row in one.cells] == [1, 1, 1]
    three = measure([*two, tiny(tmp_path, "huge", 160)], 1, repeats=1, wait_s=0.0, pace=QUICK)
    pairs = [("small", "large"), ("small", "huge"), ("large", "huge")]
    assert [(m.arriving, m.axes) for m in three.matrices] == [(name, pair) for pair in pairs for name in pair]
    assert all(math.isnan(one) for table in three.spreads for row in table for one in row)  # measured once


def test_the_walk_starts_or_rests_one_at_a_time_and_has_every_cell() -> None:
    walk = [mix for shell in shells(3, 2) for mix in shell]
    assert len(set(walk)) == len(walk) == 5 * 5 - 2
    needed = {(m + 1, r) for m in range(4) for r in range(4)} | {(m, r + 1) for m in range(4) for r in range(4)}
    assert set(walk) == needed
    steps = [sum(abs(a - b) for a, b in zip(one, two, strict=True)) for one, two in pairwise(walk)]
    assert sorted(steps)[:-1] == [1] * (len(steps) - 1)
    assert max(steps) == 2  # past the corner that nobody needs
    assert shells(2, 1) == [[(1,)], [(2,)], [(3,)]]


class FakeBench:
    """Times by a rule instead of processes; `outside` may be told by mix and how often it was watched before."""

    memory = (Memory(10, 5, 1), Memory(20, 5, 1))
    room_mb = math.inf

    def __init__(self, *_: Any) -> None:
        self.seen: list[Mix] = []
        self.waited = 0

    def fits(self, mix: Mix) -> bool:
        return True

    def outside(self, mix: Mix, times: int) -> float:
        return 0.0

    def slow(self, mix: Mix, times: int) -> float:
        return 1.0

    def others(self) -> float:
        self.waited += 1
        return 0.4 if self.waited < 3 else 0.0

    def watch(self, mix: Mix) -> Sample:
        times = self.seen.count(mix)
        self.seen.append(mix)
        slow = max(1.0, sum(mix) / 2) * self.slow(mix, times)
        means = tuple(ms * slow if n else math.nan for ms, n in zip((10.0, 20.0), mix, strict=True))
        return Sample(means, self.outside(mix, times))


@pytest.fixture
def faked(two: list[RunnableModel], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(bench: FakeBench, most: int = 2, **options: Any) -> Measured:
        monkeypatch.setattr(measurement, "Bench", lambda *_: bench)
        return measure(two, most, **options)

    return run


def test_cells_are_read_off_the_mix_that_has_the_newcomer(faked: Any) -> None:
    found = faked(FakeBench())
    small, large = found.matrices
    assert small.cells == large.cells == ((1.0, 1.0, 1.5), (1.0, 1.5, 2.0), (1.5, 2.0, 2.5))
    assert (small.alone_ms, large.alone_ms, found.again, found.disturbed) == (10.0, 20.0, 0, 0)


def test_what_was_disturbed_is_measured_anew_and_then_counts(faked: Any) -> None:
    class Disturbed(FakeBench):
        def outside(self, mix: Mix, times: int) -> float:
            return 0.5 if mix == (2, 1) and times == 0 else 0.0

        def slow(self, mix: Mix, times: int) -> float:
            return 1.7 if mix == (2, 1) and times == 0 else 1.0

    bench = Disturbed()
    found = faked(bench)
    assert bench.seen.count((2, 1)) == 3
    assert (found.again, found.disturbed) == (1, 0)
    assert found.matrices[0].cells[1][1] == 1.5
    assert bench.waited == 3  # until they were quiet
    assert found.matrices == faked(Disturbed(), wait_s=0.0).matrices


def test_who_disturbs_all_the_time_is_told_and_does_not_cost_for_ever(faked: Any) -> None:
    class Busy(FakeBench):
        def outside(self, mix: Mix, times: int) -> float:
            return 0.4

    bench = Busy()
    found = faked(bench)
    mixes = 4 * 4 - 2
    assert (found.again, found.disturbed) == (mixes, 2 * mixes)  # one round more, then it is given up


def test_of_repeats_that_disagree_the_odd_one_goes(faked: Any) -> None:
    class Frozen(FakeBench):
        def slow(self, mix: Mix, times: int) -> float:
            return 2.0 if mix == (1, 2) and times == 1 else 1.0

    found = faked(Frozen())
    assert found.again == 1
    assert found.matrices[0].cells[0][2] == 1.5
    assert max(one for table in found.spreads for row in table for one in row) == 0.0


def test_a_machine_that_changes_its_pace_puts_the_mixes_in_doubt(faked: Any) -> None:
    class Throttled(FakeBench):
        def slow(self, mix: Mix, times: int) -> float:
            return 1.3 if 6 <= len(self.seen) <= 10 else 1.0  # without anybody else on the processor

    found = faked(Throttled(), repeats=1)  # there is no other repeat to compare it with
    assert found.again > 0
    assert found.matrices[0].cells == ((1.0, 1.0, 1.5), (1.0, 1.5, 2.0), (1.5, 2.0, 2.5))


def test_an_interrupt_keeps_what_is_whole(faked: Any) -> None:
    def stop(done: int, total: int) -> None:
        if done > 3 + 5:  # the second shell is through: up to one of each runs already
            raise KeyboardInterrupt

    found = faked(FakeBench(), 4, progress=stop)
    assert (found.interrupted, found.most) == (True, 1)
    assert found.matrices[0].cells == ((1.0, 1.0), (1.0, 1.5))

    def at_once(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        faked(FakeBench(), 4, progress=at_once)


# ---- memory


def test_what_does_not_fit_is_infinite_and_not_run(two: list[RunnableModel], monkeypatch: pytest.MonkeyPatch) -> None:
    with ProcessPool(two) as pool:
        need = max(pool.memory(model).process_mb for model in range(2))
    there: list[int] = []
    run = ProcessPool.run

    def spied(self: ProcessPool, mix: Mix) -> None:
        run(self, mix)
        there.append(sum(self.alive()))

    monkeypatch.setattr(ProcessPool, "run", spied)
    found = measure(two, 2, repeats=1, memory_mb=2.5 * need, wait_s=0.0, pace=QUICK)
    for matrix in found.matrices:
        finite = [[math.isfinite(cell) for cell in row] for row in matrix.cells]
        assert finite == [[True, True, False], [True, False, False], [False, False, False]]
    assert max(there) == 2  # who is not needed is ended to make room
    assert found.room_mb == 2.5 * need


def test_one_that_does_not_fit_alone_is_one_line(two: list[RunnableModel]) -> None:
    with pytest.raises(UserError, match=r"^small: one process alone takes \d+ MB, and there are 5 MB to use$"):
        measure(two, 1, memory_mb=5.0)


def test_memory_that_becomes_short_stops_it_before_the_machine_does(two: list[RunnableModel]) -> None:
    class Shrinking(Limits):
        left = [10_000.0] * 2 + [100.0] * 9

        def available_mb(self) -> float:
            return self.left.pop(0)

        def total_mb(self) -> float:
            return 20_000.0

    with ProcessPool(two) as pool:
        bench = Bench(pool, two, Shrinking(), QUICK)
        bench.watch((1, 1))
        with pytest.raises(UserError, match="too little memory is left: one more process would leave"):
            bench.watch((2, 1))


def host(root: Path, files: dict[str, str]) -> Limits:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Limits(HostTree(root))


MEMINFO = {"proc/meminfo": "MemTotal:        8192000 kB\nMemFree: 1 kB\nMemAvailable:    4096000 kB\n"}


@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        ({}, 8000, 4000),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",  # version 2: that above counts
          "sys/fs/cgroup/a/b/memory.current": "1\n", "sys/fs/cgroup/a/memory.max": "1048576000\n",
          "sys/fs/cgroup/a/memory.current": "524288000\n",
          "sys/fs/cgroup/a/memory.stat": "anon 7\ninactive_file 104857600\n"},
         1000, 600),
        ({"proc/self/cgroup": "0::/elsewhere\n", "sys/fs/cgroup/memory.max": "1048576000\n",  # in a container
          "sys/fs/cgroup/memory.current": "0\n"}, 1000, 1000),
        ({"proc/self/cgroup": "4:memory:/x\n1:cpu,cpuacct:/y\n",  # version 1
          "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "2097152000\n",
          "sys/fs/cgroup/memory/x/memory.usage_in_bytes": "1048576000\n",
          "sys/fs/cgroup/memory/x/memory.stat": "inactive_file 1\ntotal_inactive_file 524288000\n"}, 2000, 1500),
        ({"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
          "sys/fs/cgroup/memory/memory.usage_in_bytes": "1\n"}, 8000, 4000),
        ({"proc/self/cgroup": "nonsense\n", "sys/fs/cgroup/memory.max": "much\n"}, 8000, 4000),
    ],
)  # fmt: skip
def test_memory_is_what_the_machine_and_its_groups_leave(
    files: dict[str, str], total: float, available: float, tmp_path: Path
) -> None:
    limits = host(tmp_path, MEMINFO | files)
    assert (limits.total_mb(), limits.available_mb()) == (total, available)


def test_a_host_that_tells_nothing_sets_no_limit(tmp_path: Path) -> None:
    limits = host(tmp_path, {})
    assert (limits.total_mb(), limits.available_mb(), limits.processor()) == (math.inf, math.inf, os.uname().machine)
    assert limits.cores() == len(os.sched_getaffinity(0))


def test_cores_are_those_that_groups_grant(tmp_path: Path) -> None:
    second = {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "50000 100000\n"}
    assert host(tmp_path / "v2", second).cores() == 1
    first = {"proc/self/cgroup": "1:cpu,cpuacct:/y\n", "sys/fs/cgroup/cpu/y/cpu.cfs_quota_us": "90000\n",
             "sys/fs/cgroup/cpu/y/cpu.cfs_period_us": "100000\n"}  # fmt: skip
    assert host(tmp_path / "v1", first).cores() == 1
    free = {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}
    assert host(tmp_path / "free", free).cores() == len(os.sched_getaffinity(0))


def test_others_on_the_processor_are_seen() -> None:
    with started([sys.executable, "-c", "print(flush=True)\nwhile True: pass"]) as other:
        assert other.stdout is not None
        other.stdout.readline()
        all_others, but_it = Outside([]), Outside([other.pid])
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            time.sleep(0.05)  # the time that is watched
        cores = len(os.sched_getaffinity(0))
        seen, without = all_others.share() * cores, but_it.share() * cores
    assert seen > 0.2
    assert seen - without > 0.05


# ---- the command


@pytest.fixture(scope="module")
def written(two: list[RunnableModel], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one run of the command left."""
    folder = tmp_path_factory.mktemp("out")
    files = [f"--json={folder}/d.json", f"--report={folder}/d.html", f"--scenario={folder}/d.yaml"]
    with pytest.MonkeyPatch.context() as patch, (folder / "said").open("w") as said, redirect_stdout(said):
        patch.setattr(command, "measure", partial(measure, pace=QUICK))
        assert (
            main(["degradation", "measure", *(str(m.path) for m in two), "--max=1", "--repeats=1", "--wait=0", *files])
            == 0
        )
    return folder


def test_the_command_prints_tables_and_what_holds_beyond_the_cores(written: Path) -> None:
    said = (written / "said").read_text()
    assert re.search(
        r"small arriving, [\d.e-]+ ms alone; down: how many small run already, across: how many large", said
    )
    assert "linear fit:" in said
    assert re.search(r"^small: (from \d+ workloads on, each more adds [+-][\d.]+|too few points)", said, re.MULTILINE)
    assert "cells were measured once" in said
    assert re.search(r"large: a process takes \d+ MB", said)


def test_the_document_is_one_that_the_report_reads(written: Path, tmp_path: Path) -> None:
    document = json.loads((written / "d.json").read_text())
    assert document["kind"] == "degradation"
    assert document["machine"]["cores"] == Limits().cores()
    assert document["settings"]["models"] == ["small", "large"]
    assert document["complete"]
    assert [m["arriving"] for m in document["matrices"]] == ["small", "large"]
    assert (
        main(["report", str(written / "d.json"), "-o", str(tmp_path / "again.html"), "--plots", str(tmp_path / "p")])
        == 0
    )
    assert "How workloads slow each other down" in (tmp_path / "again.html").read_text()
    assert len(list((tmp_path / "p").glob("*.png"))) == 3  # two heat maps and the curve


def test_the_scenario_is_whole_and_has_what_was_measured(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = load(str(written / "d.yaml"))
    document = json.loads((written / "d.json").read_text())
    (device,) = scenario.devices.values()
    assert device.degradation is not None
    assert device.degradation.axes == ("small", "large")
    assert device.degradation.matrix is not None
    for m in document["matrices"]:
        expected = [[max(1.0, cell) for cell in row] for row in m["cells"]]
        assert np.array(device.degradation.matrix[m["arriving"]]) == pytest.approx(np.array(expected), abs=1e-3)
        variant = next(
            v for model in scenario.models.values() for v in model.variants.values() if v.name == m["arriving"]
        )
        assert variant.latency[device.name].base_ms == pytest.approx(m["alone_ms"], abs=1e-3)
        assert variant.source.startswith("measured by fairlead degradation measure on ")
    run = simulate(load(str(written / "d.yaml"), ["duration_s=2"]), "load-balancing")
    assert run.figures["success"] > 0.5
    assert main(["show", str(written / "d.yaml")]) == 0
    assert "small" in capsys.readouterr().out


def test_one_model_becomes_a_curve(
    faked: Any, two: list[RunnableModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class One(FakeBench):
        memory = (Memory(10, 5, 1),)

        def fits(self, mix: Mix) -> bool:
            return mix[0] <= 3

        def watch(self, mix: Mix) -> Sample:
            return Sample((10.0 * max(0.9, mix[0] / 2) / 0.9 if mix[0] > 1 else 10.0,), 0.0)

    monkeypatch.setattr(measurement, "Bench", lambda *_: One())
    found = measure(two[:1], 3)
    from fairlead.profile.degradation.measured_scenario import scenario_text

    (tmp_path / "one.yaml").write_text(scenario_text(found, {"small": 0.9}))
    made = load(str(tmp_path / "one.yaml"))
    (device,) = made.devices.values()
    assert device.degradation is not None
    assert device.degradation.curve == {"small": (1.0, 1.111, 1.667, math.inf)}
    assert len(simulate(made, "load-balancing").rows) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["small.onnx", "--max", "0"], "argument --max: expected a whole number from 1 to 12, got '0'"),
        (["small.onnx", "--repeats", "0"], "argument --repeats: expected a whole number from 1 to 10, got '0'"),
        (["small.onnx", "--threads", "-1"], "argument --threads: expected a whole number from 1 to 1,024, got '-1'"),
        (["small.onnx", "--memory-mb", "0"], "--memory-mb 0: expected a number above 0"),
        (["small.onnx", "--wait", "-1"], "--wait -1: expected seconds, 0 or more"),
        (["small.onnx", "--memory-mb", "nan"], "--memory-mb nan: expected a number above 0"),
        (["small.onnx", "small.onnx"], "small.onnx: given twice"),
        (["none.onnx"], "none.onnx: can't read it: No such file"),
        (["efficientnet-lit0"], "neither a file nor a model of `fairlead models` (did you mean 'efficientnet-lite0'?)"),
        (["small.onnx", "--size", "h"], "--size h: expected [MODEL:]NAME=N, as in height=224"),
        (["small.onnx", "--size", f"h={9:9<5000}"], "999: expected [MODEL:]NAME=N"),
        (
            ["small.onnx", "large.onnx", "--size", "h=3"],
            "--size h=3: several models are given, so name one, as in small.onnx:h=3",
        ),
        (
            ["small.onnx", "--size", "smal.onnx:h=3"],
            "'smal.onnx' is not one of the models (did you mean 'small.onnx'?)",
        ),
        (["small.onnx", "--size", "h=3"], "--size h=3: no input of small.onnx has it"),
        (["small.onnx", "--scenario", "x.json"], "--scenario x.json: its name should end in .yaml"),
        (["small.onnx", "--scenario", "/nowhere/x.yaml"], "the folder /nowhere does not exist"),
        (["a.onnx", "b.onnx", "c.onnx", "--scenario", "x.yaml"], "--scenario takes one or two models"),
        (["small.onnx", "--json", "/nowhere/x.json"], "the folder /nowhere does not exist"),
    ],
)
def test_wrong_input_is_one_line(
    arguments: list[str],
    message: str,
    two: list[RunnableModel],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(two[0].path.parent)
    assert main(["degradation", "measure", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.slow
@pytest.mark.skipif(Limits().cores() > 3, reason="five processes don't fill the cores")
def test_real_models_run_freely_on_free_cores_and_slow_down_beyond(tmp_path: Path) -> None:
    names = ["efficientnet-lite0", "ppocr-det"]
    found = measure(command._runnable(names, []), 2, repeats=1, wait_s=2.0, pace=Pace(0.15, 0.3))
    quiet = found.disturbed == 0  # else others had the cores, too, and only the direction can be told
    for matrix in found.matrices:
        beside_one = min(matrix.cells[0][1], matrix.cells[1][0])
        assert matrix.cells[2][2] > (1.5 if quiet else 1.08) * beside_one
        if quiet and found.machine.cores > 1:
            assert 0.75 < beside_one < 1.4
