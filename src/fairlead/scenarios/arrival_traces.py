"""Reads a trace of arrivals: CSV always, Parquet where pyarrow is installed (the extra `data`).

Row by row, into arrays of numbers; anything else in a file is reported in one line and takes no memory.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, nearest, one_line, shown
from fairlead.domain.provenance import LEAST, MOST
from fairlead.inputs.read_files import MB, open_file

_NUMBERS = ("time_s", "size_kb", "deadline_ms", "min_accuracy")
_COLUMNS = (*_NUMBERS, "stream", "site")
_MOST_MB = 1000
_MOST_ROWS = 20_000_000
_LONGEST_LINE = 1_000_000
_LONGEST_NAME = 200
_FEW = 20  # columns that a message names


@dataclass(frozen=True)
class Trace:
    """Arrivals by time; a column that the file lacks is absent (or None)."""

    time_s: Any
    columns: dict[str, Any]
    stream: Any | None  # int64: numbers of the streams, in the order of their names
    site: Any | None  # int32


def read_trace(file: str, duration_s: float, sites: Sequence[str]) -> Trace:
    """The rows of `file` before `duration_s`, checked."""
    columns = (_read_parquet if Path(file).suffix == ".parquet" else _read_csv)(file, sites)
    numbers = {c: columns[c].array() for c in _NUMBERS if c in columns}
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
        least, most = (0.0, 1.0) if column == "min_accuracy" else (LEAST, MOST)
        wrong = np.flatnonzero((values < least) | (values > most))
        if len(wrong):
            value = values[wrong[0]]
            bound = "in 0..1" if most == 1.0 else "above 0" if value <= 0.0 else f"{least:g} to {most:g}"
            raise UserError(f"{file}:{int(wrong[0]) + 2}: {column} must be {bound}, got {value:g}")
    kept = int(np.searchsorted(time_s, duration_s))
    if kept == 0:
        raise UserError(f"{file}: its first row is at {time_s[0]:g} s, the workload ends at {duration_s:g} s")
    site = columns["site"].array()[:kept] if "site" in columns else None
    stream = columns["stream"].array()[:kept] if "stream" in columns else None
    return Trace(time_s[:kept], {c: v[:kept] for c, v in numbers.items()}, stream, site)


# ---- columns, filled value by value


class _Numbers:
    """A column of numbers."""

    def __init__(self, file: str, column: str) -> None:
        self._file, self._column, self._values = file, column, array("d")

    def add(self, row: int, value: Any) -> None:
        """Take in the value of a row, counted from 0."""
        try:
            number = float(value)
        except (OverflowError, TypeError, ValueError):
            raise UserError(f"{self._file}:{row + 2}: {self._column} must be a number, got {shown(value)}") from None
        if not math.isfinite(number):
            raise UserError(f"{self._file}:{row + 2}: {self._column} must be finite, got {shown(value)}")
        self._values.append(number)

    def extend(self, values: Any) -> None:
        """Take in many that are known to be finite numbers."""
        self._values.frombytes(values.astype(np.float64).tobytes())

    def array(self) -> Any:
        """All of them: float64."""
        return np.array(self._values)


class _Sites:
    """A column of names of sites, as their numbers."""

    def __init__(self, file: str, sites: Sequence[str]) -> None:
        self._file, self._known = file, {name: i for i, name in enumerate(sites)}
        self._values = array("i")

    def add(self, row: int, value: Any) -> None:
        """As above."""
        if not isinstance(value, str) or value not in self._known:
            near = nearest(str(value), self._known)
            raise UserError(f"{self._file}:{row + 2}: unknown site {shown(value)}{near}")
        self._values.append(self._known[value])

    def array(self) -> Any:
        """All of them: int32."""
        return np.array(self._values, np.int32)


class _Streams:
    """A column of names of streams, which may be anything, as numbers in the order of the names."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: dict[str, int] = {}  # by the order in which they come
        self._values = array("q")

    def add(self, row: int, value: Any) -> None:
        """As above."""
        name = str(value)
        if len(name) > _LONGEST_NAME:
            what = f"the name of a stream has {_LONGEST_NAME} letters at most, got {shown(name)}"
            raise UserError(f"{self._file}:{row + 2}: {what}")
        self._values.append(self._known.setdefault(name, len(self._known)))

    def array(self) -> Any:
        """All of them: int64."""
        rank = {name: i for i, name in enumerate(sorted(self._known))}
        return np.array([rank[name] for name in self._known], np.int64)[np.array(self._values, np.int64)]


_Column = _Numbers | _Sites | _Streams


def _columns(file: str, header: Sequence[str], sites: Sequence[str]) -> dict[str, _Column]:
    """Empty columns for a header, checked."""
    for name in header:
        if name not in _COLUMNS:
            raise UserError(f"{file}: unknown column {shown(name)}{nearest(name, _COLUMNS)}")
    for name in _COLUMNS:
        if header.count(name) > 1:
            raise UserError(f"{file}: the column {name!r} is given twice")
    if "time_s" not in header:
        raise UserError(f"{file}: the column time_s is missing (has: {', '.join(header[:_FEW]) or 'none'})")
    made: dict[str, _Column] = {c: _Numbers(file, c) for c in header if c in _NUMBERS}
    if "stream" in header:
        made["stream"] = _Streams(file)
    if "site" in header:
        made["site"] = _Sites(file, sites)
    return made


def _too_many(file: str) -> UserError:
    return UserError(f"{file}: more than {_MOST_ROWS:,} rows, which don't fit into memory")


# ---- the two formats of files


def _read_csv(file: str, sites: Sequence[str]) -> dict[str, _Column]:
    with open_file(file, _MOST_MB) as binary, TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
        try:
            reader = csv.reader(_lines(file, text))
            header = [name.strip() for name in next(reader, [])]
            columns = _columns(file, header, sites)
            in_order = [columns[name] for name in header]
            blank = -1  # the first of the blank lines before this one; those at the end don't count
            for row, values in enumerate(reader):
                if not values and blank < 0:
                    blank = row
                if not values:
                    continue
                if blank >= 0 or len(values) != len(header):
                    wrong, count = (blank, 0) if blank >= 0 else (row, len(values))
                    raise UserError(f"{file}:{wrong + 2}: {count} values, the header has {len(header)} columns")
                if row >= _MOST_ROWS:
                    raise _too_many(file)
                for column, value in zip(in_order, values, strict=True):
                    column.add(row, value)
        except (UnicodeDecodeError, csv.Error) as error:
            raise UserError(f"{file}: not a CSV text file: {error}") from error
    return columns


def _lines(file: str, text: Any) -> Iterator[str]:
    while line := text.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise UserError(f"{file}: not a CSV text file: a line has {_LONGEST_LINE:,} letters or more")
        yield line


def _read_parquet(file: str, sites: Sequence[str]) -> dict[str, _Column]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise UserError(f"{file}: Parquet needs pyarrow: pip install pyarrow") from error
    with open_file(file, _MOST_MB) as binary:
        try:
            table = ParquetFile(binary)
            columns = _columns(file, table.schema_arrow.names, sites)
            _check_size(file, table.metadata)
            for name in columns:
                if (cell_type := table.schema_arrow.field(name).type).num_fields:
                    raise UserError(f"{file}: {name} must have a value in each row, it has {shown(str(cell_type))}")
            row = 0
            for batch in table.iter_batches(columns=list(columns)):
                for name, column in columns.items():
                    _fill(column, row, batch.column(name))
                row += batch.num_rows
                if row > _MOST_ROWS:
                    raise _too_many(file)
        except UserError:
            raise
        except Exception as error:  # pyarrow has many ways to say no
            raise UserError(f"{file}: can't read it as Parquet: {one_line(error)}") from None
    return columns


def _check_size(file: str, metadata: Any) -> None:
    """Refuse what would be too large once it is decompressed."""
    if metadata.num_rows > _MOST_ROWS:
        raise _too_many(file)
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    size = sum(group.total_byte_size for group in groups)
    if not 0 <= size <= _MOST_MB * MB:
        raise UserError(f"{file}: it has {size / MB:,.0f} MB when decompressed, at most {_MOST_MB:,} MB can be read")


def _fill(column: _Column, row: int, values: Any) -> None:
    if isinstance(column, _Numbers) and values.type.num_buffers == 2 and not values.null_count:
        numbers = values.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind in "iuf" and np.isfinite(numbers).all():
            column.extend(numbers)
            return
    for i, value in enumerate(values.to_pylist()):
        column.add(row + i, value)
