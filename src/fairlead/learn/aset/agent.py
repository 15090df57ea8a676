"""The ASET agent: deep Q-learning (DQN) picks, at the edge of each window, the rule that decides in the next one.

State, actions and reward are ASET's (see fairlead.sim.gym.window). In a window a client or two are bound, whose streams
last for a minute: what a choice changes is small beside the noise of arrivals, and comes late. So, while it learns,

- worlds run in groups on one workload and from one state, one world for each action. Each holds its action for some
  windows, then all play a fixed rule for some more; the reward is what was gained in all of these on the world that
  played the rule throughout: from the same state and on the same workload next to no noise is left (compare Mao et al.,
  arXiv 1807.02264), and of that, what the actions have in common can't mislead their order;
- values are gains on the rule from the state they are of. So the reward of an action has what it changes while the rule
  is played afterwards, and the value of where it led to has what doing better than the rule there brings: nothing is
  counted twice (the performance difference lemma), but what lasts longer than the tail is lost. They are of an action
  that is held; in use it is chosen anew in each window, which only adds what the windows in between tell;
- all go on from the world that did what the agent thought best, or, in a share epsilon of steps, from any;
- a group is in another place in each episode.

Run by `training`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome
from fairlead.learn.aset.q_learning import AllActionsDQN, Standardised
from fairlead.learn.shared.environments import THREADS, VALIDATION_SEED, Part, PartsEnv, Place, Stepped, View
from fairlead.learn.shared.learner import Learner, compiled_rules, falling
from fairlead.policies.interface import find
from fairlead.policies.observe import WINDOW_VERSION
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.world_file import Worlds, workload_seed
from fairlead.sim.serving.world import copy_state, like
from fairlead.sim.serving.world_arrays import World

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
_STAY: Final = 4  # places of one scenario in a row: few enough to mix, enough to save most of the allocations


@dataclass(frozen=True)
class AsetSettings:
    """The settings of a training of an ASET agent."""

    mix: bool = False
    """Whether it sees the deadlines and accuracies asked for, and the delays of links, beside ASET's state."""
    groups: int = 6
    """Groups, each with a world for each action. A world takes 80 MB where 240,000 requests arrive in an episode."""
    reward_scale: float = 0.02
    """What a share gained of n requests in a window is worth, times the square root of n: noise is alike everywhere."""
    hidden: tuple[int, ...] = (128, 64)
    """Units of the network's layers."""
    learning_rate: float = 5e-4
    """Of AdamW, at first; linear to"""
    learning_rate_last: float = 2e-5
    """this at the end."""
    weight_decay: float = 3.0
    """Of AdamW, large: gains are small beside their noise, and each is learnt from a hundred times."""
    hold: int = 20
    """Windows for which an action is held while it learns."""
    tail: int = 40
    """Windows for which all worlds of a group then play the rule, to see what the action still brings."""
    gamma: float = 0.99
    """Discount a window."""
    batch: int = 512
    """Transitions that a gradient step learns from."""
    gradient_steps: int = 8
    """For each step of all worlds."""
    buffer: int = 200_000
    """Transitions that are remembered."""
    learning_starts: int = 2000
    """Steps before it learns."""
    target_memory: int = 2000
    """Steps over which the target network, a running mean of the one that learns, forgets; it becomes the bundle. How
    inputs are standardised is copied from the one that learns."""
    epsilon_first: float = 1.0
    """Share of steps after which a group goes on from any world, at the start."""
    epsilon_last: float = 0.1
    """The same from `exploration` of the training on; linear between."""
    exploration: float = 0.1
    """Share of the training until `epsilon_last` is reached."""
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 24
    """In each place."""
    budget_us: float = 1000.0
    """Time for a decision, when live."""


class Aset(Learner):
    """Trains one agent for all of its places."""

    kind, features, together = "selector", WINDOW_VERSION, 8

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
            raise UserError("--actions: an agent needs at least two policies to choose from")
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
        background = ThreadPoolExecutor(THREADS)
        groups = [WindowGroup(self, best_rule, k, background) for k in range(self.settings.groups)]
        return PartsEnv(groups, background)

    def model(self, env: PartsEnv) -> AllActionsDQN:
        """An untrained agent."""
        s = self.settings
        return AllActionsDQN(
            "MlpPolicy",
            env,
            learning_rate=falling(s.learning_rate, s.learning_rate_last),
            gamma=s.gamma**s.hold,
            batch_size=s.batch,
            train_freq=1,
            gradient_steps=s.gradient_steps,
            buffer_size=s.buffer,
            learning_starts=s.learning_starts,
            target_update_interval=env.num_envs,  # after each step of all worlds
            tau=min(1.0, env.num_envs / s.target_memory),
            exploration_fraction=s.exploration,
            exploration_initial_eps=s.epsilon_first,
            exploration_final_eps=s.epsilon_last,
            policy_kwargs={
                "net_arch": list(s.hidden),
                "features_extractor_class": Standardised,
                "optimizer_class": torch.optim.AdamW,
                "optimizer_kwargs": {"fused": True, "weight_decay": s.weight_decay},
            },
            seed=self.seed,
            device="cpu",
        )

    def network(self, model: Any) -> nn.Module:
        """From observations to the values of the actions."""
        return nn.Sequential(model.q_net_target.features_extractor, model.q_net_target.q_net)

    def manifest(self) -> dict[str, Any]:
        """What only selectors have."""
        return {
            "summary": f"ASET agent: chooses among {len(self.rules)} rules for each window",
            "actions": list(self.rules),
            "sizes": {"nodes": self.nodes},
            "mix": self.settings.mix,
            "window_ms": self.window_ms,
        }


@dataclass(frozen=True)
class _Episode:
    """What a group plays."""

    worlds: Worlds  # with one workload for all of them
    requests: int
    head_start: float  # in holds, before the first one begins: 0 half of the time, else so that it is in any window
    rule: int  # that is played until then


class WindowGroup(Part):
    """Worlds on one workload, one for each action; all are paid what they gain on the one that plays a rule. See above.

    Each episode is in another place: the group walks through all of them in an order of its own, then again in another.
    To get memory for worlds takes as long as a third of an episode. So they are kept where the next place differs by
    its workloads alone, and of such places some follow each other.
    """

    def __init__(self, learner: Aset, rule: int, number: int, background: ThreadPoolExecutor) -> None:
        self._learner, self._rule, self._background = learner, rule, background
        self._actions = np.arange(len(learner.rules))
        self._apart = number / learner.settings.groups  # groups start apart: they are not all at the same hour
        self._late = self._apart
        self._random = np.random.default_rng([learner.seed, number])
        self._left: list[int] = []  # places of this walk that are still to come
        self._next: Future[_Episode] = background.submit(self._draw)
        self._scale, self._requests = 0.0, 0
        self._settled = 0  # requests that no world has under way
        self._view: Any = None  # of the place where it is
        self._kept: World | None = None  # room for a world of it

    def restart(self) -> None:
        """Begin an episode in the next place."""
        episode = self._next.result()
        worlds, self._requests = episode.worlds, episode.requests
        self._next = self._background.submit(self._draw)
        if self._view is not None and _same(worlds.plan, self._view.batch.worlds.plan):
            self._view.batch.worlds = worlds
        else:
            self._view = self._kept = None  # before there are others: worlds are large
            self._view = self._learner.make(worlds, len(self._actions))
        self._settled = 0
        batch = self._view.batch
        for b in range(batch.size):
            batch.begin(b, 0)
        if self._kept and [a.shape for a in self._kept] != [a.shape for a in batch.handle.worlds[0]]:
            self._kept = None
        windows = len(batch.handle.worlds[0].windows) - 1
        self._scale = self._learner.settings.reward_scale * math.sqrt(self._requests / windows)
        hold = min(self._learner.settings.hold, windows)
        for _ in range(int(self._late * windows) or int(episode.head_start * hold)):
            self._play(episode.rule)
        self._late = 0.0
        batch.observe()

    def _draw(self) -> _Episode:
        """The next one. It can take half a second."""
        if not self._left:
            self._left = self._walk()
        worlds = self._learner.places[self._left.pop()].worlds
        workload = worlds.draw(workload_seed(int(self._random.integers(VALIDATION_SEED)), 0))
        start, rule = max(0.0, self._random.uniform(-1.0, 1.0)), int(self._random.integers(len(self._actions)))
        return _Episode(replace(worlds, draw=lambda _: workload), len(workload.requests), start, rule)

    def _walk(self) -> list[int]:
        """All places, at most `_STAY` of a scenario together, in random order."""
        alike: dict[str, list[int]] = {}
        for place in self._random.permutation(len(self._learner.places)).tolist():
            alike.setdefault(self._learner.places[place].scenario, []).append(place)
        stays = [places[i : i + _STAY] for places in alike.values() for i in range(0, len(places), _STAY)]
        return [place for k in self._random.permutation(len(stays)) for place in stays[k]]

    def step(self, actions: Any) -> Stepped:
        """Hold each action for some windows; then all worlds are put to that of the first of `actions`.

        All worlds of a group end at the same time, since all episodes of a place have the same windows.
        """
        batch, settings = self._view.batch, self._learner.settings
        gains, ended = np.zeros(batch.size), False
        for k in range(settings.hold):
            ended = self._play(self._actions)
            gains += settings.gamma**k * self._gains()
            if ended:
                break
        batch.observe()
        final = batch.observations.copy()
        success = np.array([batch.success(b) for b in range(batch.size)]) if ended else np.zeros(len(gains))
        if ended:
            del batch  # or there would be old and new worlds at once
            self.restart()
        else:
            gains += settings.gamma**settings.hold * self._bring_together(int(actions[0]))
            batch.observe()
        return Stepped(gains, np.ones(len(gains), np.bool_), final, success, cut=not ended)

    def _gains(self) -> Any:
        """On the rule, in the window that has just ended."""
        rewards = self._view.batch.rewards
        return (rewards - rewards[self._rule]) * self._scale

    def _bring_together(self, leader: int) -> Any:
        """Play the rule in all worlds for a while; returns what they still gain by what they did before.

        Then all are put to where the world of action `leader` was before that.
        """
        settings, batch = self._learner.settings, self._view.batch
        worlds, codes = batch.handle.worlds, batch.handle.codes.copy()
        first, last = self._open()
        kept = self._kept = self._kept or like(worlds[0], batch.worlds.plan)
        copy_state(worlds[leader], kept, first, last)
        later = np.zeros(batch.size)
        for k in range(settings.tail):
            ended = self._play(self._rule)
            later += settings.gamma**k * self._gains()
            if ended:
                break
        for world in worlds:
            copy_state(kept, world, first, last)
        batch.handle.codes[:] = codes
        self._settled = first
        return later

    def _open(self) -> tuple[int, int]:
        """The requests that some world has under way, or that arrive in the tail: from the first to below the last."""
        worlds = self._view.batch.handle.worlds
        arrived, window = (int(worlds[0].clock[0][name]) for name in ("next_request", "window"))
        first = min(_oldest(world, self._settled, arrived) for world in worlds)
        until_ms = (window + self._learner.settings.tail) * self._learner.window_ms
        return first, int(np.searchsorted(worlds[0].requests["now_ms"][: self._requests], until_ms, side="right"))

    def _play(self, actions: Any) -> bool:
        self._view.batch.actions[:] = actions
        return self._view.batch.play() > 0

    def observations(self) -> Any:
        """The same in all rows."""
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
        self._random.bit_generator.state, self._left = state[0], list(map(int, state[1]))
        if not all(0 <= place < len(self._learner.places) for place in self._left):
            raise ValueError("a place that is not there")
        self._late = self._apart
        self._next = self._background.submit(self._draw)


def _oldest(world: Any, settled: int, arrived: int) -> int:
    """The first request that is still under way; those before `settled` are not."""
    pending = world.rows["outcome"][settled:arrived] == Outcome.PENDING
    return settled + int(pending.argmax()) if pending.any() else arrived


def _same(plan: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(plan, other, strict=True))


def actions_of(text: str) -> tuple[str, ...]:
    """The actions that `--actions` names: seven, six, all, or names of compiled policies."""
    if text == "all":
        return compiled_rules()
    sets = {"seven": SEVEN, "six": SIX}
    names = sets.get(text) or tuple(dict.fromkeys(find(n.strip()).name for n in text.split(",") if n.strip()))
    for name in names:
        if not find(name).compiles:
            raise UserError(f"--actions {name}: the agent can choose only among compiled policies")
    return names
