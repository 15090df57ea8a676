"""Sweeps and checkpoints: every point checked first, and killed or not, resumed or in one go, the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairlead.domain.errors import UserError
from fairlead.experiments import fingerprint, task_trial, workers
from fairlead.experiments.checkpoint import Checkpoint
from fairlead.experiments.compare import compare
from fairlead.experiments.fingerprint import keys
from fairlead.experiments.result_file import as_document, as_json
from fairlead.experiments.sweep import Sweep, points, read_sweep
from fairlead.experiments.trial import Trial, TrialResult
from fairlead.experiments.workers import local
from fairlead.policies import interface
from fairlead.policies.interface import Policy, find
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks import policy_catalog
from processes import children, ends, started

SHORT = ["duration_s=5"]
POLICIES = ("closest", "load-balancing")
SWEEP = read_sweep("rate", "600,1200")


# ---- the question


@pytest.mark.parametrize(
    ("text", "values", "last"),
    [
        ("20,40,60", (20, 40, 60), "x=60"),
        ("20:120:20", (20, 40, 60, 80, 100, 120), "x=120"),
        ("20:50:20", (20, 40), "x=40"),
        ("0.1:0.3:0.1", (0.1, 0.2, 0.3), "x=0.3"),
        ("3:1:-1", (3, 2, 1), "x=1"),
        ("1e2, 2.0", (100, 2), "x=2"),
        ("stream,request", ("stream", "request"), "x=request"),
        ("[deadline],[deadline,accuracy]", (["deadline"], ["deadline", "accuracy"]), 'x=["deadline", "accuracy"]'),
        ("true,false", (True, False), "x=false"),
    ],
)
def test_values_are_lists_or_ranges(text: str, values: tuple[Any, ...], last: str) -> None:
    sweep = read_sweep("x", text)
    assert sweep.values == values
    assert sweep.settings()[-1] == last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected values with commas"),
        ("20,,40", "expected values with commas"),
        ("20],[40", "expected values with commas"),
        ("20,40,20", "rate=20 is given twice"),
        ("20,20.0", "rate=20 is given twice"),
        ("20:x:5", "expected start:stop:step"),
        ("20:40:0", "expected start:stop:step"),
        ("20:20:inf", "expected start:stop:step"),
        ("1:2:sNaN", "expected start:stop:step"),
        ("40:20:5", "no values"),
        ("0:1:1e-9", "more than 1000 values"),
    ],
)
def test_wrong_values_are_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        read_sweep("rate", text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("param", "values", "message"),
    [
        ("rat", "1,2", r"--param rat: unknown field \(did you mean 'rate'\?\)"),
        ("rate", "20,fast", "--param rate=fast: workload.rate_per_min: expected a number in arrivals a minute"),
        ("rate", "20,0", "--param rate=0: workload.rate_per_min: rate_per_min must be above 0"),
        ("nodes.clod.count", "1,2", "--param nodes.clod.count=1: nothing at 'clod'"),
        ("dispatch", "stream,packet", "--param dispatch=packet: rules.dispatch: expected 'stream' or 'request'"),
    ],
)
def test_every_point_is_checked_before_any_work(param: str, values: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        points(read_sweep(param, values), "ecsrl", [])


def test_the_document_of_a_sweep_has_its_points_by_label() -> None:
    result = compare(points(SWEEP, "ecsrl", SHORT), POLICIES, range(2))
    document = json.loads(as_json(as_document(result, SHORT, SWEEP)))
    assert document["settings"]["sweep"] == {"param": "rate", "values": [600, 1200]}
    assert list(document["scenarios"]) == ["rate=600", "rate=1200"]
    rates = [s["definition"]["workload"]["rate_per_min"] for s in document["scenarios"].values()]
    assert rates == [600, 1200]
    words = [s["workload"] for s in document["scenarios"].values()]
    assert words == ["600 arrivals a minute for 5 s", "1,200 arrivals a minute for 5 s"]
    assert all(s["definition"]["name"] == "ecsrl" and s["title"] for s in document["scenarios"].values())


# ---- checkpoints


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The trials that were really run in this process."""
    real, calls = workers.run_trial, []

    def counted(trial: Trial) -> TrialResult:
        calls.append((trial.label, trial.seed))
        return real(trial)

    monkeypatch.setattr(workers, "run_trial", counted)
    return calls


def asked(checkpoint: Path | None = None, seeds: int = 3, **options: Any) -> str:
    result = compare(points(SWEEP, "ecsrl", SHORT), POLICIES, range(seeds), checkpoint=checkpoint, **options)
    return as_json(as_document(result, SHORT, SWEEP))


def test_what_is_finished_is_not_run_again(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    file, told = tmp_path / "kept.jsonl", []
    whole = asked()
    ran.clear()
    asked(file, seeds=1)
    assert ran == [("rate=600", 0), ("rate=1200", 0)]
    ran.clear()
    assert asked(file, progress=lambda done, total: told.append((done, total))) == whole
    assert ran == [("rate=600", 1), ("rate=600", 2), ("rate=1200", 1), ("rate=1200", 2)]
    assert told == [(2, 6), (3, 6), (4, 6), (5, 6), (6, 6)]
    ran.clear()
    assert asked(file, workers=partial(local, jobs=2)) == whole
    assert ran == []


def test_a_torn_line_is_cut_off_and_its_trial_run_again(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    file = tmp_path / "kept.jsonl"
    whole = asked(file)
    content = file.read_bytes()
    for cut in (1, 100, len(content.splitlines()[-1])):
        file.write_bytes(content[:-cut])
        ran.clear()
        assert asked(file) == whole
        assert ran == [("rate=1200", 2)]
        assert file.read_bytes() == content
    file.write_bytes(content[:5])  # of the first line
    assert asked(file) == whole
    assert file.read_bytes() == content


def test_a_damaged_line_costs_its_trial_alone(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    file = tmp_path / "kept.jsonl"
    whole = asked(file)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[2], lines[4] = b"\0" * 40 + b"\n", b"[1, 2]\n"
    file.write_bytes(b"".join(lines))
    ran.clear()
    assert asked(file) == whole
    assert ran == [("rate=600", 1), ("rate=1200", 0)]


def test_an_interrupted_comparison_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, whole, real = tmp_path / "kept.jsonl", asked(), workers.run_trial

    def interrupted(trial: Trial) -> TrialResult:
        if (trial.label, trial.seed) == ("rate=1200", 1):
            raise KeyboardInterrupt
        return real(trial)

    monkeypatch.setattr(workers, "run_trial", interrupted)
    assert json.loads(asked(file))["stopped"] == "interrupted"
    monkeypatch.setattr(workers, "run_trial", real)
    assert asked(file) == whole


def test_one_process_at_a_time_and_no_other_file_is_touched(tmp_path: Path) -> None:
    file, other = tmp_path / "kept.jsonl", tmp_path / "thesis.txt"
    with Checkpoint(file), pytest.raises(UserError, match="another fairlead process uses this checkpoint"):
        Checkpoint(file)
    assert not file.exists()  # nothing was finished
    other.write_text("important")
    with pytest.raises(UserError, match="not a checkpoint"):
        Checkpoint(other)
    assert other.read_text() == "important"
    for wrong in (tmp_path, tmp_path / "no" / "kept.jsonl", Path("/dev/full")):
        with pytest.raises(UserError, match="can't keep the checkpoint there"):
            Checkpoint(wrong)


def test_a_key_stands_for_all_that_a_result_depends_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = points(SWEEP, "ecsrl", SHORT)["rate=600"]
    trial = Trial("rate=600", scenario, 0, POLICIES)
    other = points(Sweep("rate", (601,)), "ecsrl", SHORT)["rate=601"]
    found = keys(
        [
            trial,
            Trial("rate=600", scenario, 1, POLICIES),
            Trial("x", scenario, 0, POLICIES),
            Trial("y", other, 0, POLICIES),
        ]
    )
    assert len(set(found)) == 4
    assert keys([trial]) == found[:1]
    found += keys([replace(trial, policies=("closest",))])
    for name, value in (("__version__", "9.9"), ("code_hash", lambda *rooms: "other")):
        with monkeypatch.context() as patched:
            patched.setattr(fingerprint, name, value)
            fingerprint._fixed.cache_clear()
            found += keys([trial])
        fingerprint._fixed.cache_clear()
    assert len(set(found)) == 7


def test_the_key_notices_a_changed_policy_and_a_changed_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "their_policies"
    package.mkdir()
    (package / "__init__.py").write_text("def first(request, candidates, excluded, u):\n    return 0\n")
    (package / "helper.py").write_text("LIMIT = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = Policy("theirs", __import__("their_policies").first, "python", package="their-policies")
    for module in (fingerprint, interface):
        monkeypatch.setattr(module, "find", lambda name, also=(): theirs if name == "theirs" else find(name))
    trace, scenario = tmp_path / "arrivals.csv", tmp_path / "traced.yaml"
    scenario.write_text(
        "extends: ecsrl\ntitle: traced\nworkload:\n  sources:\n    camera:\n"
        "      arrivals: {process: trace, file: arrivals.csv, source: made up}\n"
    )
    trace.write_text("time_s\n0.5\n")
    source = next(iter(points(SWEEP, "ecsrl", [])["rate=600"].workload.sources))
    scenario.write_text(scenario.read_text().replace("camera", source))
    trial = Trial("traced", points(SWEEP, str(scenario), [])["rate=600"], 0, ("theirs",))

    found = keys([trial])
    (package / "helper.py").write_text("LIMIT = 2\n")
    fingerprint._package.cache_clear()
    found += keys([trial])
    trace.write_text("time_s\n0.6\n")
    found += keys([trial])
    fingerprint._package.cache_clear()
    assert len(set(found)) == 3


def test_the_key_notices_a_changed_helper_of_a_task_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "their_task_policies"
    package.mkdir()
    (package / "__init__.py").write_text("def none(snapshot, parameters, u, out):\n    return 0\n")
    (package / "helper.py").write_text("LIMIT = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    theirs = TaskPolicy("theirs", __import__("their_task_policies").none, "python", package="their-task-policies")
    for module in (fingerprint, policy_catalog, task_trial):  # the last one would keep what it is imported with
        monkeypatch.setattr(module, "find_task_policy", {"theirs": theirs}.__getitem__)
    trial = Trial("tapfinger-3", load_tasks("tapfinger-3"), 0, ("theirs",))

    found = keys([trial])
    (package / "helper.py").write_text("LIMIT = 2\n")
    fingerprint._package.cache_clear()
    found += keys([trial])
    fingerprint._package.cache_clear()
    assert len(set(found)) == 2


# ---- the command

FAIRLEAD = [sys.executable, "-m", "fairlead"]
QUESTION = ["sweep", "ecsrl", "--param", "rate", "--values", "600:1200:300", "--set", "duration_s=20", "--seeds", "30"]


def sweep(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*FAIRLEAD, *QUESTION, "--policies", ",".join(POLICIES), *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=True)


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    file = tmp_path / "fairlead-sweep-ecsrl-rate.jsonl"
    command = [*FAIRLEAD, *QUESTION, "--policies", ",".join(POLICIES), "--jobs", "2"]
    with started(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        late = time.monotonic() + 200
        while not file.exists() or file.read_bytes().count(b"\n") < 8:
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < late
            time.sleep(0.005)
        workers = children(process.pid)
        process.kill()
        process.wait()
        assert len(workers) >= 2
        assert all(map(ends, workers))  # none is left behind

    before = file.read_bytes()
    before = before[: before.rfind(b"\n") + 1]
    finished = before.count(b"\n") - 1
    assert 7 <= finished < 90
    done = sweep(tmp_path, "--json", "resumed.json")
    assert f"{finished} of 90 trials are already finished (fairlead-sweep-ecsrl-rate.jsonl)" in done.stderr
    assert "all trials are kept in fairlead-sweep-ecsrl-rate.jsonl" in done.stderr
    lines = file.read_bytes().splitlines()[1:]
    assert file.read_bytes().startswith(before)
    assert len(lines) == len({json.loads(line)["key"] for line in lines}) == 90  # only what was missing was run

    sweep(tmp_path, "--json", "whole.json", "--checkpoint", "none", "--jobs", "1")
    assert (tmp_path / "resumed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def test_without_a_checkpoint_a_sweep_leaves_no_file(tmp_path: Path) -> None:
    done = sweep(tmp_path, "--checkpoint", "none", "--seeds", "2", "--first-seed", "7", "--json", "-")
    assert list(tmp_path.iterdir()) == []
    assert json.loads(done.stdout)["settings"]["seeds"] == [7, 8]
    assert "* " in done.stderr


def test_a_disk_that_is_full_costs_no_finished_run(tmp_path: Path) -> None:
    # The whole first, so that compiled code is in its cache: that is a file too, and the limit below is for all.
    sweep(tmp_path, "--seeds", "2", "--policies", "random", "--json", "whole.json", "--checkpoint", "none")
    question = [*FAIRLEAD, *QUESTION, "--seeds", "2", "--policies", "random"]
    limited = ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", *question]  # kilobytes a file
    done = subprocess.run([*limited, "--json", "-"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "stopped: fairlead-sweep-ecsrl-rate.jsonl: can't write it: File too large; " in done.stderr
    finished = sum(len(s["seeds"]) for s in json.loads(done.stdout)["scenarios"].values())
    assert 1 <= finished < 6
    again = sweep(tmp_path, "--seeds", "2", "--policies", "random", "--json", "again.json")
    assert f"{finished - 1} of 6 trials are already finished" in again.stderr  # the last did not get into the file
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
