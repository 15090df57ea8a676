"""What a target of fuzzing is, and what those have in common that run a command."""

from __future__ import annotations

import io
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import ClassVar

LONGEST_LINE = 4000


class Finding(Exception):
    """Something that is no exception, and should not be."""


class Target(ABC):
    """Files of one type: changes them, and runs what reads them. A worker has one for all of its cases."""

    name: ClassVar[str]

    def __init__(self, seeds: Path) -> None:
        """`seeds`: a folder for what is made once, and shared by the workers that follow."""
        self.seeds = seeds

    @abstractmethod
    def make(self, random: Random, folder: Path) -> None:
        """Write the files of a case into an empty folder."""

    @abstractmethod
    def run(self, random: Random, folder: Path) -> str:
        """Read them; how it went, in a word. Raises what must not happen."""


def command(arguments: Sequence[object]) -> tuple[int, str]:
    """Run a command of ours in this process; its exit code and what it said on standard error."""
    from fairlead.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(), redirect_stdout(out), redirect_stderr(err):
        warnings.simplefilter("always")
        code = main([str(argument) for argument in arguments])
    told = err.getvalue()
    if code not in (0, 1, 2):
        raise Finding(f"exit code {code}: {told}")
    for sign in ("Traceback (most", "Warning:"):
        if sign in told + out.getvalue():
            raise Finding(f"{sign} in what was printed: {told[-LONGEST_LINE:]}")
    lines = told.splitlines()
    if code and not (lines and lines[-1].startswith("fairlead: ")):
        raise Finding(f"exit code {code} without a reason: {told[-LONGEST_LINE:]}")
    if any(len(line) > LONGEST_LINE or not line.isprintable() for line in lines):
        raise Finding(f"a line that is long or does not print: {max(lines, key=len)[:LONGEST_LINE]!r}")
    return code, told


def compile_first() -> None:
    """Run what cases will run once, so that none of them has to wait for the compiler."""
    for scenario, few, policies in (
        ("ecsrl", "duration_s=1", "closest,load-balancing"),
        ("tapfinger-3", "tasks=5", "min,shortest-first,tuned-rule"),
    ):
        words = ["compare", scenario, "--set", few, "--policies", policies, "--seeds", "1", "--jobs", "1"]
        if (told := command(words))[0]:
            raise RuntimeError(f"a shipped scenario does not run: {told}")


def word(code: int) -> str:
    """What an exit code means."""
    return "taken" if code == 0 else "refused"
