"""The ASET agent: deep Q-learning (DQN) picks, at the edge of each window, the rule that decides in the next one.

State, actions and reward are ASET's (see fairlead.sim.gym.window). The noise of arrivals is far larger than what one
window under another rule changes, so plain DQN stays behind the best rule. Here worlds run in groups on one workload,
and of each reward the mean of the group's others in the same window is taken off. That does not depend on the world's
own actions, so the best policy is the same: an input-dependent baseline (Mao et al., arXiv 1807.02264). Each episode of
a group is in another place. Run by `training`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.environments import THREADS, VALIDATION_SEED, Part, PartsEnv, Place, Stepped, View
from fairlead.learn.learner import Learner
from fairlead.learn.q_learning import ManyWorldsDQN
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
_STAY: Final = 4
SIX: Final = WindowSettings().policies  #: the actions of ASET's agent


@dataclass(frozen=True)
class AsetSettings:
    """What the training of an ASET agent can be told."""

    mix: bool = False
    """Whether it sees the deadlines and accuracies asked for, and the delays of links, beside ASET's state."""
    groups: int = 6
    """Groups of worlds. A world takes 80 MB where 240,000 requests arrive in an episode."""
    group: int = 8
    """Worlds on the same workload."""
    reward_scale: float = 10.0
    """What a share of requests gained in a window is worth: of the order of 1, as networks like it."""
    hidden: tuple[int, ...] = (128, 64)
    """Units of the network's layers."""
    learning_rate: float = 5e-4
    learning_rate_last: float = 5e-5
    gamma: float = 0.98
    """Discount a window."""
    n_steps: int = 10
    """Windows whose rewards are summed before the target network estimates the rest."""
    batch: int = 512
    gradient_steps: int = 1
    """For each step of all worlds."""
    buffer: int = 600_000
    """Transitions that are remembered."""
    learning_starts: int = 10_000
    """Steps of random choice at the start."""
    target_update: int = 20_000
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

    kind, features, algorithm, together = "selector", WINDOW_VERSION, ManyWorldsDQN, 8

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
            raise UserError(f"group={settings.group}: at least two worlds are compared on a workload")
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
        """Where it learns; what is not learnt from, the rule that is best over all places plays."""
        background = ThreadPoolExecutor(THREADS)
        return PartsEnv([WindowGroup(self, best_rule, k, background) for k in range(self.settings.groups)])

    def model(self, env: PartsEnv) -> ManyWorldsDQN:
        """An untrained agent."""
        s = self.settings
        first, last = s.learning_rate, s.learning_rate_last
        return ManyWorldsDQN(
            "MlpPolicy",
            env,
            learning_rate=lambda left: last + left * (first - last),
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


class WindowGroup(Part):
    """Worlds on one workload, which are paid what they gain on each other.

    Each episode is in another place: the group walks through all of them in an order of its own, then again in another.
    To get memory for worlds takes as long as a third of an episode. So they are kept where the next place differs by
    its workloads alone, and of such places some follow each other.
    """

    def __init__(self, learner: Aset, rule: int, number: int, background: ThreadPoolExecutor) -> None:
        self._learner, self._rule, self._background = learner, rule, background
        self._apart = number / learner.settings.groups  # groups start apart: they are not all at the same hour
        self._late = self._apart
        self._random = np.random.default_rng([learner.seed, number])
        self._left: list[int] = []  # places of this walk that are still to come
        self._next: Future[tuple[int, Worlds]] = background.submit(self._draw)
        self._place = -1
        self._view: Any = None  # of that place

    def restart(self) -> None:
        """Begin an episode in the next place."""
        place, worlds = self._next.result()
        self._next = self._background.submit(self._draw)
        if self._place >= 0 and _same(worlds.plan, self._view.batch.worlds.plan):
            self._view.batch.worlds = worlds
        else:
            self._view = None  # before there is another: worlds are large
            self._view = self._learner.make(worlds, self._learner.settings.group)
        self._place = place
        batch = self._view.batch
        for b in range(batch.size):
            batch.begin(b, 0)
        for _ in range(int(self._late * (len(batch.handle.worlds[0].windows) - 1))):
            self._play(self._rule)
        self._late = 0.0
        batch.observe()

    def _draw(self) -> tuple[int, Worlds]:
        """The next place, with one workload for all worlds of the group. Large ones take half a second."""
        if not self._left:
            self._left = self._walk()
        place = self._left.pop()
        worlds = self._learner.places[place].worlds
        workload = worlds.draw(workload_seed(int(self._random.integers(VALIDATION_SEED)), 0))
        return place, replace(worlds, draw=lambda _: workload)

    def _walk(self) -> list[int]:
        """All places, at most `_STAY` of a scenario together, in random order."""
        alike: dict[str, list[int]] = {}
        for place in self._random.permutation(len(self._learner.places)).tolist():
            alike.setdefault(self._learner.places[place].scenario, []).append(place)
        stays = [places[i : i + _STAY] for places in alike.values() for i in range(0, len(places), _STAY)]
        return [place for k in self._random.permutation(len(stays)) for place in stays[k]]

    def step(self, actions: Any) -> Stepped:
        """All worlds of a group end at the same time, since all episodes of a place have the same windows."""
        batch = self._view.batch
        ended = self._play(actions)
        alone = batch.size / (batch.size - 1)  # so that the mean is that of the others
        gains = (batch.rewards - batch.rewards.mean()) * alone * self._learner.settings.reward_scale
        batch.observe()
        final = batch.observations.copy()
        success = np.array([batch.success(b) for b in range(batch.size)]) if ended else np.zeros(batch.size)
        if ended:
            self.restart()
        return Stepped(gains, np.full(batch.size, ended), final, success)

    def _play(self, actions: Any) -> bool:
        self._view.batch.actions[:] = actions
        return self._view.batch.play() > 0

    def observations(self) -> Any:
        """A copy."""
        return self._view.observations().copy()

    def masks(self) -> Any:
        """Everything is always possible."""
        return self._view.masks()

    def state(self) -> Any:
        """The generator, and the rest of the walk after the place that is drawn already."""
        wait([self._next])
        return self._random.bit_generator.state, list(self._left)

    def restore(self, state: Any) -> None:
        """Go on where `state` was taken."""
        wait([self._next])
        self._random.bit_generator.state, self._left = state[0], list(state[1])
        self._late = self._apart
        self._next = self._background.submit(self._draw)


def _same(plan: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(plan, other, strict=True))


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
