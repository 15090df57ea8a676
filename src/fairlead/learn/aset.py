"""The ASET agent: deep Q-learning (DQN) picks, at the edge of each window, the rule that decides in the next one.

State, actions and reward are ASET's (see fairlead.sim.gym.window). The noise of arrivals is far larger than what one
window under another rule changes, so plain DQN stays behind the best rule. Here worlds run in groups on one workload;
the first of a group plays the place's best rule, and the reward of the others is what they have gained on it in the
same window. What is taken off does not depend on the agent's actions, so the best policy is the same: an
input-dependent baseline (Mao et al., arXiv 1807.02264). Run by `training`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from stable_baselines3 import DQN
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.environments import Make, Place, PlacesEnv, View
from fairlead.learn.learner import Learner
from fairlead.policies.interface import find, registry
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.worlds import Worlds

SEVEN: Final = (
    "closest",
    "load-balancing",
    "farthest",
    "cheaper",
    "random-proportional-latency",
    "random-proportional-load",
    "least-impedance",
)  #: the static policies of ASET
SIX: Final = WindowSettings().policies  #: the actions of ASET's agent


@dataclass(frozen=True)
class AsetSettings:
    """What the training of an ASET agent can be told."""

    mix: bool = False
    """Whether it sees the deadlines and accuracies asked for, and the delays of links, beside ASET's state."""
    groups: int = 6
    """Groups of worlds, over all places; every place has one at least."""
    group: int = 8
    """Worlds of a group: one plays the best rule, the others learn."""
    reward_scale: float = 10.0
    """What a share of requests gained in a window is worth: of the order of 1, as networks like it."""
    hidden: tuple[int, ...] = (128, 64)
    """Units of the network's layers."""
    learning_rate: float = 2e-4
    gamma: float = 0.98
    """Discount a window."""
    n_steps: int = 20
    """Windows whose rewards are summed before the target network estimates the rest."""
    batch: int = 512
    gradient_steps: int = 4
    """For each step of all worlds."""
    buffer: int = 300_000
    """Transitions that are remembered."""
    learning_starts: int = 10_000
    """Steps of random choice at the start."""
    target_update: int = 1000
    """Steps between updates of the target network."""
    epsilon_first: float = 1.0
    epsilon_last: float = 0.1
    """Share of random choices at the start and at the end of training, linear between."""
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 24
    """In each place."""
    budget_us: float = 1000.0
    """Time for a decision, when live."""


class Aset(Learner):
    """Trains one agent for all of its places."""

    kind, features, algorithm, together = "selector", "window-1", DQN, 8  # a world of 240,000 requests takes 80 MB

    def __init__(self, places: Sequence[Place], actions: Sequence[str], settings: AsetSettings, seed: int) -> None:
        windows = {float(place.worlds.plan.rules["window_ms"][0]) for place in places}
        if len(windows) > 1:
            raise UserError(f"windows of {sorted(windows)} ms: an agent has one window; --window-ms sets it for all")
        if len(actions) < 2:
            raise UserError("--actions: an agent needs at least two policies to pick from")
        if settings.group < 2:
            raise UserError("group=1: a group has a world that plays the best rule and at least one that learns")
        super().__init__(places, tuple(actions), settings, seed)
        self.settings: AsetSettings = settings
        self.window_ms = windows.pop()
        self.nodes = max(len(place.worlds.nodes) for place in places)

    def make(self, worlds: Worlds, size: int) -> View:
        """Worlds of a place that show what the agent sees."""
        return View(WindowBatch(worlds, size, WindowSettings(self.rules, self.settings.mix, self.nodes)))

    def score(self, figures: Any) -> Any:
        """The share of requests that succeed."""
        return figures[..., 0]

    def environment(self, best_rules: Sequence[int]) -> PlacesEnv:
        """Where it learns, beside the best rule of each place."""
        s = self.settings
        return GainEnv(self.places, self.make, s.groups, s.group, self.seed, best_rules, s.reward_scale)

    def model(self, env: PlacesEnv) -> DQN:
        """An untrained agent."""
        s = self.settings
        return DQN(
            "MlpPolicy",
            env,
            learning_rate=s.learning_rate,
            gamma=s.gamma,
            n_steps=s.n_steps,
            batch_size=s.batch,
            train_freq=1,
            gradient_steps=s.gradient_steps,
            buffer_size=s.buffer,
            learning_starts=s.learning_starts,
            target_update_interval=s.target_update,
            exploration_fraction=1.0,
            exploration_initial_eps=s.epsilon_first,
            exploration_final_eps=s.epsilon_last,
            policy_kwargs={"net_arch": list(s.hidden)},
            seed=self.seed,
            device="cpu",
        )

    def network(self, model: Any) -> nn.Module:
        """From observations to the values of the actions."""
        return model.q_net.q_net  # the layers alone: observations need no preparation

    def manifest(self) -> dict[str, Any]:
        """What only selectors have."""
        return {
            "summary": f"ASET agent: picks among {len(self.rules)} rules for each window",
            "actions": list(self.rules),
            "sizes": {"nodes": self.nodes},
            "mix": self.settings.mix,
            "window_ms": self.window_ms,
        }


class GainEnv(PlacesEnv):
    """The first world of each group plays the place's best rule, hidden; the others are paid what they gain on it."""

    def __init__(
        self,
        places: Sequence[Place],
        make: Make,
        groups: int,
        group: int,
        seed: int,
        best_rules: Sequence[int],
        scale: float,
    ) -> None:
        super().__init__(places, make, groups, group, seed, hidden=1)
        self._group, self._scale = group, scale
        self._reference = np.array(best_rules)[self.places_of]  # (rows,)

    def _played(self, actions: Any) -> Any:
        played = self._reference.copy()
        played[self.shown] = actions
        return played

    def _rewards(self) -> Any:
        rewards = self.gather("rewards").reshape(-1, self._group)
        return ((rewards[:, 1:] - rewards[:, :1]) * self._scale).ravel()


def actions_of(text: str) -> tuple[str, ...]:
    """The actions that `--actions` names: seven, six, all, or names of compiled policies."""
    if text == "all":
        return tuple(p.name for p in registry()[0].values() if p.kind == "compiled" and p.package == "fairlead")
    sets = {"seven": SEVEN, "six": SIX}
    names = sets.get(text) or tuple(dict.fromkeys(find(n.strip()).name for n in text.split(",") if n.strip()))
    for name in names:
        if find(name).kind != "compiled":
            raise UserError(f"--actions {name}: only compiled policies can be picked from")
    return names
