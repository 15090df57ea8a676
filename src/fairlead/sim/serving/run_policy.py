"""Runs a policy in a world: compiled rules inside the engine's loop, all others at its stops.

`simulate` is the short way for users; `experiments` calls `run` on worlds that it reuses, and `run_decider` where it
watches a learned policy. Policies get no way to change the world, and whatever they do wrong
becomes a PolicyError that names them. Learned policies don't look at a clock here: results would depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.decision import Decision, RequestSnapshot, WindowSnapshot
from fairlead.domain.decision_log import DecisionLog, LoggedPolicy, decided, fallback_code
from fairlead.domain.outcomes import Fallback
from fairlead.domain.scenario import Scenario
from fairlead.measure.decision_log_file import write_log
from fairlead.measure.serving_figures import serving_figures
from fairlead.policies.decider import Decider, Setting, compiled_rule
from fairlead.policies.guard import Guard, check_choice
from fairlead.policies.interface import Policy, find
from fairlead.policies.randomness import POLICY, uniform
from fairlead.sim.serving.decision_account import Account
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.log import decision_log
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.window_view import WindowView
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import AT_DECIDE, AT_WINDOW, DECIDE, DONE, FAULT, INTO_DRAIN, WINDOW, Plan, World


@dataclass(frozen=True)
class Run:
    """One finished run."""

    requests: Any = field(repr=False)  # REQUEST (R,)
    rows: Any = field(repr=False)  # DECISION (R,): what became of each
    windows: Any = field(repr=False)  # WINDOW (W,)
    dispatched: Any = field(repr=False)  # int64 (W, nodes): requests sent to each node in each window
    account: Account = field(repr=False)
    figures: dict[str, float]
    log: DecisionLog = field(repr=False)  # requests and rows with all that is needed to read them

    def write_log(self, path: str | Path) -> None:
        """Write the log as a Parquet file (needs pyarrow)."""
        write_log(self.log, Path(path))


def simulate(scenario: Scenario, policy: str | Policy, seed: int = 0, exclusions: bool = False) -> Run:
    """Draw the workload of `seed` and run it to its end under the policy (of that name, or at that path).

    With `exclusions` the log also has the candidates of each request, with why some were excluded, and how likely the
    choices of rules that draw were: these are then asked one request at a time. Under a selector they are not, and how
    likely their choices were is unknown (NaN) even then.
    """
    plan, workload = build_plan(scenario), make_workload(scenario, seed)
    world = new_world(plan, workload, exclusions=exclusions)
    found = find(policy) if isinstance(policy, str) else policy
    account = run(plan, world, found)
    log = decision_log(scenario, plan, world, found, account)
    return Run(log.requests, log.rows, world.windows, world.dispatched, account, serving_figures(log), log)


def run(plan: Plan, world: World, policy: Policy) -> Account:
    """Run the world to its end under `policy`. Raises PolicyError, which names the policy, when that fails."""
    return run_decider(plan, world, policy.decider(setting_of(plan)))


def setting_of(plan: Plan) -> Setting:
    """What a decider must know of a plan."""
    return Setting(plan.links.shape[1], float(plan.rules["window_ms"][0]))


def run_decider(plan: Plan, world: World, decider: Decider) -> Account:
    """`run`, asking this decider: about each request, unless it has rules for the engine to call by itself.

    One that is told of windows is told as in the gym: before the first, and where something may arrive behind it. A
    rule that draws is asked, too, where a full log is kept: afterwards it is unknown how likely its choices were.
    """
    draws = any(rule.draws for rule in decider.rules) and not decider.windows
    rules = () if draws and len(world.exclusions) else decider.rules
    handle, clock = Handle(plan, [world], [compiled_rule(rule) for rule in rules], decider.foresees), world.clock[0]
    stops = (0 if rules else AT_DECIDE) | (AT_WINDOW | INTO_DRAIN if decider.windows else 0)
    view = WindowView(plan, decider.nodes, decider.mix) if decider.windows else None
    stats = np.zeros((1, view.features if view else 0), np.float32)
    asked, picked = list[Decision](), list[tuple[float, Decision]]()  # about requests; about windows, from when on
    while handle.codes[0] in (DECIDE, WINDOW):
        if view:
            view.observe(handle, stats)
            picked.append((float(clock["now_ms"]), decider.decide(WindowSnapshot(stats))))
        if rules:
            handle.chosen[0] = decider.active
        elif clock["waiting"]:
            first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
            shown = world.requests[i : i + 1], world.candidates[first:last], world.excluded[first:last]
            u = uniform(int(clock["seed"]), POLICY, i, 0)
            asked.append(decider.decide(RequestSnapshot(*shown, first=first), u))
            handle.chosen[0] = asked[-1].choice
        rule = rules[decider.active] if rules else None
        who = rule.name if rule else decider.name
        with Guard(who, rule.function if rule else None):
            handle.advance(stops)
        _check(world, who, handle.codes[0])
    if rules:
        decider.decided(int(clock["decisions"]))
    return _account(world, decider, rules, asked, picked)


def _account(
    world: World,
    decider: Decider,
    called: Sequence[Policy],
    asked: list[Decision],
    picked: list[tuple[float, Decision]],
) -> Account:
    """Who decided each request, how likely that was, and why a rule had to; `called` are rules that were not asked."""
    count, reasons = decider.decisions, _by_reason(decider.fallbacks)
    if not called:
        who = list(dict.fromkeys((d.policy, d.hash) for d in asked))
        return Account(
            count,
            reasons,
            policies=[LoggedPolicy(*names) for names in who],
            decided_by=np.array([who.index((d.policy, d.hash)) for d in asked], np.int64),
            probability=np.array([d.probability for d in asked]),
            fallback=np.array([fallback_code(d.fallback) for d in asked], np.int64),
        )
    rules = list(dict.fromkeys(called))  # the fallback rule may be one of the others, too
    policies = [LoggedPolicy(rule.name, rule.hash) for rule in rules]
    certain = np.array([math.nan if rule.draws else 1.0 for rule in rules])
    if not picked:
        why = fallback_code(next(iter(decider.fallbacks), None))
        return Account(count, reasons, policies=policies, probability=certain[0], fallback=why)
    active = [rules.index(called[d.choice]) for _, d in picked]
    times_ms = world.rows["time_ms"][decided(world.rows)]
    window = np.searchsorted([from_ms for from_ms, _ in picked], times_ms, side="right") - 1
    by_rule = np.array(active)[window]
    return Account(
        count,
        reasons,
        [rules[rule].name for rule in active],
        policies=policies,
        decided_by=by_rule,
        probability=certain[by_rule],
        fallback=np.array([fallback_code(d.fallback) for _, d in picked])[window],
    )


def _by_reason(fallbacks: Mapping[Fallback, int]) -> dict[str, int]:
    return {reason.value: fallbacks[reason] for reason in Fallback if reason in fallbacks}


def _check(world: World, policy: str, code: int) -> None:
    clock = world.clock[0]
    if code == DONE and clock["finished"] + clock["rejected"] != clock["arrived"]:
        raise RuntimeError(f"the engine lost requests: {clock}")
    if code == FAULT:
        excluded = world.excluded[int(clock["first"]) : int(clock["last"])]
        check_choice(policy, int(clock["choice"]), excluded, int(clock["request"]))
