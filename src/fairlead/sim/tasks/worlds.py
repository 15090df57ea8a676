"""Allocates worlds of tasks, many at once, and begins them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import jit
from fairlead.sim.tasks.engine import begin
from fairlead.sim.tasks.layout import LINK_STATE, TASK, WORLD, TaskPlan, TaskWorlds
from fairlead.sim.tasks.plan import most_running


def new_worlds(plan: TaskPlan, seeds: Any, rate: float | None = None) -> TaskWorlds:
    """A world at time 0 for each seed; `rate` in the place of the scenario's arrivals a step."""
    seeds = np.asarray(seeds, np.int64)
    b, t, (n, k) = len(seeds), int(plan.rules["tasks"][0]), plan.capacity.shape
    worlds = TaskWorlds(
        world=np.zeros(b, WORLD),
        task=np.zeros((b, t), TASK),
        amounts=np.zeros((b, t, k), np.int32),
        waiting=np.zeros((b, t), np.int32),
        running=np.zeros((b, most_running(plan)), np.int32),
        free=np.zeros((b, n, k), np.int32),
        queue=np.zeros((b, n), np.int32),
        seen=np.zeros((b, n), np.int32),
        link=np.zeros((b, n), LINK_STATE),
    )
    begin_all(plan, worlds, seeds, float(plan.rules["rate"][0]) if rate is None else rate)
    return worlds


@jit
def begin_all(plan: TaskPlan, worlds: TaskWorlds, seeds: Any, rate: float) -> None:
    """Put every world to time 0."""
    for b in range(len(seeds)):
        begin(plan, worlds, b, seeds[b], rate)
