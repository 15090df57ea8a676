"""Tracing: what tasks tell becomes curves, runs get their CPUs, failures are one line, runs are kept, worlds run it."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli.main import main
from fairlead.cli.trace.command import BarTell
from fairlead.detect.host_tree import HostTree
from fairlead.detect.nvml import FakeNvml, Gpu
from fairlead.domain.errors import UserError
from fairlead.measure.report.plots.tasks.progress import progress
from fairlead.profile.machine import Limits
from fairlead.profile.trace import allocations
from fairlead.profile.trace import run as trace_run
from fairlead.profile.trace.allocation_grid import Question, Task, Traced, TracedRun
from fairlead.profile.trace.allocations import Allocation, this_machine
from fairlead.profile.trace.family import family, round_to_125
from fairlead.profile.trace.progress_lines import ProgressPoint, Telling, curve, found_target
from fairlead.scenarios.loader import load_tasks
from processes import alive, ends, started

BEGIN = """\
import json, os, sys, time
def tell(**what):
    print(json.dumps(what), flush=True)
"""
TRAINS = """\
tell(epoch=0, loss=2.0)
tell(ready=True)
for epoch, loss in enumerate([1.5, 1.6, 1.0, 0.4, 0.3], start=1):
    time.sleep(0.05)  # its work
    tell(epoch=epoch, loss=loss)
"""
ANSWERS = """\
tell(ready=True)
for done in (25, 50, 100):
    time.sleep(0.1)  # its work: a line is timed when it is read, which may be late where much else runs
    tell(done=done, of=100)
"""
TWO_CPUS = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def program(body: str, name: str = "task.py") -> str:
    Path(name).write_text(BEGIN + body)
    return name


def trace(*arguments: str, cpu: str = "1", repeats: str = "1") -> int:
    return main(["trace", *arguments, "--cpu", cpu, "--repeats", repeats, "--out", "out"])


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1, **options: str) -> str:
    """The one line that a command which fails says, after how long it expected to take."""
    assert trace(*arguments, **options) == code
    said = capsys.readouterr()
    assert said.out == ""
    *before, line = said.err.splitlines()
    assert all(re.match(r"\d+ runs? to do, |the first run took ", other) for other in before)
    return line


def curves() -> list[dict[str, str]]:
    with Path("out/curves.csv").open() as file:
        return list(csv.DictReader(file))


# ---- the contract


def told(*lines: tuple[float, str]) -> Telling:
    telling = Telling()
    for now_s, line in lines:
        telling.take(line.encode(), now_s)
    return telling


def test_progress_is_how_far_the_loss_has_fallen_and_never_falls() -> None:
    losses = [2.0, 1.5, 1.6, 1.0, 0.4, 0.3]
    telling = told(*((10.0 + e, f'{{"epoch": {e}, "loss": {loss}}}') for e, loss in enumerate(losses)))
    made = curve(telling.points, None, target=0.5)
    assert [time_s for time_s, _ in made] == [10, 11, 12, 13, 14]  # it ends where the target is reached
    assert [progress for _, progress in made] == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 1])


def test_progress_of_inference_is_the_share_of_samples() -> None:
    telling = told((1, '{"done": 1, "of": 4}'), (2, '{"done": 3, "of": 4}'), (5, '{"done": 4, "of": 4}'))
    assert curve(telling.points, telling.of, None) == [(1, 0.25), (2, 0.75), (5, 1)]


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        ([(5, '{"epoch": 0, "loss": 2}'), (7, '{"epoch": 1, "loss": 1}')], [5, 7]),
        ([(3, '{"started": true}'), (5, '{"epoch": 0, "loss": 2}')], [2]),
        ([(3, '{"started": true}'), (4, '{"ready": true}'), (5, '{"epoch": 0, "loss": 2}')], [1]),
        ([(3, '{"epoch": 0, "loss": 2}'), (4, '{"ready": true}'), (6, '{"epoch": 1, "loss": 1}')], [0, 2]),
        ([(3, '{"epoch": 0, "loss": 2}'), (6, '{"epoch": 1, "loss": 1}'), (7, '{"ready": true}')], [3, 6]),
    ],
)
def test_time_counts_from_ready_or_else_from_the_start(lines: list[tuple[float, str]], times: list[float]) -> None:
    assert [point.time_s for point in told(*lines).points] == times


@pytest.mark.parametrize(
    "line", ["", "epoch 3", "{", "[1]", "{}", '{"epoch": 3}', '{"loss": 1}', '{"ready": false}', "{" * 100_000]
)
def test_what_is_not_for_us_is_left_alone(line: str) -> None:
    telling = Telling()
    assert not telling.take(line.encode(), 1.0)
    assert telling == Telling()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"epoch": "1", "loss": 1}'], "epoch: expected a whole number"),
        (['{"epoch": true, "loss": 1}'], "epoch: expected a whole number"),
        (['{"epoch": 0, "loss": "low"}'], "loss: expected a finite number"),
        (['{"epoch": 0, "loss": 1}', '{"epoch": 1, "loss": NaN}'], "loss: expected a finite number"),
        (['{"epoch": 1, "loss": 1}'], "it reports epoch 1 first"),
        (['{"done": 0, "of": 0}'], "nothing to do"),
        (['{"done": 1, "of": 9}', '{"done": 2, "of": 8}'], "9 samples first, then 8 samples"),
        (['{"done": 1, "of": 9}', '{"epoch": 1, "loss": 1}'], "9 samples first, then epochs"),
    ],
)
def test_a_line_that_can_not_be_is_told(lines: list[str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        told(*((1.0, line) for line in lines))


def test_the_target_is_most_of_the_way_that_the_loss_falls() -> None:
    def points(*losses: float) -> list[ProgressPoint]:
        return [ProgressPoint(e, e, loss) for e, loss in enumerate(losses)]

    assert found_target(points(2.0, 1.2, 1.0, 1.1)) == 1.05
    assert found_target(points(2.0, 1.00003)) == 1.051  # 1.0500285, rounded up: the one that found it reaches it
    assert found_target(points(1.0, -3.0)) == -2.8
    with pytest.raises(UserError, match=r"does not fall: 1 before training, 1 at best in 2 epochs"):
        found_target(points(1.0, 1.0, 3.0))


# ---- a family


def test_a_training_becomes_a_type_that_worlds_run_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(program(TRAINS), "--target-loss", "0.5") == 0
    said = capsys.readouterr().out
    assert "task: training from a validation loss of 2 to the target 0.5" in said
    rows = curves()
    assert {(row["type"], row["cpu"]) for row in rows} == {("task", "1")}
    assert {row["progress"] for row in rows} <= {"0.333333", "0.666667", "1"}
    assert rows[-1]["progress"] == "1"
    times = [float(row["time_s"]) for row in rows]
    assert times == sorted(set(times))
    scenario = load_tasks("out/family.yaml")
    assert (scenario.types["task"].minimum, scenario.types["task"].share) == ({"cpu": 1}, 1)
    assert f"measured by fairlead trace on {Limits().processor()}" in scenario.types["task"].speed.source
    assert {path for path, _ in scenario.assumptions()} >= {"clusters.edge-1", "workload", "rules"}
    assert main(["compare", "out/family.yaml", "--seeds", "1", "--set", "tasks=10"]) == 0  # all policies
    assert "task" in capsys.readouterr().out


def test_without_a_target_the_first_run_finds_it_and_all_runs_end_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(program(TRAINS), "--epochs", "3", repeats="2") == 0
    # in three epochs it falls from 2 to 1; the second run ends at 1.05, which is not before the third epoch
    said = capsys.readouterr().out
    assert "to the target 1.05, 95 % of the way that it fell in 3 epochs" in said
    records = [json.loads(file.read_text()) for file in sorted(Path("out/runs").glob("*/run.json"))]
    assert [record["target_loss"] for record in records] == [1.05, 1.05]
    assert [len(record["points"]) for record in records] == [4, 4]


def test_several_tasks_make_one_family(capsys: pytest.CaptureFixture[str]) -> None:
    program(TRAINS)
    both = ["trains=task.py", f"answers='{program(ANSWERS, 'my task.py')}'"]
    assert trace(*both, "--target-loss", "trains=0.5") == 0
    said = capsys.readouterr().out
    assert "answers: inference of 100 samples" in said
    scenario = load_tasks("out/family.yaml")
    assert [task_type.share for task_type in scenario.types.values()] == [0.5, 0.5]
    assert {float(row["progress"]) for row in curves() if row["type"] == "answers"} <= {0.25, 0.5, 1}
    assert trace(*both, f"more={program(ANSWERS)}", "--target-loss", "trains=0.5") == 2  # the program has changed
    capsys.readouterr()
    assert trace(*both[1:], f"more={program(ANSWERS)}") == 0
    assert "1 of 2 runs are already finished (out)" in capsys.readouterr().err
    assert list(load_tasks("out/family.yaml").types) == ["answers", "more"]


def test_plots_show_progress_over_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(program(TRAINS), "--target-loss", "0.5", "--plots", "plots") == 0
    assert "2 plots written to plots" in capsys.readouterr().err
    drawn = Path("plots/task-progress.svg").read_text()
    assert all(words in drawn for words in ("Progress of task", "1 CPU", "to the target 0.5", Limits().processor()))
    assert Path("plots/task-progress.png").read_bytes().startswith(b"\x89PNG")


def test_the_plot_has_every_point_and_where_it_ends() -> None:
    made = progress("convnet", {"1 CPU": [(2.0, 0.5), (8.0, 1.0)], "2 CPUs": [(4.5, 1.0)]}, "Training")
    assert made.finding == "It takes 8 s with 1 CPU, 4.5 s with 2 CPUs."
    assert made.spec is not None
    rows = [(row["given"], row["time_s"], row["progress"]) for row in made.spec["data"]["values"]]
    assert rows == [("1 CPU", 0, 0), ("1 CPU", 2, 50), ("1 CPU", 8, 100), ("2 CPUs", 0, 0), ("2 CPUs", 4.5, 100)]


def test_the_bar_tells_the_run_and_how_far_it_is() -> None:
    program("for epoch in (0, 1, 2):\n    tell(epoch=epoch, loss=2 - epoch)\n    time.sleep(0.5)\n")
    command = [sys.executable, "-m", "fairlead", "trace", "task.py", "--cpu", "1", "--epochs", "2", "--out", "out"]
    terminal = {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "1", "COLUMNS": "150"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | terminal, timeout=100)
    assert done.returncode == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", done.stderr)
    assert "task with 1 CPU, run 1 of 3: epoch 1, loss 1" in shown
    assert "2 of 3 runs" in shown


def test_it_says_beforehand_how_long_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = iter([0.0, 100.0, 120.0])
    monkeypatch.setattr("fairlead.cli.trace.command.time.monotonic", lambda: next(now_s))
    tell = BarTell(Question([], this_machine(None, {}, False), [Allocation(1)], 3, 10, 60.0, tmp_path))
    monkeypatch.setattr(tell, "_update", lambda share: None)  # its bar looks at the clock
    monkeypatch.setattr(tell.bar, "update", lambda *args, **fields: None)
    tell.kept(0, 12)
    tell.running(Task("convnet", ("x",), "0"), Allocation(1), 1)
    tell.finished()
    tell.finished()  # says no more
    assert capsys.readouterr().err.splitlines() == [
        "12 runs to do, at most 12 min (--timeout); an estimate follows the first run",
        "the first run took 20 s; about 3.67 min left if all take as long",
    ]


def test_the_bar_moves_within_a_run(tmp_path: Path) -> None:
    machine = this_machine(None, {}, False)
    tell = BarTell(Question([], machine, [Allocation(1)], 3, 10, 60.0, tmp_path))
    tell.kept(0, 3)
    tell.finished()
    tell.told(told((1, '{"done": 1, "of": 4}')), 0.25)
    assert (tell.bar.tasks[0].completed, tell.bar.tasks[0].total) == (1.25, 3)


def run_of(allocation: Allocation, total_s: float, repeat: int = 1) -> TracedRun:
    points = ProgressPoint(0.0, 0, 2.0), ProgressPoint(total_s / 4, 1, 1.0), ProgressPoint(total_s, 2, 0.5)
    return TracedRun(allocation, repeat, None, 0.5, points, "2026-01-31")


def test_numbers_of_the_family(tmp_path: Path) -> None:
    runs = {
        Allocation(1): [run_of(Allocation(1), total_s) for total_s in (40.0, 36.0, 60.0)],
        Allocation(2): [run_of(Allocation(2), total_s) for total_s in (25.0, 20.0)],
    }
    one = Traced(Task("convnet", ("x",), "0"), None, 0.5, runs)
    assert (one.median(Allocation(1)).total_s, one.spread(Allocation(1))) == (40, 0.6)
    assert one.median(Allocation(2)).total_s == 20
    for name, text in family([one], "a board").items():
        (tmp_path / name).write_text(text)
    scenario = load_tasks("family.yaml")
    assert scenario.rules.interval_s == 5  # a tenth of 40 s, rounded
    assert {c.name: dict(c.amounts) for c in scenario.clusters.values()} == {f"edge-{n}": {"cpu": 8} for n in (1, 2, 3)}
    assert scenario.workload.rate_per_step == 2.1  # 0.7 of 24 tasks at a time, 8 steps each
    assert scenario.resources["cpu"].most_per_task == 2
    lines = (tmp_path / "curves.csv").read_text().splitlines()
    assert lines[1:3] == ["convnet,1,10.000000,0.666667", "convnet,1,40.000000,1"]
    source = "measured by fairlead trace on a board, 2026-01-31, fairlead 0.1.0; training to a validation loss of 0.5"
    assert scenario.types["convnet"].speed.source == source


def test_gpus_are_a_column_and_a_resource_where_some_were_used(tmp_path: Path) -> None:
    runs = {a: [run_of(a, 12.0 / (1 + a.gpu))] for a in (Allocation(1, 0), Allocation(1, 1))}
    for name, text in family([Traced(Task("convnet", ("x",), "0"), None, 0.5, runs)], "a board").items():
        (tmp_path / name).write_text(text)
    assert (tmp_path / "curves.csv").read_text().startswith("type,cpu,gpu,time_s,progress\nconvnet,1,0,3.")
    scenario = load_tasks("family.yaml")
    assert dict(scenario.types["convnet"].minimum) == {"cpu": 1, "gpu": 0}
    assert dict(scenario.clusters["edge-1"].amounts) == {"cpu": 4, "gpu": 4}


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0.9, 1), (1.3, 1), (1.5, 2), (3, 2), (3.3, 5), (7, 5), (7.2, 10), (0.0031, 0.002), (800, 1000)],
)
def test_intervals_are_round(number: float, rounded: float) -> None:
    assert round_to_125(number) == rounded


TAKEN_OVER = """\
world: tasks
extends: [tapfinger-3, out/types]
types:
  insensitive: {share: 0}
  sensitive: {share: 0}
"""


@TWO_CPUS
@pytest.mark.slow
def test_the_tasks_that_ship_become_types_of_a_tapfinger_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["convnet --samples 200 --width 4", "inference --samples 100 --width 4"]
    assert trace(*small, "--epochs", "3", cpu="1,2") == 0
    said = capsys.readouterr()
    assert "inference of 100 samples" in said.out
    for record in map(json.loads, (file.read_text() for file in Path("out/runs").glob("convnet-*/run.json"))):
        losses = [loss for _, _, loss in record["points"]]
        assert losses[0] == pytest.approx(2.3, abs=0.3)  # ten classes, untrained
        assert min(losses) <= record["target_loss"] < losses[0]
    Path("mine.yaml").write_text(TAKEN_OVER)
    scenario = load_tasks("mine.yaml")
    assert [task_type.name for task_type in scenario.types.values() if task_type.share] == ["convnet", "inference"]
    assert dict(scenario.clusters["edge-3"].amounts) == {"cpu": 16, "gpu": 16}
    out = ["--json", "out.json", "--policies", "tuned-rule,optimus,min", "--set", "tasks=30", "--seeds", "2"]
    assert main(["compare", "mine.yaml", *out]) == 0
    headings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("┃ policy")]
    assert any("convnet" in heading for heading in headings)  # columns go on in further tables
    assert not any("sensitive" in heading for heading in headings)  # of which there are no tasks
    figures = json.loads(Path("out.json").read_text())["scenarios"]["mine"]
    assert figures["seeds"] == [0, 1]


def test_types_that_need_no_gpu_may_be_traced_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace(program(ANSWERS)) == 0
    Path("mine.yaml").write_text(TAKEN_OVER)
    assert load_tasks("mine.yaml").types["task"].minimum == {"cpu": 1}
    Path("other.yaml").write_text(TAKEN_OVER + "  task: {minimum: {cpu: 1, gpu: 1}}\n")
    with pytest.raises(UserError, match="the column gpu is missing"):
        load_tasks("other.yaml")


# ---- runs


@TWO_CPUS
def test_a_run_has_its_cpus_and_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    body = "e = os.environ\nprint(sorted(os.sched_getaffinity(0)), e['OMP_NUM_THREADS'], [e['CUDA_VISIBLE_DEVICES']])\n"
    assert trace(program(body + ANSWERS), cpu="1,2") == 0
    cpus = this_machine(None, {}, False).cpus
    for count in (1, 2):
        said = Path(f"out/runs/task-cpu{count}-gpu0-1/stdout.log").read_text()
        assert said == f"{sorted(cpus[:count])} {count} ['']\n"


def test_programs_get_their_arguments_and_need_not_be_python() -> None:
    script = Path("my-task")
    script.write_text('#!/bin/sh\necho "$1" to stderr >&2\nsleep 0.1\necho \'{"done": 2, "of": 2}\'\n')
    script.chmod(0o755)
    assert trace("./my-task 'an argument'") == 0
    assert Path("out/runs/my-task-cpu1-gpu0-1/stderr.log").read_text() == "an argument to stderr\n"


def test_a_task_is_ended_when_its_target_is_reached() -> None:
    body = "tell(epoch=0, loss=2)\ntime.sleep(0.1)\ntell(epoch=1, loss=0.4)\ntime.sleep(600)\n"
    assert trace(program(body), "--target-loss", "0.5", "--timeout", "300") == 0


def test_one_that_does_not_want_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_run, "_GRACE_S", 0.1)
    body = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    body += "open('pid', 'w').write(str(os.getpid()))\n"
    assert trace(program(f"{body}{ANSWERS}time.sleep(600)\n")) == 0
    assert ends(int(Path("pid").read_text()))


def test_what_a_task_leaves_behind_neither_holds_it_up_nor_stays() -> None:
    body = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nopen('pid', 'w').write(str(child.pid))\n"
    fails = body + "tell(done=1, of=2)\n"
    assert trace(program(fails), "--timeout", "100") == 1
    assert ends(int(Path("pid").read_text()))


FAILURES = [
    ("sys.exit('no data')", "it failed with exit code 1: no data"),
    ("tell(epoch=0, loss=2)\nraise ValueError('bad shape')", "it failed with exit code 1: ValueError: bad shape"),
    ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL (out of memory?)"),
    ("print('hello')", "it reported nothing: expected lines such as"),
    ("", "it reported nothing"),
    ("tell(done=1, of=3)", "it ended after 1 of 3 samples"),
    ("tell(done=0, of=3)\ntell(done=3.5, of=3)", "done: expected a whole number"),
    (TRAINS, "after 5 epochs with a loss of 0.3 at best, and never reached its target of 0.1"),
    ("tell(epoch=0, loss=0.05)", "its loss before training, 0.05, has already reached the target"),
    ("tell(epoch=0, loss=float('nan'))", "loss: expected a finite number"),
]


@pytest.mark.parametrize(("body", "words"), FAILURES)
def test_a_task_that_fails_is_one_line(body: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = error_of(capsys, program(body), "--target-loss", "0.1", code=1)
    assert line.startswith("fairlead: task with 1 CPU: ")
    assert words in line
    assert not list(Path("out").glob("**/run.json"))
    assert not list(Path("out").glob("*.yaml"))


@pytest.mark.parametrize("closed", ["", "os.close(1)\n"])
def test_a_task_that_hangs_is_ended_and_told(closed: str, capsys: pytest.CaptureFixture[str]) -> None:
    body = f"open('pid', 'w').write(str(os.getpid()))\ntell(epoch=0, loss=2)\n{closed}time.sleep(600)\n"
    line = error_of(capsys, program(body), "--timeout", "2", code=1)
    assert line == ("fairlead: task with 1 CPU: not done in 2 s (--timeout), after 0 epochs, with a loss of 2 at best")
    assert ends(int(Path("pid").read_text()))


def test_a_loss_that_does_not_fall_has_no_target(capsys: pytest.CaptureFixture[str]) -> None:
    body = "for epoch in range(9): tell(epoch=epoch, loss=1 + epoch)\n"
    line = error_of(capsys, program(body), "--epochs", "4", code=1)
    assert line.endswith("its loss does not fall: 1 before training, 1 at best in 4 epochs")


# ---- runs are kept


COUNTS = "open('count', 'a').write('x')\n"


@TWO_CPUS
def test_what_is_finished_is_kept_when_another_run_fails(capsys: pytest.CaptureFixture[str]) -> None:
    body = (
        f"{COUNTS}if len(os.sched_getaffinity(0)) == 1 and not os.path.exists('fixed'): sys.exit('broken')\n{ANSWERS}"
    )
    program(body)
    line = error_of(capsys, "task.py", cpu="1,2", code=1)
    assert line.startswith("fairlead: task with 1 CPU: it failed with exit code 1: broken")
    assert line.endswith("1 of 2 runs is finished and kept; run the same command again to resume from out")
    assert not Path("out/family.yaml").exists()
    Path("fixed").touch()
    assert trace("task.py", cpu="1,2") == 0
    assert "1 of 2 runs are already finished (out)" in capsys.readouterr().err
    assert Path("count").read_text() == "xxx"  # two CPUs, one that failed, one
    before = {file: file.read_bytes() for file in Path("out").glob("*.*")}
    assert trace("task.py", cpu="1,2") == 0
    assert Path("count").read_text() == "xxx"
    assert {file: file.read_bytes() for file in Path("out").glob("*.*")} == before
    assert len(before) == 3


def test_a_damaged_run_is_run_again() -> None:
    assert trace(program(COUNTS + ANSWERS)) == 0
    record = next(Path("out/runs").glob("*/run.json"))
    record.write_text(record.read_text()[:80])
    assert trace("task.py") == 0
    assert Path("count").read_text() == "xx"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["task.py --fast"], "another command"),
        (["task.py", "--epochs", "2"], "another --epochs (10, now 2)"),
        (["task.py", "--target-loss", "0.5"], "another --target-loss (None, now 0.5)"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trace(program(TRAINS)) == 0
    capsys.readouterr()
    line = error_of(capsys, *arguments, code=2)
    assert line.startswith("fairlead: out: task was traced there with ")
    assert words in line
    program(TRAINS + "# changed\n")
    assert "another program: give another --out" in error_of(capsys, "task.py", code=2)


def test_two_at_once_in_one_folder_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out/runs").mkdir(parents=True)
    with Path("out/runs/.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another fairlead process writes traces to this folder" in error_of(capsys, program(ANSWERS), code=2)


# ---- interrupts


WAITS = """\
import subprocess
if os.path.exists('pids'):
    child = subprocess.Popen(['sleep', '600'])
    with open('pids', 'w') as fifo:
        fifo.write(f'{os.getpid()} {child.pid}\\n')
    time.sleep(600)
"""


@contextmanager
def waiting_in_the_second_run(**options: Any) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A trace whose first run is finished and whose second waits; the processes of the second."""
    assert trace(program(WAITS + ANSWERS)) == 0
    os.mkfifo("pids")  # the second run tells its processes there, and goes no further
    told = os.open("pids", os.O_RDWR)  # opened so, it does not wait for a writer
    command = [sys.executable, "-m", "fairlead", "trace", "task.py", "--cpu", "1", "--repeats", "2", "--out", "out"]
    try:
        with started(command, **options) as process:
            assert select.select([told], [], [], 60)[0], "the second run did not start"
            pids = [int(word) for word in os.read(told, 100).split()]
            assert all(map(alive, pids))
            try:
                yield process, pids
            finally:
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
    finally:
        os.close(told)


@pytest.mark.parametrize(
    ("number", "options"),
    [
        pytest.param(signal.SIGINT, {}, id="SIGINT"),
        pytest.param(signal.SIGINT, {"sigint_ignored": True}, id="SIGINT-inherited-as-ignored"),
        pytest.param(signal.SIGTERM, {}, id="SIGTERM"),
    ],
)
def test_an_interrupt_ends_the_task_and_keeps_what_is_finished(
    number: signal.Signals, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with waiting_in_the_second_run(**options) as (process, pids):
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said.splitlines() == [
            "1 of 2 runs are already finished (out)",
            "1 run to do, at most 10 min (--timeout)",
            "fairlead: interrupted; 1 of 2 runs is finished and kept; run the same command again to resume from out",
        ]
        assert all(map(ends, pids))
    Path("pids").unlink()
    assert trace("task.py", repeats="2") == 0
    assert len(list(Path("out/runs").glob("*/run.json"))) == 2


def test_the_task_does_not_outlive_a_trace_that_is_killed() -> None:
    with waiting_in_the_second_run() as (process, (task, _)):  # what the task started has to end by itself
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        assert ends(task)


# ---- wrong input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["convnt"], "TASK convnt: no task ships under this name (did you mean 'convnet'?)"),
        (["no/such"], "TASK no/such: no such file"),
        (["task.txt"], "TASK task.txt: not a program: neither executable nor named .py"),
        (["task.py", "./task.py"], "two tasks are called 'task'"),
        (["1.py"], "'1' can't name a type"),
        (["'task.py"], "No closing quotation"),
        ([""], "a program is missing"),
        (["task.py", "--cpu", "1,x"], "--cpu 1,x: expected whole numbers from 1 on, as in 1,2"),
        (["task.py", "--cpu", "0"], "--cpu 0: expected"),
        (["task.py", "--cpu", f"{9:9<5000}"], "999: expected whole numbers from 1 on"),
        (["task.py", "--cpu", "1000"], "--cpu 1000: this process may use only"),
        (["task.py", "--gpu", "0,-1"], "--gpu 0,-1: expected whole numbers from 0 on"),
        (["task.py", "--gpu", "0,99"], "--gpu 99: "),
        (["task.py", "--target-loss", "low"], "--target-loss low: expected a number"),
        (["task.py", "--target-loss", "tsk=1"], "unknown task 'tsk' (did you mean 'task'?)"),
        (["task.py", "--timeout", "0"], "--timeout 0: expected seconds"),
        (["task.py", "--repeats", "0"], "argument --repeats: expected a whole number from 1 to 1,000, got '0'"),
        (["task.py", "--epochs", "0"], "argument --epochs: expected a whole number from 1 to 1,000,000, got '0'"),
        (["task.py", "--out", "task.txt"], "can't make this folder"),
        (["task.py", "--plots", "task.txt"], "task.txt: can't make this folder"),
        (["task.py", "--plots", ""], "--plots: a name is missing"),
        (["task.py", "--out", ""], "--out is missing: give the folder for the runs and the task types"),
    ],
)
def test_wrong_input_is_one_line_before_anything_runs(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("task.py", "1.py"):
        program("open('ran', 'w')\n" + ANSWERS, name)
    Path("task.txt").touch()
    assert main(["trace", "--cpu", "1", "--out", "out", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not Path("ran").exists()


def test_without_torch_the_tasks_that_ship_say_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert error_of(capsys, "convnet", code=2) == "fairlead: the task convnet needs torch: pip install torch"


# ---- the machine


def test_gpus_come_from_nvml_or_from_what_we_are_shown() -> None:
    nvml = FakeNvml([Gpu("0000:01:00.0", "H200"), Gpu("0000:02:00.0", "H200")])
    every, shown = this_machine(nvml, {}, True), this_machine(nvml, {"CUDA_VISIBLE_DEVICES": "1, 0"}, True)
    assert (every.gpus, shown.gpus) == (["0", "1"], ["1", "0"])
    assert every.name == f"{Limits().processor()} and H200"
    assert shown.environment(Allocation(1, 1))["CUDA_VISIBLE_DEVICES"] == "1"
    assert shown.environment(Allocation(4, 0)) | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "4"} == (
        shown.environment(Allocation(4, 0))
    )
    assert this_machine(None, {"CUDA_VISIBLE_DEVICES": ""}, True).gpus == []
    with pytest.raises(UserError, match=r"--gpu 3: only 2 GPUs can be seen here$"):
        every.check([Allocation(1, 0), Allocation(1, 3)])
    with pytest.raises(UserError, match=r"--gpu 1: no GPU can be seen here; NVML finds them: pip install -e '\.\[nvml"):
        this_machine(None, {}, True).check([Allocation(1, 1)])


def test_cores_come_before_their_second_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, siblings in {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}.items():
        (tmp_path / str(cpu)).write_text(f"{siblings}\n")
    monkeypatch.setattr(allocations, "_TOPOLOGY", str(tmp_path / "{}"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3, 9})
    machine = this_machine(None, {}, False)
    assert machine.cpus == [0, 2, 9, 1, 3]
    assert machine.given(Allocation(2)) == [0, 2]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 2 GHz\n",
            "Some CPU @ 2 GHz",
        ),
        ("processor\t: 0\n\nModel\t\t: Raspberry Pi 4\n", "Raspberry Pi 4"),
        ("", os.uname().machine),
    ],
)
def test_the_processor_has_a_name(text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text(text)
    assert Limits(HostTree(tmp_path)).processor() == name
