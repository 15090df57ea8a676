"""What the agents of a world of tasks want, each a task with some amounts or nothing, and how they agree.

Where several want the same task, one gets it. What is not possible counts as wanting nothing. Called by `rounds` and
the benchmarks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.policies.conflicts import prior_of, resolve
from fairlead.policies.jit import inlined
from fairlead.policies.randomness import POLICY, uniform
from fairlead.sim.tasks.engine import bit, fits, start, startable
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

NOTHING = -1


class Wishes(NamedTuple):
    """What the agents of B worlds want."""

    task: Any  # int32 (B, N): a task's number, or NOTHING; after a step, what was started
    amounts: Any  # int32 (B, N, K)
    score: Any  # float64 (B, N): how much
    prior: Any  # float64 (B, N): filled in here


def new_wishes(worlds: TaskWorlds) -> Wishes:
    """Room for the wishes of these worlds."""
    shape = worlds.queue.shape
    return Wishes(
        np.full(shape, NOTHING, np.int32), np.zeros(worlds.free.shape, np.int32), np.ones(shape), np.zeros(shape)
    )


@inlined
def agree(plan: TaskPlan, worlds: TaskWorlds, b: int, wishes: Wishes, prior: int) -> int:
    """Start what the clusters of world `b` want, each task on one of them; how many were started."""
    world, started = worlds.world[b], 0
    for n in range(wishes.task.shape[1]):
        i = wishes.task[b, n]
        if i < 0 or i >= world.arrived or not startable(plan, worlds, b, i, n, wishes.amounts[b, n]):
            wishes.task[b, n] = NOTHING
        else:
            wishes.prior[b, n] = prior_of(worlds.free[b], n, plan.minimum, worlds.task[b, i].type, prior)
    resolve(wishes.task[b], wishes.score[b], wishes.prior[b])
    for n in range(wishes.task.shape[1]):
        if wishes.task[b, n] != NOTHING:
            if start(plan, worlds, b, wishes.task[b, n], n, wishes.amounts[b, n]):
                started += 1
            else:
                wishes.task[b, n] = NOTHING
    return started


@inlined
def wish_at_random(plan: TaskPlan, worlds: TaskWorlds, b: int, wishes: Wishes, draw: int) -> None:
    """Each cluster wants one of the tasks that fit, or nothing, and amounts that are possible, all with one chance."""
    world, resources = worlds.world[b], plan.minimum.shape[1]
    for n in range(wishes.task.shape[1]):
        possible = 0
        wishes.task[b, n] = NOTHING
        u = uniform(world.seed, POLICY, draw, n)
        for choosing in range(2):  # count them, then find the one that is drawn
            left = int(u * (possible + 1)) if choosing else -1
            found, w = 0, 0
            while found < world.shown and wishes.task[b, n] == NOTHING and not (choosing and left == possible):
                i = worlds.waiting[b, w]
                w += 1
                if i < 0 or not worlds.task[b, i].seen:
                    continue
                found += 1
                if bit(worlds.task[b, i].seen, n) and fits(plan, worlds.free[b], n, worlds.task[b, i].type):
                    if not choosing:
                        possible += 1
                    elif left == 0:
                        wishes.task[b, n] = i
                    else:
                        left -= 1
        if wishes.task[b, n] == NOTHING:
            continue
        task_type = worlds.task[b, wishes.task[b, n]].type
        wishes.score[b, n] = u
        for k in range(resources):
            low = plan.minimum[task_type, k]
            high = min(plan.most[k], worlds.free[b, n, k]) if plan.elastic[k] else low
            v = uniform(world.seed, POLICY, draw, (k + 1) * 64 + n)
            wishes.amounts[b, n, k] = low + int(v * (high - low + 1))
