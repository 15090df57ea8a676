"""Reads measured progress: a CSV file of curves, one for each type of task and each allocation that was tried.

Columns: `type`, one for each elastic resource under its name, `time_s` and `progress`; a curve's rows stand by time. It
starts at 0 (which may be left out) and ends at 1, when the task is done. A resource of which no task needs any may have
no column: the curves were measured without it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np

from fairlead.domain.errors import UserError, nearest, shown
from fairlead.domain.tasks import TaskScenario, TaskType
from fairlead.inputs.read_files import read_text

_MOST_MB = 32
_POINTS = 65  # a curve is sampled at so many times, evenly


@dataclass(frozen=True)
class Curves:
    """The curves of one type: points of (time_s, progress) by allocation."""

    names: tuple[str, ...]  # of the elastic resources
    measured: dict[tuple[int, ...], list[tuple[float, float]]]
    interval_s: float

    def by(self, names: Sequence[str]) -> Curves:
        """The same by the resources of these names, in this order."""
        places = [self.names.index(name) for name in names]
        return Curves(tuple(names), {tuple(a[k] for k in places): c for a, c in self.measured.items()}, self.interval_s)

    def profile(self, name: str) -> list[tuple[int, float]]:
        """With how much of a resource curves were measured, and how long they take."""
        k = self.names.index(name)
        return sorted((amounts[k], points[-1][0]) for amounts, points in self.measured.items())

    def at(self, amounts: dict[str, int]) -> tuple[list[float], float]:
        """Progress at even distances, and the distance in steps, of the fastest that was measured within `amounts`.

        Of several that are as fast, that with the least of the first resource.
        """
        inside = [a for a in self.measured if all(x <= amounts[n] for x, n in zip(a, self.names, strict=True))]
        points = self.measured[min(inside, key=lambda a: (self.measured[a][-1][0], a))]
        times, progress = zip(*points, strict=True)
        sampled = np.interp(np.linspace(0.0, times[-1], _POINTS), times, progress)
        return sampled.tolist(), times[-1] / self.interval_s / (_POINTS - 1)


def read_curves(scenario: TaskScenario, task_type: TaskType) -> Curves:
    """The curves of a type, checked."""
    file = str(task_type.speed.file)
    names = tuple(r.name for r in scenario.resources.values() if r.elastic)
    measured: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    known = set()
    for line, row in _rows(file, names, [name for name in names if task_type.minimum.get(name)]):
        known.add(row["type"])
        if row["type"] == task_type.name:
            amounts = tuple(int(_number(file, line, name, row.get(name, "0"), whole=True)) for name in names)
            time_s, progress = (_number(file, line, name, row[name]) for name in ("time_s", "progress"))
            _append(file, line, measured.setdefault(amounts, [(0.0, 0.0)]), time_s, progress)
    if not measured:
        raise UserError(f"{file}: there are no rows of the type {task_type.name!r}{nearest(task_type.name, known)}")
    for amounts, points in measured.items():
        if points[-1][1] < 1.0:
            what = ", ".join(f"{n} {x}" for n, x in zip(names, amounts, strict=True))
            raise UserError(
                f"{file}: the curve of {task_type.name!r} at {what} ends at progress {points[-1][1]:g}, not at 1"
            )
    least = tuple(task_type.minimum.get(name, 0) for name in names)
    if not any(all(x <= low for x, low in zip(a, least, strict=True)) for a in measured):
        what = ", ".join(f"{n} {x}" for n, x in zip(names, least, strict=True))
        raise UserError(f"{file}: the minimum of {task_type.name!r} ({what}) was not measured")
    return Curves(names, measured, scenario.rules.interval_s)


def _rows(file: str, names: Sequence[str], needed: Sequence[str]) -> list[tuple[int, dict[str, str]]]:
    columns = ("type", *names, "time_s", "progress")
    try:
        reader = csv.DictReader(StringIO(read_text(file, _MOST_MB), newline=""), strict=True)
        header = list(reader.fieldnames or [])
        for column in header:
            if column not in columns:
                raise UserError(f"{file}: unknown column {shown(column)}{nearest(column, columns)}")
        for column in columns:
            if header.count(column) > 1:
                raise UserError(f"{file}: the column {column} is given twice")
        for column in ("type", *needed, "time_s", "progress"):
            if column not in header:
                raise UserError(f"{file}: the column {column} is missing (has: {', '.join(header) or 'none'})")
        rows = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UserError(f"{file}: not a CSV file: {error}") from None
    for line, row in rows:
        if None in row or None in row.values():
            raise UserError(f"{file}:{line}: expected {len(header)} values")
    return rows


def _number(file: str, line: int, column: str, text: str, whole: bool = False) -> float:
    try:
        number = float(int(text)) if whole else float(text)
    except (OverflowError, ValueError):
        expected = "whole number" if whole else "number"
        raise UserError(f"{file}:{line}: {column}: expected a {expected}, got {shown(text)}") from None
    if not 0 <= number < float("inf"):
        raise UserError(f"{file}:{line}: {column} must be 0 or above, got {shown(text)}")
    return number


def _append(file: str, line: int, points: list[tuple[float, float]], time_s: float, progress: float) -> None:
    """Take a point in; what comes after the end is left out."""
    last_s, last = points[-1]
    if progress > 1:
        raise UserError(f"{file}:{line}: progress must lie in 0..1, got {progress:g}")
    if time_s == 0 and progress == 0 and len(points) == 1:
        return
    if time_s <= last_s:
        raise UserError(f"{file}:{line}: time_s must rise: {time_s:g} after {last_s:g}")
    if last < 1:
        points.append((time_s, max(progress, last)))
