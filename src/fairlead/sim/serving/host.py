"""Runs a policy in a world: compiled policies inside the engine's loop, plain Python ones at its stops.

`simulate` is the short way for users; `experiments` calls `run` on worlds that it reuses. Policies get no way to change
the world, and whatever they do wrong becomes a PolicyError that names them.
"""

from __future__ import annotations

import operator
import traceback
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError, nearest, one_line
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import Policy, find
from fairlead.policies.randomness import POLICY, uniform
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.layout import AT_DECIDE, DECIDE, DONE, FAULT, Plan, World
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.summary import summarise
from fairlead.sim.serving.workload import make_workload
from fairlead.sim.serving.world import new_world

_FIELDS = [*(REQUEST.names or ()), *(CANDIDATE.names or ())]


@dataclass(frozen=True)
class Run:
    """One finished run."""

    requests: Any = field(repr=False)  # REQUEST (R,)
    rows: Any = field(repr=False)  # DECISION (R,): what became of each
    windows: Any = field(repr=False)  # WINDOW (W,)
    dispatched: Any = field(repr=False)  # int64 (W, nodes): requests sent to each node in each window
    figures: dict[str, float]


def simulate(scenario: Scenario, policy: str | Policy, seed: int = 0) -> Run:
    """Draw the workload of `seed` and run it to its end under the policy (of that name)."""
    plan, workload = build_plan(scenario), make_workload(scenario, seed)
    world = new_world(plan, workload)
    run(plan, world, find(policy) if isinstance(policy, str) else policy)
    return Run(world.requests, world.rows, world.windows, world.dispatched, summarise(scenario, plan, world))


def run(plan: Plan, world: World, policy: Policy) -> None:
    """Run the world to its end under `policy`. Raises PolicyError, which names the policy, when that fails."""
    if policy.kind == "python":
        _run_python(plan, world, policy)
        return
    try:
        pointer = policy.compiled
    except Exception as error:  # Numba has many ways to say no
        hint = nearest(str(error.args[0]), _FIELDS) if isinstance(error, KeyError) else ""
        raise PolicyError(f"policy {policy.name!r} does not compile: {one_line(error)}{hint}") from error
    handle = Handle(plan, [world], [pointer])
    try:
        handle.advance(0)
    except (Exception, SystemExit) as error:  # whatever the policy's code raises
        raise PolicyError(f"policy {policy.name!r} failed: {one_line(error)}") from error
    _check(world, policy, handle.codes[0])


def _run_python(plan: Plan, world: World, policy: Policy) -> None:
    handle = Handle(plan, [world])
    clock, requests = world.clock[0], world.requests.view(np.recarray)
    candidates = world.candidates.view(np.recarray)
    handle.advance(AT_DECIDE)
    while handle.codes[0] == DECIDE:
        first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
        u = uniform(int(clock["seed"]), POLICY, i, 0)
        # A policy gets copies: it can't change the world.
        arguments = requests[i].copy(), candidates[first:last].copy(), world.excluded[first:last].copy(), u
        try:
            handle.chosen[0] = operator.index(policy.function(*arguments))
        except (Exception, SystemExit) as error:  # third-party code can raise anything
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            raise PolicyError(f"policy {policy.name!r} failed: {one_line(error)} at {where}") from error
        handle.advance(AT_DECIDE)
    _check(world, policy, handle.codes[0])


def _check(world: World, policy: Policy, code: int) -> None:
    clock = world.clock[0]
    if code == DONE and clock["finished"] + clock["rejected"] != clock["arrived"]:
        raise RuntimeError(f"the engine lost requests: {clock}")
    if code == FAULT:
        n, choice = int(clock["last"] - clock["first"]), int(clock["choice"])
        what = f"of {n} candidates" if not 0 <= choice < n else "which is excluded"
        raise PolicyError(f"policy {policy.name!r} chose index {choice}, {what}, for request {int(clock['request'])}")
