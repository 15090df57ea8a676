"""A round of decisions: what agents propose, of what they see, is agreed upon and started.

Called by `batch` and `counterfactual`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.outcomes import Reason
from fairlead.policies.jit import inlined
from fairlead.policies.tasks.allocations import amounts_of
from fairlead.policies.tasks.observe import Observations
from fairlead.sim.tasks.engine import advance, startable
from fairlead.sim.tasks.proposals import NOTHING, Proposals, agree
from fairlead.sim.tasks.snapshot import Room
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

_HIDDEN = np.uint16(Reason.QUEUED)


@inlined
def go(plan: TaskPlan, worlds: TaskWorlds, b: int, proposals: Proposals, prior: int, went: Any, won: Any) -> bool:
    """Carry out the proposals of world `b`; whether time goes on."""
    for n in range(won.shape[1]):
        went[b, n] |= proposals.task[b, n] == NOTHING
    started, all_went = agree(plan, worlds, b, proposals, prior), True
    for n in range(won.shape[1]):
        won[b, n] = proposals.task[b, n] != NOTHING
        went[b, n] = (went[b, n] or won[b, n]) and plan.rules[0].single
        all_went &= went[b, n]
    return started == 0 or all_went


@inlined
def pass_step(plan: TaskPlan, worlds: TaskWorlds, b: int, went: Any) -> None:
    """Let a step of time pass; then every cluster may act again."""
    went[b, :] = False
    advance(plan, worlds, b)


@inlined
def propose(
    plan: TaskPlan, worlds: TaskWorlds, b: int, seen: Observations, slots: Any, allocations: Any, scores: Any,
    proposals: Proposals, went: Any,
) -> None:  # fmt: skip
    """What agents propose, from slots and allocations to tasks and amounts; `seen` is what they chose by.

    What is not possible counts as nothing, and so does a proposal of a cluster that has already acted.
    """
    for n in range(slots.shape[1]):
        proposals.task[b, n] = NOTHING
        slot = slots[b, n]
        if went[b, n] or slot < 0 or slot >= seen.slots.shape[2] or seen.slots[b, n, slot] < 0:
            continue
        i = shown(worlds, b, seen.slots[b, n, slot])
        task_type = worlds.task[b, i].type
        amounts_of(allocations[b, n], plan.minimum, plan.most, plan.elastic, task_type, proposals.amounts[b, n])
        if startable(plan, worlds, b, i, n, proposals.amounts[b, n]):
            proposals.task[b, n], proposals.score[b, n] = i, scores[b, n]


@inlined
def leave_out(rows: int, went: Any, b: int, room: Room) -> None:
    """Hide pending tasks from clusters that have already acted."""
    for n in range(went.shape[1]):
        for p in range(rows):
            if went[b, n]:
                room.excluded[p, n] |= _HIDDEN


@inlined
def shown(worlds: TaskWorlds, b: int, row: int) -> int:
    """The task in a row of the snapshot's pending ones."""
    w, found = -1, -1
    while found < row:
        w += 1
        i = worlds.waiting[b, w]
        found += 1 if i >= 0 and worlds.task[b, i].seen else 0
    return worlds.waiting[b, w]
