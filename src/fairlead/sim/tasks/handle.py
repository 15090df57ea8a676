"""One world of tasks from Python: shown, placed upon, moved on. Called by `run_policy` for policies in Python."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.task_records import PREEMPT, RESIZE, START, Placements, Snapshot
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.policies.tasks.numba_signature import placements_type
from fairlead.sim.tasks.engine import advance, over, preempt, resize, start
from fairlead.sim.tasks.numba_types import plan_type, room_type, worlds_type
from fairlead.sim.tasks.snapshot import Room, fill, new_room, view
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

FINE = -1  # all placements were possible; else the row of the first that was not


class Handle:
    """World `b` of many. `knows` is what its snapshots tell beyond what can be seen."""

    def __init__(self, plan: TaskPlan, worlds: TaskWorlds, b: int = 0, knows: int = 0) -> None:
        self.plan, self.worlds, self.b, self.knows = plan, worlds, b, knows
        self.room = new_room(plan, knows)
        self._fill, self._carry_out, self._advance, self._over = _compiled()

    @property
    def over(self) -> bool:
        """Whether all tasks are done, or its time is up."""
        return bool(self._over(self.plan, self.worlds, self.b))

    def snapshot(self) -> Snapshot:
        """What can be seen now; valid until the next snapshot or change."""
        self._fill(self.plan, self.worlds, self.b, self.room, self.knows)
        return view(self.plan, self.worlds, self.b, self.room)

    def place(self, answer: Placements, count: int) -> int:
        """Carry out the first `count` placements one by one; FINE, or the row of the first that is not possible."""
        if not 0 <= count <= len(answer.rows):
            raise ValueError(f"{count} placements: 0 to {len(answer.rows)} are possible")
        return int(self._carry_out(self.plan, self.worlds, self.b, answer, count))

    def advance(self) -> None:
        """Let a step of time pass."""
        self._advance(self.plan, self.worlds, self.b)


@inlined
def carry_out(plan: TaskPlan, worlds: TaskWorlds, b: int, answer: Placements, count: int) -> int:
    """See `Handle.place`. In single-task mode a cluster starts one task at most."""
    single, used = plan.rules[0].single, np.uint64(0)
    for p in range(count):
        row = answer.rows[p]
        done = False
        if row.what == START:
            mine = np.uint64(1) << np.uint64(row.cluster & 63)
            if not (single and used & mine):
                done = start(plan, worlds, b, row.task, row.cluster, answer.amounts[p])
            used |= mine
        elif row.what == RESIZE:
            done = resize(plan, worlds, b, row.task, answer.amounts[p])
        elif row.what == PREEMPT:
            done = preempt(plan, worlds, b, row.task)
        if not done:
            return p
    return FINE


def _fill(plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room, knows: int) -> None:
    fill(plan, worlds, b, room, knows)


def _carry_out(plan: TaskPlan, worlds: TaskWorlds, b: int, answer: Placements, count: int) -> int:
    return carry_out(plan, worlds, b, answer, count)


def _advance(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    advance(plan, worlds, b)


def _over(plan: TaskPlan, worlds: TaskWorlds, b: int) -> bool:
    return over(plan, worlds, b)


@cache
def _compiled() -> tuple[Any, ...]:
    world = plan_type(), worlds_type(), types.int64
    return (
        typed_kernel(_fill, *world, room_type(), types.int64),
        typed_kernel(_carry_out, *world, placements_type(), types.int64),
        typed_kernel(_advance, *world),
        typed_kernel(_over, *world),
    )
