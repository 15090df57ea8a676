"""What a trial's result depends on beside its scenario and seed: our code, the policies', traces, libraries.

Checkpoints know a trial by its key, so that nothing outdated is reused; workers on other machines compare their
`ingredients` with those of the driver, so that no other code takes part. Nothing here runs a trial.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from fairlead import __version__
from fairlead.domain.errors import UserError
from fairlead.experiments.trial import Trial
from fairlead.experiments.world_adapter import adapter_of
from fairlead.inputs.read_files import open_file
from fairlead.policies.compile_cache import code_hash
from fairlead.policies.interface import Policy, find
from fairlead.policies.policy_code import package_of
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.sim.tasks.policy_catalog import find_task_policy

Ingredients = dict[str, str]  # name -> version or hash

LIBRARIES = ("numba", "numpy", "scipy")
_MOST_MB = 1000  # of a trace
_ROOMS = ("domain", "experiments", "inputs", "measure", "policies", "scenarios", "sim")


def ingredients(trial: Trial) -> Ingredients:
    """Everything but the scenario and the seed."""
    adapter = adapter_of(trial.scenario)
    names = ["fairlead", "python", *LIBRARIES, "code", "arithmetic", *map(adapter.policy_key, trial.policies)]
    if any(adapter.find(name).learned for name in trial.policies):
        names.append("onnxruntime")
    return {name: _here(name) for name in [*names, *(f"trace {file}" for file in adapter.files(trial.scenario))]}


def keys(trials: Sequence[Trial]) -> list[str]:
    """A key for each trial. Trials with the same key have the same result."""
    all_but_seed: dict[str, str] = {}
    for trial in trials:
        if trial.label not in all_but_seed:
            all_but_seed[trial.label] = json.dumps(
                [trial.label, asdict(trial.scenario), ingredients(trial), trial.bounded]
            )
    return [hashlib.sha256(f"{p.seed} {all_but_seed[p.label]}".encode()).hexdigest() for p in trials]


def difference(wanted: Mapping[str, str]) -> str:
    """How this process differs from the wanted ingredients, in words; empty if it does not."""
    for name, value in wanted.items():
        try:
            here = _here(name)
        except UserError as error:
            return str(error)
        if here != value:
            return f"{name} is {here} there and {value} here"
    return ""


def _here(name: str) -> str:
    what, _, which = name.partition(" ")
    if what in ("policy", "task-policy"):
        return _policy(find(which) if what == "policy" else find_task_policy(which))
    return _hash([Path(which)]) if what == "trace" else _fixed(what)


@cache
def _fixed(name: str) -> str:
    if name == "code":
        return code_hash(*_ROOMS)
    if name == "arithmetic":
        return _arithmetic()
    if name == "python":
        return platform.python_version()
    return __version__ if name == "fairlead" else metadata.version(name)


def _arithmetic() -> str:
    """The results of logarithms and the like here: their last digits differ between processors and C libraries."""
    x = np.linspace(1e-3, 50.0, 20_001)
    digest = hashlib.sha256()
    for values in (np.log(x), np.exp(x), np.sin(x), np.array([math.exp(v) + math.log(v) for v in x[::10]])):
        digest.update(values.tobytes())
    return digest.hexdigest()[:12]


def _policy(policy: Policy | TaskPolicy) -> str:
    """What decides. A bundle is looked at each time: training may have replaced it."""
    if policy.learned:
        return f"{policy.hash} {policy.arithmetic}"
    if policy.package == "fairlead":
        return policy.hash  # all of our code is an ingredient
    return policy.hash + _package(package_of(policy.function))


@cache
def _package(name: str) -> str:
    """All sources of a third party's package, since a policy may call any of them; empty when there are none."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if file is None:
        return ""
    return _hash(sorted(Path(file).parent.rglob("*.py")) if hasattr(module, "__path__") else [Path(file)])


def _hash(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode())
        with open_file(file, _MOST_MB) as content:
            while part := content.read(2**20):
                digest.update(part)
    return digest.hexdigest()[:12]
