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

from fairlead.policies.observe import LIMIT
from fairlead.sim.gym.batch import Batch
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


class View:
    """What an agent sees of a batch of worlds, and how its actions reach them. Here: everything, as it is."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def observations(self) -> Any:
        """What is seen now, (B, F); not to be written to."""
        return self.batch.observations

    def final_observations(self) -> Any:
        """What was seen at the end of the episode that ended last in each world, (B, F)."""
        return self.batch.final_observations

    def masks(self) -> Any:
        """1 where an action is possible, (B, A)."""
        return self.batch.masks

    def actions(self, actions: Any) -> Any:
        """The agent's actions as those of the batch."""
        return actions


Make = Callable[[Worlds, int], View]  # worlds of a place, and how many


def training_seed(*numbers: int) -> int:
    """The seed of an environment, made of the training's, the place's and the group's number."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0]) % VALIDATION_SEED


class PlacesEnv(VecEnv):
    """Rows are worlds, place by place; every `group` rows in succession see the same workloads.

    Stable-Baselines3 is shown all rows but the first `hidden` of each group: these are played by `_played`.
    """

    render_mode = None  # Stable-Baselines3 asks for it

    def __init__(
        self, places: Sequence[Place], make: Make, groups: int, group: int, seed: int, hidden: int = 0
    ) -> None:
        self.views: list[View] = []
        per_place = max(1, groups // len(places))
        parts = min(per_place, -(-THREADS // len(places)))  # of a place, so that each thread has some
        for p, place in enumerate(places):
            worlds = replace(place.worlds, draw=lru_cache(maxsize=per_place)(place.worlds.draw))  # once for a group
            for some in np.array_split(np.arange(per_place), parts):
                view = make(worlds, len(some) * group)
                view.batch.seed(np.repeat([training_seed(seed, p, int(g)) for g in some], group).tolist())
                self.views.append(view)
        ends = np.cumsum([0, *(view.batch.size for view in self.views)])
        self.rows = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self.places_of = np.repeat(np.arange(len(places)), per_place * group)  # (rows,)
        self.shown = np.flatnonzero(np.arange(ends[-1]) % group >= hidden)
        self.finished: list[float] = []  # success of episodes that have ended since someone emptied it
        self._threads = ThreadPoolExecutor(THREADS)
        self._actions: Any = None
        features, actions = self.views[0].observations().shape[1], self.views[0].masks().shape[1]
        super().__init__(len(self.shown), spaces.Box(0.0, LIMIT, (features,), np.float32), spaces.Discrete(actions))

    def reset(self) -> Any:
        """Begin an episode in every world: its next."""
        list(self._threads.map(lambda view: view.batch.reset(None), self.views))
        self._begun(np.ones(len(self.places_of), np.bool_))
        return self._observations()

    def step_async(self, actions: Any) -> None:
        """Take these actions at the next `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Step every world."""
        played = self._played(self._actions)

        def step(i: int) -> None:
            view = self.views[i]
            view.batch.step(view.actions(played[self.rows[i]]))

        list(self._threads.map(step, range(len(self.views))))
        ended = self.gather("terminated")
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        rewards = self._rewards().astype(np.float32)
        if ended.any():
            final = np.concatenate([view.final_observations() for view in self.views])
            for k in np.flatnonzero(ended[self.shown]):
                infos[k]["terminal_observation"] = final[self.shown[k]]
            self.finished += self.gather("final_success")[self.shown][ended[self.shown]].tolist()
            self._begun(ended)
        return self._observations(), rewards, ended[self.shown], infos

    def action_masks(self) -> Any:
        """Which actions are possible, bool (shown, A): sb3-contrib asks for it by this name."""
        return np.concatenate([view.masks() for view in self.views])[self.shown] != 0

    def gather(self, name: str) -> Any:
        """A buffer of all batches as one array over all rows: a copy."""
        return np.concatenate([getattr(view.batch, name) for view in self.views])

    def _observations(self) -> Any:
        return np.concatenate([view.observations() for view in self.views])[self.shown]

    def _played(self, actions: Any) -> Any:
        """What every row does, given the actions of those that are shown."""
        return actions

    def _rewards(self) -> Any:
        """Of the rows that are shown."""
        return self.gather("rewards")[self.shown]

    def _begun(self, rows: Any) -> None:
        """These rows (a mask) are at the start of an episode."""

    def state(self) -> dict[str, Any]:
        """What resuming needs: how many episodes each world has begun, since it goes on with the next ones."""
        return {"episodes": [view.batch.episodes.copy() for view in self.views]}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        for view, episodes in zip(self.views, state["episodes"], strict=True):
            view.batch.episodes[:] = episodes

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
