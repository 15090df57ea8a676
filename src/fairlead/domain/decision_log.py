"""A decision log: what was asked, what was decided and what became of it, with what is needed to read it.

Made by the simulator (`sim.serving.log`) and by any host of live requests; figures and bins (`measure`) are functions
of it, so that both have the same. `measure.decision_log_file` keeps it in Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.domain.outcomes import Fallback, Outcome, Reason


@dataclass(frozen=True)
class LoggedNode:
    """A node, and what was measured at it: batches and idle time belong to no single request."""

    name: str
    devices: int  # alike
    power_idle_w: float  # of one of them
    work_per_ms: float  # the most work, in ms of time alone, that the node does in a ms; infinite: no limit
    busy_ms: float = 0.0  # with all its devices; half the devices for 1 ms are 0.5
    energy_mj: float = 0.0  # above idle


@dataclass(frozen=True)
class LoggedDeployment:
    """A variant on a node, and how long it takes there when nothing else runs: base + per_kb * size."""

    variant: str
    node: str
    model: str
    base_ms: float
    per_kb_ms: float
    batch_share: float = 1.0  # time in a full batch / time alone that one request takes
    node_share: float = 1.0  # part of the node that serves one request or batch

    @property
    def name(self) -> str:
        """Variant and node."""
        return f"{self.variant} on {self.node}"


@dataclass(frozen=True)
class LoggedPolicy:
    """The policy that decided, identified to the byte."""

    name: str
    hash: str


@dataclass(frozen=True)
class LogContext:
    """What rows refer to by number, and what holds for the whole log."""

    name: str  # of the scenario, or of what was served
    duration_s: float  # how long requests arrived
    end_ms: float  # when the last of them was served
    window_ms: float  # the windows that `active` counts
    nodes: tuple[LoggedNode, ...]
    deployments: tuple[LoggedDeployment, ...]  # those of one model side by side
    models: tuple[str, ...]
    variants: tuple[str, ...]
    sources: tuple[str, ...]
    sites: tuple[str, ...]
    tenants: tuple[str, ...]
    sla_classes: tuple[str, ...]
    policies: tuple[LoggedPolicy, ...]  # all that decided
    decisions: int = 0  # how often a policy was asked; selectors: for windows
    fallbacks: Mapping[str, int] = field(default_factory=dict)  # how often a rule decided in its place, by reason
    active: tuple[str, ...] = ()  # selectors: the rule that decided in each window; the last goes on to the end
    settings: Mapping[str, Any] = field(default_factory=dict)  # where it is from: plain values

    def candidates(self, model: int) -> range:
        """The deployments that a request for this model can go to, in the order in which policies see them."""
        name = self.models[model]
        rows = [d for d, deployment in enumerate(self.deployments) if deployment.model == name]
        return range(rows[0], rows[-1] + 1) if rows else range(0)


@dataclass(frozen=True)
class DecisionLog:
    """R requests by time, and what became of them."""

    context: LogContext
    requests: Any = field(repr=False)  # REQUEST (R,)
    rows: Any = field(repr=False)  # DECISION (R,)
    work: Any = field(repr=False)  # float64 (R,): work / what is usual for its size; 1 where that is unknown
    exclusions: Any = field(default=None, repr=False)  # uint16 (R, C): Reason bits of its candidates; None: not kept


def fallback_code(reason: Fallback | None) -> int:
    """The number by which rows record this reason."""
    return 0 if reason is None else 1 + list(Fallback).index(reason)


def fill_decisions(rows: Any, decided_by: Any = 0, probability: Any = float("nan"), fallback: Any = 0) -> None:
    """Note in DECISION rows which policy decided; arguments are numbers, or arrays with one per decision by time."""
    mask = decided(rows)
    rows["decided_by"][mask] = decided_by
    rows["probability"][mask] = probability
    rows["fallback"][mask] = fallback


def decided(rows: Any) -> Any:
    """Which rows a policy was asked about: those neither bound before nor without a feasible candidate."""
    return (rows["bound"] == 0) & ((rows["choice"] >= 0) | (rows["reason"] == Reason.DECLINED))


def delivered(rows: Any) -> Any:
    """Which rows have an answer: neither rejected nor, in a log of live requests, still under way."""
    return (rows["outcome"] != Outcome.REJECTED) & (rows["outcome"] != Outcome.PENDING)
