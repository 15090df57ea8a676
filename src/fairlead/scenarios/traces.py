"""Reads a trace of arrivals: CSV always, Parquet where pyarrow is installed (the extra `data`)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, nearest

_NUMBERS = ("time_s", "size_kb", "deadline_ms", "min_accuracy")
_COLUMNS = (*_NUMBERS, "stream", "site")


@dataclass(frozen=True)
class Trace:
    """Arrivals by time; a column that the file lacks is absent (or None)."""

    time_s: Any
    columns: dict[str, Any]
    stream: Any | None
    site: Any | None


def read_trace(file: str, duration_s: float, sites: Sequence[str]) -> Trace:
    """The rows of `file` before `duration_s`, checked."""
    table = _read(Path(file))
    unknown = [c for c in table if c not in _COLUMNS]
    if unknown:
        raise UserError(f"{file}: unknown column {unknown[0]!r}{nearest(unknown[0], _COLUMNS)}")
    if "time_s" not in table:
        raise UserError(f"{file}: the column time_s is missing (has: {', '.join(table) or 'none'})")
    numbers = {c: _numbers(file, c, table[c]) for c in _NUMBERS if c in table}
    time_s = numbers.pop("time_s")
    if len(time_s) == 0:
        raise UserError(f"{file}: no rows")
    back = np.flatnonzero(np.diff(time_s) < 0)
    if len(back):
        i = int(back[0])
        raise UserError(
            f"{file}:{i + 3}: time_s must not go back: {time_s[i + 1]:g} after {time_s[i]:g} (sort the file by time_s)"
        )
    if time_s[0] < 0:
        raise UserError(f"{file}:2: time_s must be 0 or above, got {time_s[0]:g}")
    for column, values in numbers.items():
        accuracy = column == "min_accuracy"
        wrong = np.flatnonzero((values < 0) | (values > 1)) if accuracy else np.flatnonzero(values <= 0)
        if len(wrong):
            bound = "in 0..1" if accuracy else "above 0"
            raise UserError(f"{file}:{int(wrong[0]) + 2}: {column} must be {bound}, got {values[wrong[0]]:g}")
    kept = int(np.searchsorted(time_s, duration_s))
    if kept == 0:
        raise UserError(f"{file}: its first row is at {time_s[0]:g} s, the workload ends at {duration_s:g} s")
    site = _sites(file, table["site"], sites)[:kept] if "site" in table else None
    stream = np.array([str(s) for s in table["stream"]])[:kept] if "stream" in table else None
    return Trace(time_s[:kept], {c: v[:kept] for c, v in numbers.items()}, stream, site)


def _read(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".parquet":
        return _read_parquet(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines)
            header = [name.strip() for name in next(reader, [])]
            rows = list(reader)
    except OSError as error:
        raise UserError(f"{path}: can't read the trace: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not a CSV text file: {error}") from error
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"{path}:1: the column {name!r} is there twice")
    while rows and not rows[-1]:  # blank lines at the end
        rows.pop()
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise UserError(f"{path}:{number}: {len(row)} values, the header has {len(header)} columns")
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def _read_parquet(path: Path) -> dict[str, list[Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(f"{path}: Parquet needs pyarrow: pip install pyarrow") from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: can't read the trace: {str(error).splitlines()[0]}") from error
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _numbers(file: str, column: str, values: list[Any]) -> Any:
    out = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            out[i] = float(value)
        except (TypeError, ValueError):
            raise UserError(f"{file}:{i + 2}: {column} must be a number, got {value!r}") from None
        if not np.isfinite(out[i]):
            raise UserError(f"{file}:{i + 2}: {column} must be finite, got {value!r}")
    return out


def _sites(file: str, values: list[Any], sites: Sequence[str]) -> Any:
    index = {name: i for i, name in enumerate(sites)}
    for i, value in enumerate(values):
        if value not in index:
            raise UserError(f"{file}:{i + 2}: unknown site {value!r}{nearest(str(value), sites)}")
    return np.array([index[v] for v in values], np.int32)
