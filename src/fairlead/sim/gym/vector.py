"""The batches as Gymnasium's `VectorEnv`: many worlds a step, resets within the step.

Users make them by name: `gymnasium.make_vec("fairlead/Window-v1", num_envs=8)`. World i seeded with s is the single
environment seeded with s + i: the same episodes, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairlead.domain.errors import UserError
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.dispatch import DispatchBatch, DispatchSettings
from fairlead.sim.gym.envs import Place, spaces, worlds_at
from fairlead.sim.gym.window import WindowBatch, WindowSettings


class _VectorEnv(VectorEnv[Any, Any, Any]):
    """What both environments share."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, batch: Batch) -> None:
        self.batch, self.num_envs = batch, batch.size
        self.single_observation_space, self.single_action_space = spaces(batch)
        self.observation_space = batch_space(self.single_observation_space, batch.size)
        self.action_space = batch_space(self.single_action_space, batch.size)
        self._all = np.ones(batch.size, np.bool_)
        self._seeded = False

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every world: the first of its seed, or its next; `seed` s stands for s, s + 1, ..."""
        if options:
            raise UserError(f"options {', '.join(options)}: a vector environment takes none")
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is not None or not self._seeded:
            self._seeded = True
            self.batch.reset(int(self.np_random.integers(2**31)) if seed is None else seed)
        else:
            for b in range(self.num_envs):
                self.batch.begin(b)
            self.batch.observe()
        return self.batch.observations.copy(), self._mask_info()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in every world."""
        batch = self.batch
        batch.step(actions)
        infos = self._info()
        if batch.terminated.any():
            self._add_final(infos)
        truncated = np.zeros(self.num_envs, np.bool_)
        return batch.observations.copy(), batch.rewards.copy(), batch.terminated.copy(), truncated, infos

    def _mask_info(self) -> dict[str, Any]:
        return {"action_mask": self.batch.masks.copy(), "_action_mask": self._all.copy()}

    def _info(self) -> dict[str, Any]:
        return self._mask_info()

    def _add_final(self, infos: dict[str, Any]) -> None:
        """Add what is told of episodes that have ended, in Gymnasium's form."""
        batch, ended = self.batch, self.batch.terminated.copy()
        final_obs = np.full(self.num_envs, None, object)
        for b in np.flatnonzero(ended):
            final_obs[b] = batch.final_observations[b].copy()
        figures = {"success": batch.final_success, "return": batch.final_returns, "length": batch.final_lengths}
        final_info: dict[str, Any] = {}
        for name, values in figures.items():
            final_info[name], final_info[f"_{name}"] = np.where(ended, values, 0), ended
        infos |= {"final_obs": final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended}

    def action_masks(self) -> Any:
        """Which actions are possible: bool (B, A)."""
        return self.batch.masks.astype(np.bool_)


class DispatchVectorEnv(_VectorEnv):
    """`DispatchEnv`, many at once; `infos` has its parts as arrays (B,)."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Place = "ecsrl",
        overrides: Sequence[str] = (),
        settings: DispatchSettings = DispatchSettings(),
    ) -> None:
        self._dispatch = DispatchBatch(worlds_at(scenario, overrides), num_envs, settings)
        super().__init__(self._dispatch)

    def _info(self) -> dict[str, Any]:
        succeeded, energy_j, degradation = self._dispatch.components.T.copy()
        parts = {"invalid": self._dispatch.invalid.copy(), "succeeded": succeeded}
        parts |= {"energy_j": energy_j, "degradation": degradation}
        return self._mask_info() | parts | {f"_{name}": self._all.copy() for name in parts}


class WindowVectorEnv(_VectorEnv):
    """`WindowEnv`, many at once."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Place = "full-edge",
        overrides: Sequence[str] = (),
        settings: WindowSettings = WindowSettings(),
    ) -> None:
        super().__init__(WindowBatch(worlds_at(scenario, overrides), num_envs, settings))
