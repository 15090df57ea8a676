"""The columns of a decision log in a file: which record field each holds, and the words that stand for its numbers.

`decision_log_file` writes and reads them; the guide `decision-log.md` says what they mean. Nothing here knows Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from fairlead.domain.decision_log import LogContext, fallback_code
from fairlead.domain.outcomes import REASON_NAMES, Fallback, Outcome
from fairlead.domain.records import DECISION, REQUEST

REJECT: Final = "reject"
Part = Literal["requests", "rows"]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers. Some stand in both records, and are read into both."""

    name: str
    fields: Sequence[tuple[Part, str]]
    truth: bool = False  # 0 or 1 in the records

    @property
    def dtype(self) -> Any:
        """As in the records, but for truths."""
        if self.truth:
            return np.dtype(np.bool_)
        part, field = self.fields[0]
        return (REQUEST if part == "requests" else DECISION)[field]


@dataclass(frozen=True)
class Words:
    """A column of words that stand for the numbers of a record."""

    name: str
    part: Part
    field: str
    values: Callable[[LogContext], Mapping[str, int]]  # word -> what the record has for it
    empty: int | None = None  # what the record has where the column is empty; None: it never is


def _row(*names: str) -> list[Numbers | Words]:
    return [Numbers(name, [("rows", name)]) for name in names]


def _request(*names: str) -> list[Numbers | Words]:
    return [Numbers(name, [("requests", name)]) for name in names]


def _numbered(words: Sequence[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(words)}


def _deployments(context: LogContext) -> dict[str, int]:
    return _numbered([d.name for d in context.deployments])


def _reasons(context: LogContext) -> dict[str, int]:
    return {name: int(bit) for bit, name in REASON_NAMES.items()}


#: What was asked.
ASKED: Final[Sequence[Numbers | Words]] = (
    Numbers("request", [("rows", "request"), ("requests", "id")]),
    Numbers("time_ms", [("rows", "time_ms"), ("requests", "now_ms")]),
    *_request("seq", "stream"),
    Words("source", "requests", "source", lambda c: _numbered(c.sources)),
    Words("model", "requests", "model", lambda c: _numbered(c.models)),
    Words("tenant", "requests", "tenant", lambda c: _numbered(c.tenants)),
    Words("sla", "requests", "sla", lambda c: _numbered(c.sla_classes)),
    Words("site", "requests", "site", lambda c: _numbered(c.sites)),
    *_request("deadline_ms", "min_accuracy", "size_kb", "rate_qps"),
)

#: What was decided, and what became of it. Beside these and the others there are columns that `decision_log_file` makes
#: of more than one field: `work`, `candidates` and `excluded`, `decided_by` and `decided_by_hash`.
DECIDED: Final[Sequence[Numbers | Words]] = (
    *_row("probability"),
    Words("fallback", "rows", "fallback", lambda c: {reason.value: fallback_code(reason) for reason in Fallback}, 0),
    Words("choice", "rows", "choice", _deployments, -1),
    Words("node", "rows", "node", lambda c: _numbered([node.name for node in c.nodes]), -1),
    Words("variant", "rows", "variant", lambda c: _numbered(c.variants), -1),
    Numbers("bound", [("rows", "bound")], truth=True),
    Words("shadow", "rows", "shadow", lambda c: {REJECT: -1} | _deployments(c), -2),
    Words("outcome", "rows", "outcome", lambda c: {outcome.name.lower(): outcome.value for outcome in Outcome}),
    Words("reason", "rows", "reason", _reasons, 0),
    Words("second", "rows", "second", _deployments, -1),
    *_row("predicted_ms", "latency_ms", "net_ms", "queue_ms", "service_ms", "accuracy", "energy_mj", "price"),
)

COLUMNS: Final = (*ASKED, *DECIDED)
