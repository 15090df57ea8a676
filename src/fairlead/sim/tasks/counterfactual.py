"""What a joint decision is worth beside a rule: what training learns from.

From a world at which agents are about to decide, copies go on for some steps under the rule, with arrivals and noise of
futures that are drawn. What the decision saves is the tasks alive, summed over these steps, if the rule takes over
before it, less those if it takes over after it. What an agent's own choice saves is those if the others' starts are
carried out and the rule then takes over, its choice included, less those if its own is carried out too: what is taken
away from depends on the others' choices alone. The others' waiting is not carried out: in multi-task mode it keeps
no cluster from starting in the same step; in single-task mode, where waiting uses up a cluster's turn, that is
approximate. Both are means over the futures, in which links stay as they are. Worlds with one workload, at one time,
are judged on the same futures. Called by `batch`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.task_records import Placements
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.tasks.numba_signature import decide_signature, observations_type, placements_type
from fairlead.policies.tasks.observe import Observations
from fairlead.sim.tasks.drawn_tasks import draw_later
from fairlead.sim.tasks.engine import advance, over
from fairlead.sim.tasks.handle import carry_out
from fairlead.sim.tasks.numba_types import plan_type, proposals_type, room_type, worlds_type
from fairlead.sim.tasks.proposals import NOTHING, Proposals, new_proposals
from fairlead.sim.tasks.rounds import go, leave_out, pass_step, propose
from fairlead.sim.tasks.snapshot import Room, fill, view_inside
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds
from fairlead.sim.tasks.worlds import copy_world, like

_NOBODY: Final = -1  # is left out

Spare = tuple[TaskWorlds, Proposals, Any, Any]  # a world, proposals, who went and who won


def spare(worlds: TaskWorlds) -> Spare:
    """Room for what is tried out in a copy of one such world."""
    copy = like(worlds)
    return copy, new_proposals(copy), np.zeros(copy.queue.shape, np.bool_), np.zeros(copy.queue.shape, np.bool_)


def _worth(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, first: int, last: int, copy: TaskWorlds, tried: Proposals,
    copy_went: Any, won: Any, answer: Placements, seen: Observations, slots: Any, allocations: Any, scores: Any,
    proposals: Proposals, prior: int, went: Any, decide: Any, parameters: Any, steps: int, futures: int, team: Any,
    own: Any,
) -> None:  # fmt: skip
    clusters, single = slots.shape[1], plan.rules[0].single
    for b in range(first, last):
        propose(plan, worlds, b, seen, slots, allocations, scores, proposals, went)
        starters = 0
        for n in range(clusters):
            starters += 1 if proposals.task[b, n] != NOTHING else 0
        for f in range(futures):
            seed = int(uniform(worlds.world[b].seed, POLICY, f, worlds.world[b].now) * 2.0**52)
            _fork(plan, worlds, b, seed, copy, went, copy_went)
            before = _go_on(plan, copy, room, answer, decide, parameters, copy_went, steps)
            _fork(plan, worlds, b, seed, copy, went, copy_went)
            end = steps - _decide(plan, copy, b, _NOBODY, proposals, prior, went, tried, copy_went, won)
            after = _go_on(plan, copy, room, answer, decide, parameters, copy_went, end)
            team[b] += (before - after) / futures
            for n in range(clusters):
                # Without n's choice: the same as with it if it waits while others start, the rule at once if nobody
                # else starts; else it is played.
                alone = after if starters > 0 else before
                acts = proposals.task[b, n] != NOTHING
                if acts and starters == 1 and not single:
                    alone = before
                elif acts or (single and not went[b, n]):
                    _fork(plan, worlds, b, seed, copy, went, copy_went)
                    _decide(plan, copy, b, n, proposals, prior, went, tried, copy_went, won)
                    alone = _go_on(plan, copy, room, answer, decide, parameters, copy_went, steps)
                own[b, n] += (alone - after) / futures


@inlined
def _fork(plan: TaskPlan, worlds: TaskWorlds, b: int, seed: int, copy: TaskWorlds, went: Any, copy_went: Any) -> None:
    """Bring the copy to where world `b` is, with another future."""
    copy_world(worlds, b, copy)
    draw_later(plan, copy, 0, seed)
    for n in range(went.shape[1]):
        copy_went[0, n] = went[b, n]


@inlined
def _decide(
    plan: TaskPlan, copy: TaskWorlds, b: int, out: int, proposals: Proposals, prior: int, went: Any, tried: Proposals,
    copy_went: Any, won: Any,
) -> int:  # fmt: skip
    """Carry out the proposals of world `b` in the copy, without those of agent `out`; how many steps went by."""
    for n in range(went.shape[1]):
        tried.task[0, n] = NOTHING if n == out else proposals.task[b, n]
        tried.score[0, n] = proposals.score[b, n]
        for k in range(tried.amounts.shape[2]):
            tried.amounts[0, n, k] = proposals.amounts[b, n, k]
    passes = go(plan, copy, 0, tried, prior, copy_went, won)
    if out != _NOBODY:
        copy_went[0, out] = went[b, out]  # the rule decides for it
    elif passes:
        pass_step(plan, copy, 0, copy_went)
        return 1
    return 0


@inlined
def _go_on(
    plan: TaskPlan, copy: TaskWorlds, room: Room, answer: Placements, decide: Any, parameters: Any, went: Any,
    steps: int,
) -> float:  # fmt: skip
    """Tasks alive, summed over all steps until so many from now, under the rule; who went starts nothing now."""
    world, first = copy.world[0], True
    end = world.now + steps
    while world.now < end and not over(plan, copy, 0):
        fill(plan, copy, 0, room, 0)
        if first:
            leave_out(world.shown, went, 0, room)
        carry_out(plan, copy, 0, answer, decide(view_inside(plan, copy, 0, room), parameters, 0.5, answer))
        advance(plan, copy, 0)
        first = False
    return float(world.alive_steps)


@cache
def compiled_worth() -> Any:
    """The kernel of what decisions are worth."""
    whole, real, flags = (types.Array(one, 2, "C") for one in (types.int64, types.float64, types.boolean))
    row = types.Array(types.float64, 1, "C")
    world = plan_type(), worlds_type(), room_type(), types.int64, types.int64
    tried = worlds_type(), proposals_type(), flags, flags, placements_type()
    wanted = observations_type(), whole, whole, real, proposals_type(), types.int64, flags
    rule = types.FunctionType(decide_signature()), row, types.int64, types.int64
    return typed_kernel(_worth, *world, *tried, *wanted, *rule, row, real)
