"""A trial of the world of tasks: one scenario and one seed, which every policy runs on."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.tasks import TaskScenario
from fairlead.experiments.bounds.tasks import completion_bound, has_bound
from fairlead.experiments.task_bins import task_detail
from fairlead.experiments.trial import Figures, Trial, TrialResult
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.policy_catalog import find_task_policy
from fairlead.sim.tasks.run_policy import run_tasks
from fairlead.sim.tasks.summary import summarise
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds
from fairlead.sim.tasks.worlds import begin_all, new_worlds


def run_task_trial(trial: Trial) -> TrialResult:
    """Run one trial. A policy that fails is noted, the others go on."""
    scenario = trial.scenario
    assert isinstance(scenario, TaskScenario)
    ours = _room(trial, scenario)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in trial.policies:
        policy = find_task_policy(name)
        plan, worlds = ours if policy.package in ("fairlead", "") else _room(trial, scenario)
        worlds.history[...] = 0
        begin_all(plan, worlds, np.array([trial.seed]), scenario.workload.rate_per_step)
        try:
            decider = run_tasks(plan, worlds, policy, policy.parameters(facts_of(scenario, plan)))
        except (PolicyError, UserError) as error:  # it went wrong, or lacks what it needs of the scenario
            at = "" if trial.label == scenario.name else f" at {trial.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {trial.seed})"
            continue
        learned = decider.account() if decider.decisions else {}
        fell_back = decider.fallbacks.total() / max(1, decider.decisions)
        figures[name] = summarise(scenario, plan, worlds, 0) | {"fallback_share": fell_back}
        details[name] = task_detail(scenario, plan, worlds) | ({"learned": learned} if learned else {})
    whole = all(found["unfinished"] == 0 for found in figures.values())  # what is cut can be below it
    bound = completion_bound(*ours, 0) if trial.bounded and whole and has_bound(scenario) else None
    return TrialResult(trial.label, trial.seed, figures, failures, details, bound)


def _room(trial: Trial, scenario: TaskScenario) -> tuple[TaskPlan, TaskWorlds]:
    """A plan and a world. Third parties' policies, whose code could write to them, get their own."""
    plan = build_task_plan(scenario)
    return plan, new_worlds(plan, [trial.seed], history=scenario.rules.most_steps)
