"""The batches as Gymnasium's `VectorEnv`: many worlds a step, resets within the step.

Users make them by name: `gymnasium.make_vec("fairlead/Window-v1", num_envs=8)`. World i seeded with s is the single
environment seeded with s + i: the same episodes, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from fairlead.domain.errors import UserError
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.dispatch import DispatchBatch, DispatchSettings
from fairlead.sim.gym.envs import DISPATCH_PLACE, WINDOW_PLACE, Place, spaces, worlds_at
from fairlead.sim.gym.window import WindowBatch, WindowSettings


class _VectorEnv(VectorEnv[Any, Any, Any]):
    """What both environments share. `infos` are as Gymnasium's own vectors make them of single environments' `info`."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, batch: Batch, render_mode: str | None) -> None:
        if render_mode is not None:
            raise UserError(f"render_mode {render_mode!r}: a vector environment does not render; a single one can")
        self.batch, self.num_envs = batch, batch.size
        self.single_observation_space, self.single_action_space = spaces(batch)
        self.observation_space = batch_space(self.single_observation_space, batch.size)
        self.action_space = batch_space(self.single_action_space, batch.size)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every world: the first of its seed, or its next; `seed` s stands for s, s + 1, ..."""
        if options:
            raise UserError(f"options {', '.join(options)}: a vector environment takes none")
        self.batch.reset(seed)
        super().reset(seed=None if seed is None else int(self.batch.seeds[0]))
        everywhere = np.ones(self.num_envs, np.bool_)
        return self.batch.observations.copy(), _told({"action_mask": self.batch.masks}, everywhere)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Take one action in every world."""
        batch = self.batch
        batch.step(actions)
        ended = batch.terminated
        infos = _told({"action_mask": batch.masks}, np.ones_like(ended)) | _told(self._parts(), ~ended)
        if ended.any():
            infos |= self._final(ended)
        truncated = np.zeros(self.num_envs, np.bool_)
        return batch.observations.copy(), batch.rewards.copy(), ended.copy(), truncated, infos

    def _parts(self) -> dict[str, Any]:
        """What `infos` has of a step beside the mask: arrays (B,)."""
        return {}

    def _final(self, ended: Any) -> dict[str, Any]:
        """What `infos` has of episodes that have ended with this step."""
        batch = self.batch
        final_obs = np.full(self.num_envs, None, object)
        for b in np.flatnonzero(ended):
            final_obs[b] = batch.final_observations[b].copy()
        figures = {"success": batch.final_success, "return": batch.final_returns, "length": batch.final_lengths}
        final_info = _told({"action_mask": batch.final_masks, **self._parts(), **figures}, ended)
        return {
            "final_obs": final_obs,
            "_final_obs": ended.copy(),
            "final_info": final_info,
            "_final_info": ended.copy(),
        }

    def action_masks(self) -> Any:
        """Which actions are possible: bool (B, A)."""
        return self.batch.masks.astype(np.bool_)


def _told(arrays: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """Gymnasium's form: each array with zeros where it has no value, and a mask of its values; empty if nowhere."""
    told: dict[str, Any] = {}
    for name, array in arrays.items() if where.any() else ():
        told[name], told[f"_{name}"] = np.zeros_like(array), where.copy()
        told[name][where] = array[where]
    return told


class DispatchVectorEnv(_VectorEnv):
    """`DispatchEnv`, many at once; `infos` has its parts as arrays (B,)."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Place = DISPATCH_PLACE,
        overrides: Sequence[str] = (),
        settings: DispatchSettings = DispatchSettings(),
        render_mode: str | None = None,
    ) -> None:
        self._dispatch = DispatchBatch(worlds_at(scenario, overrides), num_envs, settings)
        super().__init__(self._dispatch, render_mode)

    def _parts(self) -> dict[str, Any]:
        succeeded, energy_j, degradation = self._dispatch.components.T
        invalid = self._dispatch.invalid
        return {"invalid": invalid, "succeeded": succeeded, "energy_j": energy_j, "degradation": degradation}


class WindowVectorEnv(_VectorEnv):
    """`WindowEnv`, many at once."""

    def __init__(
        self,
        num_envs: int = 1,
        scenario: Place = WINDOW_PLACE,
        overrides: Sequence[str] = (),
        settings: WindowSettings = WindowSettings(),
        render_mode: str | None = None,
    ) -> None:
        super().__init__(WindowBatch(worlds_at(scenario, overrides), num_envs, settings), render_mode)
