"""What policies share that plan all tasks anew at every step, those that run included. Not a policy itself.

    tasks = gather(snapshot)                 all tasks, by arrival
    settle(snapshot, tasks, ...)             the minimum for each, on its cluster or on the one with the most room
    ... give out what is left ...
    emit(snapshot, tasks, out)               the placements that lead from what is to what is planned

`fitted_steps` is how such schedulers know speeds: from runs before, through a curve that is fitted to them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.domain.task_facts import TaskFacts, main_resources
from fairlead.domain.task_records import PREEMPT, RESIZE, START, UNSEEN, Placements, Snapshot
from fairlead.domain.tasks import PROCESSOR
from fairlead.policies.jit import inlined, jit
from fairlead.policies.tasks.allocations import all_allocations, by_amounts, number_of, unit_of


class Tasks(NamedTuple):
    """All tasks that run or are seen, by arrival: T of them."""

    row: Any  # int64 (T,): of `running`, or of `pending`
    type: Any  # int64 (T,)
    left: Any  # float64 (T,): of its work
    was: Any  # int64 (T,): the cluster that it runs on; -1: it waits
    to: Any  # int64 (T,): the cluster that it should run on; -1: it should wait
    amounts: Any  # int32 (T, K): what it should have
    free: Any  # int32 (N, K): what is not given out


@jit
def gather(snapshot: Snapshot) -> Tasks:
    """All tasks, with nothing given out yet."""
    runs, waits = len(snapshot.running), len(snapshot.pending)
    numbers, rows = np.empty(runs + waits, np.int64), np.empty(runs + waits, np.int64)
    for r in range(runs):
        numbers[r] = snapshot.running[r].task
    for p in range(waits):
        numbers[runs + p] = snapshot.pending[p].task
    order = np.argsort(numbers)
    task_types, was, left = np.empty_like(rows), np.empty_like(rows), np.empty(len(rows))
    for t in range(len(order)):
        if order[t] < runs:
            task = snapshot.running[order[t]]
            rows[t], task_types[t], was[t], left[t] = order[t], task.type, task.cluster, task.left
        else:
            waiting = snapshot.pending[order[t] - runs]
            rows[t], task_types[t], was[t], left[t] = order[t] - runs, waiting.type, -1, waiting.left
    amounts = np.zeros((len(rows), snapshot.free.shape[1]), np.int32)
    return Tasks(rows, task_types, left, was, np.full(len(rows), -1, np.int64), amounts, snapshot.capacity.copy())


@jit
def settle(snapshot: Snapshot, tasks: Tasks, t: int, taken: Any) -> bool:
    """Give a task its minimum, where it runs or, if it waits, on the cluster with room for most of its type.

    `taken` (N,) are clusters that start no more; it is kept here, for single-task mode.
    """
    best, most = -1, 0.0
    for n in range(len(snapshot.free)):
        if tasks.was[t] >= 0:
            mine = tasks.was[t] == n
        else:
            mine = not taken[n] and not snapshot.excluded[tasks.row[t], n] & UNSEEN
        copies = np.inf
        for k in range(snapshot.free.shape[1]):
            low = snapshot.minimum[tasks.type[t], k]
            if low > 0:
                copies = min(copies, tasks.free[n, k] / low)
        if mine and copies >= 1.0 and copies > most:
            best, most = n, copies
    if best < 0:
        return False
    tasks.to[t] = best
    taken[best] |= snapshot.single and tasks.was[t] < 0
    for k in range(snapshot.free.shape[1]):
        tasks.amounts[t, k] = snapshot.minimum[tasks.type[t], k]
        tasks.free[best, k] -= tasks.amounts[t, k]
    return True


@jit
def settle_all(snapshot: Snapshot, tasks: Tasks) -> None:
    """First those that run, which always fit, then those that wait, by arrival."""
    taken = np.zeros(len(snapshot.free), np.bool_)
    for waiting in (False, True):
        for t in range(len(tasks.row)):
            if (tasks.was[t] < 0) == waiting:
                settle(snapshot, tasks, t, taken)


@inlined
def steps_with(snapshot: Snapshot, tasks: Tasks, steps: Any, t: int, more: int) -> float:
    """What is left of a task in steps, with its amounts and one unit more of resource `more` (-1: of none).

    `steps` is a table (J, A).
    """
    number = number_of(tasks.amounts[t], snapshot.most, snapshot.elastic)
    if more >= 0:
        number += unit_of(more, snapshot.most, snapshot.elastic)
    return tasks.left[t] * steps[tasks.type[t], number]


@inlined
def can_grow(snapshot: Snapshot, tasks: Tasks, t: int, k: int) -> bool:
    """Whether a unit more of a resource is free for a task, and of use to the rules."""
    n = tasks.to[t]
    return n >= 0 and snapshot.elastic[k] and tasks.free[n, k] > 0 and tasks.amounts[t, k] < snapshot.most[k]


@inlined
def grow(tasks: Tasks, t: int, k: int) -> None:
    """Give a task a unit more."""
    tasks.amounts[t, k] += 1
    tasks.free[tasks.to[t], k] -= 1


@jit
def emit(snapshot: Snapshot, tasks: Tasks, out: Placements) -> int:
    """Write the placements: what is freed first, then what needs it."""
    count = 0
    for t in range(len(tasks.row)):  # which are pre-empted
        if tasks.was[t] >= 0 and tasks.to[t] != tasks.was[t]:
            count = _write(out, count, snapshot.running[tasks.row[t]].task, tasks.was[t], PREEMPT, tasks.amounts[t])
    for growing in (False, True):  # who gets less, then who gets more
        for t in range(len(tasks.row)):
            if tasks.was[t] < 0 or tasks.to[t] != tasks.was[t]:
                continue
            has, shall = snapshot.amounts[tasks.row[t]], tasks.amounts[t]
            less, more = False, False
            for k in range(len(has)):
                less |= shall[k] < has[k]
                more |= shall[k] > has[k]
            if more if growing else less:
                count = _write(out, count, snapshot.running[tasks.row[t]].task, tasks.was[t], RESIZE, shall)
                for k in range(len(has)):
                    if not growing:
                        out.amounts[count - 1, k] = min(has[k], shall[k])
    for t in range(len(tasks.row)):
        if tasks.was[t] < 0 and tasks.to[t] >= 0:
            count = _write(out, count, snapshot.pending[tasks.row[t]].task, tasks.to[t], START, tasks.amounts[t])
    return count


@jit
def _write(out: Placements, count: int, task: int, cluster: int, what: int, amounts: Any) -> int:
    row = out.rows[count]
    row.task, row.cluster, row.what = task, cluster, what
    for k in range(len(amounts)):
        out.amounts[count, k] = amounts[k]
    return count + 1


def used(facts: TaskFacts) -> Any:
    """Which resources tasks of each type need or are faster with: bool (J, K)."""
    found = facts.minimum > 0
    table = by_amounts(facts.steps, facts.most, facts.elastic)
    for axis, k in enumerate(np.flatnonzero(facts.elastic), start=1):
        differs = table != np.take(table, [0], axis)
        found[:, k] |= differs.reshape(len(table), -1).any(axis=1)
    return found


def fitted_steps(facts: TaskFacts) -> Any:
    """Steps of each type and allocation by Optimus' curve, float64 (J * A,), fitted to those of runs before.

    Peng et al., EuroSys 2018, synchronous form with w workers (GPUs, the main resources) and p servers (CPUs):
    a / w + b + c w / p + d w + e p, no coefficient below 0. Of several GPUs or CPUs, those count that the type uses.
    """
    from scipy.optimize import nnls

    main = main_resources(facts.role, facts.elastic)
    servers = facts.elastic & (facts.role == PROCESSOR) & ~main
    grid = all_allocations(facts.most, facts.elastic)
    made = np.full(facts.steps.shape, np.inf)
    for j, (row, uses) in enumerate(zip(facts.steps, used(facts), strict=True)):
        w, p = (np.maximum(grid[:, (some & uses)[facts.elastic]].sum(axis=1), 1.0) for some in (main, servers))
        terms = [1.0 / w, np.ones_like(w), w]
        features = np.stack([*terms, w / p, p] if servers.any() else terms, axis=1)
        known = np.isfinite(row)
        weights = 1.0 / row[known]  # relative errors count: a step of twenty is not a step of two
        factors, _ = nnls(features[known] * weights[:, None], row[known] * weights)
        made[j, known] = features[known] @ factors
    return made.ravel()
