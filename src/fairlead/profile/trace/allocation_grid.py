"""Tracing: tasks run over a grid of allocations, several times each, and a folder keeps every run that is finished.

    for task in traced(question, tell): ...       each task with its runs by allocation

Called by the command. A run is a file, written whole when it ends; it is used again where the question about it is the
same, and where it is another, nothing is run. Runs go one after another: two at once would measure each other.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead import __version__
from fairlead.domain.errors import RunError, UserError
from fairlead.measure.write_files import check_folder, write_whole
from fairlead.profile.trace.allocations import Allocation, Machine
from fairlead.profile.trace.progress_lines import ProgressPoint, Telling, curve, found_target
from fairlead.profile.trace.run import Start, run_task


@dataclass(frozen=True)
class Task:
    """What is traced."""

    name: str  # of the type that it becomes
    command: tuple[str, ...]
    program: str  # a hash of its file
    target_loss: float | None = None  # None: the first run finds it


@dataclass(frozen=True)
class Question:
    """What is asked for."""

    tasks: Sequence[Task]
    machine: Machine
    allocations: Sequence[Allocation]
    repeats: int
    epochs: int  # of a training's first run, where it has no target
    timeout_s: float  # for each run
    folder: Path

    def settings(self, task: Task) -> dict[str, Any]:
        """What a run depends on, beside its allocation."""
        target = {"--target-loss": task.target_loss, "--epochs": None if task.target_loss is not None else self.epochs}
        about = {"command": list(task.command), "program": task.program, "machine": self.machine.name}
        return about | target


@dataclass(frozen=True)
class TracedRun:
    """A run that has reached its end."""

    allocation: Allocation
    repeat: int
    of: int | None  # samples; None: it trains
    target_loss: float | None
    points: tuple[ProgressPoint, ...]
    date: str

    def curve(self) -> list[tuple[float, float]]:
        """Progress over time, from 0 to 1."""
        return curve(self.points, self.of, self.target_loss)

    @property
    def total_s(self) -> float:
        """How long it took."""
        return self.curve()[-1][0]

    @property
    def count(self) -> int:
        """Epochs or samples until then."""
        return self.points[len(self.curve()) - 1].count


@dataclass(frozen=True)
class Traced:
    """A task with all of its runs."""

    task: Task
    of: int | None
    target_loss: float | None
    runs: Mapping[Allocation, Sequence[TracedRun]]

    def median(self, allocation: Allocation) -> TracedRun:
        """The run of median time; of an even number the faster of the two."""
        runs = sorted(self.runs[allocation], key=lambda run: run.total_s)
        return runs[(len(runs) - 1) // 2]

    def spread(self, allocation: Allocation) -> float:
        """How far times of alike runs lie apart, as a share of the median."""
        times = [run.total_s for run in self.runs[allocation]]
        return (max(times) - min(times)) / self.median(allocation).total_s


class Tell:
    """Hears how it goes; this one does nothing with it."""

    def kept(self, runs: int, total: int) -> None:
        """So many of all runs are there already."""

    def running(self, task: Task, allocation: Allocation, repeat: int) -> None:
        """A run begins."""

    def told(self, telling: Telling, share: float) -> None:
        """It goes on, and is done to this share."""

    def finished(self) -> None:
        """It is kept."""


def traced(question: Question, tell: Tell) -> list[Traced]:
    """Run what is not there yet; all tasks with all runs. UserError when one fails: what is finished is kept."""
    check_folder(question.folder)
    question.machine.check(question.allocations)
    with _locked(question.folder):
        kept = {task.name: _Kept(question, task) for task in question.tasks}
        total = len(question.tasks) * len(question.allocations) * question.repeats
        tell.kept(sum(len(one.runs) for one in kept.values()), total)
        for task in question.tasks:
            for allocation, repeat in _order(question):
                if (allocation, repeat) not in kept[task.name].runs:
                    tell.running(task, allocation, repeat)
                    kept[task.name].run(allocation, repeat, tell.told)
                    tell.finished()
    return [one.all() for one in kept.values()]


def _order(question: Question) -> Iterator[tuple[Allocation, int]]:
    """The largest first, which finds the target; and all once before any again, so that what drifts drifts for all."""
    for repeat in range(1, question.repeats + 1):
        for allocation in sorted(question.allocations, reverse=True):
            yield allocation, repeat


class _Kept:
    """The runs of one task in the folder."""

    def __init__(self, question: Question, task: Task) -> None:
        self._question, self._task, self._settings = question, task, question.settings(task)
        self.runs: dict[tuple[Allocation, int], TracedRun] = {}
        self.target_loss = task.target_loss
        for file in sorted((question.folder / "runs").glob("*/run.json")):
            if (run := self._read(file)) is not None:
                self.target_loss = run.target_loss  # as the first has found it
                if run.allocation in question.allocations and run.repeat <= question.repeats:
                    self.runs[run.allocation, run.repeat] = run

    def _read(self, file: Path) -> TracedRun | None:
        try:
            told = json.loads(file.read_text())
            if told["type"] != self._task.name:
                return None
            allocation = Allocation(told["cpu"], told["gpu"])
            points = tuple(ProgressPoint(*point) for point in told["points"])
            run = TracedRun(allocation, told["repeat"], told["of"], told["target_loss"], points, told["date"])
            run.curve()[-1]  # which has an end
            settings = dict(told["settings"])
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            return None  # damaged: it is run again
        for name, now in self._settings.items():
            if settings.get(name) != now:
                what = "" if name == "program" else f" ({settings.get(name)}, now {now})"
                folder = self._question.folder
                raise UserError(
                    f"{folder}: {self._task.name} was traced there with another {name}{what}: give another --out"
                )
        return run

    def run(self, allocation: Allocation, repeat: int, told: Callable[[Telling, float], None]) -> None:
        """Run it once more, and keep it."""
        question, task = self._question, self._task
        folder = question.folder / "runs" / f"{task.name}-cpu{allocation.cpu}-gpu{allocation.gpu}-{repeat}"
        start = Start(task.command, question.machine, allocation, folder, question.timeout_s)
        try:
            telling = run_task(start, lambda t: self._share(t) >= 1.0, lambda t: told(t, self._share(t)))
            if telling.of is None and self.target_loss is None:
                self.target_loss = found_target(telling.points)
            target = None if telling.of is not None else self.target_loss
            run = TracedRun(
                allocation, repeat, telling.of, target, tuple(telling.points), datetime.now(UTC).date().isoformat()
            )
            _check(run, telling)
        except UserError as error:
            raise RunError(f"{task.name} with {allocation}: {error}") from None
        record = {"type": task.name, "cpu": allocation.cpu, "gpu": allocation.gpu, "repeat": repeat, "of": run.of}
        record |= {
            "target_loss": run.target_loss,
            "date": run.date,
            "settings": self._settings,
            "fairlead": __version__,
        }
        record |= {"points": [list(asdict(point).values()) for point in run.points]}
        write_whole(folder / "run.json", json.dumps(record) + "\n")
        self.runs[allocation, repeat] = run

    def _share(self, telling: Telling) -> float:
        """How much of a run is done; of one that finds the target, by its epochs."""
        if telling.of is None and self.target_loss is None:
            return telling.points[-1].count / self._question.epochs
        share = curve(telling.points, telling.of, self.target_loss)[-1][1]
        if share == 1.0 and telling.of is None and len(telling.points) == 1:
            raise UserError(f"its loss before training, {telling.best_loss():g}, has already reached the target")
        return share

    def all(self) -> Traced:
        """All of its runs."""
        allocations = sorted(self._question.allocations)
        runs = {a: [self.runs[a, r] for r in range(1, self._question.repeats + 1)] for a in allocations}
        of = runs[allocations[0]][0].of
        return Traced(self._task, of, None if of is not None else self.target_loss, runs)


def _check(run: TracedRun, telling: Telling) -> None:
    """Refuse a run that has not reached its end, or took no time to."""
    last_s, progress = run.curve()[-1]
    if progress < 1.0 and run.of is not None:
        raise UserError(f"it ended after {telling.points[-1].count} of {run.of} samples")
    if progress < 1.0:
        raise UserError(
            f"it ended after {telling.points[-1].count} epochs with a loss of {telling.best_loss():g} at best, and "
            f"never reached its target of {run.target_loss:g} (more epochs of the task, or a larger --target-loss)"
        )
    if last_s <= 0:
        raise UserError('it took too little time to measure: give it more work after {"ready": true}')


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time: two would measure each other."""
    (folder / "runs").mkdir(exist_ok=True)
    with (folder / "runs" / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{folder}: another fairlead process writes traces to this folder") from None
        yield
