"""A comparison as JSON: figures with intervals, settings and versions. The same question gives the same bytes."""

from __future__ import annotations

import json
import math
import os
import platform
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from fairlead import __version__
from fairlead.domain.errors import UserError
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


def check_writable(path: Path) -> None:
    """Refuse an output path that can't be written, before any work is done."""
    path = path.resolve()
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a file name")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent if _replaceable(path) else path, os.W_OK):
        raise UserError(f"{path}: no permission to write there")


def _replaceable(path: Path) -> bool:
    return path.is_file() or not path.exists()  # not so: a terminal, a pipe, /dev/null


def write_whole(path: Path, text: str) -> None:
    """Write all of it or nothing: to a temporary file beside it, then renamed. Links are followed."""
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if _replaceable(path):
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: can't write it: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
