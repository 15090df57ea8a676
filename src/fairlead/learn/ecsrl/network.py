"""The networks of the ECSRL agent: an actor that scores candidates, a critic, and both as a policy of sb3-contrib.

Every candidate slot is scored with the same weights, so that what is learnt of one holds for all. The actor starts
close to the rule least-expected-completion (an inaccurate place counts as one deadline later) and learns to deviate
from it: from a random start, all requests soon go to one place and nothing is learnt any more. Inputs are "dispatch-1"
(fairlead.policies.observe). Made by `ecsrl`.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from torch import nn

from fairlead.policies.observe import CANDIDATE_UNITS, REQUEST_UNITS

_FIELDS = ("feasible", *CANDIDATE_UNITS)
_REQUEST = tuple(REQUEST_UNITS)

#: A place that should take longer than so many deadlines is never chosen, whatever is learnt: where everything
#: is accepted, an overload makes everything late, and teaches nothing.
HOPELESS: Final = 1.0
_BARRED: Final = 1000.0
_PREFERENCE: Final = 10.0  # weights are small: a tenth of a success for a joule is much


class Slots(nn.Module):
    """Splits observations into what is known of each slot, derived figures included, and which slots are feasible."""

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots, self.width = slots, len(_FIELDS) + 5 + len(_REQUEST) + 2

    def forward(self, observations: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Inputs (B, C, width), feasible (B, C, 1), how far each is from the rule's choice, and how hopeless (B, C)."""
        n = len(_REQUEST)
        request, preference = observations[:, :n], observations[:, -2:]
        slots = observations[:, n:-2].reshape(-1, self.slots, len(_FIELDS))
        net, transfer, proc, queue, suffered, caused, accuracy, energy = (
            slots[..., _FIELDS.index(name)]
            for name in ("net_ms", "transfer_ms", "proc_ms", "queue_ms", "suffered", "caused", "accuracy", "energy_mj")
        )
        feasible = slots[..., :1]
        deadline, least = request[:, :1], request[:, 1:2]  # times are in units of 100 ms, all of them
        took = 2 * net + transfer + queue + proc * (1 + suffered)
        share = (took / (deadline + 1e-6)).clamp(max=5)  # of the deadline
        margin = accuracy - least
        enough = (margin >= 0).to(margin.dtype)
        cost = preference[:, :1] * energy + preference[:, 1:] * (suffered + caused)  # as the objective counts it
        derived = torch.stack([share, (1 - share).clamp(min=-2), 5 * margin, enough, cost.clamp(max=5)], -1)
        around = torch.cat([request, _PREFERENCE * preference], -1)[:, None].expand(-1, self.slots, -1)
        inputs = torch.cat([torch.cat([slots, derived], -1) * feasible, around], -1)
        return inputs, feasible, share + 1 - enough, (share - HOPELESS).clamp(min=0)


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
        inputs, feasible, distance, hopeless = self.split(observations)
        encoded = self.encode(inputs)
        pooled = (encoded * feasible).sum(1) / 2
        together = torch.cat([encoded, pooled[:, None].expand(-1, self.split.slots, -1)], -1)
        trust = self.log_trust.exp()
        scores = self.score(together)[..., 0] - trust * distance - _BARRED * hopeless
        return torch.cat([scores, self.reject(pooled) - HOPELESS * trust], -1)


class Critic(nn.Module):
    """What is to come, of all slots together."""

    def __init__(self, slots: int, hidden: int) -> None:
        super().__init__()
        self.split = Slots(slots)
        self.encode = nn.Sequential(nn.Linear(self.split.width, hidden), nn.ReLU())
        self.value = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """(B, 1)."""
        inputs, feasible, *_ = self.split(observations)
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
