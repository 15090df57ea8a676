"""Decision logs as Parquet: one row per request, with names instead of numbers, readable by whatever reads Parquet.

The schema has a version, kept in the file's metadata beside the log's context. Needs pyarrow (the extra `data`).
Called by the simulator's host and by experiments. What `read_log` returns has the figures of what was written, to the
bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from pydantic import TypeAdapter, ValidationError

from fairlead import __version__
from fairlead.domain.decision_log import DecisionLog, LogContext, LoggedDeployment, LoggedNode
from fairlead.domain.errors import UserError, one_line, shown
from fairlead.domain.outcomes import REASON_NAMES
from fairlead.domain.records import DECISION, REQUEST
from fairlead.measure.decision_log_columns import ASKED, COLUMNS, DECIDED, Numbers, Words
from fairlead.measure.write_files import whole_file

VERSION: Final = 1  #: of the schema: goes up when a column goes, or changes its meaning
_METADATA: Final = b"fairlead.decision_log"
_ROWS_AT_ONCE: Final = 100_000  # in a row group


def write_log(log: DecisionLog, path: Path) -> None:
    """Write a log, all of it or nothing."""
    with log_writer(path, log.context, log.exclusions is not None) as writer:
        for first in range(0, len(log.rows), _ROWS_AT_ONCE):
            writer.add(_part(log, slice(first, first + _ROWS_AT_ONCE)))


@contextmanager
def log_writer(path: Path, context: LogContext, exclusions: bool = False) -> Iterator[LogWriter]:
    """A writer of logs whose parts come one after the other; the file is there when all of it is."""
    arrow = _pyarrow()
    with whole_file(path) as file, arrow.parquet.ParquetWriter(file, _schema(exclusions), compression="zstd") as out:
        yield (writer := LogWriter(out, context, exclusions))
        out.add_key_value_metadata({_METADATA: writer.metadata})


class LogWriter:
    """Takes the parts of a log. `context` may be replaced by one with the same names and what was measured since."""

    def __init__(self, out: Any, context: LogContext, exclusions: bool) -> None:
        self.context = context
        self._out, self._schema = out, _schema(exclusions)

    @property
    def context(self) -> LogContext:
        """What rows refer to. It can't be set to what a file can't hold: that costs no row that is written already."""
        return self._context

    @context.setter
    def context(self, context: LogContext) -> None:
        self.metadata = _as_metadata(context)
        self._context = context

    def add(self, part: DecisionLog) -> None:
        """Append a row group. Raises ValueError for numbers that stand for nothing; then none of it is written."""
        arrow = _pyarrow()
        records = {"requests": part.requests, "rows": part.rows}
        made: dict[str, Any] = {}
        for column in COLUMNS:
            if isinstance(column, Numbers):
                where, field = column.fields[0]
                made[column.name] = arrow.array(records[where][field].astype(column.dtype))
            else:
                numbers, values = records[column.part][column.field], column.values(self.context)
                made[column.name] = _worded(column.name, numbers, list(values), list(values.values()), column.empty)
        who = part.rows["decided_by"]
        made["decided_by"] = _worded("decided_by", who, [p.name for p in self.context.policies], empty=-1)
        made["decided_by_hash"] = _worded("decided_by_hash", who, [p.hash for p in self.context.policies], empty=-1)
        made["work"] = arrow.array(np.ascontiguousarray(part.work))
        if part.exclusions is not None:
            made |= _candidates(self.context, part)
        self._out.write_table(arrow.table([made[name] for name in self._schema.names], schema=self._schema))


def read_log(path: Path) -> DecisionLog:
    """The log in a file. Raises UserError, one line, for what is none or is of another version."""
    arrow = _pyarrow()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            context = _context(path, file.metadata.metadata or {})
            exclusions = "excluded" in file.schema_arrow.names
            if missing := [name for name in _schema(exclusions).names if name not in file.schema_arrow.names]:
                raise UserError(f"{path}: the column {missing[0]} is missing")
            table = file.read(_schema(exclusions).names)
    except (OSError, arrow.ArrowException) as error:
        raise UserError(f"{path}: can't read the log: {str(error).splitlines()[0]}") from error
    return _Reader(path, context, table).log(exclusions)


def check_parquet() -> None:
    """Raise a UserError when Parquet can't be had here, before any work is done."""
    _pyarrow()


# ---- what both have in common


def _pyarrow() -> ModuleType:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise UserError("decision logs are Parquet files, which need pyarrow: pip install pyarrow") from None
    return pyarrow


def _part(log: DecisionLog, part: slice) -> DecisionLog:
    exclusions = None if log.exclusions is None else log.exclusions[part]
    return DecisionLog(log.context, log.requests[part], log.rows[part], log.work[part], exclusions)


def _schema(exclusions: bool) -> Any:
    arrow = _pyarrow()
    word = arrow.dictionary(arrow.int32(), arrow.string())

    def plain(columns: Sequence[Numbers | Words]) -> dict[str, Any]:
        return {c.name: arrow.from_numpy_dtype(c.dtype) if isinstance(c, Numbers) else word for c in columns}

    words = arrow.list_(arrow.string())  # pyarrow can't read dictionaries in lists back from several row groups
    lists = {"candidates": words, "excluded": words} if exclusions else {}
    who = {"decided_by": word, "decided_by_hash": word}
    return arrow.schema(list((plain(ASKED) | {"work": arrow.float64()} | lists | who | plain(DECIDED)).items()))


# ---- writing


def _as_metadata(context: LogContext) -> str:
    """The context as JSON, which has no infinity: null stands for it. Raises ValueError for what JSON can't hold."""
    about = {"schema": VERSION, "fairlead": __version__, "context": _plain(context, "context")}
    return json.dumps(about, allow_nan=False)


def _plain(value: Any, where: str) -> Any:
    """A value of a context as JSON has it."""
    if is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, float) and value == math.inf:
        return None
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ValueError(f"{where}: a decision log can't hold {shown(value)}, which JSON has no form for")


def _worded(
    column: str, numbers: Any, words: Sequence[str], values: Sequence[int] | None = None, empty: int | None = None
) -> Any:
    """Numbers as words; `empty` has none. Without `values` a number is the place of its word."""
    arrow, numbers = _pyarrow(), numbers.astype(np.int64)
    indices = np.full(len(numbers), -1, np.int32)
    for i, value in enumerate(range(len(words)) if values is None else values):
        indices[numbers == value] = i
    if (wordless := numbers[(indices < 0) & (numbers != empty)]).size:
        raise ValueError(f"the column {column} has {wordless[0]}, which is not among what the log names")
    return arrow.DictionaryArray.from_arrays(arrow.array(indices, mask=indices < 0), arrow.array(words, arrow.string()))


def _candidates(context: LogContext, part: DecisionLog) -> dict[str, Any]:
    """The candidates of each request and why they were excluded; empty for what followed a binding."""
    ranges = [context.candidates(m) for m in range(len(context.models))]
    models, followed = part.requests["model"].astype(np.int64), part.rows["bound"] == 1
    counts = np.where(followed, 0, np.array([len(r) for r in ranges])[models])
    request = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(request)) - np.repeat(np.cumsum(counts) - counts, counts)  # among its candidates
    numbers = np.array([r.start for r in ranges])[models[request]] + place
    names = _worded("candidates", numbers, [d.name for d in context.deployments])
    bits, codes = np.unique(part.exclusions[request, place], return_inverse=True)
    if (nameless := bits[(bits & ~np.uint16(sum(REASON_NAMES))) > 0]).size:
        raise ValueError(f"the column excluded has {nameless[0]}, which is more than the bits of the reasons")
    why = _worded("excluded", codes, [" ".join(name for bit, name in REASON_NAMES.items() if v & bit) for v in bits])
    arrow = _pyarrow()
    offsets = arrow.array(np.append(0, np.cumsum(counts)).astype(np.int32), mask=np.append(followed, False))
    columns = {"candidates": names, "excluded": why}
    return {name: arrow.ListArray.from_arrays(offsets, x.cast(arrow.string())) for name, x in columns.items()}


# ---- reading


def _context(path: Path, metadata: dict[bytes, bytes]) -> LogContext:
    if _METADATA not in metadata:
        raise UserError(f"{path}: no decision log: its metadata has no {_METADATA.decode()}")
    try:
        about = json.loads(metadata[_METADATA])
        if (version := about["schema"]) != VERSION:
            raise UserError(
                f"{path}: a decision log of schema {version} (fairlead {about.get('fairlead')}), this fairlead "
                f"({__version__}) reads {VERSION}"
            )
        context = TypeAdapter(LogContext).validate_python(_with_infinities(about["context"]))
        fault = _fault(context)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        fault = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        fault = one_line(error)
    if fault:
        raise UserError(f"{path}: damaged metadata of a decision log: {fault}")
    return context


def _with_infinities(context: dict[str, Any]) -> dict[str, Any]:
    """The context as `_as_metadata` got it: where a number is expected, null is infinity."""
    for kind, made in (
        (LogContext, [context]),
        (LoggedNode, context.get("nodes", [])),
        (LoggedDeployment, context.get("deployments", [])),
    ):
        for one in made:
            one |= {f.name: math.inf for f in fields(kind) if f.type == "float" and one.get(f.name, 0) is None}
    return context


def _fault(context: LogContext) -> str:
    """What figures could not be made with."""
    for name in ("duration_s", "window_ms"):
        if not 0.0 < getattr(context, name) < np.inf:
            return f"{name}: should be above 0"
    nodes = {node.name for node in context.nodes}
    for d in context.deployments:
        if d.node not in nodes or d.variant not in context.variants or d.model not in context.models:
            return f"{d.name}: what it deploys is not among the names"
    return ""


class _Reader:
    """Makes records of a table."""

    def __init__(self, path: Path, context: LogContext, table: Any) -> None:
        self._path, self._context, self._table = path, context, table

    def log(self, exclusions: bool) -> DecisionLog:
        """All of it."""
        n = self._table.num_rows
        records = {"requests": np.zeros(n, REQUEST), "rows": np.zeros(n, DECISION)}
        for column in COLUMNS:
            if isinstance(column, Numbers):
                numbers = self._numbers(column.name, column.dtype)
                for part, field in column.fields:
                    records[part][field] = numbers
            else:
                records[column.part][column.field] = self._values(column)
        records["rows"]["decided_by"] = self._who()
        excluded = self._exclusions(records["requests"]["model"].astype(np.int64)) if exclusions else None
        work = self._numbers("work", np.dtype(np.float64))
        return DecisionLog(self._context, records["requests"], records["rows"], work, excluded)

    def _numbers(self, name: str, dtype: Any) -> Any:
        arrow, column = _pyarrow(), self._table.column(name)
        try:
            column = column.cast(arrow.from_numpy_dtype(dtype))
        except arrow.ArrowException as error:
            raise self._wrong(name, f"should be {dtype}: {str(error).splitlines()[0]}") from error
        if column.null_count:
            raise self._wrong(name, "is empty in some rows")
        return column.to_numpy()

    def _places(self, name: str, column: Any, words: Sequence[str]) -> Any:
        """The place of each word among these; -1 where the column is empty."""
        arrow = _pyarrow()
        try:
            column = column.cast(arrow.string())
        except arrow.ArrowException as error:
            raise self._wrong(name, f"should be words: {str(error).splitlines()[0]}") from error
        found = arrow.compute.index_in(column, value_set=arrow.array(words, arrow.string()))
        if found.null_count > column.null_count:
            unknown = column.filter(arrow.compute.and_(found.is_null(), column.is_valid()))[0].as_py()
            raise self._wrong(name, f"has {unknown!r}, which is not among what the log names")
        return found.fill_null(-1).to_numpy()

    def _values(self, column: Words) -> Any:
        values = column.values(self._context)
        places = self._places(column.name, self._table.column(column.name), list(values))
        if column.empty is None and len(places) and places.min() < 0:
            raise self._wrong(column.name, "is empty in some rows")
        return np.array([*values.values(), column.empty or 0], np.int64)[places]

    def _who(self) -> Any:
        policies = self._context.policies
        names, hashes = ([getattr(p, field) for p in policies] for field in ("name", "hash"))
        unique = [list(dict.fromkeys(values)) for values in (names, hashes)]
        columns = ["decided_by", "decided_by_hash"]
        found = [
            self._places(column, self._table.column(column), words)
            for column, words in zip(columns, unique, strict=True)
        ]
        who = np.full(len(found[0]), -1)
        for i, policy in enumerate(policies):
            who[(found[0] == unique[0].index(policy.name)) & (found[1] == unique[1].index(policy.hash))] = i
        return who

    def _exclusions(self, models: Any) -> Any:
        context = self._context
        names = [d.name for d in context.deployments]
        ranges = [context.candidates(m) for m in range(len(context.models))]
        lists = [self._table.column(name).combine_chunks() for name in ("candidates", "excluded")]
        counts, excluded = [np.asarray(column.value_lengths().fill_null(0)) for column in lists]
        if not np.array_equal(counts, excluded):
            raise self._wrong("excluded", "should have an entry for each candidate")
        request = np.repeat(np.arange(len(models)), counts)
        place = self._places("candidates", lists[0].flatten(), names)
        place = place - np.array([r.start for r in ranges])[models[request]]
        words = lists[1].flatten().cast(_pyarrow().string())
        unique = words.unique().to_pylist()
        bits = np.array([self._bits(word) for word in unique], np.uint16)
        made = np.zeros((len(models), max([1, *map(len, ranges)])), np.uint16)
        if len(place) and (place.min() < 0 or place.max() >= made.shape[1]):
            raise self._wrong("candidates", "has a deployment of another model")
        made[request, place] = bits[self._places("excluded", words, unique)]
        return made

    def _bits(self, words: str | None) -> int:
        known = {name: int(bit) for bit, name in REASON_NAMES.items()}
        if words is None or any(word not in known for word in words.split()):
            raise self._wrong("excluded", f"has {words!r}; expected some of {', '.join(known)}")
        return sum(known[word] for word in words.split())

    def _wrong(self, column: str, what: str) -> UserError:
        return UserError(f"{self._path}: the column {column} {what}")
