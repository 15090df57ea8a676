"""What both environments have in common: worlds stepped together, their buffers, and what happens when one ends.

Buffers are allocated once and written in place: copy what you want to keep. `dispatch` and `window` say what a step is.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NoReturn, Self

import numpy as np
from numba import types

from fairlead.domain.errors import UserError
from fairlead.policies.addresses import WORDS
from fairlead.policies.jit import typed_kernel
from fairlead.policies.observe import FLOATS
from fairlead.sim.gym.world_file import SEEDS, WORKLOAD_SEEDS, Worlds, whole_number, workload_seed
from fairlead.sim.serving.handle import ROOM, Handle
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import DONE

# Numba's types of the buffers.
FLAGS: Final = types.Array(types.boolean, 1, "C")
TABLE: Final = types.Array(types.float64, 2, "C")
OBSERVATIONS: Final = types.Array(types.float32, 2, "C")
MASKS: Final = types.Array(types.int8, 2, "C")


class Batch(ABC):
    """B worlds in step. A world that ends begins its next episode within the same step.

    Compiled code knows where the arrays are: they can be written to, not replaced. `copy.deepcopy` gives a batch that
    goes on by itself from here, as tree search needs it.
    """

    foresees = False  #: Whether what is foreseen of candidates is kept up, even if no policy of the batch reads it.

    def __init__(self, worlds: Worlds, size: int, features: Sequence[str], actions: int, policies: Sequence[Any]):
        if size < 1:
            raise UserError(f"a batch of {size} worlds: at least 1 is needed")
        self.worlds, self.size, self.features = worlds, size, tuple(features)
        self.seeds = np.full(size, -1, np.int64)  # (B,) -1 where none was set
        self.episodes = np.zeros(size, np.int64)  # (B,) how many each world has begun since its seed was set
        self.actions = np.zeros(size, np.int64)  # (B,)
        self.observations = np.zeros((size, len(features)), np.float32)  # (B, F) in [0, LIMIT]
        self.masks = np.zeros((size, actions), np.int8)  # (B, A) 1 where the action is possible
        self.rewards = np.zeros(size)  # (B,)
        self.terminated = np.zeros(size, np.bool_)  # (B,) the episode ended with this step
        self.returns = np.zeros(size)  # (B,) of the episode so far
        self.lengths = np.zeros(size, np.int64)  # (B,) steps of the episode so far
        # Of the episode that ended last in each world; observations and masks are those behind its last step.
        self.final_observations = np.zeros_like(self.observations)
        self.final_masks = np.zeros_like(self.masks)
        self.final_returns = np.zeros(size)
        self.final_lengths = np.zeros(size, np.int64)
        self.final_success = np.zeros(size)  # share of its requests
        self._policies = policies
        self._handle: Handle | None = None
        self._count = _compiled_count()
        self._count_arguments: tuple[Any, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        old = vars(self).get(name)
        if isinstance(old, np.ndarray) and value is not old:
            raise AttributeError(f"{name} can't be replaced: write into it, {name}[:] = ...")
        super().__setattr__(name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = object.__new__(type(self))
        for name, value in vars(self).items():  # what is no array never changes
            vars(made)[name] = value.copy() if isinstance(value, np.ndarray) else value
        if self._handle is not None:
            made._attach(copy.deepcopy(self._handle, memo))
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError("a running batch can't be pickled: copy.deepcopy copies it; elsewhere make it anew and seed it")

    @property
    def handle(self) -> Handle:
        """The worlds themselves."""
        if self._handle is None:
            raise UserError("reset comes before the first step")
        return self._handle

    def reset(self, seeds: int | Sequence[int | None] | None) -> None:
        """Begin the first episode of every world's seed; one seed s stands for s, s + 1, ...

        A world whose seed is None goes on with its next episode; if it was never seeded, it draws a seed.
        """
        self.seed(seeds)
        for b in range(self.size):
            self.begin(b)
        self.observe()

    def seed(self, seeds: int | Sequence[int | None] | None) -> None:
        """Set the seeds as `reset` does, without beginning episodes. They count modulo 2**32 - 1."""
        for b, seed in enumerate(_one_each(seeds, self.size)):
            if seed is None and self.seeds[b] >= 0:
                continue
            self.seeds[b] = np.random.default_rng().integers(SEEDS) if seed is None else seed % SEEDS
            self.episodes[b] = 0

    def begin(self, b: int, exact_seed: int | None = None) -> None:
        """Begin the next episode of world `b`, or the one with exactly this workload. `observe` then shows it."""
        if exact_seed is None:
            exact_seed = workload_seed(int(self.seeds[b]), int(self.episodes[b]))
            self.episodes[b] += 1
        else:
            exact_seed = whole_number("workload_seed", exact_seed, WORKLOAD_SEEDS)
        workload, plan = self.worlds.draw(exact_seed), self.worlds.plan
        if self._handle is None:  # the other worlds follow: this one stands in for them
            worlds = [new_world(plan, workload, ROOM) for _ in range(self.size)]
            self._attach(Handle(plan, worlds, self._policies, self.foresees))
        self.handle.reset(b, workload)
        self.returns[b] = self.lengths[b] = 0
        self._begun(b)

    def step(self, actions: Any) -> None:
        """Take one action (B,) in every world and fill the buffers."""
        given = np.asarray(actions)
        if given.shape != (self.size,) or given.dtype.kind not in "iu":
            what = f"{given.dtype} of shape {given.shape}"
            raise UserError(f"actions are {what}: one whole number for each of {self.size} worlds is needed")
        self.actions[:] = given
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
        self.final_observations[b], self.final_masks[b] = self.observations[b], self.masks[b]
        self.final_returns[b], self.final_lengths[b] = self.returns[b], self.lengths[b]
        self.final_success[b] = self.success(b)
        self.begin(b)

    def success(self, b: int) -> float:
        """The share of requests that succeeded in world `b` so far; NaN before the first has arrived."""
        clock = self.handle.worlds[b].clock[0]
        return float(clock["succeeded"] / clock["arrived"]) if clock["arrived"] else float("nan")

    def _attach(self, handle: Handle) -> None:
        self._handle = handle
        self._count_arguments = handle.codes, self.rewards, self.terminated, self.returns, self.lengths
        self._bind(handle)

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


def _one_each(seeds: Any, size: int) -> list[int | None]:
    """A seed, or None, for each world."""
    if seeds is None:
        return [None] * size
    if np.ndim(seeds) > 0:
        if len(seeds) != size:
            raise UserError(f"{len(seeds)} seeds for {size} worlds: give one seed, or one for each world")
        return [None if seed is None else whole_number("seed", seed) for seed in seeds]
    first = whole_number("seed", seeds)
    return list(range(first, first + size))


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
