"""The ASET agent: deep Q-learning (DQN) picks, at the edge of each window, the rule that decides in the next one.

State, actions and reward are ASET's (see fairlead.sim.gym.window). The noise of arrivals is far larger than what one
window under another rule changes, so plain DQN stays behind the best rule. Here worlds run in groups on one workload;
the first of a group plays a rule that is good everywhere, and the reward of the others is what they have gained on it
in the same window. What is taken off does not depend on the agent's actions, so the best policy is the same: an
input-dependent baseline (Mao et al., arXiv 1807.02264). Each episode of a group is in another place. Run by `training`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from stable_baselines3 import DQN
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.environments import VALIDATION_SEED, Part, PartsEnv, Place, Stepped, View
from fairlead.learn.learner import Learner
from fairlead.policies.interface import find, registry
from fairlead.policies.observe import WINDOW_VERSION
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.worlds import Worlds, workload_seed

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
    """Groups of worlds. A world takes 80 MB where 240,000 requests arrive in an episode."""
    group: int = 8
    """Worlds of a group: one plays the best rule, the others learn."""
    reward_scale: float = 10.0
    """What a share of requests gained in a window is worth: of the order of 1, as networks like it."""
    hidden: tuple[int, ...] = (128, 64)
    """Units of the network's layers."""
    learning_rate: float = 3e-4
    gamma: float = 0.98
    """Discount a window."""
    n_steps: int = 10
    """Windows whose rewards are summed before the target network estimates the rest."""
    batch: int = 512
    gradient_steps: int = 8
    """For each step of all worlds."""
    buffer: int = 600_000
    """Transitions that are remembered."""
    learning_starts: int = 10_000
    """Steps of random choice at the start."""
    target_update: int = 8000
    """Steps between updates of the target network."""
    epsilon_first: float = 1.0
    epsilon_last: float = 0.1
    """Share of random choices at the start, and from `exploration` of the training on; linear between."""
    exploration: float = 0.3
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 24
    """In each place."""
    budget_us: float = 1000.0
    """Time for a decision, when live."""


class Aset(Learner):
    """Trains one agent for all of its places."""

    kind, features, algorithm, together = "selector", WINDOW_VERSION, DQN, 8

    def __init__(
        self,
        places: Sequence[Place],
        actions: Sequence[str],
        settings: AsetSettings,
        seed: int,
        judged: Sequence[Place] = (),
    ) -> None:
        super().__init__(places, judged, tuple(actions), settings, seed)
        everywhere = (*self.places, *self.judged)
        windows = {float(place.worlds.plan.rules["window_ms"][0]) for place in everywhere}
        if len(windows) > 1:
            raise UserError(f"windows of {sorted(windows)} ms: an agent has one window; --window-ms sets it for all")
        if len(actions) < 2:
            raise UserError("--actions: an agent needs at least two policies to pick from")
        if settings.group < 2:
            raise UserError(f"group={settings.group}: one world of a group plays a rule, at least one learns")
        self.settings: AsetSettings = settings
        self.window_ms = windows.pop()
        self.nodes = max(len(place.worlds.nodes) for place in everywhere)

    def make(self, worlds: Worlds, size: int) -> View:
        """Worlds of a place that show what the agent sees."""
        return View(WindowBatch(worlds, size, WindowSettings(self.rules, self.settings.mix, self.nodes)))

    def score(self, figures: Any) -> Any:
        """The share of requests that succeed."""
        return figures[..., 0]

    def environment(self, best_rule: int) -> PartsEnv:
        """Where it learns, beside the rule that is best over all places."""
        return PartsEnv([GainGroup(self, best_rule, k) for k in range(self.settings.groups)])

    def model(self, env: PartsEnv) -> DQN:
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
            exploration_fraction=s.exploration,
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


class GainGroup(Part):
    """Worlds on one workload: the first plays a rule, unseen; the others are paid what they gain on it.

    Each episode is in another place: the group walks through all of them in an order of its own, then again in another.
    """

    def __init__(self, learner: Aset, rule: int, number: int) -> None:
        self._learner, self._rule = learner, rule
        self._apart = number / learner.settings.groups  # groups start apart: they are not all at the same hour
        self._late = self._apart
        self._random = np.random.default_rng([learner.seed, number])
        self._left: list[int] = []  # places of this walk that are still to come
        self._place = -1
        self._view: View

    def restart(self) -> None:
        """Begin an episode in the next place."""
        if not self._left:
            self._left = self._random.permutation(len(self._learner.places)).tolist()
        if (place := self._left.pop()) != self._place:
            self._view, self._place = self._move(place), place
        batch, seed = self._view.batch, workload_seed(int(self._random.integers(VALIDATION_SEED)), 0)
        for b in range(batch.size):
            batch.begin(b, seed)
        for _ in range(int(self._late * (len(batch.handle.worlds[0].windows) - 1))):
            self._play(self._rule)
        self._late = 0.0
        batch.observe()

    def _move(self, place: int) -> View:
        if self._place >= 0:
            del self._view  # before there is another: worlds are large
        worlds = self._learner.places[place].worlds
        once = replace(worlds, draw=lru_cache(maxsize=1)(worlds.draw))  # for all worlds of the group
        return self._learner.make(once, self._learner.settings.group)

    def step(self, actions: Any) -> Stepped:
        """All worlds of a group end at the same time, since all episodes of a place have the same windows."""
        batch = self._view.batch
        ended = self._play(np.concatenate([[self._rule], actions]))
        gains = (batch.rewards[1:] - batch.rewards[0]) * self._learner.settings.reward_scale
        batch.observe()
        final = batch.observations[1:].copy()
        success = np.array([batch.success(b) for b in range(1, batch.size)]) if ended else np.zeros(len(gains))
        if ended:
            self.restart()
        return Stepped(gains, np.full(len(gains), ended), final, success)

    def _play(self, actions: Any) -> bool:
        self._view.batch.actions[:] = actions
        return self._view.batch.play() > 0

    def observations(self) -> Any:
        """Of those that learn."""
        return self._view.observations()[1:].copy()

    def masks(self) -> Any:
        """Everything is always possible."""
        return self._view.masks()[1:]

    def state(self) -> Any:
        """The generator, and the rest of the walk."""
        return self._random.bit_generator.state, list(self._left)

    def restore(self, state: Any) -> None:
        """Go on where `state` was taken."""
        self._random.bit_generator.state, self._left = state[0], list(state[1])
        self._late = self._apart


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
