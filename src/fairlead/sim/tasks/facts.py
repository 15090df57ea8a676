"""The facts of a scenario, as task policies take them. Called where policies run in the world of tasks."""

from __future__ import annotations

import numpy as np

from fairlead.domain.task_facts import TaskFacts
from fairlead.domain.tasks import TaskScenario
from fairlead.sim.tasks.plan import resource_names
from fairlead.sim.tasks.world_arrays import TaskPlan


def facts_of(scenario: TaskScenario, plan: TaskPlan) -> TaskFacts:
    """What policies know of a scenario and its plan."""
    return TaskFacts(
        name=scenario.name,
        resources=tuple(resource_names(scenario, plan)),
        role=plan.role,
        most=plan.most,
        elastic=plan.elastic,
        types=tuple(scenario.types),
        shares=np.array([task_type.share for task_type in scenario.types.values()]),
        minimum=plan.minimum,
        steps=plan.steps,
        switching=scenario.rules.switching,
        tuned_rule=scenario.tuned_rule,
    )
