"""A piece of the world of tasks: one scenario and one seed, which every policy runs on."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.tasks import TaskScenario
from fairlead.experiments.bounds.tasks import completion_bound, has_bound
from fairlead.experiments.piece import Figures, Piece, PieceResult
from fairlead.experiments.task_detail import task_detail
from fairlead.policies.tasks.learned import LearnedTaskPolicy
from fairlead.sim.tasks.catalog import find_task_policy
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.host import run_tasks
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.summary import summarise
from fairlead.sim.tasks.worlds import begin_all, new_worlds


def run_task_piece(piece: Piece) -> PieceResult:
    """Run one piece. A policy that fails is noted, the others go on."""
    scenario = piece.scenario
    assert isinstance(scenario, TaskScenario)
    plan = build_task_plan(scenario)
    worlds = new_worlds(plan, [piece.seed], history=scenario.rules.most_steps)
    facts = facts_of(scenario, plan)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in piece.policies:
        policy = find_task_policy(name)
        worlds.history[...] = 0
        begin_all(plan, worlds, np.array([piece.seed]), scenario.workload.rate_per_step)
        try:
            run_tasks(plan, worlds, policy, policy.parameters(facts))
        except (PolicyError, UserError) as error:  # it went wrong, or lacks what it needs of the scenario
            at = "" if piece.label == scenario.name else f" at {piece.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {piece.seed})"
            continue
        learned = policy.placer.account() if isinstance(policy, LearnedTaskPolicy) else {}
        fell_back = sum(learned["fallbacks"].values()) / max(1, learned["decisions"]) if learned else 0.0
        figures[name] = summarise(scenario, plan, worlds, 0) | {"fallback_share": fell_back}
        details[name] = task_detail(scenario, plan, worlds) | ({"learned": learned} if learned else {})
    whole = all(found["unfinished"] == 0 for found in figures.values())  # what is cut can be below it
    bound = completion_bound(plan, worlds, 0) if piece.bounded and whole and has_bound(scenario) else None
    return PieceResult(piece.label, piece.seed, figures, failures, details, bound)
