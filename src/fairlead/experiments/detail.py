"""What a run looks like beyond its figures: outcomes over time, latencies, the load of each node, as counts in bins.

Made by `piece` from a finished world, put together over seeds by `result_file`, drawn by reports. Bins depend on the
scenario alone, so that runs of all policies and seeds add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Scenario
from fairlead.sim.serving.layout import Plan, World

_MOST_BINS: Final = 120
_STEPS_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_OUTCOMES: Final = {"success": Outcome.SUCCESS, "late": Outcome.LATE, "inaccurate": Outcome.INACCURATE,
                    "rejected": Outcome.REJECTED}  # fmt: skip

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
    rows, requests, work = world.rows[:n], world.requests[:n], world.draws["work"][:n]
    edges_ms = np.array(time_edges_s(scenario)) * 1000.0
    bins = len(edges_ms) - 1
    when = np.clip(np.searchsorted(edges_ms, rows["time_ms"], side="right") - 1, 0, bins - 1)
    answered = rows["latency_ms"][rows["outcome"] != Outcome.REJECTED]
    bin_of = np.searchsorted(LATENCY_MS, answered)
    return {
        "outcomes": {
            name: np.bincount(when[rows["outcome"] == o], minlength=bins).tolist() for name, o in _OUTCOMES.items()
        },
        "latency": np.bincount(bin_of, minlength=len(LATENCY_MS) + 1).tolist(),
        "load": _load(scenario, plan, rows, requests["size_kb"], work, when, np.diff(edges_ms)),
    }


def _load(
    scenario: Scenario, plan: Plan, rows: Any, size_kb: Any, work: Any, when: Any, widths_ms: Any
) -> dict[str, list[float]]:
    """Work sent to each node in each bin / what the node can do in that time. Counted when the request arrives."""
    sent_ms = np.zeros((len(scenario.nodes), len(widths_ms)))
    for choice in (rows["choice"], rows["second"]):
        mine = choice >= 0
        if not mine.any():
            continue
        base_ms, per_kb_ms, weight, node = (
            np.ascontiguousarray(plan.deployments[f])[choice[mine]] for f in ("base_ms", "per_kb_ms", "weight", "node")
        )
        alone_ms = (base_ms + per_kb_ms * size_kb[mine]) * work[mine] * weight
        cell = node.astype(np.int64) * len(widths_ms) + when[mine]
        sent_ms += np.bincount(cell, alone_ms, sent_ms.size).reshape(sent_ms.shape)
    load = np.round(sent_ms / widths_ms, 4)
    return {name: load[i].tolist() for i, name in enumerate(scenario.nodes)}


def together(details: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of all seeds, in their order: counts added up, the mean of loads."""
    first = details[0]
    return {
        "outcomes": {k: [sum(x) for x in zip(*(d["outcomes"][k] for d in details), strict=True)] for k in _OUTCOMES},
        "latency": [sum(x) for x in zip(*(d["latency"] for d in details), strict=True)],
        "load": {
            node: [round(sum(x) / len(details), 4) for x in zip(*(d["load"][node] for d in details), strict=True)]
            for node in first["load"]
        },
    }


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
        parts = {
            "delay": change.delay_ms is not None and f"delay {change.delay_ms:g} ms",
            "bandwidth": change.bandwidth_mbps is not None and f"{change.bandwidth_mbps:g} Mbit/s",
            "up": change.up is not None and ("up" if change.up else "down"),
        }
        found.setdefault(change.at_s, []).append(f"link to {change.to}: {', '.join(p for p in parts.values() if p)}")
    inside = (at_s for at_s in sorted(found) if 0.0 < at_s < scenario.workload.duration_s)
    return [{"at_s": at_s, "what": "; ".join(found[at_s])} for at_s in inside]
