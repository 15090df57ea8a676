"""Tunes the weights of a rule for requests, over one scenario or several, on workloads that no comparison uses.

Weights are gone through in turn: each is tried at 0 and at multiples of its value while the others stay, and a change
counts when the mean success over all scenarios gains a fiftieth of a point, so that chance does not lead astray; until
a round changes nothing. What was found is then compared with the rule as it was, on as many other workloads. `fairlead
tune` calls it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.domain.scenario import Scenario
from fairlead.experiments.tune import FIRST_SEED
from fairlead.measure.statistics import Estimate, estimate, paired_difference
from fairlead.policies.interface import Policy
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset
from fairlead.sim.serving.world_arrays import Plan

CHECK_SEED: Final = FIRST_SEED + 1_000_000  #: the first of those that the outcome is checked on
_FACTORS: Final = (0.0, 0.5, 0.75, 1.33, 2.0)
_MOST_ROUNDS: Final = 4
_LEAST_GAIN: Final = 0.02  # points

Progress = Callable[[int, str], None]  # how many sets of weights were tried, and the best so far


@dataclass(frozen=True)
class TunedWeights:
    """What was found, and the success in % of the rule before and with it on other workloads, by scenario."""

    rule: Policy
    before: dict[str, Estimate]
    success: dict[str, Estimate]
    gain: Estimate  # over all scenarios
    tried: int


class _Runs:
    """Success of a rule on the same workloads of each scenario, in %."""

    def __init__(self, scenarios: Mapping[str, Scenario], workloads: int, first_seed: int) -> None:
        self._plans = {label: build_plan(scenario) for label, scenario in scenarios.items()}
        seeds = range(first_seed, first_seed + workloads)
        self._worlds = {
            label: [_Start(plan, scenarios[label], s) for s in seeds] for label, plan in self._plans.items()
        }

    def success(self, rule: Policy) -> dict[str, list[float]]:
        """Of each workload, by scenario."""
        return {
            label: [start.success(self._plans[label], rule) for start in starts]
            for label, starts in self._worlds.items()
        }


class _Start:
    """A world that is put back to its start for each rule."""

    def __init__(self, plan: Plan, scenario: Scenario, seed: int) -> None:
        self.workload = make_workload(scenario, seed)
        self.world = new_world(plan, self.workload)

    def success(self, plan: Plan, rule: Policy) -> float:
        reset(plan, self.world, self.workload)
        run(plan, self.world, rule)
        clock = self.world.clock[0]
        return float(100.0 * clock["succeeded"] / max(1, clock["arrived"]))


def _by_workload(success: Mapping[str, list[float]]) -> list[float]:
    """Means over scenarios, workload by workload."""
    return [math.fsum(values) / len(values) for values in zip(*success.values(), strict=True)]


def tune_weights(
    scenarios: Mapping[str, Scenario], rule: Policy, workloads: int, progress: Progress = lambda tried, best: None
) -> TunedWeights:
    """The best weights of a rule for these scenarios, all of the same importance."""
    runs = _Runs(scenarios, workloads, FIRST_SEED)
    known: dict[str, float] = {}

    def mean(made: Policy) -> float:
        if made.name not in known:
            progress(len(known), best.name)
            known[made.name] = estimate(_by_workload(runs.success(made))).mean
        return known[made.name]

    best = rule
    for _ in range(_MOST_ROUNDS):
        before = best
        for weight in rule.weights:
            tried = [rule.weighted(values) for values in _ways(rule, best, weight)]
            ahead = max(tried, key=mean)
            if mean(ahead) > mean(best) + _LEAST_GAIN:
                best = ahead
        if best is before:
            break
    checks = _Runs(scenarios, workloads, CHECK_SEED)
    old, new = checks.success(rule), checks.success(best)
    gain = paired_difference(_by_workload(new), _by_workload(old))
    return TunedWeights(best, _estimates(old), _estimates(new), gain, len(known))


def _ways(rule: Policy, best: Policy, weight: str) -> list[dict[str, float]]:
    """The weights of the best, with other values of one."""
    now = best.values
    start = now[weight] or rule.values[weight] or 1.0
    values = dict.fromkeys(float(f"{factor * start:.3g}") for factor in _FACTORS)
    return [_changed(rule, {**now, weight: value}) for value in values if value != now[weight]]


def _changed(rule: Policy, values: Mapping[str, float]) -> dict[str, float]:
    return {weight: value for weight, value in values.items() if value != rule.values[weight]}


def _estimates(success: Mapping[str, list[float]]) -> dict[str, Estimate]:
    return {label: estimate(values) for label, values in success.items()}
