"""What both environments have in common: worlds stepped together, their buffers, and what happens when one ends.

Buffers are allocated once and written in place: copy what you want to keep. `dispatch` and `window` say what a step is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.errors import UserError
from fairlead.policies.jit import typed_kernel
from fairlead.sim.gym.worlds import Worlds, workload_seed
from fairlead.sim.serving.handle import ROOM, Handle
from fairlead.sim.serving.layout import DONE
from fairlead.sim.serving.words import WORDS
from fairlead.sim.serving.world import new_world

#: Observations lie in [0, LIMIT]: what is scaled beyond is cut.
LIMIT: Final = 10.0

# Numba's types of the buffers.
FLOATS: Final = types.Array(types.float64, 1, "C")
SINGLES: Final = types.Array(types.float32, 1, "C")
FLAGS: Final = types.Array(types.boolean, 1, "C")
TABLE: Final = types.Array(types.float64, 2, "C")
OBSERVATIONS: Final = types.Array(types.float32, 2, "C")
MASKS: Final = types.Array(types.int8, 2, "C")


class Batch(ABC):
    """B worlds in step. A world that ends begins its next episode within the same step."""

    def __init__(self, worlds: Worlds, size: int, features: Sequence[str], actions: int, policies: Sequence[Any]):
        if size < 1:
            raise UserError(f"a batch of {size} worlds: at least 1 is needed")
        self.worlds, self.size, self.features = worlds, size, tuple(features)
        self.seeds = np.zeros(size, np.int64)  # (B,)
        self.episodes = np.zeros(size, np.int64)  # (B,) how many each world has begun since its seed was set
        self.actions = np.zeros(size, np.int64)  # (B,)
        self.observations = np.zeros((size, len(features)), np.float32)  # (B, F) in [0, LIMIT]
        self.masks = np.zeros((size, actions), np.int8)  # (B, A) 1 where the action is possible
        self.rewards = np.zeros(size)  # (B,)
        self.terminated = np.zeros(size, np.bool_)  # (B,) the episode ended with this step
        self.returns = np.zeros(size)  # (B,) of the episode so far
        self.lengths = np.zeros(size, np.int64)  # (B,) steps of the episode so far
        # Of the episode that ended last in each world; observations are those behind its last step.
        self.final_observations = np.zeros_like(self.observations)
        self.final_returns = np.zeros(size)
        self.final_lengths = np.zeros(size, np.int64)
        self.final_success = np.zeros(size)  # share of its requests
        self._policies = policies
        self._handle: Handle | None = None
        self._count = _compiled_count()
        self._count_arguments: tuple[Any, ...] = ()

    @property
    def handle(self) -> Handle:
        """The worlds themselves."""
        if self._handle is None:
            raise UserError("reset comes before the first step")
        return self._handle

    def reset(self, seeds: int | Sequence[int]) -> None:
        """Begin the first episode of every world; one seed s stands for s, s + 1, ..."""
        self.seeds[:] = seeds + np.arange(self.size) if isinstance(seeds, int) else seeds
        self.episodes[:] = 0
        for b in range(self.size):
            self.begin(b)
        self.observe()

    def begin(self, b: int, exact_seed: int | None = None) -> None:
        """Begin the next episode of world `b`, or the one with exactly this workload. `observe` then shows it."""
        if exact_seed is None:
            exact_seed = workload_seed(int(self.seeds[b]), int(self.episodes[b]))
            self.episodes[b] += 1
        workload, plan = self.worlds.draw(exact_seed), self.worlds.plan
        if self._handle is None:  # the other worlds follow: this one stands in for them
            self._handle = Handle(plan, [new_world(plan, workload, ROOM) for _ in range(self.size)], self._policies)
            self._count_arguments = self._handle.codes, self.rewards, self.terminated, self.returns, self.lengths
            self._bind(self._handle)
        self._handle.reset(b, workload)
        self.returns[b] = self.lengths[b] = 0
        self._begun(b)

    def step(self, actions: Any) -> None:
        """Take one action (B,) in every world and fill the buffers."""
        self.actions[:] = actions
        if self.play():
            self.observe()
            for b in np.flatnonzero(self.terminated).tolist():
                self._finish(b)
        self.observe()

    def play(self) -> int:
        """Carry out `actions`, without beginning new episodes or observing. Returns how many worlds have ended."""
        self._advance()
        ended: int = self._count(*self._count_arguments)
        return ended

    def _finish(self, b: int) -> None:
        self.final_observations[b] = self.observations[b]
        self.final_returns[b], self.final_lengths[b] = self.returns[b], self.lengths[b]
        self.final_success[b] = self.success(b)
        self.begin(b)

    def success(self, b: int) -> float:
        """The share of requests that succeeded in world `b` so far; NaN before the first has arrived."""
        clock = self.handle.worlds[b].clock[0]
        return float(clock["succeeded"] / clock["arrived"]) if clock["arrived"] else float("nan")

    @abstractmethod
    def observe(self) -> None:
        """Fill observations and masks."""

    @abstractmethod
    def _bind(self, handle: Handle) -> None:
        """The worlds are there: gather the arguments of kernels, once."""

    @abstractmethod
    def _advance(self) -> None:
        """Run every world on under its action and fill `rewards`."""

    @abstractmethod
    def _begun(self, b: int) -> None:
        """World `b` is at time 0: bring it to its first stop."""


def _count_ended(codes: Any, rewards: Any, terminated: Any, returns: Any, lengths: Any) -> int:
    ended = 0
    for b in range(len(codes)):
        terminated[b] = codes[b] == DONE
        ended += terminated[b]
        returns[b] += rewards[b]
        lengths[b] += 1
    return ended


@cache
def _compiled_count() -> Any:
    return typed_kernel(_count_ended, WORDS, FLOATS, FLAGS, FLOATS, WORDS)
