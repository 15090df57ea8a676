"""The ECSRL agent: an actor-critic (PPO with masks) sends each request to a device and a variant, or rejects it.

The objective is ECSRL's, energy and degradation (see fairlead.sim.gym.dispatch), beside success, in two forms:

- weighted: the most of successes - energy_weight * joules - degradation_weight * degradation. With ranges of weights,
  they are drawn anew for each group and episode, and the network sees them: one network for the whole trade-off;
- constraint: the least energy_weight * joules + degradation_weight * degradation at which the share of successes is
  at least `target`. A failure costs a multiplier, which rises after each roll-out while the share is too low and falls
  while it is higher than needed (dual ascent). Each place has its own.

The network scores every candidate with the same weights and starts as the rule least-expected-completion, which it
learns to deviate from. Worlds run in groups on one workload; of each reward the mean of the group's others is taken
off, so that the noise of arrivals cancels (Mao et al., arXiv 1807.02264). Run by `training`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from sb3_contrib import MaskablePPO
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.ecsrl.network import DispatchPolicy
from fairlead.learn.shared.checkpoint import array_like
from fairlead.learn.shared.environments import THREADS, VALIDATION_SEED, Part, PartsEnv, Place, Stepped, View
from fairlead.learn.shared.learner import Learner, compiled_rules, falling
from fairlead.measure.statistics import Estimate
from fairlead.policies.observe import DISPATCH_VERSION, REQUEST_UNITS, SLOT, dispatch_features
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.world_file import Worlds

Range = tuple[float, float]


@dataclass(frozen=True)
class EcsrlSettings:
    """The settings of a training of an ECSRL agent."""

    objective: Literal["weighted", "constraint"] = "weighted"
    energy_weight: float = 0.0
    """What a joule costs where the agent is used; an input of the network."""
    degradation_weight: float = 0.0
    """The same for a request that takes as long again as alone."""
    energy_weights: Range = (0.0, 0.0)
    """The range that weights are drawn from in training."""
    degradation_weights: Range = (0.0, 0.0)
    target: float = 0.9
    """constraint: the share of successes to keep."""
    multiplier_first: float = 1.0
    """constraint: what a failure costs at first."""
    multiplier_rate: float = 10.0
    """constraint: how fast that changes, for each roll-out and share of successes missed or exceeded."""
    multiplier_most: float = 100.0
    """constraint: what a failure costs at most; and, in validation, each by which a place misses the target."""
    worlds: int = 128
    """Over all places; every place has a group at least."""
    group: int = 8
    """Worlds on the same workload."""
    rollout: int = 512
    """Decisions of each world between updates."""
    hidden: int = 64
    """Units of the network's layers."""
    learning_rate: float = 3e-4
    """Of Adam, at first; linear to"""
    learning_rate_last: float = 3e-5
    """this at the end."""
    gamma: float = 0.9995
    """Discount a decision."""
    gae_lambda: float = 0.98
    """PPO: how far advantages look ahead."""
    epochs: int = 4
    """PPO: how often it learns from each roll-out."""
    batch: int = 4096
    """PPO: decisions that a gradient step learns from."""
    entropy: float = 0.0
    """PPO: what the entropy of choices is worth."""
    clip: float = 0.2
    """PPO: how far a probability moves in an update."""
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 16
    """In each place; with ranges of weights, each workload is judged by weights of its own."""
    budget_us: float = 1000.0
    """Time for a decision, when live."""


class Ecsrl(Learner):
    """Trains one agent for all of its places."""

    kind, features, together = "dispatcher", DISPATCH_VERSION, 32

    def __init__(
        self, places: Sequence[Place], settings: EcsrlSettings, seed: int, judged: Sequence[Place] = ()
    ) -> None:
        if settings.objective == "constraint" and not max(*settings.energy_weights, *settings.degradation_weights):
            raise UserError("--objective constraint needs a cost to minimise: --energy-weight or --degradation-weight")
        if not 0.0 < settings.target <= 1.0:
            raise UserError(f"--target {settings.target:g}: expected a share of successes, such as 0.9")
        if settings.group < 2:
            raise UserError(f"group={settings.group}: expected 2 or more, as worlds of one workload are compared")
        super().__init__(places, judged, compiled_rules(), settings, seed)
        self.settings: EcsrlSettings = settings
        self.slots = max(_slots(place.worlds) for place in (*self.places, *self.judged))

    def make(self, worlds: Worlds, size: int) -> DispatchView:
        """Worlds of a place that show what the agent sees."""
        return DispatchView(DispatchBatch(worlds, size), self.slots)

    def preferences(self, n: int) -> Any:
        """The weights (n, 2) by which n validation workloads are judged: spread over the ranges."""
        spread = (np.arange(n)[:, None] + 0.5) / n * [1.0, n * 0.6180339887498949] % 1.0  # evenly, in both directions
        (a, b), (c, d) = self.settings.energy_weights, self.settings.degradation_weights
        return [a, c] + spread * [b - a, d - c]

    def begin(self, view: View, workloads: Sequence[int]) -> None:
        """Validation tells the network by what weights it is judged."""
        assert isinstance(view, DispatchView)
        view.preference[:] = self.preferences(self.settings.validation_workloads)[list(workloads)]

    def score(self, figures: Any) -> Any:
        """The objective, a request; `figures` are (..., workloads, 3)."""
        s = self.settings
        success, costs = figures[..., 0], (figures[..., 1:] * self.preferences(figures.shape[-2])).sum(axis=-1)
        if s.objective == "weighted":
            return success - costs
        missing = np.maximum(s.target - success.mean(axis=-1, keepdims=True), 0.0)  # in a place, not in each workload
        return -costs - s.multiplier_most * missing

    def gap_words(self, gap: Estimate) -> str:
        """Points of success where nothing else counts."""
        words = super().gap_words(gap)
        plain = self.settings.objective == "weighted" and not self.preferences(1).any()
        return words if plain else words.replace("points", "points of the objective")

    def environment(self, best_rule: int) -> PartsEnv:
        """Where it learns: some groups in each place, which make a part for each thread at least."""
        groups = range(max(1, self.settings.worlds // self.settings.group // len(self.places)))
        parts = min(len(groups), -(-THREADS // len(self.places)))
        shares = [groups[i::parts] for i in range(parts)]
        return PartsEnv([DispatchGroups(self, p, share) for p in range(len(self.places)) for share in shares])

    def model(self, env: PartsEnv) -> MaskablePPO:
        """An untrained agent."""
        s = self.settings
        if s.rollout * env.num_envs % s.batch == 1:  # its advantage would be divided by the deviation of one
            raise UserError(
                f"batch={s.batch}: one decision is left over of {s.rollout} in each of {env.num_envs} worlds"
            )
        return MaskablePPO(
            DispatchPolicy,
            env,
            learning_rate=falling(s.learning_rate, s.learning_rate_last),
            n_steps=s.rollout,
            batch_size=s.batch,
            n_epochs=s.epochs,
            gamma=s.gamma,
            gae_lambda=s.gae_lambda,
            ent_coef=s.entropy,
            clip_range=s.clip,
            policy_kwargs={"slots": self.slots, "hidden": s.hidden},
            seed=self.seed,
            device="cpu",
        )

    def network(self, model: Any) -> nn.Module:
        """From observations to the scores of slots and of rejection."""
        return model.policy.action_net

    def rolled_out(self, model: Any, env: PartsEnv) -> None:
        """Dual ascent: make failures dearer where too many requests failed."""
        for p, place in enumerate(self.places if self.settings.objective == "constraint" else ()):
            parts = [part for part in env.parts if isinstance(part, DispatchGroups) and part.place == p]
            model.logger.record(f"train/multiplier {place.label}", ascend(parts, self.settings))

    def manifest(self) -> dict[str, Any]:
        """What only dispatchers have."""
        return {
            "summary": "ECSRL agent: sends each request to a device and a variant, or rejects it",
            "sizes": {"candidates": self.slots},
        }


def _slots(worlds: Worlds) -> int:
    """The most candidates of any model."""
    return int((worlds.plan.models["last"] - worlds.plan.models["first"]).max())


class DispatchView(View):
    """A batch as "dispatch-1": without the columns that mean something in one scenario only, padded, with weights."""

    def __init__(self, batch: DispatchBatch, slots: int) -> None:
        super().__init__(batch)
        self.dispatch = batch
        self.preference = np.zeros((batch.size, 2), np.float32)  # (B, 2) energy_weight, degradation_weight
        self._slots, self._there = slots, _slots(batch.worlds)
        self._head = len(REQUEST_UNITS) + len(batch.worlds.models) + len(batch.worlds.sla_classes)
        self._width = len(dispatch_features(slots))

    def observations(self) -> Any:
        """A copy."""
        return self.shown(self.batch.observations)

    def masks(self) -> Any:
        """A copy; the last action rejects."""
        masks = np.zeros((self.batch.size, self._slots + 1), np.int8)
        masks[:, : self._there] = self.batch.masks[:, :-1]
        masks[:, -1] = 1
        return masks

    def actions(self, actions: Any) -> Any:
        """Rejection is the last action of the batch too, which may have fewer."""
        return np.minimum(actions, self._there)

    def shown(self, seen: Any) -> Any:
        """What the agent sees of the batch's observations (B, F)."""
        n, head = len(REQUEST_UNITS), self._head
        shown = np.zeros((self.batch.size, self._width), np.float32)
        shown[:, :n] = seen[:, :n]
        shown[:, n : n + SLOT * self._there] = seen[:, head : head + SLOT * self._there]
        shown[:, -2:] = self.preference
        return shown


class DispatchGroups(Part):
    """Groups of worlds of one place. A group has one workload and one pair of weights; rewards are against its mean."""

    def __init__(self, learner: Ecsrl, place: int, groups: Sequence[int]) -> None:
        self._settings, self.place = learner.settings, place
        self._random = np.random.default_rng([learner.seed, place, groups[0]])
        worlds = learner.places[place].worlds
        once = replace(worlds, draw=lru_cache(maxsize=len(groups))(worlds.draw))  # for all worlds of a group
        self._group = learner.settings.group
        self._view = learner.make(once, len(groups) * self._group)
        self._batch: DispatchBatch = self._view.dispatch
        seeds = self._random.integers(VALIDATION_SEED, size=len(groups))
        self._batch.seed(np.repeat(seeds, self._group).tolist())
        self.multiplier = learner.settings.multiplier_first
        self.ended = np.zeros(2)  # successes and failures since someone emptied it

    def restart(self) -> None:
        """Begin the next episode in all worlds."""
        self._batch.reset(None)
        self._draw_weights(np.ones(self._batch.size, np.bool_))

    def step(self, actions: Any) -> Stepped:
        """One decision in each world.

        Where streams are bound, a rejected one is asked about again: worlds that reject more decide more, and the group
        drifts apart. The mean of its others is then of other workloads, and takes less noise off.
        """
        batch, view = self._batch, self._view
        batch.step(view.actions(actions))
        ended = batch.terminated.copy()
        final = view.shown(batch.final_observations) if ended.any() else None
        stepped = Stepped(self._rewards(), ended, final, batch.final_success)
        if ended.any():
            self._draw_weights(ended)
        return stepped

    def _rewards(self) -> Any:
        components, failures = self._batch.components, self._batch.failures
        costs = (components[:, 1:] * self._view.preference).sum(axis=1)
        if self._settings.objective == "weighted":
            rewards = -failures - costs
        else:
            self.ended += components[:, 0].sum(), failures.sum()
            rewards = -(costs + self.multiplier * failures) / (1.0 + self.multiplier)
        grouped = rewards.reshape(-1, self._group)
        return ((grouped - grouped.mean(axis=1, keepdims=True)) * (self._group / (self._group - 1))).ravel()

    def _draw_weights(self, begun: Any) -> None:
        """For the groups whose first world has begun an episode."""
        (a, b), (c, d) = self._settings.energy_weights, self._settings.degradation_weights
        for row in np.flatnonzero(begun.reshape(-1, self._group)[:, 0]) * self._group:
            self._view.preference[row : row + self._group] = self._random.uniform((a, c), (b, d))

    def observations(self) -> Any:
        """Of all worlds."""
        return self._view.observations()

    def masks(self) -> Any:
        """Of all worlds."""
        return self._view.masks()

    def state(self) -> Any:
        """Which episodes are next, the generator of weights, and the multiplier."""
        return self._batch.episodes.copy(), self._random.bit_generator.state, self.multiplier

    def restore(self, state: Any) -> None:
        """Go on where `state` was taken."""
        saved, self._random.bit_generator.state, multiplier = state
        episodes, self.multiplier = array_like(saved, self._batch.episodes), float(multiplier)
        grouped = episodes.reshape(-1, self._group)  # worlds of a group end apart: all go on with the last that began
        self._batch.episodes[:] = grouped.max(axis=1).repeat(self._group)


def ascend(parts: Sequence[DispatchGroups], settings: EcsrlSettings) -> float:
    """Move the multiplier of a place's parts by how far its share of successes is from the target. Returns it."""
    successes, failures = np.sum([part.ended for part in parts], axis=0)
    missing = settings.target - successes / (successes + failures) if successes + failures else 0.0
    multiplier = min(max(parts[0].multiplier + settings.multiplier_rate * missing, 0.0), settings.multiplier_most)
    for part in parts:
        part.multiplier = multiplier
        part.ended[:] = 0.0
    return multiplier
