"""Runs a policy in a world: compiled policies inside the engine's loop, all others at its stops.

`simulate` is the short way for users; `experiments` calls `run` on worlds that it reuses, and `run_dispatcher` or
`run_selector` where it watches a learned policy. Policies get no way to change the world, and whatever they do wrong
becomes a PolicyError that names them. Learned policies don't look at a clock here: results would depend on the machine.
"""

from __future__ import annotations

import operator
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError, nearest, one_line
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.policies.bundle_registry import LearnedPolicy
from fairlead.policies.interface import Policy, find
from fairlead.policies.learned import Dispatcher, Selector
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
    if isinstance(policy, LearnedPolicy):
        if policy.kind == "selector":
            return run_selector(plan, world, Selector(policy.bundle, *selector_sizes(plan)))
        return run_dispatcher(plan, world, Dispatcher(policy.bundle), policy)
    if policy.kind == "python":
        return _run_python(plan, world, policy)
    return _run_compiled(plan, world, policy)


def _run_compiled(plan: Plan, world: World, policy: Policy) -> Account:
    handle = Handle(plan, [world], [_pointer(policy)])
    _advance(handle, 0, policy)
    _check(world, policy, handle.codes[0])
    return Account(int(world.clock[0]["decisions"]))


def _run_python(plan: Plan, world: World, policy: Policy) -> Account:
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
    return Account(int(clock["decisions"]))


def run_dispatcher(plan: Plan, world: World, dispatcher: Dispatcher, policy: Policy) -> Account:
    """`run`, asking this dispatcher; `policy` is who is named when it fails."""
    if dispatcher.fault:  # the rule decides everything, inside the engine's loop
        account = _run_compiled(plan, world, dispatcher.fallback)
        return Account(account.decisions, {dispatcher.fault.reason.value: account.decisions})
    handle, clock = Handle(plan, [world]), world.clock[0]
    handle.advance(AT_DECIDE)
    while handle.codes[0] == DECIDE:
        first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
        u = uniform(int(clock["seed"]), POLICY, i, 0)
        snapshot = world.requests[i : i + 1], world.candidates[first:last], world.excluded[first:last]
        handle.chosen[0] = dispatcher.decide(*snapshot, u)
        handle.advance(AT_DECIDE)
    _check(world, policy, handle.codes[0])
    return Account(dispatcher.decisions, _by_reason(dispatcher.fallbacks))


def selector_sizes(plan: Plan) -> tuple[int, float]:
    """What a Selector must know of a plan: how many nodes there are and how long a window is, in ms."""
    return plan.links.shape[1], float(plan.rules["window_ms"][0])


def run_selector(plan: Plan, world: World, selector: Selector) -> Account:
    """`run`, asking this selector as the gym does: before the first window and where something may arrive behind it."""
    handle = Handle(plan, [world], [_pointer(rule) for rule in selector.rules])
    view = WindowView(plan, selector.nodes, selector.mix)
    stats = np.zeros((1, view.features), np.float32)
    active: list[str] = []
    while handle.codes[0] in (DECIDE, WINDOW):
        view.observe(handle, stats)
        handle.chosen[:] = selector.select(stats)
        rule = selector.rules[handle.chosen[0]]
        active.append(rule.name)
        _advance(handle, AT_WINDOW | INTO_DRAIN, rule)
        _check(world, rule, handle.codes[0])
    return Account(selector.decisions, _by_reason(selector.fallbacks), active)


def _by_reason(fallbacks: Mapping[Fallback, int]) -> dict[str, int]:
    return {reason.value: fallbacks[reason] for reason in Fallback if reason in fallbacks}


def _pointer(policy: Policy) -> Any:
    try:
        return policy.compiled
    except Exception as error:  # Numba has many ways to say no
        hint = nearest(str(error.args[0]), _FIELDS) if isinstance(error, KeyError) else ""
        raise PolicyError(f"policy {policy.name!r} does not compile: {one_line(error)}{hint}") from error


def _advance(handle: Handle, stops: int, policy: Policy) -> None:
    try:
        handle.advance(stops)
    except (Exception, SystemExit) as error:  # whatever the policy's code raises
        raise PolicyError(f"policy {policy.name!r} failed: {one_line(error)}") from error


def _check(world: World, policy: Policy, code: int) -> None:
    clock = world.clock[0]
    if code == DONE and clock["finished"] + clock["rejected"] != clock["arrived"]:
        raise RuntimeError(f"the engine lost requests: {clock}")
    if code == FAULT:
        n, choice = int(clock["last"] - clock["first"]), int(clock["choice"])
        what = f"of {n} candidates" if not 0 <= choice < n else "which is excluded"
        raise PolicyError(f"policy {policy.name!r} chose index {choice}, {what}, for request {int(clock['request'])}")
