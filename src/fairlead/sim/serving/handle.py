"""The way into the engine from Python: worlds of one plan, advanced together by one call of half a microsecond.

Called by `run_policy` for one world and by the gym for many. The engine is compiled once, here, for all policies and
scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Self

import numpy as np
from numba import types

from fairlead.domain.records import FORESEEN
from fairlead.policies.addresses import ROWS_OF_WORDS, WORDS, policy_at, policy_words, prefetch
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.policies.policy_code import may_read
from fairlead.sim.serving.addresses import plan_at, plan_words, world_at, world_words
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.engine import advance
from fairlead.sim.serving.world import foreseeing, new_world, reset_at
from fairlead.sim.serving.world_arrays import AT_DECIDE, DECIDE, DONE, FAULT, INTO_DRAIN, Plan, World

ROOM: Final = 1.125  #: for episodes of unlike sizes: seldom too small, not much too large


class Handle:
    """Worlds of one plan. Holds their arrays, and what compiled code needs to find them.

    What is foreseen of candidates is kept up where a compiled policy reads it, or whoever decides: `foresees`.
    """

    def __init__(
        self, plan: Plan, worlds: Sequence[World], policies: Sequence[Any] = (), foresees: bool = False
    ) -> None:
        self.plan, self._policies = plan, tuple(policies)
        self._foresees = foresees or any(may_read(policy, FORESEEN) for policy in policies)
        self.worlds = [foreseeing(plan, world, self._foresees) for world in worlds]
        self.chosen = np.zeros(len(worlds), np.int64)  # (B,) at DECIDE the choice, else which policy decides
        self.codes = np.full(len(worlds), DECIDE, np.int64)  # (B,) how each world stopped
        self.plan_words = plan_words(plan)
        self.world_words = np.stack([world_words(world) for world in self.worlds])
        self._policy_words = policy_words(policies)
        self._advance = _compiled_advance()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Worlds of its own and words for them, since words are addresses; plan and policies never change: shared."""
        worlds = [World(*(array.copy() for array in world)) for world in self.worlds]
        made = type(self)(self.plan, worlds, self._policies, self._foresees)
        made.chosen[:], made.codes[:] = self.chosen, self.codes
        return made

    def advance(self, stops: int) -> None:
        """Run every world on to its next stop, but for those whose code is DONE or FAULT."""
        self._advance(self.plan_words, self.world_words, self._policy_words, self.chosen, stops, self.codes)

    def advance_one(self, b: int, stops: int) -> None:
        """The same for world `b` alone."""
        only = slice(b, b + 1)
        words, chosen, codes = self.world_words[only], self.chosen[only], self.codes[only]
        self._advance(self.plan_words, words, self._policy_words, chosen, stops, codes)

    def reset(self, b: int, workload: DrawnWorkload) -> None:
        """Put world `b` back to time 0 with this workload; it gets larger arrays when it needs them."""
        world = self.worlds[b]
        if len(workload.requests) > len(world.requests) or len(workload.streams) > len(world.streams):
            self.worlds[b] = foreseeing(self.plan, new_world(self.plan, workload, ROOM), self._foresees)
            self.world_words[b] = world_words(self.worlds[b])
        else:
            reset_at(self.plan_words, self.world_words[b : b + 1], world, workload)
        self.codes[b] = DECIDE


@inlined
def _bring_near(world: Any) -> None:
    """Prefetch what the world's next events will read: by its turn, the worlds before it have pushed it out."""
    request = world.clock[0].next_request
    for i in (request - 1, request):  # the one being decided, and the next
        prefetch(world.requests, i)
        prefetch(world.draws, i)
        prefetch(world.rows, i)
        prefetch(world.jobs, i)
    prefetch(world.heap, 0)
    prefetch(world.tree, 0)
    prefetch(world.times, 0)
    prefetch(world.times, 8)


def _advance_worlds(plan_row: Any, world_rows: Any, policies: Any, chosen: Any, stops: int, codes: Any) -> None:
    plan = plan_at(plan_row)
    for b in range(len(codes)):
        if b + 1 < len(codes):
            _bring_near(world_at(world_rows, b + 1))
        if codes[b] == DONE or codes[b] == FAULT:
            continue
        world = world_at(world_rows, b)
        policy = 0
        if stops & AT_DECIDE:
            world.clock[0].choice = chosen[b]
        else:
            policy = chosen[b]
        codes[b] = FAULT  # unless it comes back: a policy can raise, and the caller wants to know where
        to_the_end = stops & INTO_DRAIN and world.clock[0].window >= len(world.windows) - 2
        codes[b] = advance(plan, world, policy_at(policies, policy), stops & AT_DECIDE if to_the_end else stops)


@cache
def _compiled_advance() -> Any:
    return typed_kernel(_advance_worlds, WORDS, ROWS_OF_WORDS, ROWS_OF_WORDS, WORDS, types.int64, WORDS)
