"""How TapFinger's network plays: observations as tensors, roll-outs to learn from, and its best choices.

Most of what a world has room for is empty at any time. What is learnt from is therefore taken in two pieces, worlds
with little in them and the others, and the arrays of the first are cut. Used by `tapfinger_ppo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fairlead.learn.tapfinger_network import Inputs, Shape, TapFinger
from fairlead.policies.tasks.observe import Observations
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.layout import TaskPlan

NOTHING = -1  # in place of a slot


@dataclass(frozen=True)
class Cut:
    """How much of the arrays is used: pending tasks, slots of a cluster, running tasks."""

    rows: int
    slots: int
    runs: int

    def apply(self, x: Sequence[Any]) -> Inputs:
        """The inputs (B, ...) without what is not used."""
        cluster, free, pending, running, slots, fits, seen, runs_on = x
        u, p, r = self.rows, self.slots, self.runs
        return Inputs(
            cluster, free, pending[:, :u], running[:, :r], slots[..., :p], fits[..., :p], seen[:, :u], runs_on[:, :r]
        )


def used(slots: Any, runs_on: Any) -> Any:
    """Of each world how many pending tasks, slots of a cluster and running tasks there are (B, 3)."""
    there = slots >= 0
    return np.stack([slots.max((1, 2)) + 1, there.sum(-1).max(-1), (runs_on > 0).sum((1, 2))], -1)


def as_inputs(seen: Observations, device: torch.device) -> Inputs:
    """Observations as tensors of their own."""
    return Inputs(*(torch.from_numpy(array).to(device, copy=True) for array in seen))


def shape_of(plan: TaskPlan) -> Shape:
    """What a network for a plan's worlds is made for."""
    return Shape(plan.capacity.shape[1], plan.minimum, plan.most, plan.elastic)


class Roll:
    """What is kept of a roll-out: tensors (steps, worlds, ...), and how much of them is used."""

    def __init__(self, batch: TaskBatch, steps: int, device: torch.device) -> None:
        size, clusters = batch.won.shape
        rows, slots, runs = batch.observations.seen.shape[1], batch.slots, batch.observations.runs_on.shape[1]
        self._all, self._little = Cut(rows, slots, runs), Cut(-(-rows // 3), -(-slots // 2), -(-2 * runs // 3))
        self.device, self.sizes = device, np.zeros((steps, size, 3), np.int64)
        self.inputs = [
            torch.zeros(steps, *array.shape, dtype=torch.from_numpy(array).dtype, device=device)
            for array in batch.observations
        ]
        agents, world = (steps, size, clusters), (steps, size)
        self.chosen, self.given = (torch.zeros(agents, dtype=torch.int64, device=device) for _ in range(2))
        self.log_slot, self.log_amounts, self.won = (torch.zeros(agents, device=device) for _ in range(3))
        self.value, self.advantage, self.target = (torch.zeros(world, device=device) for _ in range(3))
        self.reward, self.passed, self.rate = (np.zeros(world) for _ in range(3))
        self.now, self.episode = (np.zeros(world, np.int64) for _ in range(2))
        self.ended = np.zeros(world, np.bool_)

    def observe(self, t: int, batch: TaskBatch) -> Inputs:
        """Keep what there is to be seen."""
        seen = batch.observations
        self.sizes[t] = used(seen.slots, seen.runs_on)
        for whole, array in zip(self.inputs, seen, strict=True):
            whole[t] = torch.from_numpy(array)
        self.now[t], self.rate[t] = batch.worlds.world["now"], batch.worlds.world["rate"]
        self.episode[t] = batch.episodes
        return Inputs(*(whole[t] for whole in self.inputs))

    def keep(self, t: int, batch: TaskBatch) -> None:
        """Keep what came of it."""
        self.reward[t], self.passed[t], self.ended[t] = batch.rewards, batch.passed, batch.ended
        self.won[t] = torch.from_numpy(batch.won).to(self.device)

    def pieces(self, rows: Any) -> list[tuple[int, Inputs, dict[str, torch.Tensor]]]:
        """Some rows of all steps and worlds together, in pieces: how many, inputs, and the rest by name."""
        sizes = self.sizes.reshape(-1, 3)[rows]
        fits = (sizes <= [self._little.rows, self._little.slots, self._little.runs]).all(-1)
        some = (rows[fits], self._little), (rows[~fits], self._all)
        return [(len(part), *self._part(part, cut)) for part, cut in some if len(part)]

    def _part(self, rows: Any, cut: Cut) -> tuple[Inputs, dict[str, torch.Tensor]]:
        where = torch.from_numpy(rows).to(self.device)
        x = Inputs(*(array[where] for array in cut.apply([array.flatten(0, 1) for array in self.inputs])))
        names = ("chosen", "given", "log_slot", "log_amounts", "won", "advantage", "target")
        rest = {name: getattr(self, name).flatten(0, 1)[where] for name in names}
        rest["chosen"] = torch.where(rest["chosen"] == NOTHING, cut.slots, rest["chosen"])
        return x, rest


@torch.no_grad()
def play(network: TapFinger, batch: TaskBatch, roll: Roll, rule: Any = None) -> torch.Tensor:
    """Fill a roll-out with choices drawn by the network, or by a (compiled, parameters) rule; the last values."""
    for t in range(len(roll.reward)):
        x = roll.observe(t, batch)
        tokens, scores, roll.value[t] = network.embed(x)
        if rule is None:
            slots, roll.log_slot[t] = _drawn(scores)
            roll.given[t], roll.log_amounts[t] = _drawn(network.allocate(x, tokens, slots))
            wanted = slots, roll.given[t], roll.log_slot[t].exp().double()
            batch.step(*(part.cpu().numpy() for part in wanted))
        else:
            by_rule, given = batch.by_rule(*rule)
            batch.step(by_rule, given, np.ones(by_rule.shape))
            slots, roll.given[t] = torch.from_numpy(by_rule).to(roll.device), torch.from_numpy(given).to(roll.device)
        roll.chosen[t] = torch.where(slots >= x.slots.shape[2], NOTHING, slots)
        roll.keep(t, batch)
    return network.embed(as_inputs(batch.observations, roll.device))[2]


def _drawn(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A choice by scores (..., choices), and its log probability."""
    chances = torch.log_softmax(scores, -1)
    drawn = torch.multinomial(chances.exp().flatten(0, -2), 1).view(*scores.shape[:-1], 1)
    return drawn[..., 0], chances.gather(-1, drawn)[..., 0]


@torch.no_grad()
def play_greedily(network: TapFinger, plan: TaskPlan, seeds: Sequence[int], device: torch.device) -> Any:
    """The mean completion time of each workload under the most likely choices (W,)."""
    rate = float(plan.rules["rate"][0])
    batch = TaskBatch(plan, len(seeds), lambda b, episode: (seeds[b] + episode * 10_000_019, rate))
    found = np.full(len(seeds), np.nan)
    while np.isnan(found).any():
        slots, allocations, score = network.choose(as_inputs(batch.observations, device))
        batch.step(*(t.cpu().numpy() for t in (slots, allocations, score.double())))
        first = batch.ended & np.isnan(found)
        found[first] = batch.finished[first]
    return found
