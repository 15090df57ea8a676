"""`fairlead trace`: from what the user typed to tasks and allocations, a progress bar, a table, the family's files."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import math
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairlead.cli.console import console
from fairlead.cli.options import as_whole_number
from fairlead.cli.standard_streams import note
from fairlead.cli.trace.options import SHIPPED
from fairlead.detect.nvml import load_nvml
from fairlead.domain.errors import RunError, UserError, nearest
from fairlead.domain.python_child import python_child
from fairlead.measure.numerals import counted, duration
from fairlead.measure.report.plot_files import converter, write_trace_plots
from fairlead.measure.report.plots import Plot
from fairlead.measure.report.plots.tasks.progress import progress
from fairlead.measure.write_files import check_folder, write_whole
from fairlead.profile.trace.allocation_grid import Question, Task, Tell, Traced, traced
from fairlead.profile.trace.allocations import Allocation, this_machine
from fairlead.profile.trace.family import family
from fairlead.profile.trace.progress_lines import FALL, Telling

_TASKS = Path(__file__).parents[2] / "learn" / "trace_tasks"
_NAME = r"[A-Za-z][\w-]{0,59}"
_MOST = 1000  # CPUs or GPUs
_NOISY = 0.1  # equal runs that lie further apart are reported


def run_trace(args: argparse.Namespace) -> int:
    """Run the command."""
    question = _question(args)
    tell = BarTell(question)
    try:
        with tell.bar:
            traces = traced(question, tell)
    except KeyboardInterrupt:
        note(f"fairlead: interrupted; {tell.words()}")
        return 130
    except UserError as error:
        error_class = RunError if isinstance(error, RunError) else UserError
        raise error_class(f"{error}; {tell.words()}" if tell.done else str(error)) from None
    for name, text in family(traces, question.machine.name).items():
        write_whole(question.folder / name, text)
    _show(question, traces)
    if args.plots:
        written = write_trace_plots(_plots(question, traces), Path(args.plots), f"measured on {question.machine.name}")
        note(f"{len(written)} plots written to {args.plots}")
    return 0


# ---- the question


def _question(args: argparse.Namespace) -> Question:
    cpus, gpus = _counts("--cpu", args.cpu, 1), _counts("--gpu", args.gpu, 0)
    if not 0 < args.timeout < math.inf:
        raise UserError(f"--timeout {args.timeout:g}: expected seconds, more than 0")
    if args.plots == "":
        raise UserError("--plots: a name is missing")
    if args.plots:
        converter()
        check_folder(Path(args.plots))
    if not args.out:
        raise UserError("--out is missing: give the folder for the runs and the task types")
    machine = this_machine(load_nvml() if any(gpus) else None, os.environ, any(gpus))
    allocations = [Allocation(cpu, gpu) for cpu, gpu in itertools.product(cpus, gpus)]
    machine.check(allocations)
    tasks = _with_targets([_task(text) for text in args.tasks], args.target_loss)
    return Question(tasks, machine, allocations, args.repeats, args.epochs, args.timeout, Path(args.out))


def _counts(option: str, text: str, least: int) -> list[int]:
    counts = [as_whole_number(word, least, _MOST) for word in text.split(",")]
    if None in counts:
        raise UserError(f"{option} {text}: expected whole numbers from {least} on, as in {least},{least + 1}")
    return sorted({count for count in counts if count is not None})


def _task(text: str) -> Task:
    """A task from [NAME=]PROGRAM ARGUMENTS."""
    named = re.fullmatch(rf"({_NAME})=(.+)", text, flags=re.DOTALL)
    try:
        program, *arguments = shlex.split(named[2] if named else text)
    except ValueError as error:
        raise UserError(f"TASK {text}: {'a program is missing' if not text.strip() else error}") from None
    command, file = _program(program)
    name = named[1] if named else re.sub(r"[^\w-]+", "_", Path(program).stem, flags=re.ASCII)
    if not re.fullmatch(_NAME, name, flags=re.ASCII):
        raise UserError(f"TASK {text}: {name!r} can't name a type; NAME={text} gives it a name (letters, digits, _, -)")
    return Task(name, (*command, *arguments), _hash(file))


def _program(program: str) -> tuple[list[str], Path]:
    """The command that runs it, and its file."""
    if program in SHIPPED:
        if importlib.util.find_spec("torch") is None:
            raise UserError(f"the task {program} needs torch: pip install torch")
        return python_child(f"fairlead.learn.trace_tasks.{program}"), _TASKS / f"{program}.py"
    file = Path(program).absolute()
    if file.is_file():
        if file.suffix == ".py":
            return [sys.executable, str(file)], file
        if os.access(file, os.X_OK):
            return [str(file)], file
        raise UserError(f"TASK {program}: not a program: neither executable nor named .py")
    found = shutil.which(program) if "/" not in program else None
    if found is None:
        where = "no such file" if "/" in program or "." in program else f"no task ships under this name{_near(program)}"
        raise UserError(f"TASK {program}: {where}")
    return [found], Path(found)


def _near(program: str) -> str:
    return f"{nearest(program, SHIPPED)}, and no such program is there"


def _hash(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UserError(f"{file}: can't read it: {error.strerror}") from None


def _with_targets(tasks: list[Task], options: list[str]) -> list[Task]:
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two tasks are called {name!r}; NAME='PROGRAM ...' gives one of them another name")
    targets: dict[str, float] = {}
    for option in options:
        name, equals, text = option.rpartition("=")
        if equals and name not in names:
            raise UserError(f"--target-loss {option}: unknown task {name!r}{nearest(name, names)}")
        try:
            target = float(text)
        except ValueError:
            target = math.nan
        if not math.isfinite(target):
            raise UserError(f"--target-loss {option}: expected a number, or NAME=X")
        targets |= dict.fromkeys([name] if equals else names, target)
    return [Task(task.name, task.command, task.program, targets.get(task.name)) for task in tasks]


# ---- as it goes


class BarTell(Tell):
    """Moves the bar, and knows how many runs are kept."""

    def __init__(self, question: Question) -> None:
        self._question, self.done, self._total = question, 0, 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[runs]}"),
            TimeRemainingColumn(),
            console=(out := Console(stderr=True)),
            transient=True,
            disable=not out.is_terminal,
        )
        self._task = self.bar.add_task("starting", total=None, runs="")
        self._what = ""
        self._began_s, self._estimated = time.monotonic(), False

    def kept(self, runs: int, total: int) -> None:
        """Say it."""
        self.done, self._total = runs, total
        if runs:
            note(f"{runs} of {total} runs are already finished ({self._question.folder})")
        if left := total - runs:
            longest = duration(left * self._question.timeout_s)
            later = "; an estimate follows the first run" if left > 1 else ""
            note(f"{counted(left, 'run')} to do, at most {longest} (--timeout){later}")
        self._update(0.0)

    def running(self, task: Task, allocation: Allocation, repeat: int) -> None:
        """Name it beside the bar."""
        self._began_s = time.monotonic()
        self._what = f"{task.name} with {allocation}, run {repeat} of {self._question.repeats}"
        self.bar.update(self._task, description=self._what)

    def told(self, telling: Telling, share: float) -> None:
        """Move the bar."""
        last = telling.points[-1]
        far = f"epoch {last.count}, loss {last.loss:.4g}" if last.loss is not None else f"{last.count} of {telling.of}"
        self.bar.update(self._task, description=f"{self._what}: {far}")
        self._update(min(1.0, share))

    def finished(self) -> None:
        """Count it."""
        self.done += 1
        left = self._total - self.done
        if not self._estimated and left:
            took_s = time.monotonic() - self._began_s
            note(f"the first run took {duration(took_s)}; about {duration(left * took_s)} left if all take as long")
        self._estimated = True
        self._update(0.0)

    def _update(self, share: float) -> None:
        runs = f"{self.done} of {self._total} runs"
        self.bar.update(self._task, completed=self.done + share, total=self._total, runs=runs)

    def words(self) -> str:
        """What is kept."""
        if not self.done:
            return "no run was finished"
        are = "is" if self.done == 1 else "are"
        again = f"run the same command again to resume from {self._question.folder}"
        return f"{self.done} of {self._total} runs {are} finished and kept; {again}"


# ---- at the end


def _show(question: Question, traces: list[Traced]) -> None:
    out = console()
    for one in traces:
        out.print(f"[bold]{escape(one.task.name)}[/bold]: {_end(question, one)}")
        out.print(_table(one, any(allocation.gpu for allocation in one.runs)))
    noisy = max(one.spread(allocation) for one in traces for allocation in one.runs)
    if noisy > _NOISY:
        out.print(
            f"runs of the same allocation differ by up to {100 * noisy:.0f} %: is this machine shared? "
            "More --repeats give a better estimate"
        )
    folder = question.folder
    out.print(
        escape(f"written: {', '.join(str(folder / name) for name in ('curves.csv', 'types.yaml', 'family.yaml'))}")
    )
    out.print(escape(f"try it: fairlead compare {shlex.quote(str(folder / 'family.yaml'))}"))


def _end(question: Question, one: Traced) -> str:
    if one.of is not None:
        return f"inference of {counted(one.of, 'sample')}"
    first = one.runs[max(one.runs)][0]
    begin = f"training from a validation loss of {first.points[0].loss:.4g} to the target {one.target_loss:g}"
    if one.task.target_loss is not None:
        return begin
    return f"{begin}, {100 * FALL:.0f} % of the way that it fell in {counted(first.points[-1].count, 'epoch')}"


def _plots(question: Question, traces: list[Traced]) -> dict[str, Plot]:
    return {
        one.task.name: progress(
            one.task.name, {str(a): one.median(a).curve() for a in one.runs}, _sentence(_end(question, one))
        )
        for one in traces
    }


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _table(one: Traced, gpus: bool) -> Table:
    table = Table(header_style="bold")
    work = "epochs" if one.of is None else "samples"
    for heading in ("CPUs", *(["GPUs"] if gpus else []), "time to the end, s", work, "speed-up", "spread", "runs"):
        table.add_column(heading, justify="right")
    least_s = one.median(min(one.runs)).total_s
    for allocation, runs in one.runs.items():
        run = one.median(allocation)
        spread = f"{100 * one.spread(allocation):.0f} %" if len(runs) > 1 else "unknown"
        amounts = [str(allocation.cpu), *([str(allocation.gpu)] if gpus else [])]
        cells = f"{run.total_s:.2f}", f"{run.count:,}", f"{least_s / run.total_s:.2f}", spread, str(len(runs))
        table.add_row(*amounts, *cells)
    return table
