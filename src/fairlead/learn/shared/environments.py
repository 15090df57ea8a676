"""Our batches of worlds as the vector environment that Stable-Baselines3 learns in.

It is made of parts, some worlds each, which are stepped in threads, since the engine holds no Python lock. The files of
the agents say what a part is and what it pays; `validation` uses the views alone. Nothing here knows an algorithm.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from fairlead.policies.observe import LIMIT
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.world_file import SEEDS, Worlds

THREADS: Final = 2  # a training is promised to need no more than two cores
#: Environments with this seed draw the workloads of validation: none that is trained in has it, nor a higher one.
VALIDATION_SEED: Final = SEEDS - 1


@dataclass(frozen=True)
class Place:
    """Where to learn: a scenario with what was changed in it, such as its rate."""

    label: str  # unique in a training: the scenario's name, and its rate where there are several
    scenario: str
    overrides: tuple[str, ...]
    hash: str  # of all that the scenario says
    worlds: Worlds = field(repr=False)


class View:
    """What an agent sees of a batch of worlds, and how its actions reach them. Here: everything, as it is."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def observations(self) -> Any:
        """What is seen now, (B, F); not to be written to."""
        return self.batch.observations

    def masks(self) -> Any:
        """1 where an action is possible, (B, A)."""
        return self.batch.masks

    def actions(self, actions: Any) -> Any:
        """The agent's actions as those of the batch."""
        return actions


class Stepped(NamedTuple):
    """What a step of a part has brought, for each of its n rows."""

    rewards: Any  # (n,)
    ended: Any  # (n,) whether what follows does not belong to it: an episode has ended, or it is `cut`
    final: Any  # (n, F) what was seen at its end; of no meaning elsewhere
    success: Any  # (n,) of that episode
    cut: bool = False  # the rows have not ended, but nothing behind this step belongs to it: the value there counts


class Part(ABC):
    """Some worlds: rows of the environment. It begins new episodes by itself; one thread at a time uses it."""

    @abstractmethod
    def restart(self) -> None:
        """Begin new episodes in all worlds."""

    @abstractmethod
    def step(self, actions: Any) -> Stepped:
        """Take an action in each row."""

    @abstractmethod
    def observations(self) -> Any:
        """(n, F)."""

    @abstractmethod
    def masks(self) -> Any:
        """(n, A), 1 where an action is possible."""

    @abstractmethod
    def state(self) -> Any:
        """What decides which episodes are next, for a checkpoint. Episodes under way are not in it."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Go on where `state` was taken, with new episodes."""


class PartsEnv(VecEnv):
    """The rows of all parts, one after the other."""

    render_mode = None  # Stable-Baselines3 asks for it

    def __init__(self, parts: Sequence[Part], background: ThreadPoolExecutor | None = None) -> None:
        self.parts, self._background = list(parts), background  # threads that the parts use; they end with ours
        self.finished: list[float] = []  # success of episodes that have ended since someone emptied it
        self._threads = ThreadPoolExecutor(THREADS)
        self._under_way: list[Future[Stepped]] = []
        self._each(lambda part: part.restart())
        ends = np.cumsum([0, *(len(part.observations()) for part in parts)])
        self._rows = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        features, actions = parts[0].observations().shape[1], parts[0].masks().shape[1]
        super().__init__(int(ends[-1]), spaces.Box(0.0, LIMIT, (features,), np.float32), spaces.Discrete(actions))

    def _each(self, call: Any, *arguments: Any) -> list[Any]:
        return list(self._threads.map(call, self.parts, *arguments))

    def reset(self) -> Any:
        """What is seen at the start; episodes were begun when the parts were made or restored."""
        wait(self._under_way)
        self._under_way = []
        return self._observations()

    def step_async(self, actions: Any) -> None:
        """Begin to step every world, unless a step is under way: who begins early must mean the same actions."""
        if not self._under_way:
            parts = zip(self.parts, self._rows, strict=True)
            self._under_way = [self._threads.submit(part.step, actions[rows]) for part, rows in parts]

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """What the step that was begun has brought."""
        stepped = [part.result() for part in self._under_way]
        self._under_way = []
        rewards, ended = (np.concatenate([getattr(s, name) for s in stepped]) for name in ("rewards", "ended"))
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for s, rows in zip(stepped, self._rows, strict=True):
            for k in np.flatnonzero(s.ended):
                infos[rows.start + k] |= {"terminal_observation": s.final[k], "TimeLimit.truncated": s.cut}
                if not s.cut:
                    self.finished.append(float(s.success[k]))
        return self._observations(), rewards.astype(np.float32), ended, infos

    def _observations(self) -> Any:
        return np.concatenate([part.observations() for part in self.parts])

    def action_masks(self) -> Any:
        """Which actions are possible, bool (rows, A): sb3-contrib asks for it by this name."""
        return np.concatenate([part.masks() for part in self.parts]) != 0

    def state(self) -> list[Any]:
        """For a checkpoint."""
        wait(self._under_way)
        return [part.state() for part in self.parts]

    def restore(self, state: list[Any]) -> None:
        """Go on where `state` was taken."""
        wait(self._under_way)
        self._under_way = []
        for part, of_part in zip(self.parts, state, strict=True):
            part.restore(of_part)
        self._each(lambda part: part.restart())

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
        if self._background:
            self._background.shutdown()

    # What Stable-Baselines3 asks of environments that are objects of their own, which ours are not.

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same for every row."""
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **more: Any) -> Any:
        """The method answers for all rows at once."""
        return getattr(self, method_name)(*arguments, **more)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """No row is."""
        return [False] * self.num_envs
