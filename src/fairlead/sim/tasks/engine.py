"""The engine of the world of tasks: tasks start, are resized and pre-empted; time goes on by one step.

Within a step nothing runs: placements are carried out one by one (`start`, `resize`, `preempt`, each False when it is
not possible, and then nothing has changed). `advance` then runs every task for a step, frees what is done, lets tasks
arrive and shows each cluster the earliest that wait for it. Called by `run_policy`, `proposals` and the planners.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import inlined
from fairlead.policies.randomness import TASK_NOISE, uniform
from fairlead.policies.tasks.allocations import number_of
from fairlead.sim.tasks.drawn_tasks import draw_tasks, reach_of
from fairlead.sim.tasks.speed import WHOLE, gain
from fairlead.sim.tasks.world_arrays import DONE, RUNS, WAITING, TaskPlan, TaskWorlds

_ONE = np.uint64(1)


@inlined
def bit(word: np.uint64, n: int) -> bool:
    """Whether cluster `n` is in a set."""
    return (word >> np.uint64(n)) & _ONE != 0


@inlined
def _count(counts: Any, b: int, clusters: np.uint64, by: int) -> None:
    """Add `by` to the count of each cluster of a set."""
    for n in range(counts.shape[1]):
        counts[b, n] += by * np.int32((clusters >> np.uint64(n)) & _ONE)


@inlined
def begin(plan: TaskPlan, worlds: TaskWorlds, b: int, seed: int, rate: float) -> None:
    """Put world `b` to time 0 with the workload of this seed, at so many arrivals a step."""
    world = worlds.world[b]
    world.seed, world.rate, world.tasks = seed, rate, worlds.task.shape[1]
    world.now = world.arrived = world.done = world.waiting = world.shown = world.running = 0
    world.next_change = world.alive_steps = 0
    world.stale = world.reordered = False
    for n in range(plan.capacity.shape[0]):
        worlds.queue[b, n] = worlds.seen[b, n] = 0
        link = worlds.link[b, n]
        link.bandwidth, link.latency, link.up = 1.0, 1.0, True
        for k in range(plan.capacity.shape[1]):
            worlds.free[b, n, k] = plan.capacity[n, k]
    draw_tasks(plan, worlds, b)
    _change_links(plan, worlds, b)
    _arrive(plan, worlds, b)
    _show(plan, worlds, b)


@inlined
def over(plan: TaskPlan, worlds: TaskWorlds, b: int) -> bool:
    """Whether all tasks of the world are done, or its time is up."""
    world = worlds.world[b]
    return world.done == world.tasks or world.now >= plan.rules[0].most_steps


@inlined
def fits(plan: TaskPlan, free: Any, n: int, task_type: int) -> bool:
    """Whether a cluster has the minimum of a type left; `free` is (N, K)."""
    for k in range(plan.minimum.shape[1]):
        if free[n, k] < plan.minimum[task_type, k]:
            return False
    return True


@inlined
def _possible(plan: TaskPlan, task_type: int, amounts: Any, k: int, most: int) -> bool:
    """Whether a task of this type may have these amounts of resource `k`, of which `most` are there."""
    least = plan.minimum[task_type, k]
    highest = min(plan.most[k], most) if plan.elastic[k] else least
    return least <= amounts[k] <= highest and amounts[k] <= most


@inlined
def startable(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, n: int, amounts: Any) -> bool:
    """Whether a task that has arrived can start on cluster `n` with these amounts (K,)."""
    task = worlds.task[b, i]
    if task.state != WAITING or not bit(task.seen, n):
        return False
    for k in range(plan.minimum.shape[1]):
        if not _possible(plan, task.type, amounts, k, worlds.free[b, n, k]):
            return False
    return True


@inlined
def start(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, n: int, amounts: Any) -> bool:
    """Start task `i` on cluster `n` with these amounts (K,)."""
    world = worlds.world[b]
    if i < 0 or i >= world.arrived or n < 0 or n >= plan.capacity.shape[0]:
        return False
    task = worlds.task[b, i]
    if not startable(plan, worlds, b, i, n, amounts):
        return False
    _grant(plan, worlds, b, i, n, amounts)
    _count(worlds.queue, b, task.reach, -1)
    _count(worlds.seen, b, task.seen, -1)
    task.seen = np.uint64(0)
    if task.started < 0:
        task.started = world.now
    task.switched, task.cluster, task.state = task.executed > 0, n, RUNS
    worlds.waiting[b, _place_of(worlds.waiting, b, world.waiting, i)] = -1
    worlds.running[b, world.running] = i
    world.running += 1
    world.shown -= 1
    world.stale = True
    return True


@inlined
def _place_of(waiting: Any, b: int, length: int, i: int) -> int:
    """Where task `i` stands among those that wait."""
    for w in range(length):
        if waiting[b, w] == i:
            return w
    return -1


@inlined
def resize(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, amounts: Any) -> bool:
    """Give a running task these amounts instead of what it has."""
    if i < 0 or i >= worlds.world[b].arrived or worlds.task[b, i].state != RUNS:
        return False
    task = worlds.task[b, i]
    n = task.cluster
    for k in range(plan.minimum.shape[1]):
        if not _possible(plan, task.type, amounts, k, worlds.free[b, n, k] + worlds.amounts[b, i, k]):
            return False
    for k in range(plan.minimum.shape[1]):
        worlds.free[b, n, k] += worlds.amounts[b, i, k]
        task.switched |= amounts[k] != worlds.amounts[b, i, k] and task.executed > 0
    _grant(plan, worlds, b, i, n, amounts)
    return True


@inlined
def preempt(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int) -> bool:
    """Send a running task back to the queues of the clusters that it reaches. Clusters see it when time goes on."""
    world = worlds.world[b]
    if i < 0 or i >= world.arrived or worlds.task[b, i].state != RUNS:
        return False
    task = worlds.task[b, i]
    for k in range(plan.minimum.shape[1]):
        worlds.free[b, task.cluster, k] += worlds.amounts[b, i, k]
        worlds.amounts[b, i, k] = 0
    task.state, task.cluster, task.allocation = WAITING, -1, 0
    task.reach = reach_of(plan, worlds, b, i)
    place = _place_of(worlds.running, b, world.running, i)
    for r in range(place, world.running - 1):
        worlds.running[b, r] = worlds.running[b, r + 1]
    world.running -= 1
    _drop_started(worlds, b)
    _wait(worlds, b, i)
    world.stale = world.reordered = True
    return True


@inlined
def _grant(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, n: int, amounts: Any) -> None:
    for k in range(plan.minimum.shape[1]):
        worlds.amounts[b, i, k] = amounts[k]
        worlds.free[b, n, k] -= amounts[k]
    worlds.task[b, i].allocation = number_of(amounts, plan.most, plan.elastic)


@inlined
def advance(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """Let a step of time pass."""
    world = worlds.world[b]
    world.alive_steps += world.arrived - world.done
    if world.now < worlds.history.shape[1]:
        _note(plan, worlds, b)
    _run_step(plan, worlds, b)
    world.now += 1
    _change_links(plan, worlds, b)
    if world.stale:
        _drop_started(worlds, b)
    _arrive(plan, worlds, b)
    if world.stale:
        _show(plan, worlds, b)


@inlined
def _note(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    world = worlds.world[b]
    worlds.history[b, world.now, 0] = world.arrived - world.done
    for k in range(plan.capacity.shape[1]):
        given = 0
        for n in range(plan.capacity.shape[0]):
            given += plan.capacity[n, k] - worlds.free[b, n, k]
        worlds.history[b, world.now, 1 + k] = given


@inlined
def _run_step(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """A step of every running task; those that are done free what they had."""
    world, rules = worlds.world[b], plan.rules[0]
    kept = 0
    for r in range(world.running):
        i = worlds.running[b, r]
        task = worlds.task[b, i]
        made = gain(plan, task.type, task.allocation, task.progress)
        if task.switched:
            made *= rules.switching
            task.switched = False
            task.restarts += 1
        if rules.noise > 0.0:
            made += (uniform(world.seed, TASK_NOISE, i, task.executed) - 0.5) * rules.noise
        task.progress += max(made, 0.0)
        task.executed += 1
        for k in range(plan.minimum.shape[1]):
            task.service += worlds.amounts[b, i, k] * plan.main[k]
        if task.progress < WHOLE:
            worlds.running[b, kept] = i
            kept += 1
            continue
        task.state, task.finished = DONE, world.now + 1
        world.done += 1
        for k in range(plan.minimum.shape[1]):
            worlds.free[b, task.cluster, k] += worlds.amounts[b, i, k]
    world.running = kept


@inlined
def _drop_started(worlds: TaskWorlds, b: int) -> None:
    """Close the gaps that started tasks have left among those that wait."""
    world = worlds.world[b]
    kept = 0
    for w in range(world.waiting):
        if worlds.waiting[b, w] >= 0:
            worlds.waiting[b, kept] = worlds.waiting[b, w]
            kept += 1
    world.waiting = kept


@inlined
def _arrive(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    world = worlds.world[b]
    while world.arrived < world.tasks and worlds.task[b, world.arrived].arrival <= world.now:
        i = world.arrived
        world.arrived += 1
        worlds.task[b, i].state = WAITING
        worlds.task[b, i].reach = reach_of(plan, worlds, b, i)
        _wait(worlds, b, i)
        world.stale = True


@inlined
def _wait(worlds: TaskWorlds, b: int, i: int) -> None:
    """Put a task among those that wait, which stand by arrival."""
    world = worlds.world[b]
    w = world.waiting
    while w > 0 and worlds.waiting[b, w - 1] > i:
        worlds.waiting[b, w] = worlds.waiting[b, w - 1]
        w -= 1
    worlds.waiting[b, w] = i
    world.waiting += 1
    _count(worlds.queue, b, worlds.task[b, i].reach, 1)


@inlined
def _change_links(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """Bring links to where they are now; whom waiting tasks reach then is looked up again."""
    world, before = worlds.world[b], worlds.world[b].next_change
    while world.next_change < len(plan.changes) and plan.changes[world.next_change].at <= world.now:
        change = plan.changes[world.next_change]
        worlds.link[b, change.cluster] = change.state
        world.next_change += 1
    if world.next_change == before:
        return
    for n in range(worlds.queue.shape[1]):
        worlds.queue[b, n] = 0
    for w in range(world.waiting):
        i = worlds.waiting[b, w]
        if i >= 0:
            worlds.task[b, i].reach = reach_of(plan, worlds, b, i)
            _count(worlds.queue, b, worlds.task[b, i].reach, 1)
    world.stale = world.reordered = True


@inlined
def _show(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """Show each cluster the earliest tasks that wait for it.

    A cluster only ever comes to see later tasks, so those behind the last that is shown were never seen; but for what
    pre-emption and links have changed.
    """
    world, most = worlds.world[b], plan.rules[0].pending
    clusters = plan.capacity.shape[0]
    for n in range(clusters):
        worlds.seen[b, n] = 0
    if world.reordered:
        for w in range(world.waiting):
            worlds.task[b, worlds.waiting[b, w]].seen = np.uint64(0)
    world.shown, w = 0, 0
    everyone = ~np.uint64(0) >> np.uint64(64 - clusters)
    full = np.uint64(0)
    while w < world.waiting and full != everyone:
        task = worlds.task[b, worlds.waiting[b, w]]
        w += 1
        task.seen = task.reach & ~full
        for n in range(clusters):
            worlds.seen[b, n] += np.int32((task.seen >> np.uint64(n)) & _ONE)
            full |= np.uint64(worlds.seen[b, n] >= most) << np.uint64(n)
        world.shown += 1 if task.seen else 0
    world.stale = world.reordered = False
