"""What a decision log looks like beyond its figures: outcomes over time, latencies, the load of each node, in bins.

Put together over seeds by `result_file`, drawn by reports. Bins depend on the duration alone, so that runs of all
policies and seeds add up. Load is work sent to a node / the most that it can do in the time: all its servers busy with
full batches, or the best mix of a shared node. The log of a learned policy also has `learned`: how often it fell back,
and of a selector the share of each bin that each of its rules decided in.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from fairlead.domain.decision_log import DecisionLog, LogContext, delivered
from fairlead.domain.outcomes import Fallback, Outcome

_MOST_BINS: Final = 120
_STEPS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_OUTCOMES: Final = {"success": Outcome.SUCCESS, "late": Outcome.LATE, "inaccurate": Outcome.INACCURATE,
                    "rejected": Outcome.REJECTED}  # fmt: skip

_LOAD_UNITS: Final = 10_000  # loads have four digits

#: Edges of the latency bins: 40 to a decade, from 0.1 ms to 100 s.
LATENCY_MS: Final = tuple(float(f"{x:.4g}") for x in np.logspace(-1, 5, 241))


def time_edges_s(duration_s: float) -> list[float]:
    """Edges of the time bins: round numbers, at most 120 bins; the last ends with the run."""
    step_s = next((s for s in _STEPS_S if duration_s / s <= _MOST_BINS), duration_s / _MOST_BINS)
    edges = [round(i * step_s, 6) for i in range(int(np.ceil(duration_s / step_s - 1e-9)))]
    return [*edges, duration_s]


def serving_bins(log: DecisionLog) -> dict[str, Any]:
    """The bins of one log."""
    context, rows = log.context, log.rows
    edges_ms = np.array(time_edges_s(context.duration_s)) * 1000.0
    widths_ms = np.diff(edges_ms)
    bins = np.searchsorted(edges_ms[1:-1], rows["time_ms"], side="right")  # of each request, by its arrival
    answered = rows["latency_ms"][delivered(rows)]
    can_do_ms = np.array([node.work_per_ms for node in context.nodes])[:, None] * widths_ms
    sent_ms = _sent_ms(log, bins, len(widths_ms))
    load = np.round(np.divide(sent_ms, can_do_ms, out=np.zeros_like(sent_ms), where=can_do_ms > 0), 4)
    return {
        "outcomes": {
            name: np.bincount(bins[rows["outcome"] == o], minlength=len(widths_ms)).tolist()
            for name, o in _OUTCOMES.items()
        },
        "latency": np.bincount(np.searchsorted(LATENCY_MS, answered), minlength=len(LATENCY_MS) + 1).tolist(),
        "load": {node.name: load[i].tolist() for i, node in enumerate(context.nodes)},
    }


def _sent_ms(log: DecisionLog, bins: Any, number: int) -> Any:
    """The work sent to each node in each bin (nodes, bins), in ms of the whole node's time."""
    deployments, nodes = log.context.deployments, [node.name for node in log.context.nodes]
    choices = np.stack([log.rows["choice"], log.rows["second"]], axis=1)  # (R, 2)
    request, which = np.nonzero(choices >= 0)  # in the order of requests: sums don't depend on anything else
    there = choices[request, which]

    def of(name: str) -> Any:
        return np.array([getattr(d, name) for d in deployments])[there]

    work_ms = (of("base_ms") + of("per_kb_ms") * log.requests["size_kb"][request]) * log.work[request]
    node = np.array([nodes.index(d.node) for d in deployments], np.int64)[there]
    where = node * number + bins[request]
    sums = np.bincount(where, work_ms * of("batch_share") * of("node_share"), len(nodes) * number).astype(np.float64)
    return sums.reshape(len(nodes), number)


def learned_bins(context: LogContext) -> dict[str, Any]:
    """How a learned policy decided in one run; `active` has the share of each time bin that each rule decided in."""
    edges_ms, window_ms = np.array(time_edges_s(context.duration_s)) * 1000.0, context.window_ms
    starts_ms = np.arange(len(context.active)) * window_ms
    active: dict[str, Any] = {}
    for name, start_ms in zip(context.active, starts_ms, strict=True):
        inside_ms = np.clip(edges_ms, start_ms, start_ms + window_ms)
        active[name] = active.get(name, 0.0) + np.diff(inside_ms) / np.diff(edges_ms)
    shares = {name: np.round(share, 4).tolist() for name, share in sorted(active.items())}
    return {"decisions": context.decisions, "fallbacks": dict(context.fallbacks), "active": shares}


class BinSum:
    """The bins of several seeds: counts added up, the mean of loads.

    All are whole numbers, so that the order of seeds does not matter.
    """

    def __init__(self) -> None:
        self._seeds = 0
        self._outcomes: dict[str, Any] = {}
        self._latency: Any = 0
        self._load: dict[str, Any] = {}  # in units of 1 / _LOAD_UNITS
        self._learned: _LearnedSum | None = None

    def add(self, one: dict[str, Any]) -> None:
        """Take in the bins of one more seed."""
        self._seeds += 1
        self._latency = self._latency + np.array(one["latency"])
        for name, counts in one["outcomes"].items():
            self._outcomes[name] = self._outcomes.get(name, 0) + np.array(counts)
        for node, load in one["load"].items():
            self._load[node] = self._load.get(node, 0) + _units(load)
        if "learned" in one:
            self._learned = self._learned or _LearnedSum()
            self._learned.add(one["learned"])

    def detail(self) -> dict[str, Any]:
        """All of them together, in the form of one."""
        made = {
            "outcomes": {name: counts.tolist() for name, counts in self._outcomes.items()},
            "latency": self._latency.tolist(),
            "load": {node: _mean(x, self._seeds) for node, x in self._load.items()},
        }
        return made | ({"learned": self._learned.detail(self._seeds)} if self._learned else {})


class _LearnedSum:
    """The same of what a learned policy has."""

    def __init__(self) -> None:
        self._decisions = 0
        self._fallbacks: Counter[str] = Counter()
        self._active: dict[str, Any] = {}

    def add(self, one: dict[str, Any]) -> None:
        self._decisions += one["decisions"]
        self._fallbacks.update(one["fallbacks"])
        for name, shares in one["active"].items():
            self._active[name] = self._active.get(name, 0) + _units(shares)

    def detail(self, seeds: int) -> dict[str, Any]:
        active = {name: _mean(x, seeds) for name, x in sorted(self._active.items())}
        fallbacks = {reason.value: self._fallbacks[reason] for reason in Fallback if self._fallbacks[reason]}
        return {"decisions": self._decisions, "fallbacks": fallbacks, "active": active}


def _units(shares: list[float]) -> Any:
    return np.rint(np.array(shares) * _LOAD_UNITS).astype(np.int64)


def _mean(sums: Any, seeds: int) -> list[float]:
    return list(np.round(sums / seeds / _LOAD_UNITS, 4).tolist())
