"""What the agents of a world of tasks propose, each a task with some amounts or nothing, and how they agree.

Where several propose the same task, one gets it. What is not possible counts as proposing nothing. Called by `rounds`
and the benchmarks.
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


class Proposals(NamedTuple):
    """What the agents of B worlds propose."""

    task: Any  # int32 (B, N): a task's number, or NOTHING; after a step, what was started
    amounts: Any  # int32 (B, N, K)
    score: Any  # float64 (B, N): how much they want it
    prior: Any  # float64 (B, N): filled in here


def new_proposals(worlds: TaskWorlds) -> Proposals:
    """Room for the proposals of these worlds."""
    shape = worlds.queue.shape
    return Proposals(
        np.full(shape, NOTHING, np.int32), np.zeros(worlds.free.shape, np.int32), np.ones(shape), np.zeros(shape)
    )


@inlined
def agree(plan: TaskPlan, worlds: TaskWorlds, b: int, proposals: Proposals, prior: int) -> int:
    """Start what the clusters of world `b` propose, each task on one of them; how many were started."""
    world, started = worlds.world[b], 0
    for n in range(proposals.task.shape[1]):
        i = proposals.task[b, n]
        if i < 0 or i >= world.arrived or not startable(plan, worlds, b, i, n, proposals.amounts[b, n]):
            proposals.task[b, n] = NOTHING
        else:
            proposals.prior[b, n] = prior_of(worlds.free[b], n, plan.minimum, worlds.task[b, i].type, prior)
    resolve(proposals.task[b], proposals.score[b], proposals.prior[b])
    for n in range(proposals.task.shape[1]):
        if proposals.task[b, n] != NOTHING:
            if start(plan, worlds, b, proposals.task[b, n], n, proposals.amounts[b, n]):
                started += 1
            else:
                proposals.task[b, n] = NOTHING
    return started


@inlined
def propose_at_random(plan: TaskPlan, worlds: TaskWorlds, b: int, proposals: Proposals, draw: int) -> None:
    """Each cluster proposes one of the tasks that fit, or nothing, with possible amounts, all equally likely."""
    world, resources = worlds.world[b], plan.minimum.shape[1]
    for n in range(proposals.task.shape[1]):
        possible = 0
        proposals.task[b, n] = NOTHING
        u = uniform(world.seed, POLICY, draw, n)
        for choosing in range(2):  # count them, then find the one that is drawn
            left = int(u * (possible + 1)) if choosing else -1
            found, w = 0, 0
            while found < world.shown and proposals.task[b, n] == NOTHING and not (choosing and left == possible):
                i = worlds.waiting[b, w]
                w += 1
                if i < 0 or not worlds.task[b, i].seen:
                    continue
                found += 1
                if bit(worlds.task[b, i].seen, n) and fits(plan, worlds.free[b], n, worlds.task[b, i].type):
                    if not choosing:
                        possible += 1
                    elif left == 0:
                        proposals.task[b, n] = i
                    else:
                        left -= 1
        if proposals.task[b, n] == NOTHING:
            continue
        task_type = worlds.task[b, proposals.task[b, n]].type
        proposals.score[b, n] = u
        for k in range(resources):
            low = plan.minimum[task_type, k]
            high = min(plan.most[k], worlds.free[b, n, k]) if plan.elastic[k] else low
            v = uniform(world.seed, POLICY, draw, (k + 1) * 64 + n)
            proposals.amounts[b, n, k] = low + int(v * (high - low + 1))
