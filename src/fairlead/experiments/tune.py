"""Tunes the rule of a scenario of tasks: the best of a family, on workloads that no comparison uses.

For every order of types (none first, or one of them) and both packings, types are gone through in turn: of each elastic
resource all amounts that a task could want, each with all least amounts, are tried while the rest stays; until a round
changes nothing. A change counts when it gains a thousandth at least, so that chance does not lead astray. `fairlead
tune` calls it; comparisons use seeds below 2^31, tuning those above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from fairlead.domain.task_facts import TaskFacts
from fairlead.domain.tasks import TaskScenario, TunedRule
from fairlead.measure.statistics import Estimate, estimate, paired_difference
from fairlead.policies.tasks.tuned_rule import parameters, tuned_rule
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.run_policy import run_tasks
from fairlead.sim.tasks.worlds import begin_all, new_worlds

FIRST_SEED: Final = 2**31 + 1_000_000
_MOST_ROUNDS: Final = 4
_LEAST_GAIN: Final = 1e-3

Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True)
class Tuned:
    """What was found: the rule, its completion time in steps, and how much less that is than with the rule before."""

    rule: TunedRule
    steps: Estimate
    gain: Estimate | None  # None: the scenario had none
    tried: int


class _Trials:
    """Completion times of rules on the same workloads, each rule run once."""

    def __init__(self, scenario: TaskScenario, workloads: int) -> None:
        self.scenario, self.plan = scenario, build_task_plan(scenario)
        self.facts = facts_of(scenario, self.plan)
        self.seeds = np.arange(FIRST_SEED, FIRST_SEED + workloads)
        self.worlds = new_worlds(self.plan, self.seeds)
        self.known: dict[bytes, list[float]] = {}

    def steps(self, rule: TunedRule) -> list[float]:
        """The mean completion time on each workload."""
        given = parameters(replace(self.facts, tuned_rule=rule))
        key = given.tobytes()
        if key not in self.known:
            begin_all(self.plan, self.worlds, self.seeds, self.scenario.workload.rate_per_step)
            run_tasks(self.plan, self.worlds, tuned_rule, given)
            self.known[key] = (self.worlds.world["alive_steps"] / self.scenario.workload.tasks).tolist()
        return self.known[key]

    def mean(self, rule: TunedRule) -> float:
        """The same over all workloads."""
        return math.fsum(self.steps(rule)) / len(self.seeds)


def tune(scenario: TaskScenario, workloads: int, progress: Progress = lambda done, total: None) -> Tuned:
    """The best rule of the family."""
    trials = _Trials(scenario, workloads)
    by = trials.facts.resources[np.flatnonzero(trials.plan.main)[0]]
    orders: list[tuple[str, ...]] = [(), *((name,) for name in scenario.types)]
    packings: tuple[Literal["best", "worst"], ...] = ("best", "worst")
    places = [(first, packing) for first in orders for packing in packings]
    found = []
    for done, (first, packing) in enumerate(places):
        progress(done, len(places))
        start = TunedRule(by=by, first=first, packing=packing, wanted={}, least={}, source="fairlead tune")
        found.append(_descend(trials, start))
    progress(len(places), len(places))
    best = min(found, key=trials.mean)
    steps = trials.steps(best)
    before = scenario.tuned_rule
    gain = paired_difference(trials.steps(before), steps) if before is not None else None
    return Tuned(best, estimate(steps), gain, len(trials.known))


def _descend(trials: _Trials, rule: TunedRule) -> TunedRule:
    facts = trials.facts
    places = [(j, int(k)) for j in range(len(facts.types)) for k in np.flatnonzero(facts.elastic)]
    for _ in range(_MOST_ROUNDS):
        before = rule
        for j, k in places:
            task_type, name = facts.types[j], facts.resources[k]
            tried = [_with(rule, task_type, name, *way) for way in _ways(facts, j, k, name == rule.by)]
            best = min(tried, key=trials.mean)
            if trials.mean(best) < (1.0 - _LEAST_GAIN) * trials.mean(rule):
                rule = best
        if rule == before:
            break
    return rule


def _ways(facts: TaskFacts, j: int, k: int, thorough: bool) -> list[tuple[int, int]]:
    """What tasks of a type could want of a resource, with the least amounts that go with it: all, or the ends."""
    low, high = max(1, int(facts.minimum[j, k])), int(facts.most[k])
    return [(w, n) for w in range(low, high + 1) for n in (range(low, w + 1) if thorough else sorted({low, w}))]


def _with(rule: TunedRule, task_type: str, name: str, wanted: int, least: int) -> TunedRule:
    def put(table: Any, amount: int) -> dict[str, dict[str, int]]:
        return {**table, task_type: {**table.get(task_type, {}), name: amount}}

    return replace(rule, wanted=put(rule.wanted, wanted), least=put(rule.least, least))
