"""What a policy is shown of a world of tasks. Called by `run_policy` before every decision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairlead.domain.outcomes import Reason
from fairlead.domain.task_records import KNOWLEDGE, PENDING, RUNNING, Snapshot
from fairlead.policies.jit import inlined
from fairlead.sim.tasks.engine import bit, fits
from fairlead.sim.tasks.plan import most_running
from fairlead.sim.tasks.speed import left
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

_PROGRESS, _SPEED = KNOWLEDGE["progress"], KNOWLEDGE["speed"]

_NO_CAPACITY, _UNREACHABLE, _NOT_ALLOWED, _QUEUED = (
    int(r) for r in (Reason.NO_CAPACITY, Reason.UNREACHABLE, Reason.NOT_ALLOWED, Reason.QUEUED)
)


class Room(NamedTuple):
    """Where snapshots are filled in: one world at a time."""

    pending: Any  # PENDING (N * P,)
    excluded: Any  # uint16 (N * P, N)
    running: Any  # RUNNING (R,)
    amounts: Any  # int32 (R, K)
    queued: Any  # int32 (N,)
    steps: Any  # float64 (J, A) of zero rows for policies that do not know speeds


def new_room(plan: TaskPlan, knows: int) -> Room:
    """Room for the snapshots of a plan's worlds, for a policy that knows so much."""
    n, k = plan.capacity.shape
    seen, runs = n * int(plan.rules["pending"][0]), most_running(plan)
    return Room(
        np.zeros(seen, PENDING),
        np.zeros((seen, n), np.uint16),
        np.zeros(runs, RUNNING),
        np.zeros((runs, k), np.int32),
        np.zeros(n, np.int32),
        plan.steps if knows & _SPEED else np.zeros((0, 0)),
    )


@inlined
def fill(plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room, knows: int) -> None:
    """Fill in what there is to see of world `b`."""
    world = worlds.world[b]
    pending, w = 0, 0
    while pending < world.shown:
        i = worlds.waiting[b, w]
        w += 1
        if i >= 0 and worlds.task[b, i].seen:
            _show_pending(plan, worlds, b, i, room, pending, knows)
            pending += 1
    for r in range(world.running):
        _show_running(plan, worlds, b, r, room, knows)
    for n in range(len(room.queued)):
        room.queued[n] = worlds.queue[b, n] - worlds.seen[b, n]


def view(plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room) -> Snapshot:
    """What was filled in last, of world `b`, as a snapshot; valid until `room` is filled again or the world changes."""
    pending, running = worlds.world[b]["shown"], worlds.world[b]["running"]
    return Snapshot(
        worlds.free[b],
        plan.capacity,
        room.queued,
        room.pending[:pending],
        room.excluded[:pending],
        room.running[:running],
        room.amounts[:running],
        plan.minimum,
        plan.most,
        plan.elastic,
        plan.role,
        room.steps,
        plan.rules[0]["single"],
    )


view_inside = inlined(view)  # for kernels


@inlined
def _show_pending(plan: TaskPlan, worlds: TaskWorlds, b: int, i: int, room: Room, row: int, knows: int) -> None:
    task, shown = worlds.task[b, i], room.pending[row]
    shown.task, shown.type, shown.waited = i, task.type, worlds.world[b].now - task.arrival
    shown.started, shown.executed, shown.restarts = task.started, task.executed, task.restarts
    shown.service = task.service
    shown.left = left(plan, task.type, task.progress) if knows & _PROGRESS else np.nan
    for n in range(plan.capacity.shape[0]):
        if bit(task.seen, n):
            why = 0 if fits(plan, worlds.free[b], n, task.type) else _NO_CAPACITY
        elif bit(task.reach, n):
            why = _QUEUED
        else:
            why = _UNREACHABLE if bit(plan.allowed[task.type], n) else _NOT_ALLOWED
        room.excluded[row, n] = why


@inlined
def _show_running(plan: TaskPlan, worlds: TaskWorlds, b: int, row: int, room: Room, knows: int) -> None:
    i = worlds.running[b, row]
    task, shown = worlds.task[b, i], room.running[row]
    shown.task, shown.type, shown.cluster = i, task.type, task.cluster
    shown.alive, shown.started = worlds.world[b].now - task.arrival, task.started
    shown.executed, shown.restarts, shown.service = task.executed, task.restarts, task.service
    shown.left = left(plan, task.type, task.progress) if knows & _PROGRESS else np.nan
    for k in range(plan.minimum.shape[1]):
        room.amounts[row, k] = worlds.amounts[b, i, k]
