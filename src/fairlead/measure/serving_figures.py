"""What a decision log is boiled down to: one flat map of figures. Units in the names; shares of all requests.

Called for every run, and for logs of live requests; the names are those of result files and reports.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairlead.domain.decision_log import DecisionLog, LogContext, delivered
from fairlead.domain.outcomes import REASON_NAMES, Outcome
from fairlead.measure.statistics import jain

PERCENTILES = (50, 90, 95, 99)


def serving_figures(log: DecisionLog) -> dict[str, float]:
    """The figures of one log. Where no request arrived, shares are NaN; where none was answered, latencies are."""
    context, rows, requests, n = log.context, log.rows, log.requests, len(log.rows)
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
    figures |= _latencies(rows["latency_ms"][delivered(rows)])
    figures["degradation"] = _degradation(log)
    figures |= _costs(context, rows, int(np.count_nonzero(outcome == Outcome.SUCCESS)))
    good = (outcome == Outcome.SUCCESS).astype(np.float64)
    figures |= _fairness("sla", context.sla_classes, requests["sla"], good)
    figures |= _fairness("tenant", context.tenants, requests["tenant"], good)
    return figures | {"fallback_share": sum(context.fallbacks.values()) / max(1, context.decisions)}


def _latencies(latency_ms: Any) -> dict[str, float]:
    if len(latency_ms) == 0:
        return {"latency_mean_ms": math.nan} | {f"latency_p{p}_ms": math.nan for p in PERCENTILES}
    values = np.percentile(latency_ms, PERCENTILES)
    named = {f"latency_p{p}_ms": float(v) for p, v in zip(PERCENTILES, values, strict=True)}
    return {"latency_mean_ms": float(latency_ms.mean())} | named


def _degradation(log: DecisionLog) -> float:
    """Mean of service time / time alone over the answered requests; 1 when none shares a device or a batch (ECSRL).

    Requests whose time alone is 0 or unknown are left out.
    """
    served = delivered(log.rows)
    base_ms = np.array([d.base_ms for d in log.context.deployments] + [0.0])
    per_kb_ms = np.array([d.per_kb_ms for d in log.context.deployments] + [0.0])
    alone_ms = np.zeros(np.count_nonzero(served))
    for choice in (log.rows["choice"][served], log.rows["second"][served]):  # -1, no second one, takes the last: 0
        alone_ms += base_ms[choice] + per_kb_ms[choice] * log.requests["size_kb"][served]
    alone_ms *= log.work[served]
    known = (alone_ms > 0.0) & (alone_ms < np.inf)
    return float(np.mean(log.rows["service_ms"][served][known] / alone_ms[known])) if known.any() else math.nan


def _costs(context: LogContext, rows: Any, successes: int) -> dict[str, float]:
    """Energy (idle included), price of busy time, and how busy the nodes were."""
    makespan_ms = max(context.duration_s * 1000.0, context.end_ms)
    idle_mj = makespan_ms * sum(node.power_idle_w * node.devices for node in context.nodes)
    energy_mj = idle_mj + float(np.array([node.energy_mj for node in context.nodes]).sum())
    busy = np.array([node.busy_ms for node in context.nodes]) / makespan_ms
    devices = np.array([node.devices for node in context.nodes], np.float64)
    figures = {
        "energy_j": energy_mj / 1000.0,
        "energy_per_success_mj": energy_mj / successes if successes else math.nan,
        "cost_per_success": float(rows["price"].sum()) / successes if successes else math.nan,
        "utilisation": float((busy * devices).sum() / devices.sum()),
    }
    return figures | {f"utilisation_{node.name}": float(b) for node, b in zip(context.nodes, busy, strict=True)}


def _fairness(group: str, names: tuple[str, ...], which: Any, good: Any) -> dict[str, float]:
    """Success of each class or tenant, the lowest of them, and Jain's index over them."""
    asked = np.bincount(which, minlength=len(names))
    got = np.bincount(which, weights=good, minlength=len(names))
    rates = [float(g / a) if a else math.nan for g, a in zip(got, asked, strict=True)]
    figures = {f"success_{group}_{name}": rate for name, rate in zip(names, rates, strict=True)}
    present = [r for r in rates if not math.isnan(r)]
    return figures | {f"fairness_{group}": jain(rates), f"lowest_{group}": min(present) if present else math.nan}
