"""TapFinger's actor and critic: graph network, pointer over pending tasks, masked allocation, central value.

Every cluster is an agent with the same weights; what it is, its embedding tells. It points at one of the tasks that it
sees and that fit, or at nothing; then it picks amounts for that task from all that are possible, as one choice. Raw
features, their numbers told apart, go to the heads beside the embeddings. Inputs are "tasks-1"
(fairlead.policies.tasks.observe). Masked scores are -1e9, never infinite. Trained by `ppo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from fairlead.learn.tapfinger.ablation_encoder import AblationEncoder
from fairlead.learn.tapfinger.graph_attention import Han
from fairlead.policies.tasks.allocations import all_allocations
from fairlead.policies.tasks.observe import FOUR, TEN

_FAR: Final = -1e9
_PLACES: Final = 17  # of hat functions
_ALIKE: Final = 1e-4  # scores that differ by less count as the same
SIZES: Final = {"small": (64, 4, 2), "paper": (256, 4, 6)}  #: Hidden units, heads and layers of the graph network.
#: The paper's ablations: perceptrons in place of the graph network; any of the tasks that fit, whichever; both
#: perceptrons and the first task that fits.
ABLATIONS: Final = ("no-han", "no-pointer", "vanilla")


class Inputs(NamedTuple):
    """Observations as tensors, see `fairlead.policies.tasks.observe.Observations`."""

    cluster: torch.Tensor
    free: torch.Tensor
    pending: torch.Tensor
    running: torch.Tensor
    slots: torch.Tensor
    fits: torch.Tensor
    seen: torch.Tensor
    runs_on: torch.Tensor


@dataclass(frozen=True)
class Shape:
    """What a network is made for."""

    resources: int
    minimum: Any  # (J, K)
    most: Any  # (K,)
    elastic: Any  # (K,)

    @property
    def types(self) -> int:
        """How many types of tasks."""
        return len(self.minimum)


class Encoder(nn.Module):
    """A transformer encoder layer over short sequences, with a mask for what is not there."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.wide, self.narrow = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)
        self.first, self.second = nn.LayerNorm(hidden), nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor, away: torch.Tensor) -> torch.Tensor:
        """(B, L, hidden) from the same; `away` (B, 1, 1, L) is added to scores, far below 0 for what does not count."""
        parts = self.query_key_value(self.first(x)).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        weights = torch.softmax(scores + away, -1)  # (B, heads, L, L)
        x = x + self.out((weights @ value).transpose(1, 2).flatten(2))
        return x + self.narrow(torch.relu(self.wide(self.second(x))))


def _jumbled(x: Inputs) -> torch.Tensor:
    """A number from 0 to 1 for each cluster and slot, and one for nothing (B, N, P + 1), unlike at any two times."""
    n, p = x.slots.shape[1:]
    when = (x.pending.sum((1, 2)) + x.running.sum((1, 2)))[:, None, None]
    where = torch.arange(n * (p + 1), device=x.fits.device, dtype=x.fits.dtype).view(1, n, p + 1)
    return torch.frac(torch.sin(12.9898 * where + 78.233 * when).abs() * 437.585)


class Hats(nn.Module):
    """Numbers told apart: beside each feature that counts something, its hat functions at 0 to 16 units.

    What a decision is worth jumps from one number to the next (with 9 GPUs a task takes 3 steps, with 10 it takes 2),
    which perceptrons of smooth features take long to learn.
    """

    units: torch.Tensor
    places: torch.Tensor

    def __init__(self, units: Sequence[float]) -> None:
        super().__init__()
        self.counts = [i for i, unit in enumerate(units) if unit]
        self.register_buffer("units", torch.tensor([units[i] for i in self.counts]))
        self.register_buffer("places", torch.arange(_PLACES))
        self.width = len(units) + _PLACES * len(self.counts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., width) from (..., features)."""
        count = (x[..., self.counts] * self.units).clamp(max=_PLACES - 1.0)
        return torch.cat([x, torch.relu(1.0 - (count[..., None] - self.places).abs()).flatten(-2)], -1)


class TapFinger(nn.Module):
    """The actor of all clusters, and the critic."""

    grid: torch.Tensor  # (A, elastic): amounts of all allocations
    least: torch.Tensor  # (J, elastic): minimum of each type
    elastic: torch.Tensor  # rows of elastic resources

    def __init__(self, shape: Shape, size: str, ablation: str = "") -> None:
        super().__init__()
        hidden, heads, layers = SIZES[size]
        self.shape, self.size, self.ablation = shape, size, ablation
        amounts = [min(_PLACES - 1.0, float(most)) for most in shape.most]
        self.of_cluster = Hats([*amounts, *[0.0] * shape.resources, TEN, TEN])
        self.of_task = Hats([*amounts, *[0.0] * shape.types, FOUR, FOUR])
        task, cluster = self.of_task.width, self.of_cluster.width
        widths = {"cluster": cluster, "pending": task, "running": task, "shortcut": 1}
        plain = ablation in ("no-han", "vanilla")
        self.graph: nn.Module = AblationEncoder(widths, hidden) if plain else Han(widths, hidden, heads, layers)
        self.token = nn.Linear(hidden + task, hidden)
        self.place = nn.Linear(hidden + cluster, hidden)
        self.nothing = nn.Parameter(torch.zeros(hidden))
        self.encoders = nn.ModuleList(Encoder(hidden, heads) for _ in range(2))
        self.key, self.query, self.score = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)
        grid = torch.as_tensor(all_allocations(shape.most, shape.elastic), dtype=torch.float32)
        self.register_buffer("grid", grid)  # (A, elastic)
        elastic = torch.as_tensor(shape.elastic)
        self.register_buffer("least", torch.as_tensor(shape.minimum, dtype=torch.float32)[:, elastic])  # (J, elastic)
        self.register_buffer("elastic", elastic.nonzero()[:, 0])
        self.amounts = nn.Sequential(
            nn.Linear(hidden + task + cluster, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, len(grid))
        )
        self.value = nn.Sequential(nn.Linear(3 * hidden + 4, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, 2))
        for last in (self.score, *list(self.amounts)[-1:], *list(self.value)[-1:]):
            assert isinstance(last, nn.Linear)
            nn.init.orthogonal_(last.weight, 0.01)
            nn.init.zeros_(last.bias)

    def embed(self, x: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the heads need: tokens (B, N, P + 1, hidden), slot scores (B, N, P + 1), and values (B, 2).

        The first value is of all that is saved from now on, the second of what later decisions save.
        """
        finer, graph = self._graph(x)
        return *self._point(x, finer, graph), self._value(x, graph)

    def choose(self, x: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The most likely slot of each cluster, amounts for it, and the slot's probability (B, N).

        Of tasks that are alike the first is taken, whatever rounding makes of their scores; without a pointer any.
        """
        tokens, scores = self._point(x, *self._graph(x))
        later = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
        if self.ablation == "no-pointer":
            later = _jumbled(x) * later[-1]
        later = torch.cat([later[..., :-1], torch.zeros_like(later[..., -1:])], -1)  # nothing is like no task
        slots = (scores - _ALIKE * later).argmax(-1)
        allocations = self.allocate(x, tokens, slots).argmax(-1)
        return slots, allocations, torch.softmax(scores, -1).gather(-1, slots[..., None])[..., 0]

    def _graph(self, x: Inputs) -> tuple[Any, Any]:
        """Features with their numbers told apart, and embeddings, of each type of node."""
        finer = {"cluster": self.of_cluster(x.cluster), "pending": self.of_task(x.pending)}
        finer |= {"running": self.of_task(x.running), "shortcut": torch.ones_like(x.cluster[:, :1, :1])}
        return finer, self.graph(finer, x.seen, x.runs_on)

    def _point(self, x: Inputs, finer: Any, graph: Any) -> tuple[torch.Tensor, torch.Tensor]:
        b, n, p = x.slots.shape
        there = (x.slots >= 0).to(x.fits.dtype)
        nodes = torch.cat([graph["pending"], finer["pending"]], -1)  # (B, U, hidden + task)
        rows = x.slots.clamp(min=0).flatten(1)[..., None].expand(-1, -1, nodes.shape[-1])
        mine = nodes.gather(1, rows).view(b, n, p, -1)
        place = self.place(torch.cat([graph["cluster"], finer["cluster"]], -1))[:, :, None]  # (B, N, 1, hidden)
        tokens = torch.cat([self.token(mine) + place, self.nothing + place], 2).flatten(0, 1)  # (B N, P + 1, hidden)
        counts = torch.cat([there, torch.ones_like(there[..., :1])], -1).flatten(0, 1)
        away = _FAR * (1.0 - counts[:, None, None])
        for encoder in self.encoders:
            tokens = encoder(tokens, away)
        mean = (tokens * counts[..., None]).sum(1, keepdim=True) / counts.sum(1)[:, None, None]
        keys = self.key(tokens)
        if self.ablation in ("no-pointer", "vanilla"):  # tasks are told from nothing, not from each other
            keys = torch.cat([torch.zeros_like(keys[:, :-1]), keys[:, -1:]], 1)
        scores = self.score(torch.tanh(keys + self.query(mean)))[..., 0].view(b, n, p + 1)
        fits = x.fits * (x.fits.cumsum(-1) == 1) if self.ablation == "vanilla" else x.fits  # the first of them
        possible = torch.cat([fits, torch.ones_like(x.fits[..., :1])], -1)
        return tokens.view(b, n, p + 1, -1), scores + _FAR * (1.0 - possible)

    def _value(self, x: Inputs, graph: Any) -> torch.Tensor:
        waiting, running = x.seen.amax(-1, keepdim=True), x.runs_on.amax(-1, keepdim=True)  # 1 where there is a task
        waits, runs = waiting.sum(1), running.sum(1)
        pooled = [graph["cluster"].mean(1)]
        pooled += [(graph[name] * there).sum(1) / 10.0 for name, there in (("pending", waiting), ("running", running))]
        queued = x.cluster[..., -1].sum(1, keepdim=True)
        free = (x.cluster[..., : self.shape.resources]).sum((1, 2))[:, None]
        return self.value(torch.cat([*pooled, waits / 10.0, runs / 10.0, queued, free / 10.0], -1))

    def allocate(self, x: Inputs, tokens: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        """Scores of all allocations (B, N, A) for the chosen slots (B, N); of nothing, only 0 is possible."""
        index = slots[..., None, None].expand(-1, -1, 1, tokens.shape[-1])
        token = tokens.gather(2, index)[:, :, 0]
        rows = x.slots.gather(2, slots.clamp(max=x.slots.shape[2] - 1)[..., None])[..., 0].clamp(min=0)  # (B, N)
        task = x.pending.gather(1, rows[..., None].expand(-1, -1, x.pending.shape[-1]))
        scores = self.amounts(torch.cat([token, self.of_task(task), self.of_cluster(x.cluster)], -1))
        types = task[..., self.shape.resources : self.shape.resources + self.shape.types]
        least, most = types @ self.least, x.free[..., self.elastic]  # (B, N, elastic)
        possible = ((self.grid >= least[:, :, None]) & (self.grid <= most[:, :, None])).all(-1)
        nothing, void = (slots == x.slots.shape[2])[..., None], self.grid.sum(-1) == 0
        return scores + _FAR * (~(possible & ~nothing | nothing & void)).to(scores.dtype)
