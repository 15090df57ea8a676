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
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from fairlead.domain.errors import UserError
from fairlead.learn.environments import Place, PlacesEnv, View
from fairlead.learn.learner import Learner
from fairlead.measure.statistics import Estimate
from fairlead.policies.interface import registry
from fairlead.policies.observe import CANDIDATE_UNITS, REQUEST_UNITS, SLOT, dispatch_features
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.worlds import Worlds

Range = tuple[float, float]


@dataclass(frozen=True)
class EcsrlSettings:
    """What the training of an ECSRL agent can be told."""

    objective: Literal["weighted", "constraint"] = "weighted"
    energy_weight: float = 0.0
    """What a joule costs where the agent is used; the network is told."""
    degradation_weight: float = 0.0
    """The same for a request that takes as long again as alone."""
    energy_weights: Range = (0.0, 0.0)
    """The range that weights are drawn from in training."""
    degradation_weights: Range = (0.0, 0.0)
    target: float = 0.9
    """constraint: the share of successes to keep."""
    multiplier_first: float = 1.0
    """constraint: what a failure costs at first."""
    multiplier_rate: float = 2.0
    """constraint: how fast that changes, for each roll-out and share of successes missed or exceeded."""
    multiplier_most: float = 100.0
    """constraint: where the target can't be reached."""
    shortfall_weight: float = 10.0
    """constraint: what a missing share of successes costs when agents are compared in validation."""
    worlds: int = 128
    """Over all places; every place has a group at least."""
    group: int = 8
    """Worlds on the same workload."""
    rollout: int = 256
    """Decisions of each world between updates."""
    hidden: int = 64
    """Units of the network's layers."""
    learning_rate: float = 5e-4
    learning_rate_last: float = 5e-5
    gamma: float = 0.99
    """Discount a decision."""
    gae_lambda: float = 0.95
    epochs: int = 4
    batch: int = 8192
    entropy: float = 0.003
    clip: float = 0.2
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 16
    """In each place; with ranges of weights, each workload is judged by weights of its own."""
    budget_us: float = 1000.0
    """Time for a decision, when live."""


class Ecsrl(Learner):
    """Trains one agent for all of its places."""

    kind, features, algorithm, together = "dispatcher", "dispatch-1", MaskablePPO, 32

    def __init__(self, places: Sequence[Place], settings: EcsrlSettings, seed: int) -> None:
        if settings.objective == "constraint" and not max(*settings.energy_weights, *settings.degradation_weights):
            raise UserError("--objective constraint: --energy-weight or --degradation-weight says what is to be low")
        if not 0.0 < settings.target <= 1.0:
            raise UserError(f"--target {settings.target:g}: expected a share of successes, such as 0.9")
        if settings.group < 2:
            raise UserError(f"group={settings.group}: at least two worlds are compared on a workload")
        rules = tuple(p.name for p in registry()[0].values() if p.kind == "compiled" and p.package == "fairlead")
        super().__init__(places, rules, settings, seed)
        self.settings: EcsrlSettings = settings
        self.slots = max(_slots(place.worlds) for place in places)

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
        return -costs - s.shortfall_weight * np.maximum(s.target - success, 0.0)

    def gap_words(self, gap: Estimate) -> str:
        """Points of success where nothing else counts."""
        words = super().gap_words(gap)
        plain = self.settings.objective == "weighted" and not self.preferences(1).any()
        return words if plain else words.replace("points", "points of the objective")

    def environment(self, best_rules: Sequence[int]) -> PlacesEnv:
        """Where it learns."""
        return WeightedEnv(self.places, self.make, self.settings, self.seed)

    def model(self, env: PlacesEnv) -> MaskablePPO:
        """An untrained agent."""
        s = self.settings
        first, last = s.learning_rate, s.learning_rate_last
        return MaskablePPO(
            DispatchPolicy,
            env,
            learning_rate=lambda left: last + left * (first - last),
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

    def rolled_out(self, model: Any, env: PlacesEnv) -> None:
        """Dual ascent: make failures dearer where too many requests failed."""
        assert isinstance(env, WeightedEnv)
        if self.settings.objective == "constraint":
            env.ascend()
            for place, multiplier in zip(self.places, env.multipliers, strict=True):
                model.logger.record(f"train/multiplier {place.label}", float(multiplier))

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
        self.preference = np.zeros((batch.size, 2), np.float32)  # (B, 2) energy_weight, degradation_weight
        self._slots, self._there = slots, _slots(batch.worlds)
        self._head = len(REQUEST_UNITS) + len(batch.worlds.models) + len(batch.worlds.sla_classes)
        self._width = len(dispatch_features(slots))

    def observations(self) -> Any:
        """A copy."""
        return self._shown(self.batch.observations)

    def final_observations(self) -> Any:
        """A copy."""
        return self._shown(self.batch.final_observations)

    def masks(self) -> Any:
        """A copy; the last action rejects."""
        masks = np.zeros((self.batch.size, self._slots + 1), np.int8)
        masks[:, : self._there] = self.batch.masks[:, :-1]
        masks[:, -1] = 1
        return masks

    def actions(self, actions: Any) -> Any:
        """Rejection is the last action of the batch too, which may have fewer."""
        return np.minimum(actions, self._there)

    def _shown(self, seen: Any) -> Any:
        n, head = len(REQUEST_UNITS), self._head
        shown = np.zeros((self.batch.size, self._width), np.float32)
        shown[:, :n] = seen[:, :n]
        shown[:, n : n + SLOT * self._there] = seen[:, head : head + SLOT * self._there]
        shown[:, -2:] = self.preference
        return shown


class WeightedEnv(PlacesEnv):
    """Rewards by weights of each group's own, or by multipliers of each place's own, less the mean of the others."""

    def __init__(self, places: Sequence[Place], make: Any, settings: EcsrlSettings, seed: int) -> None:
        super().__init__(places, make, settings.worlds // settings.group, settings.group, seed)
        self._settings = settings
        self._random = np.random.default_rng([seed, 1])
        self._preference = np.zeros((len(self.places_of), 2), np.float32)  # (rows, 2)
        self.multipliers = np.full(len(places), settings.multiplier_first)
        self._ended = np.zeros((len(places), 2))  # successes and failures since the last `ascend`

    def _rewards(self) -> Any:
        s, parts = self._settings, self.gather("components")
        failures = self.gather("failures")
        costs = (parts[:, 1:] * self._preference).sum(axis=1)
        if s.objective == "weighted":
            rewards = -failures - costs
        else:
            np.add.at(self._ended, self.places_of, np.stack([parts[:, 0], failures], axis=1))
            multiplier = self.multipliers[self.places_of]
            rewards = -(costs + multiplier * failures) / (1.0 + multiplier)
        grouped = rewards.reshape(-1, s.group)
        return ((grouped - grouped.mean(axis=1, keepdims=True)) * (s.group / (s.group - 1))).ravel()

    def _begun(self, rows: Any) -> None:
        """A group's worlds have the same weights; they are drawn when its first world begins an episode."""
        s, first = self._settings, np.arange(len(rows)) % self._settings.group == 0
        (a, b), (c, d) = s.energy_weights, s.degradation_weights
        for row in np.flatnonzero(rows & first):
            self._preference[row : row + s.group] = self._random.uniform((a, c), (b, d))
        for view, part in zip(self.views, self.rows, strict=True):
            assert isinstance(view, DispatchView)
            view.preference[:] = self._preference[part]

    def ascend(self) -> None:
        """Move the multipliers by how far the shares of successes are from the target."""
        s, (successes, failures) = self._settings, self._ended.T
        missing = np.where(successes + failures > 0, s.target - successes / np.maximum(successes + failures, 1), 0.0)
        self.multipliers = np.clip(self.multipliers + s.multiplier_rate * missing, 0.0, s.multiplier_most)
        self._ended[:] = 0.0

    def state(self) -> dict[str, Any]:
        """Also the multipliers, and the generator of weights."""
        return super().state() | {"multipliers": self.multipliers, "random": self._random.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        super().restore(state)
        self.multipliers, self._random.bit_generator.state = state["multipliers"], state["random"]


# ---- the network

_FIELDS = ("feasible", *CANDIDATE_UNITS)
_REQUEST = tuple(REQUEST_UNITS)


class Slots(nn.Module):
    """Splits observations into what is known of each slot, derived figures included, and which slots are feasible."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots, self.width = slots, len(_FIELDS) + 4 + len(_REQUEST) + 2

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Inputs (B, C, width), feasible (B, C, 1), and how far each is from the rule's choice (B, C)."""
        n = len(_REQUEST)
        request, preference = observations[:, :n], observations[:, -2:]
        slots = observations[:, n:-2].reshape(-1, self.slots, len(_FIELDS))
        net, transfer, proc, queue, suffered, accuracy = (
            slots[..., _FIELDS.index(name)]
            for name in ("net_ms", "transfer_ms", "proc_ms", "queue_ms", "suffered", "accuracy")
        )
        feasible = slots[..., :1]
        deadline, least = request[:, :1], request[:, 1:2]  # times are in units of 100 ms, all of them
        took = 2 * net + transfer + queue + proc * (1 + suffered)
        share = (took / (deadline + 1e-6)).clamp(max=5)  # of the deadline
        margin = accuracy - least
        enough = (margin >= 0).to(margin.dtype)
        derived = torch.stack([share, (1 - share).clamp(min=-2), 5 * margin, enough], -1)
        around = torch.cat([request, preference], -1)[:, None].expand(-1, self.slots, -1)
        inputs = torch.cat([torch.cat([slots, derived], -1) * feasible, around], -1)
        return inputs, feasible, share + 1 - enough


class Actor(nn.Module):
    """Scores every slot by itself and by all of them together; the last value is that of rejecting."""

    def __init__(self, slots: int, hidden: int) -> None:
        super().__init__()
        self.split = Slots(slots)
        self.encode = nn.Sequential(nn.Linear(self.split.width, hidden), nn.ReLU())
        score, reject = nn.Linear(hidden, 1), nn.Linear(hidden, 1)
        for last in (score, reject):  # so that it starts as the rule
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.score = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), score)
        self.reject = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), reject)
        self.log_trust = nn.Parameter(torch.tensor(3.0))  # in the rule; it may learn to trust it less

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """(B, C + 1)."""
        inputs, feasible, distance = self.split(observations)
        encoded = self.encode(inputs)
        pooled = (encoded * feasible).sum(1) / 2
        together = torch.cat([encoded, pooled[:, None].expand(-1, self.split.slots, -1)], -1)
        trust = self.log_trust.exp()
        scores = self.score(together)[..., 0] - trust * distance
        return torch.cat([scores, self.reject(pooled) - 3 * trust], -1)


class Critic(nn.Module):
    """What is to come, of all slots together."""

    def __init__(self, slots: int, hidden: int) -> None:
        super().__init__()
        self.split = Slots(slots)
        self.encode = nn.Sequential(nn.Linear(self.split.width, hidden), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """(B, 1)."""
        inputs, feasible, _ = self.split(observations)
        return self.value((self.encode(inputs) * feasible).sum(1) / 2)


class _Nothing(nn.Module):
    """In the place of the layers that Stable-Baselines3 puts before its heads: actor and critic see observations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.latent_dim_pi = self.latent_dim_vf = width

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return features, features

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return features

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        return features


class DispatchPolicy(MaskableActorCriticPolicy):
    """The two networks, as sb3-contrib wants them."""

    mlp_extractor: Any
    value_net: Any
    optimizer_class: Any

    def __init__(self, *arguments: Any, slots: int, hidden: int, **more: Any) -> None:
        self._sizes = slots, hidden
        super().__init__(*arguments, **(more | {"ortho_init": False}))

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = _Nothing(self.features_dim)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net, self.value_net = Actor(*self._sizes), Critic(*self._sizes)
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)
