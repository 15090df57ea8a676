"""Allocates worlds of tasks, many at once, and begins them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import inlined, jit
from fairlead.sim.tasks.engine import begin
from fairlead.sim.tasks.plan import most_running
from fairlead.sim.tasks.world_arrays import LINK_STATE, TASK, WORLD, TaskPlan, TaskWorlds


def new_worlds(plan: TaskPlan, seeds: Any, rate: float | None = None, history: int = 0) -> TaskWorlds:
    """A world at time 0 for each seed; `rate` in the place of the scenario's arrivals a step.

    Of the first `history` steps they keep how many tasks are alive and what is given out.
    """
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
        history=np.zeros((b, history, 1 + k), np.int32),
    )
    begin_all(plan, worlds, seeds, float(plan.rules["rate"][0]) if rate is None else rate)
    return worlds


@jit
def begin_all(plan: TaskPlan, worlds: TaskWorlds, seeds: Any, rate: float) -> None:
    """Put every world to time 0."""
    for b in range(len(seeds)):
        begin(plan, worlds, b, seeds[b], rate)


def like(worlds: TaskWorlds) -> TaskWorlds:
    """Room for a copy of one such world, without its history."""
    made = TaskWorlds(*(np.zeros((1, *array.shape[1:]), array.dtype) for array in worlds))
    return made._replace(history=made.history[:, :0].copy())


@inlined
def copy_world(worlds: TaskWorlds, b: int, copy: TaskWorlds) -> None:
    """Bring the one world of `copy` to where world `b` is."""
    world = worlds.world[b]
    copy.world[0] = world
    for i in range(world.tasks):
        copy.task[0, i] = worlds.task[b, i]
        for k in range(copy.amounts.shape[2]):
            copy.amounts[0, i, k] = worlds.amounts[b, i, k]
    for w in range(world.waiting):
        copy.waiting[0, w] = worlds.waiting[b, w]
    for r in range(world.running):
        copy.running[0, r] = worlds.running[b, r]
    for n in range(copy.queue.shape[1]):
        copy.queue[0, n], copy.seen[0, n], copy.link[0, n] = worlds.queue[b, n], worlds.seen[b, n], worlds.link[b, n]
        for k in range(copy.free.shape[2]):
            copy.free[0, n, k] = worlds.free[b, n, k]
