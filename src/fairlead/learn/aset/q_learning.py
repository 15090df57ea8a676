"""Deep Q-learning where every action is tried in every state: Stable-Baselines3's, but for three things.

The rows of its environment come in groups of as many as there are actions, all in the same state. Row a plays action a,
whatever is chosen: what is chosen for the first row of a group says which of them the group goes on from. Whether that
is random is drawn for each row; Stable-Baselines3 draws once for all. And it steps the worlds, then trains, in turns;
here the next step is under way while the network learns, chosen by the network of one training before, so that no core
waits. `Standardised` goes before the layers of its network. Used by `aset`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class Standardised(BaseFeaturesExtractor):
    """Inputs with mean 0 and variance 1, as far as they vary: a load that goes from 0.1 to 0.3 is heard."""

    def __init__(self, observation_space: Any) -> None:
        inputs = int(np.prod(observation_space.shape))
        super().__init__(observation_space, inputs)
        self.norm = nn.BatchNorm1d(inputs, affine=False, momentum=None)  # over all batches so far

    def forward(self, observations: Any) -> Any:
        """(B, F), in and out."""
        return self.norm(observations)


class AllActionsDQN(DQN):
    """DQN for an environment of groups."""

    _ahead: Any = None  # the actions of the step that is under way

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """The best actions; unless `deterministic`, a share of them is random."""
        actions, state = self.policy.predict(observation, state, episode_start, True)
        if not deterministic:
            random = self.action_space.np_random
            explores = random.random(len(actions)) < self.exploration_rate
            actions[explores] = random.integers(self._action_count, size=explores.sum())
        return actions, state

    @property
    def _action_count(self) -> int:
        assert isinstance(self.action_space, spaces.Discrete)
        return int(self.action_space.n)

    def _store_transition(self, replay_buffer: Any, buffer_action: Any, *rest: Any) -> None:
        """Remember what was played."""
        super()._store_transition(replay_buffer, np.arange(self.n_envs) % self._action_count, *rest)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Begin the next step of the worlds, then learn."""
        assert self.env is not None
        self._ahead = super()._sample_action(self.learning_starts, None, self.n_envs)
        self.env.step_async(self._ahead[0])
        super().train(gradient_steps, batch_size)

    def _sample_action(self, learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> Any:
        ahead, self._ahead = self._ahead, None
        return super()._sample_action(learning_starts, action_noise, n_envs) if ahead is None else ahead
