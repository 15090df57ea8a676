"""What all trainings of `fairlead train` have in common: their options, libraries, the progress bar."""

from __future__ import annotations

import argparse
import importlib.util

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError, how_to_install


def check_options(args: argparse.Namespace) -> None:
    """Refuse wrong options before anything is loaded."""
    if not args.scenarios:
        raise UserError("--scenario is missing: give the scenario to train on (`fairlead scenarios` lists names)")
    if not args.out:
        raise UserError("--out is missing: give the folder for the bundle")


def need_libraries(*names: str) -> None:
    """Say what is missing before anything is imported."""
    if missing := [name for name in names if importlib.util.find_spec(name) is None]:
        raise UserError(f"training needs {missing[0]}: {how_to_install('train')}")


def progress_bar() -> Progress:
    """The bar of a training; without a terminal there is none."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[gap]}"),
        console=(console := Console(stderr=True)),
        transient=True,
        disable=not console.is_terminal,
    )


class BarTeller:
    """Moves the bar; `unit` is what is counted."""

    def __init__(self, bar: Progress, unit: str) -> None:
        self.bar, self._unit = bar, unit
        self.task = bar.add_task("starting", total=None, speed="", gap="")

    def doing(self, what: str) -> None:
        """What is under way; where there is no terminal, what it begins with is a line."""
        if self.bar.disable and self.bar.tasks[0].description == "starting":
            note(what)
        self.bar.update(self.task, description=what)

    def step(self, done: int, total: int) -> None:
        """So much is done."""
        speed = self.bar.tasks[0].speed
        words = f"{done:,} of {total:,} {self._unit}{f', {speed:,.0f} a second' if speed else ''}"
        self.bar.update(self.task, completed=done, total=total, speed=words)

    def say(self, gap: str, line: str, best: bool) -> None:
        """There is a new validation: beside the bar, or where there is no terminal a line."""
        self.bar.update(self.task, gap=gap)
        if self.bar.disable:
            note(f"{line}{' (best so far)' if best else ''}")
