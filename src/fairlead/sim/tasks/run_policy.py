"""Runs task policies: shows a world, checks and carries out what is answered, lets time go on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.errors import PolicyError
from fairlead.domain.task_records import PLACEMENT, PREEMPT, RESIZE, START, Placements
from fairlead.policies.guard import Guard
from fairlead.policies.jit import typed_kernel
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.tasks.decider import TaskDecider
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.policies.tasks.numba_signature import decide_signature, placements_type
from fairlead.sim.tasks.engine import advance, over
from fairlead.sim.tasks.handle import FINE, Handle, carry_out
from fairlead.sim.tasks.numba_types import plan_type, room_type, worlds_type
from fairlead.sim.tasks.snapshot import Room, fill, new_room, view_inside
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

_MOST_ANSWERS = 10_000  # in one step: a policy that goes on resizing would never let time pass
_WORDS = {
    START: "start task {task} on cluster {cluster}",
    RESIZE: "resize task {task}",
    PREEMPT: "pre-empt task {task}",
}
_RESTLESS, _MISCOUNTED = -2, -3


def run_tasks(plan: TaskPlan, worlds: TaskWorlds, policy: TaskPolicy, parameters: Any) -> TaskDecider:
    """Run all worlds to their end under a policy; returns its decider. What it does wrong is a PolicyError."""
    run_task_decider(plan, worlds, decider := policy.decider(parameters))
    return decider


def run_task_decider(plan: TaskPlan, worlds: TaskWorlds, decider: TaskDecider) -> None:
    """`run_tasks`, asking this decider, or calling its compiled rule."""
    answer = new_placements(plan, room := new_room(plan, decider.known))
    fault = FINE
    if decider.rule:
        fault = _run_compiled(plan, worlds, room, decider, decider.rule, answer)
    else:
        for b in range(len(worlds.world)):
            fault = _run_asking(Handle(plan, worlds, b, decider.known), decider, answer)
            if fault != FINE:
                break
    if fault == _RESTLESS:
        raise PolicyError(f"policy {decider.name!r} has placed {_MOST_ANSWERS} times without letting time pass")
    if fault == _MISCOUNTED:
        raise PolicyError(f"policy {decider.name!r} returned no number of placements from 0 to {len(answer.rows)}")
    if fault != FINE:
        row = answer.rows[fault]
        amounts = f"with {answer.amounts[fault].tolist()}" if row["what"] != PREEMPT else ""
        words = _WORDS.get(int(row["what"]), "do {task}").format(task=row["task"], cluster=row["cluster"])
        raise PolicyError(f"policy {decider.name!r} can't {words} {amounts}".rstrip())


def new_placements(plan: TaskPlan, room: Room) -> Placements:
    """Room for an answer: every task that is shown can be placed, every one that runs pre-empted and resized."""
    rows = len(room.pending) + 2 * len(room.running)
    return Placements(np.zeros(rows, PLACEMENT), np.zeros((rows, plan.minimum.shape[1]), np.int32))


def _run_compiled(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, decider: TaskDecider, rule: TaskPolicy, answer: Placements
) -> int:
    with Guard(rule.name, rule.function):  # compiled code raises as Python does
        return int(_compiled_run()(plan, worlds, room, decider.known, rule.compiled, decider.parameters, answer))


def _run_asking(handle: Handle, decider: TaskDecider, answer: Placements) -> int:
    decisions = asked = 0
    seed, single = int(handle.worlds.world[handle.b]["seed"]), bool(handle.plan.rules["single"][0])
    while not handle.over:
        shown: Any = handle if decider.plans else handle.snapshot()
        count = decider.decide(shown, uniform(seed, POLICY, decisions, 0), answer).choice
        if not 0 <= count <= len(answer.rows):
            return _MISCOUNTED
        fault = handle.place(answer, count)
        decisions, asked = decisions + 1, asked + 1
        if fault != FINE:
            return fault
        if count == 0 or single:
            handle.advance()
            asked = 0
        elif asked > _MOST_ANSWERS:
            return _RESTLESS
    return FINE


def _run(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, knows: int, decide: Any, parameters: Any, answer: Placements
) -> int:
    for b in range(len(worlds.world)):
        decisions = asked = 0
        while not over(plan, worlds, b):
            u = uniform(worlds.world[b].seed, POLICY, decisions, 0)
            fill(plan, worlds, b, room, knows)
            count = decide(view_inside(plan, worlds, b, room), parameters, u, answer)
            decisions += 1
            asked += 1
            if count < 0 or count > len(answer.rows):
                return _MISCOUNTED
            fault = carry_out(plan, worlds, b, answer, count)
            if fault != FINE:
                return fault
            if count == 0 or plan.rules[0].single:
                advance(plan, worlds, b)
                asked = 0
            elif asked > _MOST_ANSWERS:
                return _RESTLESS
    return FINE


@cache
def _compiled_run() -> Any:
    """`_run`, compiled once for all policies and scenarios."""
    function, parameters = types.FunctionType(decide_signature()), types.Array(types.float64, 1, "C")
    world = plan_type(), worlds_type(), room_type()
    return typed_kernel(_run, *world, types.int64, function, parameters, placements_type())
