"""Result documents for the report's tests: made up, deterministic, in the form that compare and sweep write.

`document()` is a comparison, `swept()` a sweep. Every number follows from names and indices, so that tests can tell
what must be drawn; nothing is simulated. And what tests of all types of documents share.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.domain.errors import UserError
from fairlead.measure.report.comparison_page import page

POLICIES = (
    "cheaper", "closest", "farthest", "least-energy-in-time", "least-expected-completion", "least-impedance",
    "least-outstanding", "load-balancing", "power-of-two-choices", "random", "random-proportional-latency",
    "random-proportional-load", "round-robin",
)  # fmt: skip
NODES = ("access-1", "access-2", "office-1", "dc", "cloud")
CHANGES = [
    {"at_s": 150.0, "what": "video-analytics: rate x 3.8"},
    {"at_s": 150.0, "what": "tele-operation: rate x 1.4"},
    {"at_s": 450.0, "what": "all sources: rate x 2.2"},
]
BINS, EDGES = 30, 40
REQUESTS = 400  # in a bin, over all seeds
EVIL = "</script><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"


def estimate(mean: float | None, ci95: float | None, n: int) -> dict[str, Any]:
    return {"mean": mean, "ci95": ci95 if n > 1 else None, "n": n}


def document(
    labels: Sequence[str] = ("shifting",),
    policies: Sequence[str] = POLICIES,
    seeds: int = 5,
    bound: bool = True,
    degradation: bool = True,
    **top: Any,
) -> dict[str, Any]:
    """A comparison; `top` replaces keys of the document."""
    return {
        "fairlead": "0.1.0",
        "versions": {"python": "3.11.9", "numba": "0.61.0", "numpy": "2.1.0", "scipy": "1.14.0"},
        "settings": {"seeds": list(range(seeds)), "policies": list(policies), "set": ["rate=66"], "sweep": None},
        "policies": {
            p: {"package": "fairlead", "kind": "compiled", "hash": f"{i:012x}"} for i, p in enumerate(policies)
        },
        "complete": True,
        "stopped": None,
        "failures": {},
        "scenarios": {label: scenario(label, i, policies, seeds, bound, degradation) for i, label in enumerate(labels)},
    } | top


def swept(values: Sequence[Any] = (20, 40, 60, 80), param: str = "rate", **more: Any) -> dict[str, Any]:
    """A sweep of one field."""
    made = document([f"{param}={v}" for v in values], **more)
    made["settings"]["sweep"] = {"param": param, "values": list(values)}
    return made


def unfinished(label: str = "dc-cloud") -> dict[str, Any]:
    """A scenario of which no seed is finished."""
    return scenario(label, 0, (), 0, False, False) | {"best": None, "bound": None}


def scenario(
    label: str, index: int, policies: Sequence[str], seeds: int, bound: bool, degradation: bool
) -> dict[str, Any]:
    success = {
        p: 0.95 - 0.06 * index - 0.012 * ((5 * i + index) % max(1, len(policies))) for i, p in enumerate(policies)
    }
    ranking = sorted(policies, key=lambda p: (-success[p], p))
    best = success[ranking[0]] if ranking else 0.0
    return {
        "title": f"{label}, made up",
        "seeds": list(range(seeds)),
        "best": ranking[0] if ranking else None,
        "ranking": ranking,
        "assumptions": [f"devices.chip-{i}: power_idle_w, price_per_h" for i in range(12)],
        "bound": estimate(0.975, 0.004, seeds) | {"by_seed": [0.97 + 0.01 * (s % 2) for s in range(seeds)]}
        if bound
        else None,
        "changes": CHANGES,
        "time_s": [23.0 * i for i in range(BINS + 1)],
        "latency_ms": [round(10 ** (0.1 * i), 3) for i in range(EDGES + 1)],
        "policies": {p: _policy(i, success[p], best, seeds, degradation) for i, p in enumerate(ranking)},
        "definition": {},
    }


def _policy(rank: int, success: float, best: float, seeds: int, degradation: bool) -> dict[str, Any]:
    rest = 1 - success
    means = {
        "requests": 10000.0,
        "success": success,
        "late": 0.5 * rest,
        "inaccurate": 0.1 * rest,
        "rejected": 0.4 * rest,
        "rejected_no-capacity": 0.3 * rest,
        "rejected_too-late": 0.1 * rest,
        "latency_mean_ms": 45.0 + rank,
        **{f"latency_p{p}_ms": 0.8 * p + rank for p in (50, 90, 95, 99)},
        "energy_per_success_mj": 3400.0 + 140 * ((3 * rank) % 7),
        "cost_per_success": 6e-7,
        "degradation": 1.02 + 0.015 * ((2 * rank) % 5) if degradation else 1.0,
        "utilisation": 0.5,
        **{f"utilisation_{node}": 0.3 + 0.1 * i for i, node in enumerate(NODES)},
        "success_sla_gold": success - 0.1,
        "success_sla_bronze": success + 0.02,
        "fairness_sla": 0.97,
        "success_tenant_games": success,
        "fairness_tenant": 0.99,
    }
    wide = {"energy_per_success_mj": 40.0, "latency_p99_ms": 2.0, "degradation": 0.004 if degradation else 0.0}
    return {
        "figures": {name: estimate(mean, wide.get(name, 0.006), seeds) for name, mean in means.items()},
        "behind_best": estimate(success - best, 0.003 + 0.011 * (rank == 1), seeds),
        "by_seed": {"success": [success + 0.002 * (s % 3 - 1) for s in range(seeds)]},
        "detail": {
            "outcomes": _outcomes(rank, success),
            "latency": _latency(rank, success),
            "load": {node: _load(rank, i) for i, node in enumerate(NODES)},
        },
    }


def _outcomes(rank: int, success: float) -> dict[str, list[int]]:
    good = [round(REQUESTS * min(0.999, success + 0.05 * math.sin(b / 4 + rank))) for b in range(BINS)]
    late = [round(0.5 * (REQUESTS - g)) for g in good]
    return {
        "success": good,
        "late": late,
        "inaccurate": [0] * BINS,
        "rejected": [REQUESTS - g - x for g, x in zip(good, late, strict=True)],
    }


def _latency(rank: int, success: float) -> list[int]:
    """A bell over the logarithm of the latency; what is rejected is not in it."""
    centre = 16 + 0.4 * rank
    bell = [math.exp(-((i - centre) ** 2) / 12) for i in range(EDGES + 2)]
    return [round(success * REQUESTS * BINS * b / sum(bell)) for b in bell]


def _load(rank: int, node: int) -> list[float]:
    return [round(max(0.0, 0.6 + 0.5 * math.sin(b / 5 + node) + 0.03 * rank), 4) for b in range(BINS)]


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be wrong: every key, and the first of every list."""
    for key in value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ():
        yield (*here, key)
        yield from places(value[key], (*here, key))


def refusals(whole: dict[str, Any]) -> int:
    """How many wrong documents, one for each place and way to be wrong, are refused in a line; the others are pages."""
    refused = 0
    for path in places(whole):
        for wrong in (None, -1, 2.5, "x", "\ud800", [], {}, [None], math.nan, math.inf, 10**400, ...):
            made = copy.deepcopy(whole)
            spot = made
            for key in path[:-1]:
                spot = spot[key]
            if wrong is ...:
                del spot[path[-1]]
            else:
                spot[path[-1]] = wrong
            try:
                page(made).encode()
            except UserError as error:
                refused += "\n" not in str(error)
    return refused
