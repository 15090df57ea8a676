"""A trial of the world of serving: one scenario and one seed, whose workload is drawn once for all policies."""

from __future__ import annotations

from typing import Any

from fairlead.domain.errors import PolicyError
from fairlead.domain.scenario import Scenario
from fairlead.experiments.bounds.serving import success_bound
from fairlead.experiments.detail import detail, learned
from fairlead.experiments.trial import Figures, Trial, TrialResult
from fairlead.policies.interface import find
from fairlead.sim.serving.host import run
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.summary import summarise
from fairlead.sim.serving.workload import make_workload
from fairlead.sim.serving.world import new_world, reset


def run_serving_trial(trial: Trial) -> TrialResult:
    """Run one trial. A policy that fails is noted, the others go on."""
    scenario = trial.scenario
    assert isinstance(scenario, Scenario)
    plan, workload = build_plan(scenario), make_workload(scenario, trial.seed)
    world = new_world(plan, workload)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in trial.policies:
        reset(plan, world, workload)
        try:
            account = run(plan, world, policy := find(name))
        except PolicyError as error:
            at = "" if trial.label == scenario.name else f" at {trial.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {trial.seed})"
            continue
        figures[name] = summarise(scenario, plan, world) | {"fallback_share": account.fallback_share}
        details[name] = detail(scenario, plan, world)
        if policy.kind in ("batch", "selector"):
            details[name]["learned"] = learned(scenario, account)
    bound = success_bound(plan, workload) if trial.bounded else None
    return TrialResult(trial.label, trial.seed, figures, failures, details, bound)
