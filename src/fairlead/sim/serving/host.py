"""Runs a policy in a world: compiled rules inside the engine's loop, all others at its stops.

`simulate` is the short way for users; `experiments` calls `run` on worlds that it reuses, and `run_decider` where it
watches a learned policy. Policies get no way to change the world, and whatever they do wrong
becomes a PolicyError that names them. Learned policies don't look at a clock here: results would depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.domain.decision import RequestSnapshot, WindowSnapshot
from fairlead.domain.errors import PolicyError, nearest, one_line
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.policies.decider import Decider, Setting, check_choice
from fairlead.policies.interface import Policy, find
from fairlead.policies.randomness import POLICY, uniform
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.layout import AT_DECIDE, AT_WINDOW, DECIDE, DONE, FAULT, INTO_DRAIN, WINDOW, Plan, World
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.summary import summarise
from fairlead.sim.serving.window_view import WindowView
from fairlead.sim.serving.workload import make_workload
from fairlead.sim.serving.world import new_world

_FIELDS = [*(REQUEST.names or ()), *(CANDIDATE.names or ())]


@dataclass(frozen=True)
class Account:
    """How a run was decided."""

    decisions: int  # of requests or streams; of a selector: windows
    fallbacks: Mapping[str, int] = field(default_factory=dict)  # how often a learned policy fell back, by reason
    active: Sequence[str] = ()  # selectors: the rule that decided in each window; the last goes on to the end

    @property
    def fallback_share(self) -> float:
        """The share of decisions that the fallback rule made."""
        return sum(self.fallbacks.values()) / max(1, self.decisions)


@dataclass(frozen=True)
class Run:
    """One finished run."""

    requests: Any = field(repr=False)  # REQUEST (R,)
    rows: Any = field(repr=False)  # DECISION (R,): what became of each
    windows: Any = field(repr=False)  # WINDOW (W,)
    dispatched: Any = field(repr=False)  # int64 (W, nodes): requests sent to each node in each window
    account: Account = field(repr=False)
    figures: dict[str, float]


def simulate(scenario: Scenario, policy: str | Policy, seed: int = 0) -> Run:
    """Draw the workload of `seed` and run it to its end under the policy (of that name, or at that path)."""
    plan, workload = build_plan(scenario), make_workload(scenario, seed)
    world = new_world(plan, workload)
    account = run(plan, world, find(policy) if isinstance(policy, str) else policy)
    figures = summarise(scenario, plan, world) | {"fallback_share": account.fallback_share}
    return Run(world.requests, world.rows, world.windows, world.dispatched, account, figures)


def run(plan: Plan, world: World, policy: Policy) -> Account:
    """Run the world to its end under `policy`. Raises PolicyError, which names the policy, when that fails."""
    return run_decider(plan, world, policy.decider(setting_of(plan)))


def setting_of(plan: Plan) -> Setting:
    """What a decider must know of a plan."""
    return Setting(plan.links.shape[1], float(plan.rules["window_ms"][0]))


def run_decider(plan: Plan, world: World, decider: Decider) -> Account:
    """`run`, asking this decider: about each request, unless it has rules for the engine to call by itself.

    One that is told of windows is told as in the gym: before the first, and where something may arrive behind it.
    """
    handle, clock = Handle(plan, [world], [_pointer(rule) for rule in decider.rules]), world.clock[0]
    stops = (0 if decider.rules else AT_DECIDE) | (AT_WINDOW | INTO_DRAIN if decider.windows else 0)
    view = WindowView(plan, decider.nodes, decider.mix) if decider.windows else None
    stats = np.zeros((1, view.features if view else 0), np.float32)
    active: list[str] = []
    while handle.codes[0] in (DECIDE, WINDOW):
        if view:
            view.observe(handle, stats)
            decider.decide(WindowSnapshot(stats))
        if decider.rules:
            handle.chosen[0] = decider.active
        elif clock["waiting"]:
            first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
            shown = world.requests[i : i + 1], world.candidates[first:last], world.excluded[first:last]
            u = uniform(int(clock["seed"]), POLICY, i, 0)
            handle.chosen[0] = decider.decide(RequestSnapshot(*shown, first=first), u).choice
        rule = decider.rules[decider.active].name if decider.rules else decider.name
        if view:
            active.append(rule)
        _advance(handle, stops, rule)
        _check(world, rule, handle.codes[0])
    if decider.rules:
        decider.decided(int(clock["decisions"]))
    return Account(decider.decisions, _by_reason(decider.fallbacks), active)


def _by_reason(fallbacks: Mapping[Fallback, int]) -> dict[str, int]:
    return {reason.value: fallbacks[reason] for reason in Fallback if reason in fallbacks}


def _pointer(policy: Policy) -> Any:
    try:
        return policy.compiled
    except Exception as error:  # Numba has many ways to say no
        hint = nearest(str(error.args[0]), _FIELDS) if isinstance(error, KeyError) else ""
        raise PolicyError(f"policy {policy.name!r} does not compile: {one_line(error)}{hint}") from error


def _advance(handle: Handle, stops: int, policy: str) -> None:
    try:
        handle.advance(stops)
    except (Exception, SystemExit) as error:  # whatever the policy's code raises
        raise PolicyError(f"policy {policy!r} failed: {one_line(error)}") from error


def _check(world: World, policy: str, code: int) -> None:
    clock = world.clock[0]
    if code == DONE and clock["finished"] + clock["rejected"] != clock["arrived"]:
        raise RuntimeError(f"the engine lost requests: {clock}")
    if code == FAULT:
        excluded = world.excluded[int(clock["first"]) : int(clock["last"])]
        check_choice(policy, int(clock["choice"]), excluded, int(clock["request"]))
