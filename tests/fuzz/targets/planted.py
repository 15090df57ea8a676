"""Faults on purpose, for the test of the runner, which has to find them. `make fuzz` does not run it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from ..target import Target


def _raise() -> None:
    raise KeyError("planted")


def _sleep() -> None:
    time.sleep(600.0)


def _spin() -> None:
    while True:
        pass


def _take_memory() -> None:
    assert b"x" * (350 << 20)


def _end_the_process() -> None:
    os._exit(3)


#: The cases, one after the other: what the runner should make of each, and what each does.
CASES: Final[tuple[tuple[str, Callable[[], object]], ...]] = (
    ("", bool), ("traceback", _raise), ("", bool), ("hang", _sleep), ("", bool), ("hang", _spin), ("", bool),
    ("memory", _take_memory), ("death", _end_the_process), ("", bool),
)  # fmt: skip


class PlantedTarget(Target):
    """See the module."""

    name = "planted"

    def make(self, random: Random, folder: Path) -> None:
        """A file with the number of the case, counted where workers that follow go on."""
        number = len(list(self.seeds.iterdir()))
        (self.seeds / str(number)).touch()
        (folder / "number").write_text(str(number))

    def run(self, random: Random, folder: Path) -> str:
        """Do what this case does."""
        CASES[int((folder / "number").read_text())][1]()
        return "read"
