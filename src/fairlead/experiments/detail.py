"""What a run looks like beyond its figures: outcomes over time, latencies, the load of each node, as counts in bins.

Made by `trial` from a finished world, put together over seeds by `result_file`, drawn by reports. Bins depend on the
scenario alone, so that runs of all policies and seeds add up. Load is work sent to a node / the most that it can do in
the time: all its servers busy with full batches, or the best mix of a shared node. The run of a learned policy also has
`learned`: how often it fell back, and of a selector the share of each bin that each of its rules decided in.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Fallback, Outcome
from fairlead.domain.scenario import Scenario
from fairlead.policies.jit import jit
from fairlead.sim.serving.host import Account
from fairlead.sim.serving.layout import Plan, World
from fairlead.sim.serving.station_capacity import capacities

_MOST_BINS: Final = 120
_STEPS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_OUTCOMES: Final = {"success": Outcome.SUCCESS, "late": Outcome.LATE, "inaccurate": Outcome.INACCURATE,
                    "rejected": Outcome.REJECTED}  # fmt: skip

_LOAD_UNITS: Final = 10_000  # loads have four digits

#: Edges of the latency bins: 40 to a decade, from 0.1 ms to 100 s.
LATENCY_MS: Final = tuple(float(f"{x:.4g}") for x in np.logspace(-1, 5, 241))


def time_edges_s(scenario: Scenario) -> list[float]:
    """Edges of the time bins: round numbers, at most 120 bins; the last ends with the run."""
    duration_s = scenario.workload.duration_s
    step_s = next((s for s in _STEPS_S if duration_s / s <= _MOST_BINS), duration_s / _MOST_BINS)
    edges = [round(i * step_s, 6) for i in range(int(np.ceil(duration_s / step_s - 1e-9)))]
    return [*edges, duration_s]


def detail(scenario: Scenario, plan: Plan, world: World) -> dict[str, Any]:
    """The bins of one finished run."""
    n = int(world.clock[0]["arrived"])
    edges_ms = np.array(time_edges_s(scenario)) * 1000.0
    widths_ms = np.diff(edges_ms)
    outcomes = np.zeros((len(Outcome), len(widths_ms)), np.int64)
    latency = np.zeros(len(LATENCY_MS) + 1, np.int64)
    sent_ms = np.zeros((len(scenario.nodes), len(widths_ms)))
    _count(
        world.rows[:n], world.requests, world.draws, plan.deployments, edges_ms, np.array(LATENCY_MS),
        outcomes, latency, sent_ms,
    )  # fmt: skip
    can_do_ms = _work_per_ms(plan, len(sent_ms))[:, None] * widths_ms
    load = np.round(np.divide(sent_ms, can_do_ms, out=np.zeros_like(sent_ms), where=can_do_ms > 0), 4)
    return {
        "outcomes": {name: outcomes[o].tolist() for name, o in _OUTCOMES.items()},
        "latency": latency.tolist(),
        "load": {name: load[i].tolist() for i, name in enumerate(scenario.nodes)},
    }


def learned(scenario: Scenario, account: Account) -> dict[str, Any]:
    """How a learned policy decided in one run; `active` has the share of each time bin that each rule decided in."""
    edges_ms, window_ms = np.array(time_edges_s(scenario)) * 1000.0, scenario.rules.window_ms
    starts_ms = np.arange(len(account.active)) * window_ms
    active: dict[str, Any] = {}
    for name, start_ms in zip(account.active, starts_ms, strict=True):
        inside_ms = np.clip(edges_ms, start_ms, start_ms + window_ms)
        active[name] = active.get(name, 0.0) + np.diff(inside_ms) / np.diff(edges_ms)
    shares = {name: np.round(share, 4).tolist() for name, share in sorted(active.items())}
    return {"decisions": account.decisions, "fallbacks": dict(account.fallbacks), "active": shares}


def _work_per_ms(plan: Plan, nodes: int) -> Any:
    """The most that each node can do, in its own time alone; 0 where nothing is deployed, infinite where all fits."""
    servers, _ = capacities(plan)
    weights = np.where(plan.stations["deployment"] >= 0, plan.deployments["weight"][plan.stations["deployment"]], 1.0)
    return np.bincount(plan.stations["node"], servers * weights, nodes)


@jit
def _count(
    rows: Any, requests: Any, draws: Any, deployments: Any, edges_ms: Any, latency_edges_ms: Any,
    outcomes: Any, latency: Any, sent_ms: Any,
) -> None:  # fmt: skip
    """Count every request in the bin of its arrival; the work that it sends to nodes, as part of a node, as well."""
    now = 0
    for i in range(len(rows)):  # by time
        row = rows[i]
        while now < len(edges_ms) - 2 and row.time_ms >= edges_ms[now + 1]:
            now += 1
        outcomes[row.outcome, now] += 1
        if row.outcome != Outcome.REJECTED:
            latency[np.searchsorted(latency_edges_ms, row.latency_ms)] += 1
        for d in (row.choice, row.second):
            if d >= 0:
                there = deployments[d]
                work_ms = (there.base_ms + there.per_kb_ms * requests[i].size_kb) * draws[i].work
                sent_ms[there.node, now] += work_ms * there.batch_share * there.weight


class Sum:
    """The details of several seeds: counts added up, the mean of loads.

    All are whole numbers, so that it is the same whoever comes first.
    """

    def __init__(self) -> None:
        self._seeds = 0
        self._outcomes: dict[str, Any] = {}
        self._latency: Any = 0
        self._load: dict[str, Any] = {}  # in units of 1 / _LOAD_UNITS
        self._learned: _LearnedSum | None = None

    def add(self, one: dict[str, Any]) -> None:
        """Take in the detail of one more seed."""
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


def changes(scenario: Scenario) -> list[dict[str, Any]]:
    """When the workload or a link changes, and what, in words; in order of time."""
    found: dict[float, list[str]] = {}
    for source in scenario.workload.sources.values():
        for phase in source.phases:
            words = f"{source.name}: rate x {phase.rate:g}"
            if phase.sites is not None:
                words += f", from {', '.join(phase.sites)}"
            found.setdefault(phase.at_s, []).append(words)
    for change in scenario.link_changes:
        parts = [
            change.delay_ms is not None and f"delay {change.delay_ms:g} ms",
            change.delay_sd_ms is not None and f"deviation {change.delay_sd_ms:g} ms",
            change.bandwidth_mbps is not None and f"{change.bandwidth_mbps:g} Mbit/s",
            change.up is not None and ("up" if change.up else "down"),
        ]
        where = f"link to {change.to}" if change.from_ == "*" else f"link from {change.from_} to {change.to}"
        found.setdefault(change.at_s, []).append(f"{where}: {', '.join(p for p in parts if p)}")
    inside = (at_s for at_s in sorted(found) if 0.0 < at_s < scenario.workload.duration_s)
    return [{"at_s": at_s, "what": "; ".join(found[at_s])} for at_s in inside]
