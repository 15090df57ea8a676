"""How TapFinger's network plays: observations as tensors, roll-outs to learn from, and its best choices.

Most of what a world has room for is empty at any time. Worlds are therefore taken in pieces, those with little in them
first, and the arrays of each are cut to what is there. Used by `ppo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Final

import numpy as np
import torch

from fairlead.domain.task_facts import needed
from fairlead.learn.tapfinger.network import Inputs, Shape, TapFinger
from fairlead.policies.tasks.observe import Observations
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.world_arrays import TaskPlan
from fairlead.sim.tasks.world_file import TaskWorld

Rule = tuple[Any, Any]  # compiled, and its parameters

NOTHING: Final = -1  # in place of a slot
_PIECES: Final = {"cpu": (6, 1), "cuda": (3, 2048)}  # at most so many, of so many rows: a GPU likes few large calls


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
    resources = needed(plan.role)
    return Shape(resources, plan.minimum[:, :resources], plan.most[:resources], plan.elastic[:resources])


class Roll:
    """What is kept of a roll-out: tensors (steps, worlds, ...), and how much of them is used."""

    def __init__(self, batch: TaskBatch, steps: int, device: torch.device) -> None:
        size, clusters = batch.won.shape
        self.device, self.sizes = device, np.zeros((steps, size, 3), np.int64)
        self.inputs = [
            torch.zeros(steps, *array.shape, dtype=torch.from_numpy(array).dtype, device=device)
            for array in batch.observations
        ]
        agents, world = (steps, size, clusters), (steps, size)
        self.chosen, self.given = (torch.zeros(agents, dtype=torch.int64, device=device) for _ in range(2))
        self.log_slot, self.log_amounts, self.won = (torch.zeros(agents, device=device) for _ in range(3))
        self.reward = torch.zeros(world, device=device)
        self.value, self.target = (torch.zeros(*world, 2, device=device) for _ in range(2))
        self.own, self.advantage = (torch.zeros(agents, device=device) for _ in range(2))
        self.now, self.episode, self.passed = (np.zeros(world, np.int64) for _ in range(3))  # steps, until the next
        self.ended = np.zeros(world, np.bool_)
        self.can = torch.zeros(agents, dtype=torch.bool, device=device)  # do something

    @property
    def free(self) -> float:
        """How many agents of a world could do something, on average."""
        return float(self.can.sum() / self.can[..., 0].numel())

    def observe(self, t: int, batch: TaskBatch) -> None:
        """Keep what there is to be seen."""
        seen = batch.observations
        self.sizes[t] = used(seen.slots, seen.runs_on)
        for whole, array in zip(self.inputs, seen, strict=True):
            whole[t] = torch.from_numpy(array)
        self.now[t], self.episode[t] = batch.worlds.world["now"], batch.episodes
        self.can[t] = torch.from_numpy(seen.fits.max(-1) > 0)

    def keep(self, t: int, batch: TaskBatch) -> None:
        """Keep what came of it."""
        self.ended[t], self.passed[t] = batch.ended, np.where(batch.ended, 0, batch.worlds.world["now"] - self.now[t])
        self.won[t] = torch.from_numpy(batch.won).to(self.device)

    def pieces(self, rows: Any) -> list[tuple[torch.Tensor, int, Inputs]]:
        """Some rows of all steps and worlds together, in pieces: which, how many slots these have, and inputs."""
        sizes = self.sizes.reshape(-1, 3)[rows]
        order = np.argsort(sizes @ [1, 2 * self.won.shape[2], 1], kind="stable")  # pointers cost most
        most, least = _PIECES[self.device.type]
        parts = np.array_split(order, max(1, min(most, len(order) // least)))
        cuts = [Cut(*np.maximum(1, sizes[part].max(0)).tolist()) for part in parts]
        return [self._part(rows[part], cut) for part, cut in zip(parts, cuts, strict=True)]

    def _part(self, rows: Any, cut: Cut) -> tuple[torch.Tensor, int, Inputs]:
        where = torch.from_numpy(rows).to(self.device)
        cut_arrays = cut.apply([array.flatten(0, 1) for array in self.inputs])
        return where, cut.slots, Inputs(*(array[where] for array in cut_arrays))

    def done(self, where: torch.Tensor, slots: int) -> dict[str, torch.Tensor]:
        """What was done in some rows, and what came of it, by name; nothing is the slot after the last."""
        names = ("chosen", "given", "log_slot", "log_amounts", "won", "advantage", "target")
        rest = {name: getattr(self, name).flatten(0, 1)[where] for name in names}
        return rest | {"chosen": torch.where(rest["chosen"] == NOTHING, slots, rest["chosen"])}


def play_rule(batch: TaskBatch, roll: Roll, rule: Rule) -> None:
    """Fill a roll-out with a rule's choices."""
    for t in range(len(roll.reward)):
        roll.observe(t, batch)
        slots, given = batch.by_rule(*rule)
        batch.step(slots, given, np.ones(slots.shape))
        chosen = np.where(slots == batch.slots, NOTHING, slots)
        roll.chosen[t], roll.given[t] = (torch.from_numpy(part).to(roll.device) for part in (chosen, given))


@torch.no_grad()
def play(network: TapFinger, batch: TaskBatch, roll: Roll, rule: Rule, horizon: int, futures: int) -> torch.Tensor:
    """Fill a roll-out with choices drawn by the network, and what they save; the last values."""
    worlds = roll.value.shape[1]
    chosen, given, log_slot, log_amounts, value = (
        getattr(roll, name).flatten(0, 1) for name in ("chosen", "given", "log_slot", "log_amounts", "value")
    )
    for t in range(len(roll.reward)):
        roll.observe(t, batch)
        for where, slots, x in roll.pieces(np.arange(t * worlds, (t + 1) * worlds)):
            tokens, scores, value[where] = network.embed(x)
            slot, log_slot[where] = _drawn(scores)
            given[where], log_amounts[where] = _drawn(network.allocate(x, tokens, slot))
            chosen[where] = torch.where(slot == slots, NOTHING, slot)
        wanted = [part.cpu().numpy() for part in (roll.chosen[t], roll.given[t], roll.log_slot[t].exp().double())]
        team, own = batch.saves(wanted, rule, horizon, futures)
        roll.reward[t], roll.own[t] = (torch.from_numpy(part).to(roll.device) for part in (team, own))
        batch.step(*wanted)
        roll.keep(t, batch)
    return network.embed(as_inputs(batch.observations, roll.device))[2]


def _drawn(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A choice by scores (..., choices), and its log probability."""
    chances = torch.log_softmax(scores, -1)
    drawn = torch.multinomial(chances.exp().flatten(0, -2), 1).view(*scores.shape[:-1], 1)
    return drawn[..., 0], chances.gather(-1, drawn)[..., 0]


@torch.no_grad()
def play_greedily(
    network: TapFinger, world: TaskWorld, workloads: Sequence[tuple[int, float]], prior: int, device: torch.device,
    stop: Event,
) -> Any:  # fmt: skip
    """The mean completion time of each workload, of a seed and a rate, under the most likely choices (W,).

    Where nothing runs and no agent wants anything, the tuned rule decides, as for a bundle. Stopped, NaN may be left.
    """
    rates = [rate for _, rate in workloads]
    batch = TaskBatch(world.plan, len(rates), lambda b, episode: (workloads[b][0] + episode, rates[b]), prior)
    found = np.full(len(workloads), np.nan)
    while np.isnan(found).any() and not stop.is_set():
        seen = batch.observations
        slots, allocations, score = (part.cpu().numpy() for part in network.choose(as_inputs(seen, device)))
        idle = (slots == batch.slots).all(-1) & (seen.runs_on.max((1, 2)) == 0)
        if idle.any():
            for mine, by_rule in zip((slots, allocations), batch.by_rule(tuned_rule.compiled, world.rule), strict=True):
                mine[idle] = by_rule[idle]
        batch.step(slots, allocations, score.astype(np.float64))
        first = batch.ended & np.isnan(found)
        found[first] = batch.finished[first]
    return found
