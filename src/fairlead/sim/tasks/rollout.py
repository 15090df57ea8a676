"""Rollout: tries many rules for this step on sampled futures, each followed by the tuned rule, and does what was best.

A planner: what can be reached online by thinking long. The rules are the tuned one with other orders, amounts, least
amounts and packing. Each distinct way to place now is carried out on copies of the world, which go on for two and a
half times as long as the longest task takes at best (10 steps for TapFinger's) with arrivals and noise of their own,
the same for all ways, and links as they are; the one with the fewest tasks alive, summed over steps, is taken. It knows
speeds, progress and the arrival rate, not what arrives and how links will change. It neither resizes nor pre-empts.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.task_facts import TaskFacts
from fairlead.domain.task_records import Placements
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.numba_signature import decide_signature, placements_type
from fairlead.policies.tasks.tuned_rule import parameters as rule_parameters
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.sim.tasks.drawn_tasks import draw_later
from fairlead.sim.tasks.engine import advance, over
from fairlead.sim.tasks.handle import Handle, carry_out
from fairlead.sim.tasks.numba_types import plan_type, room_type, worlds_type
from fairlead.sim.tasks.snapshot import Room, fill, view_inside
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds
from fairlead.sim.tasks.worlds import copy_world, like

FUTURES: Final = 100
LOOK: Final = 2.5  # times the steps that the longest task takes at best: shorter, what a start delays is not seen
_MOST_WANTED: Final = 6  # amounts that are tried beside the tuned ones, spread over what is possible


def family(facts: TaskFacts) -> Any:
    """The tuned rule's parameters (P,), then those of its relatives: (rules, P), flattened after their number."""
    tuned = rule_parameters(facts)
    by, types_, resources = int(tuned[0]), int(tuned[2]), len(facts.resources)
    most = int(facts.most[by])
    first_wanted = 3 + types_
    first_least = first_wanted + types_ * resources
    found = [tuned]

    def vary(index: int, values: Any) -> None:
        for value in values:
            relative = tuned.copy()
            relative[index] = value
            if not any((relative == known).all() for known in found):
                found.append(relative)

    vary(1, (0.0, 1.0))
    for j in range(types_):
        vary(3 + j, (-1.0, types_ + 1.0))
        vary(first_wanted + j * resources + by, np.unique(np.linspace(1, most, _MOST_WANTED).round()))
        wanted = tuned[first_wanted + j * resources + by]
        vary(first_least + j * resources + by, {1.0, wanted // 2, wanted - 2, wanted, wanted + 1, most + 1.0})
        both = [(w, n) for w in np.linspace(2, most, 8).round() for n in (w // 2, w)]
        for wants, needs in both:
            relative = tuned.copy()
            relative[first_wanted + j * resources + by] = wants
            relative[first_least + j * resources + by] = needs
            if not any((relative == known).all() for known in found):
                found.append(relative)
    return np.concatenate([[float(len(found))], *found])


@task_policy("rollout", source="planner", kind="planner", knows=("progress", "speed"), prepare=family)
def rollout(handle: Handle, parameters: Any, u: float, out: Placements) -> int:
    """Rollout: tries many rules for this step on sampled futures and does what was best."""
    rules = np.ascontiguousarray(parameters[1:].reshape(int(parameters[0]), -1))
    world = handle.plan, handle.worlds, handle.b, handle.room
    tried = np.zeros(len(rules) + 1, np.uint64)
    copy = like(handle.worlds)
    spare = Placements(*(np.zeros_like(array) for array in out))
    return int(_compiled()(*world, copy, tuned_rule.compiled, rules, tried, int(u * 2.0**52), out, spare))


def _best(
    plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room, copy: TaskWorlds, decide: Any, rules: Any, tried: Any,
    seed: int, out: Placements, spare: Placements,
) -> int:  # fmt: skip
    """Write down the best way to place now; how many placements it has."""
    best, least, steps = -1, np.inf, _horizon(plan)
    for m in range(len(rules) + 1):  # the last: nothing
        count = _answer(plan, worlds, b, room, decide, rules, m, out)
        name = _name(out, count)
        known = False
        for other in range(m):
            known |= tried[other] == name
        tried[m] = name
        if known:
            continue
        alive = 0
        for future in range(FUTURES):
            copy_world(worlds, b, copy)
            draw_later(plan, copy, 0, int(uniform(seed, POLICY, future, 0) * 2.0**52))
            before = copy.world[0].alive_steps
            carry_out(plan, copy, 0, out, count)
            alive += _go_on(plan, copy, room, decide, rules[0], spare, steps) - before
        if alive < least:
            best, least = m, float(alive)
    return _answer(plan, worlds, b, room, decide, rules, best, out)


@inlined
def _answer(
    plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room, decide: Any, rules: Any, m: int, out: Placements
) -> int:
    if m == len(rules):
        return 0
    fill(plan, worlds, b, room, 0)
    return decide(view_inside(plan, worlds, b, room), rules[m], 0.5, out)


@inlined
def _horizon(plan: TaskPlan) -> int:
    """How far to look: a task that is started now must be seen to end, and those that it keeps waiting."""
    longest = 1.0
    for task_type in range(plan.steps.shape[0]):
        least = np.inf
        for allocation in range(plan.steps.shape[1]):
            least = min(least, plan.steps[task_type, allocation])
        if least < np.inf:
            longest = max(longest, least)
    return int(np.ceil(LOOK * longest))


@inlined
def _go_on(plan: TaskPlan, copy: TaskWorlds, room: Room, decide: Any, rule: Any, out: Placements, steps: int) -> int:
    """Let the copy go on under a rule; tasks alive, summed over steps."""
    for step in range(steps):
        if step > 0 and not over(plan, copy, 0):
            fill(plan, copy, 0, room, 0)
            carry_out(plan, copy, 0, out, decide(view_inside(plan, copy, 0, room), rule, 0.5, out))
        advance(plan, copy, 0)
    return copy.world[0].alive_steps


@inlined
def _name(out: Placements, count: int) -> np.uint64:
    """A number that tells one way to place from another."""
    name = np.uint64(count + 1)
    for p in range(count):
        row = out.rows[p]
        name = name * np.uint64(6364136223846793005) + np.uint64(row.task * 64 + row.cluster)
        for k in range(out.amounts.shape[1]):
            name = name * np.uint64(6364136223846793005) + np.uint64(out.amounts[p, k])
    return name


@cache
def _compiled() -> Any:
    function, table = types.FunctionType(decide_signature()), types.Array(types.float64, 2, "C")
    words = types.Array(types.uint64, 1, "C")
    world = plan_type(), worlds_type(), types.int64, room_type(), worlds_type()
    return typed_kernel(_best, *world, function, table, words, types.int64, placements_type(), placements_type())
