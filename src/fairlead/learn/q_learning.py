"""Deep Q-learning in many worlds: Stable-Baselines3's, but each world explores by itself, and no core waits.

Stable-Baselines3 draws once for all worlds whether they explore, so that they all do or none; here each does for
itself, and those that its environment calls explorers always. And it steps the worlds, then trains, in turns; here the
next step is under way while the network learns, chosen by the network of one training before. Used by `aset`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3 import DQN

from fairlead.learn.environments import PartsEnv


class ManyWorldsDQN(DQN):
    """DQN for a `PartsEnv`."""

    _ahead: Any = None  # the actions of the step that is under way

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """The best actions; unless `deterministic`, those of some worlds are random."""
        actions, state = self.policy.predict(observation, state, episode_start, True)
        if not deterministic:
            explores = np.random.rand(len(actions)) < self.exploration_rate  # noqa: NPY002  as Stable-Baselines3 does
            explores |= self._explorers()
            actions[explores] = [self.action_space.sample() for _ in range(explores.sum())]
        return actions, state

    def _explorers(self) -> Any:
        assert isinstance(self.env, PartsEnv)
        return self.env.explorers()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Begin the next step of the worlds, then learn."""
        assert self.env is not None
        self._ahead = super()._sample_action(self.learning_starts, None, self.n_envs)
        self.env.step_async(self._ahead[0])
        super().train(gradient_steps, batch_size)

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        ahead, self._ahead = self._ahead, None
        return super()._sample_action(learning_starts, action_noise, n_envs) if ahead is None else ahead

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_ahead"]
