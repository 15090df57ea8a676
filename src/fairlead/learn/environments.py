"""Our batches of worlds as the vector environments that Stable-Baselines3 learns in: several places, side by side.

A place is a scenario at one rate. Its batches are stepped in threads, since the engine holds no Python lock. The files
of the agents make their environments of `PlacesEnv`; nothing here knows an algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from fairlead.sim.gym.batch import LIMIT, Batch
from fairlead.sim.gym.worlds import SEEDS, Worlds

THREADS: Final = 2
#: Environments with this seed draw the workloads of validation: none that is trained in has it.
VALIDATION_SEED: Final = SEEDS - 1


@dataclass(frozen=True)
class Place:
    """Where to learn: a scenario with what was changed in it."""

    label: str  # unique in a training: the scenario's name, and its rate where there are several
    scenario: str
    overrides: tuple[str, ...]
    hash: str  # of all that the scenario says
    worlds: Worlds = field(repr=False)


def training_seed(*numbers: int) -> int:
    """The seed of an environment, made of the training's, the place's and the group's number."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) % VALIDATION_SEED


class PlacesEnv(VecEnv):
    """Rows are worlds, place by place. Every `group` rows in succession see the same workloads.

    Observations, rewards and the rest are arrays over the rows `shown`; the others are played by us (`_played`).
    """

    render_mode = None  # Stable-Baselines3 asks for it

    def __init__(
        self,
        places: Sequence[Place],
        make: Callable[[Worlds, int], Batch],
        groups: int,
        group: int,
        seed: int,
        hidden: int = 0,
    ) -> None:
        self.batches: list[Batch] = []
        per_place = max(1, groups // len(places))
        for p, place in enumerate(places):
            worlds = replace(place.worlds, draw=lru_cache(maxsize=per_place)(place.worlds.draw))  # once for a group
            for some in np.array_split(np.arange(per_place), min(per_place, -(-THREADS // len(places)))):
                batch = make(worlds, len(some) * group)
                batch.seed(np.repeat([training_seed(seed, p, int(g)) for g in some], group).tolist())
                self.batches.append(batch)
        ends = np.cumsum([0, *(batch.size for batch in self.batches)])
        self.rows = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.places_of = np.repeat(np.arange(len(places)), per_place * group)  # (rows,)
        self.shown = np.flatnonzero(np.arange(ends[-1]) % group >= hidden)
        self.finished: list[float] = []  # success of episodes that have ended since someone emptied it
        self._threads = ThreadPoolExecutor(THREADS)
        self._actions: Any = None
        features, actions = self.batches[0].observations.shape[1], self.batches[0].masks.shape[1]
        super().__init__(len(self.shown), spaces.Box(0.0, LIMIT, (features,), np.float32), spaces.Discrete(actions))

    def reset(self) -> Any:
        """Begin an episode in every world: its next."""
        list(self._threads.map(lambda batch: batch.reset(None), self.batches))
        return self.gather("observations")[self.shown]

    def step_async(self, actions: Any) -> None:
        """Take these actions at the next `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Step every world."""
        played = self._played(self._actions)
        list(self._threads.map(lambda part: part[0].step(played[part[1]]), zip(self.batches, self.rows, strict=True)))
        ended = self.gather("terminated")
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if ended.any():
            final = self.gather("final_observations")
            for k in np.flatnonzero(ended[self.shown]):
                infos[k]["terminal_observation"] = final[self.shown[k]]
            self.finished += self.gather("final_success")[self.shown][ended[self.shown]].tolist()
        rewards = self._rewards(ended).astype(np.float32)
        return self.gather("observations")[self.shown], rewards, ended[self.shown], infos

    def gather(self, name: str) -> Any:
        """A buffer of all batches as one array over all rows: a copy."""
        return np.concatenate([getattr(batch, name) for batch in self.batches])

    def _played(self, actions: Any) -> Any:
        """What every row does, given the actions of those that are shown."""
        return actions

    def _rewards(self, ended: Any) -> Any:
        """Of the rows that are shown."""
        return self.gather("rewards")

    def state(self) -> dict[str, Any]:
        """How many episodes each world has begun: all that resuming needs, since it begins the next ones."""
        return {"episodes": [batch.episodes.copy() for batch in self.batches]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        for batch, episodes in zip(self.batches, state["episodes"], strict=True):
            batch.episodes[:] = episodes

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    # What Stable-Baselines3 asks of environments that are objects of their own, which ours are not.

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same for every row."""
        return [getattr(self, attr_name)] * getattr(self, "num_envs", 1)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Nothing can be set."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **more: Any) -> Any:
        """The method answers for all rows at once."""
        return getattr(self, method_name)(*arguments, **more)

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """No row is."""
        return [False] * self.num_envs
