"""Many worlds of tasks stepped together by their agents: what training plays in. Needs NumPy and Numba alone.

    batch = TaskBatch(plan, 1024, lambda world, episode: (seed, rate))
    batch.step(slots, allocations, scores)      what each cluster of each world wants: int64, int64, float64 (B, N)
    batch.observations, batch.rewards, batch.ended, batch.won
    batch.saves([slots, allocations, scores], (rule, parameters), 32, 4)    what that is worth, beside a rule

A slot is one of a cluster's pending tasks, or the number of slots for nothing; an allocation is the number of amounts
of the elastic resources. In single-task mode every cluster acts once before time goes on, and one that lost its task to
another chooses again. Steps in which no agent could do anything are skipped. The reward is minus the tasks alive,
summed over the steps of time that went by: its sum over an episode is minus the sum of completion times. A world whose
episode has ended begins the next at once, unless told otherwise (`again`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.task_facts import needed
from fairlead.policies.conflicts import COPIES
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.policies.tasks.allocations import number_of
from fairlead.policies.tasks.numba_signature import decide_signature, observations_type, placements_type
from fairlead.policies.tasks.observe import Observations, new_observations, observe
from fairlead.sim.tasks.counterfactual import compiled_worth, spare
from fairlead.sim.tasks.engine import begin, over
from fairlead.sim.tasks.numba_types import plan_type, proposals_type, room_type, worlds_type
from fairlead.sim.tasks.plan import most_running
from fairlead.sim.tasks.plan_check import check_task_worlds
from fairlead.sim.tasks.proposals import Proposals, new_proposals
from fairlead.sim.tasks.rounds import go, leave_out, pass_step, propose, shown
from fairlead.sim.tasks.run_policy import new_placements
from fairlead.sim.tasks.snapshot import Room, fill, new_room, view_inside
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds
from fairlead.sim.tasks.worlds import new_worlds

Draw = Callable[[int, int], tuple[int, float]]  # (world, episode) -> seed and arrivals a step

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class TaskBatch:
    """B worlds of one plan. Arrays are reused: copy what must outlive the next step."""

    def __init__(self, plan: TaskPlan, size: int, draw: Draw, prior: int = COPIES, again: bool = True) -> None:
        self.plan, self.size, self._draw, self._prior, self._again = plan, size, draw, prior, again
        clusters, resources = len(plan.capacity), needed(plan.role)
        self.slots, self.types = int(plan.rules["pending"][0]), len(plan.minimum)
        self.worlds = new_worlds(plan, np.zeros(size))
        self.observations: Observations = new_observations(
            size, clusters, self.slots, most_running(plan), resources, self.types
        )
        self.rewards, self.ended = np.zeros(size), np.ones(size, np.bool_)
        self.won, self._went = np.zeros((2, size, clusters), np.bool_)  # started what it wanted; has acted (single)
        self.finished = np.full(size, np.nan)  # mean completion time of the last episode that has ended
        self.episodes = np.zeros(size, np.int64)  # drawn so far, of each world
        self._next = np.zeros(size, np.int64), np.zeros(size)  # seed and rate of the episode that begins next
        self._proposals = new_proposals(self.worlds)
        self._parts = [(int(p[0]), int(p[-1]) + 1) for p in np.array_split(np.arange(size), min(size, THREADS))]
        self._rooms, self._spare = [new_room(plan, 0) for _ in self._parts], [spare(self.worlds) for _ in self._parts]
        self._pool = ThreadPoolExecutor(len(self._parts))
        self._prepare()
        self.begin()

    def begin(self) -> None:
        """Begin the next episode of every world."""
        self._went[:] = False
        self._each(_compiled_begin(), *self._next, self.observations, self._went)
        self.ended[:] = True
        self._prepare()
        self.ended[:] = False

    def step(self, slots: Any, allocations: Any, scores: Any) -> None:
        """Carry out what the agents want, begin anew what has ended, and observe."""
        told = self.rewards, self.ended, self.won, self.finished
        wanted = slots, allocations, scores, self._proposals, self._prior, self._again
        self._each(_compiled_step(), *self._next, self.observations, self._went, *wanted, *told)
        if self._again:
            self._prepare()

    def copy_from(self, sources: Any) -> None:
        """Put each world to where the one of this number is (B,), which goes on with the same workload."""
        for array in self._state():
            array[...] = array[sources]

    def play_until(self, times: Any, rule: Any, parameters: Any) -> None:
        """Put each world to where a compiled policy has brought it by some time (B,), or by the end of its episode."""
        kept = [array.copy() for array in self._state()]
        waits = times > 0
        while waits.any():
            self.step(*self.by_rule(rule, parameters), np.ones(self.won.shape))
            there = waits & (self.ended | (self.worlds.world["now"] >= times))
            for whole, array in zip(kept, self._state(), strict=True):
                whole[there] = array[there]
            waits &= ~there
        for whole, array in zip(kept, self._state(), strict=True):
            array[...] = whole
        self.ended[:] = False

    def _state(self) -> tuple[Any, ...]:
        """All arrays that say where worlds are."""
        return *self.worlds, *self.observations, self.episodes, *self._next, self._went

    def saved(self) -> dict[str, Any]:
        """Where all worlds are, as bytes."""
        arrays = {f"worlds.{name}": array for name, array in self.worlds._asdict().items()}
        arrays |= {f"observations.{name}": array for name, array in self.observations._asdict().items()}
        arrays |= {"episodes": self.episodes, "seeds": self._next[0], "rates": self._next[1], "went": self._went}
        return {name: array.tobytes() for name, array in arrays.items()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Put all worlds to where they were saved; nothing has ended. Raises ValueError where that can't be."""
        for group, arrays in (("worlds", self.worlds), ("observations", self.observations)):
            for name, array in arrays._asdict().items():
                array[...] = np.frombuffer(saved[f"{group}.{name}"], array.dtype).reshape(array.shape)
        kept = ("episodes", self.episodes), ("seeds", self._next[0]), ("rates", self._next[1]), ("went", self._went)
        for name, array in kept:
            array[...] = np.frombuffer(saved[name], array.dtype).reshape(array.shape)
        check_task_worlds(self.plan, self.worlds, self.observations.slots)
        self.ended[:] = False

    def by_rule(self, rule: Any, parameters: Any) -> tuple[Any, Any]:
        """What a compiled policy that only starts tasks would want: slots and allocations (B, N), one task each."""
        slots, allocations = np.empty(self.won.shape, np.int64), np.zeros(self.won.shape, np.int64)
        answers = [new_placements(self.plan, room) for room in self._rooms]
        given = rule, parameters, self.observations, self._went, slots, allocations
        kernel = _compiled_rule()
        self._pooled(lambda i, world: kernel(*world, answers[i], *given))
        return slots, allocations

    def saves(self, wanted: Sequence[Any], rule: tuple[Any, Any], steps: int, futures: int) -> tuple[Any, Any]:
        """What a joint decision would save beside a rule, and each agent's choice alone: (B,), (B, N).

        See `counterfactual`. Wanted is what `step` is given; the rule a compiled policy that only starts tasks, with
        its parameters.
        """
        team, own = np.zeros(self.size), np.zeros(self.won.shape)
        answers = [new_placements(self.plan, room) for room in self._rooms]
        given = self.observations, *wanted, self._proposals, self._prior, self._went, *rule, steps, futures, team, own
        kernel = compiled_worth()
        self._pooled(lambda i, world: kernel(*world, *self._spare[i], answers[i], *given))
        return team, own

    def _prepare(self) -> None:
        """Draw the workloads that come next where the last one drawn is in use."""
        for b in np.flatnonzero(self.ended).tolist():
            self._next[0][b], self._next[1][b] = self._draw(b, int(self.episodes[b]))
            self.episodes[b] += 1

    def _each(self, kernel: Any, *given: Any) -> None:
        self._pooled(lambda i, world: kernel(*world, *given))

    def _pooled(self, work: Callable[[int, tuple[Any, ...]], None]) -> None:
        """Call a kernel for every part of the worlds, each on a thread."""
        worlds = ((i, (self.plan, self.worlds, self._rooms[i], *part)) for i, part in enumerate(self._parts))
        list(self._pool.map(lambda part: work(*part), worlds))


def _begin(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, first: int, last: int, seeds: Any, rates: Any, out: Observations,
    went: Any,
) -> None:  # fmt: skip
    for b in range(first, last):
        begin(plan, worlds, b, seeds[b], rates[b])
        _to_next_choice(plan, worlds, b, room, out, went)


def _step(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, first: int, last: int, seeds: Any, rates: Any, out: Observations,
    went: Any, slots: Any, allocations: Any, scores: Any, proposals: Proposals, prior: int, again: bool,
    rewards: Any, ended: Any, won: Any, finished: Any,
) -> None:  # fmt: skip
    for b in range(first, last):
        before = worlds.world[b].alive_steps
        propose(plan, worlds, b, out, slots, allocations, scores, proposals, went)
        if go(plan, worlds, b, proposals, prior, went, won):
            pass_step(plan, worlds, b, went)
        _to_next_choice(plan, worlds, b, room, out, went)
        rewards[b] = before - worlds.world[b].alive_steps
        ended[b] = over(plan, worlds, b)
        if ended[b]:
            finished[b] = worlds.world[b].alive_steps / worlds.world[b].tasks
        if ended[b] and again:
            begin(plan, worlds, b, seeds[b], rates[b])
            _to_next_choice(plan, worlds, b, room, out, went)


@inlined
def _to_next_choice(plan: TaskPlan, worlds: TaskWorlds, b: int, room: Room, out: Observations, went: Any) -> None:
    """Let time go by while no agent can do anything, and observe."""
    while not over(plan, worlds, b):
        fill(plan, worlds, b, room, 0)
        possible = False
        for p in range(worlds.world[b].shown):
            for n in range(room.excluded.shape[1]):
                possible |= room.excluded[p, n] == 0 and not went[b, n]
        if possible:
            break
        pass_step(plan, worlds, b, went)
    fill(plan, worlds, b, room, 0)
    observe(view_inside(plan, worlds, b, room), out, b)
    for n in range(went.shape[1]):
        if went[b, n]:
            out.fits[b, n, :] = 0.0


def _by_rule(
    plan: TaskPlan, worlds: TaskWorlds, room: Room, first: int, last: int, answer: Any, decide: Any, parameters: Any,
    seen: Observations, went: Any, slots: Any, allocations: Any,
) -> None:  # fmt: skip
    for b in range(first, last):
        for n in range(slots.shape[1]):
            slots[b, n], allocations[b, n] = seen.slots.shape[2], 0
        fill(plan, worlds, b, room, 0)
        leave_out(worlds.world[b].shown, went, b, room)
        count = decide(view_inside(plan, worlds, b, room), parameters, 0.5, answer)
        for p in range(count):
            n = answer.rows[p].cluster
            if slots[b, n] < seen.slots.shape[2]:
                continue  # one at a time
            for s in range(seen.slots.shape[2]):
                if seen.slots[b, n, s] >= 0 and shown(worlds, b, seen.slots[b, n, s]) == answer.rows[p].task:
                    slots[b, n] = s
            allocations[b, n] = number_of(answer.amounts[p], plan.most, plan.elastic)


def _world_types() -> tuple[Any, ...]:
    return plan_type(), worlds_type(), room_type(), types.int64, types.int64


_WHOLE, _REAL, _FLAGS = (types.Array(one, 1, "C") for one in (types.int64, types.float64, types.boolean))
_WHOLES, _REALS, _MANY_FLAGS = (types.Array(one, 2, "C") for one in (types.int64, types.float64, types.boolean))


@cache
def _compiled_begin() -> Any:
    return typed_kernel(_begin, *_world_types(), _WHOLE, _REAL, observations_type(), _MANY_FLAGS)


@cache
def _compiled_step() -> Any:
    wanted = _WHOLES, _WHOLES, _REALS, proposals_type(), types.int64, types.boolean
    told = _REAL, _FLAGS, _MANY_FLAGS, _REAL
    return typed_kernel(_step, *_world_types(), _WHOLE, _REAL, observations_type(), _MANY_FLAGS, *wanted, *told)


@cache
def _compiled_rule() -> Any:
    rule = placements_type(), types.FunctionType(decide_signature()), _REAL
    return typed_kernel(_by_rule, *_world_types(), *rule, observations_type(), _MANY_FLAGS, _WHOLES, _WHOLES)
