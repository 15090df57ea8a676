"""The environments as Gymnasium's single `Env`: a batch of one world behind Gymnasium's interface.

Users make them by name: `gymnasium.make("fairlead.sim.gym:fairlead/Dispatch-v1", scenario="ecsrl")`. Observations,
actions and rewards are described in `DispatchBatch` and `WindowBatch`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fairlead.domain.errors import UserError
from fairlead.domain.scenario import Scenario
from fairlead.policies.observe import LIMIT
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.dispatch import DispatchBatch, DispatchSettings
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.world_file import Worlds, load_worlds, worlds_of

#: A scenario's name or file (.yaml), a file of worlds (.npz), or the thing itself.
Place = str | Path | Scenario | Worlds

# Where the environments are when nothing else is said: the worlds of the systems that they come from.
DISPATCH_PLACE: Final = "ecsrl"
WINDOW_PLACE: Final = "full-edge"


def worlds_at(place: Place, overrides: Sequence[str] = ()) -> Worlds:
    """The worlds of a place, with `key=value` overrides of its scenario."""
    if isinstance(place, str | Path) and not str(place).endswith(".npz"):
        from fairlead.scenarios.loader import load

        return worlds_of(load(str(place), overrides))
    if overrides:
        raise UserError(f"overrides ({', '.join(overrides)}) need a scenario's name or file")
    if isinstance(place, str | Path):
        return load_worlds(place)
    return worlds_of(place) if isinstance(place, Scenario) else place


def spaces(batch: Batch) -> tuple[Box, Discrete[Any]]:
    """The observation and action space of one world of the batch."""
    return Box(0.0, LIMIT, (len(batch.features),), np.float32), Discrete(batch.masks.shape[1])


class _Env(gymnasium.Env[Any, Any]):
    """What both environments share."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, batch: Batch, render_mode: str | None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UserError(f"render_mode {render_mode!r}: ansi and None are known")
        self.batch, self.render_mode = batch, render_mode
        self.observation_space, self.action_space = spaces(batch)
        self._ended = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: the first of `seed`, or the next; `options={"workload_seed": n}` an exact workload."""
        for option in options or {}:
            if option != "workload_seed":
                raise UserError(f"option {option!r} is not known: workload_seed is")
        self.batch.seed([seed])
        super().reset(seed=None if seed is None else operator.index(seed))
        self.batch.begin(0, (options or {}).get("workload_seed"))
        self.batch.observe()
        self._ended = False
        return self.batch.observations[0].copy(), {"action_mask": self.batch.masks[0].copy()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action."""
        if self._ended:
            raise UserError("the episode has ended: reset first")
        batch = self.batch
        batch.actions[0] = operator.index(action)
        self._ended = batch.play() > 0
        batch.observe()
        info = self._info()
        if self._ended:
            info |= {"success": batch.success(0), "return": batch.returns.item(), "length": batch.lengths.item()}
        return batch.observations[0].copy(), batch.rewards.item(), self._ended, False, info

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.batch.masks[0].copy()}

    def action_masks(self) -> Any:
        """Which actions are possible, as sb3-contrib's masked algorithms ask for it: bool (A,)."""
        return self.batch.masks[0].astype(np.bool_)

    def render(self) -> Any:
        """One line: how far, how well."""
        if self.render_mode is None:
            return None
        clock = self.batch.handle.worlds[0].clock[0]
        under_way = int(clock["arrived"] - clock["finished"] - clock["rejected"])
        return (
            f"{self.batch.worlds.name} at {clock['now_ms'] / 1000.0:.2f} s: {clock['arrived']} arrived, "
            f"{clock['succeeded']} succeeded, {clock['rejected']} rejected, {under_way} under way\n"
        )


class DispatchEnv(_Env):
    """Where does this request go? See `DispatchBatch` for observation, action, reward and end.

    `info` has `action_mask` (int8), `invalid`, the reward's raw parts `succeeded`, `energy_j` and `degradation`, and at
    the end of an episode `success`, the share of all its requests, its `return` and its `length` in steps.

    >>> import gymnasium
    >>> env = gymnasium.make("fairlead.sim.gym:fairlead/Dispatch-v1", scenario="ecsrl")
    >>> observation, info = env.reset(seed=1)
    >>> action = env.action_space.sample(mask=info["action_mask"])
    >>> observation, reward, terminated, truncated, info = env.step(action)
    >>> observation.shape, bool(info["invalid"])
    ((77,), False)
    """

    def __init__(
        self,
        scenario: Place = DISPATCH_PLACE,
        overrides: Sequence[str] = (),
        settings: DispatchSettings = DispatchSettings(),
        render_mode: str | None = None,
    ) -> None:
        self._dispatch = DispatchBatch(worlds_at(scenario, overrides), 1, settings)
        super().__init__(self._dispatch, render_mode)

    def _info(self) -> dict[str, Any]:
        succeeded, energy_j, degradation = self._dispatch.components[0].tolist()
        return {
            "action_mask": self._dispatch.masks[0].copy(),
            "invalid": self._dispatch.invalid.item(),
            "succeeded": succeeded,
            "energy_j": energy_j,
            "degradation": degradation,
        }


class WindowEnv(_Env):
    """Which policy decides in the next window? See `WindowBatch` for observation, action, reward and end.

    `info` has `action_mask` (int8, all ones) and at the end of an episode `success`, the share of all its requests, its
    `return` and its `length` in steps.

    >>> import gymnasium
    >>> env = gymnasium.make("fairlead.sim.gym:fairlead/Window-v1", scenario="dc-cloud", overrides=["rate=30"])
    >>> observation, info = env.reset(seed=1)
    >>> observation, reward, terminated, truncated, info = env.step(0)
    >>> observation.shape, 0.0 <= reward <= 1.0
    ((6,), True)
    """

    def __init__(
        self,
        scenario: Place = WINDOW_PLACE,
        overrides: Sequence[str] = (),
        settings: WindowSettings = WindowSettings(),
        render_mode: str | None = None,
    ) -> None:
        super().__init__(WindowBatch(worlds_at(scenario, overrides), 1, settings), render_mode)
