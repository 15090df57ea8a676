"""A comparison as JSON: figures with intervals, settings and versions. The same question gives the same bytes."""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict
from importlib import metadata
from typing import Any

from fairlead import __version__
from fairlead.experiments.compare import Comparison
from fairlead.measure.statistics import Estimate
from fairlead.policies.interface import find


def as_json(result: Comparison, overrides: list[str]) -> str:
    """The comparison as text."""
    document = {
        "fairlead": __version__,
        "versions": _versions(),
        "settings": {"seeds": list(result.seeds), "policies": list(result.policies), "set": overrides},
        "policies": {name: _identity(name) for name in result.policies},
        "complete": not result.interrupted and not result.failures,
        "stopped": result.interrupted or None,
        "failures": dict(sorted(result.failures.items())),
        "scenarios": {s.name: _scenario(result, s.name) | {"definition": asdict(s)} for s in result.scenarios},
    }
    return json.dumps(_plain(document), indent=1, allow_nan=False) + "\n"


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {p: metadata.version(p) for p in ("numba", "numpy", "scipy")}


def _identity(name: str) -> dict[str, str]:
    """Which code decided under that name."""
    policy = find(name)
    return {"package": policy.package, "kind": policy.kind, "hash": policy.hash}


def _scenario(result: Comparison, name: str) -> dict[str, Any]:
    ranking, seeds = result.ranking(name), result.done_seeds(name)
    scenario = next(s for s in result.scenarios if s.name == name)
    return {
        "seeds": seeds,
        "best": ranking[0] if ranking else None,
        "ranking": ranking,
        "assumptions": [f"{path}: {words}" for path, words in scenario.assumptions()],
        "policies": {
            policy: {
                "figures": {k: _estimate(e) for k, e in result.estimates(name, policy).items()},
                "behind_best": _estimate(result.behind_best(name, policy)),
                "by_seed": {k: result.values(name, policy, k) for k in result.runs[name][policy][seeds[0]]},
            }
            for policy in ranking
        },
    }


def _estimate(e: Estimate) -> dict[str, float]:
    return {"mean": e.mean, "ci95": e.ci95, "n": e.n}


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null, and a string."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {k.rstrip("_"): _plain(v) for k, v in value.items()}  # `from_` is `from` in files
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
