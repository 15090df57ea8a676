"""What a finished world is boiled down to: one flat map of figures. Units in the names; shares of all requests.

Called by `host` and `experiments` when a run is over; the figures' names are those of result files and reports.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairlead.domain.outcomes import REASON_NAMES, Outcome
from fairlead.domain.scenario import Scenario
from fairlead.measure.statistics import jain
from fairlead.sim.serving.layout import Plan, World

PERCENTILES = (50, 90, 95, 99)


def summarise(scenario: Scenario, plan: Plan, world: World) -> dict[str, float]:
    """The figures of one run. Where no request arrived, shares and latencies are NaN."""
    n = int(world.clock[0]["arrived"])  # a world of a batch may be padded behind these
    rows, requests = world.rows[:n], world.requests[:n]
    outcome = rows["outcome"]
    shares = np.bincount(outcome, minlength=len(Outcome)) / (n or math.nan)
    figures = {
        "requests": float(n),
        "success": float(shares[Outcome.SUCCESS]),
        "late": float(shares[Outcome.LATE]),
        "inaccurate": float(shares[Outcome.INACCURATE]),
        "rejected": float(shares[Outcome.REJECTED]),
    }
    reasons = np.bincount(rows["reason"], minlength=256) / (n or math.nan)
    figures |= {f"rejected_{name}": float(reasons[bit]) for bit, name in REASON_NAMES.items()}
    figures["escalated"] = float(np.count_nonzero(rows["second"] >= 0) / (n or math.nan))
    figures |= _latencies(rows["latency_ms"][outcome != Outcome.REJECTED])
    figures["degradation"] = _degradation(plan, rows, requests["size_kb"], world.draws["work"][:n])
    figures |= _costs(scenario, world, int(np.count_nonzero(outcome == Outcome.SUCCESS)))
    good = (outcome == Outcome.SUCCESS).astype(np.float64)
    figures |= _fairness("sla", scenario.workload.sla_classes, requests["sla"], good)
    figures |= _fairness("tenant", scenario.workload.tenants, requests["tenant"], good)
    return figures


def _latencies(latency_ms: Any) -> dict[str, float]:
    if len(latency_ms) == 0:
        return {"latency_mean_ms": math.nan} | {f"latency_p{p}_ms": math.nan for p in PERCENTILES}
    values = np.percentile(latency_ms, PERCENTILES)
    named = {f"latency_p{p}_ms": float(v) for p, v in zip(PERCENTILES, values, strict=True)}
    return {"latency_mean_ms": float(latency_ms.mean())} | named


def _degradation(plan: Plan, rows: Any, size_kb: Any, work: Any) -> float:
    """Mean of service time / time alone over the answered requests; 1 when none shares a device or a batch (ECSRL)."""
    served = rows["choice"] >= 0
    alone_ms = np.zeros(np.count_nonzero(served))
    for choice in (rows["choice"][served], rows["second"][served]):
        base_ms = np.append(plan.deployments["base_ms"], 0.0)[choice]  # -1, no second inference, takes the last: 0
        alone_ms += base_ms + np.append(plan.deployments["per_kb_ms"], 0.0)[choice] * size_kb[served]
    alone_ms *= work[served]
    return float(np.mean(rows["service_ms"][served] / alone_ms)) if len(alone_ms) else math.nan


def _costs(scenario: Scenario, world: World, successes: int) -> dict[str, float]:
    """Energy (idle included), price of busy time, and how busy the nodes were."""
    makespan_ms = max(scenario.workload.duration_s * 1000.0, float(world.clock[0]["last_ms"]))
    nodes = scenario.nodes.values()
    idle_mj = makespan_ms * sum(scenario.devices[n.device].power_idle_w * n.count for n in nodes)
    energy_mj = idle_mj + float(world.nodes["energy_mj"].sum())
    busy = world.nodes["busy_ms"] / makespan_ms
    devices = np.array([n.count for n in nodes], np.float64)
    figures = {
        "energy_j": energy_mj / 1000.0,
        "energy_per_success_mj": energy_mj / successes if successes else math.nan,
        "cost_per_success": float(world.rows["price"].sum()) / successes if successes else math.nan,
        "utilisation": float((busy * devices).sum() / devices.sum()),
    }
    return figures | {f"utilisation_{node.name}": float(b) for node, b in zip(nodes, busy, strict=True)}


def _fairness(kind: str, names: tuple[str, ...], which: Any, good: Any) -> dict[str, float]:
    """Success of each class or tenant, the lowest of them, and Jain's index over them."""
    asked = np.bincount(which, minlength=len(names))
    got = np.bincount(which, weights=good, minlength=len(names))
    rates = [float(g / a) if a else math.nan for g, a in zip(got, asked, strict=True)]
    figures = {f"success_{kind}_{name}": rate for name, rate in zip(names, rates, strict=True)}
    present = [r for r in rates if not math.isnan(r)]
    return figures | {f"fairness_{kind}": jain(rates), f"lowest_{kind}": min(present) if present else math.nan}
