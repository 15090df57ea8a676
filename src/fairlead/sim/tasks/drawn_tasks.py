"""Draws a world's tasks: when they arrive, what they are, whom they can reach.

Every draw is a hash of the seed and the task's number, so it is the same whatever a policy does, and links can be drawn
again when they change.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairlead.policies.jit import inlined
from fairlead.policies.randomness import TASK_GAP, TASK_REACH, TASK_TYPE, exponential, uniform
from fairlead.sim.tasks.world_arrays import FUTURE, TaskPlan, TaskWorlds

_ONE = np.uint64(1)
_NEVER: Final = 2.0**31 - 1.0  # a step that no episode reaches, and the last that can be written


@inlined
def draw_tasks(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """Fill the tasks of world `b`, whose seed, rate and number of tasks are set."""
    world = worlds.world[b]
    time = 0.0
    for i in range(world.tasks):
        task = worlds.task[b, i]
        time += exponential(world.seed, TASK_GAP, i, 0) / world.rate
        task.type, task.arrival = _type(plan, world.seed, i), int(min(time, _NEVER))
        task.progress = task.service = 0.0
        task.reach = task.seen = np.uint64(0)
        task.started = task.finished = task.cluster = -1
        task.executed = task.restarts = task.allocation = 0
        task.state, task.switched = FUTURE, False


@inlined
def _type(plan: TaskPlan, seed: int, i: int) -> int:
    u = uniform(seed, TASK_TYPE, i, 0)
    task_type = 0
    while task_type < len(plan.shares) - 1 and u >= plan.shares[task_type]:
        task_type += 1
    return task_type


@inlined
def reach_of(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int) -> np.uint64:
    """The clusters that task `i` of world `b` reaches as links are now, and may use."""
    allowed = plan.allowed[worlds.task[b, i].type]
    if plan.rules[0].links:
        return _by_links(plan, worlds, b, i, allowed)
    return _subset(plan, worlds, b, i, allowed)


@inlined
def _subset(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, allowed: np.uint64) -> np.uint64:
    """A number from 1 to all, then each set of that size with the same chance (selection sampling)."""
    seed, clusters = worlds.world[b].seed, plan.capacity.shape[0]
    left = 0
    for n in range(clusters):
        left += 1 if allowed >> np.uint64(n) & _ONE else 0
    wanted = 1 + int(uniform(seed, TASK_REACH, i, 0) * left)
    reach = np.uint64(0)
    for n in range(clusters):
        if allowed >> np.uint64(n) & _ONE:
            if uniform(seed, TASK_REACH, i, 1 + n) * left < wanted:
                wanted -= 1
                if worlds.link[b, n].up:
                    reach |= _ONE << np.uint64(n)
            left -= 1
    return reach


@inlined
def _by_links(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, allowed: np.uint64) -> np.uint64:
    """The clusters behind good links; when none was good as it was drawn, the one of most bandwidth counts as good."""
    rules, seed = plan.rules[0], worlds.world[b].seed
    reach, any_good, best, widest = np.uint64(0), False, 0, -1.0
    for n in range(plan.capacity.shape[0]):
        if not allowed >> np.uint64(n) & _ONE:
            continue
        bandwidth = rules.bandwidth_low + rules.bandwidth_span * uniform(seed, TASK_REACH, i, 2 * n)
        latency = rules.latency_low + rules.latency_span * uniform(seed, TASK_REACH, i, 2 * n + 1)
        if bandwidth > widest:
            best, widest = n, bandwidth
        any_good |= bandwidth >= rules.least_bandwidth and latency <= rules.most_latency
        link = worlds.link[b, n]
        good = bandwidth * link.bandwidth >= rules.least_bandwidth and latency * link.latency <= rules.most_latency
        if good and link.up:
            reach |= _ONE << np.uint64(n)
    if not any_good and worlds.link[b, best].up:
        reach |= _ONE << np.uint64(best)
    return reach


@inlined
def draw_later(plan: TaskPlan, worlds: TaskWorlds, b: int, seed: int) -> None:
    """Give the world another future: tasks that have not arrived, and all noise, from another seed.

    Links stay as they are, so it is not drawn again which clusters arrived tasks reach, which would use that seed.
    """
    world = worlds.world[b]
    world.seed, world.next_change = seed, len(plan.changes)
    time = world.now + 1.0  # what comes before has arrived
    for i in range(world.arrived, world.tasks):
        time += exponential(seed, TASK_GAP, i, 0) / world.rate
        worlds.task[b, i].type = _type(plan, seed, i)
        worlds.task[b, i].arrival = int(min(time, _NEVER))
