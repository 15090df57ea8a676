"""A comparison as a document: figures with intervals, settings and versions. The same question gives the same bytes.

Nothing of how it was run (processes, cluster, checkpoint) is in it. `cli` writes it as JSON and makes reports from it.
"""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any

from fairlead import __version__
from fairlead.experiments.compare import Comparison
from fairlead.experiments.fingerprint import LIBRARIES
from fairlead.experiments.sweep import Sweep
from fairlead.experiments.trial import AnyScenario
from fairlead.measure.statistics import Estimate, estimate
from fairlead.policies.interface import Policy
from fairlead.policies.tasks.interface import TaskPolicy


def as_document(result: Comparison, overrides: list[str], sweep: Sweep | None = None) -> dict[str, Any]:
    """The comparison as plain data; a sweep is a comparison of its points."""
    document = {
        "fairlead": __version__,
        "world": result.adapter.name,
        "versions": versions([result.adapter.find(name) for name in result.policies]),
        "settings": {
            "seeds": list(result.seeds),
            "policies": list(result.policies),
            "set": overrides,
            "sweep": sweep and asdict(sweep),
        },
        "policies": {name: result.adapter.find(name).identity() for name in result.policies},
        "complete": not result.interrupted and not result.failures,
        "stopped": result.interrupted or None,
        "failures": dict(sorted(result.failures.items())),
        "warnings": result.warnings,
        "scenarios": {label: _scenario(result, label) for label in result.scenarios},
    }
    return dict(plain(document))


def as_json(value: Any, indent: str = "") -> str:
    """A document as text, with lists of numbers on one line each."""
    deeper = indent + " "
    if isinstance(value, dict) and value:
        items = [f"{deeper}{json.dumps(str(k))}: {as_json(v, deeper)}" for k, v in value.items()]
        text = "{\n" + ",\n".join(items) + f"\n{indent}}}"
    elif isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        text = "[\n" + ",\n".join(deeper + as_json(v, deeper) for v in value) + f"\n{indent}]"
    else:
        text = json.dumps(value, allow_nan=False)
    return text if indent else text + "\n"


def versions(policies: Sequence[Policy | TaskPolicy] = ()) -> dict[str, str]:
    """What the figures may depend on."""
    learned = any(policy.learned for policy in policies)
    libraries = (*LIBRARIES, "onnxruntime") if learned else LIBRARIES
    return {"python": platform.python_version()} | {p: metadata.version(p) for p in libraries}


def _scenario(result: Comparison, label: str) -> dict[str, Any]:
    ranking, seeds, scenario = result.ranking(label), result.done_seeds(label), result.scenarios[label]
    return {
        "title": scenario.title,
        "workload": scenario.workload_in_words(),
        "seeds": seeds,
        "best": ranking[0] if ranking else None,
        "ranking": ranking,
        "assumptions": [f"{path}: {words}" for path, words in scenario.assumptions()],
        "bound": _bound(result.bound_values(label)),
        **result.adapter.axes(scenario),
        "policies": {
            policy: {
                "figures": {k: _estimate(e) for k, e in result.estimates(label, policy).items()},
                "behind_best": _estimate(result.behind_best(label, policy)),
                "by_seed": {k: result.values(label, policy, k) for k in result.runs[label][policy][seeds[0]]},
                "detail": result.details[label][policy].detail(),
            }
            for policy in ranking
        },
        "definition": definition(scenario),
    }


def definition(scenario: AnyScenario) -> dict[str, Any]:
    """The scenario as plain values, as in scenario files."""
    return asdict(scenario, dict_factory=lambda items: {"from" if k == "from_" else k: v for k, v in items})


def _bound(by_seed: list[float]) -> dict[str, Any] | None:
    return _estimate(estimate(by_seed)) | {"by_seed": by_seed} if by_seed else None


def _estimate(e: Estimate) -> dict[str, Any]:
    return {"mean": e.mean, "ci95": e.ci95, "n": e.n}


def plain(value: Any) -> Any:
    """JSON has no NaN and no infinity: null, and a string."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
