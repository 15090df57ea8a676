"""TapFinger's multi-agent PPO, in one file: clone the tuned rule, then learn to be better than it.

    python -m fairlead.learn.tapfinger --world world.npz --out DIR [--steps N] [--device cuda] [--resume]

needs NumPy, Numba and torch alone. One network decides for all clusters (MAPPO, Yu et al. 2022, with shared weights);
the policy of an agent is Pr(task) Pr(amounts | task)^m, where m is 0 for who lost the task to another in conflict
resolution (equations 13 and 14 of the paper). Rewards are minus the tasks alive; they are not discounted. Worlds of one
group have the same workload, and advantages are relative to those of the group at the same time, since most of what is
good or bad luck is the workload (Mao et al. 2019). Values are normalised.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from fairlead.domain.errors import UserError, nearest
from fairlead.learn.tapfinger_network import SIZES, Inputs, Shape, TapFinger
from fairlead.measure.files import write_whole
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.files import TaskWorld, load_task_world
from fairlead.sim.tasks.host import run_tasks
from fairlead.sim.tasks.layout import TaskPlan
from fairlead.sim.tasks.worlds import new_worlds

TRAINING_SEED: Final = 2**33  # of workloads; comparisons use seeds below 2^31
VALIDATION_SEED: Final = 2**32


@dataclass(frozen=True)
class TapFingerSettings:
    """What can be set."""

    size: str = "small"  # of the network: small or paper
    worlds: int = 1024  # played at once
    group: int = 8  # worlds with the same workload
    rollout: int = 64  # joint decisions of each world between updates
    epochs: int = 2
    minibatches: int = 16
    rate: float = 5e-4  # of learning, falling to a tenth
    clip: float = 0.2
    entropy: float = 0.01  # falling to nothing
    trace: float = 0.97  # lambda of generalised advantage estimation
    value_weight: float = 0.5
    gradient: float = 0.5  # longest gradient
    clone: int = 1500  # updates that clone the tuned rule first; 0: none
    clone_rate: float = 1e-3  # of learning meanwhile, falling to a tenth
    validations: int = 40
    validation_workloads: int = 128
    lambdas: tuple[float, ...] = ()  # arrivals a step to train over; none: the scenario's


@dataclass
class Point:
    """A validation: mean completion time, and the gap to the tuned rule on the same workloads with its interval."""

    step: int
    seconds: float
    steps: float
    gap: float
    ci95: float


@dataclass
class State:
    """All that a checkpoint keeps."""

    step: int = 0
    seconds: float = 0.0
    points: list[Point] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    mean: float = 0.0  # of returns, for normalised values
    square: float = 1.0


def shape_of(plan: TaskPlan) -> Shape:
    """What a network for a plan's worlds is made for."""
    return Shape(plan.capacity.shape[1], plan.minimum, plan.most, plan.elastic)


def as_inputs(batch: TaskBatch, device: torch.device) -> Inputs:
    """The observations of a batch as tensors of their own."""
    return Inputs(*(torch.from_numpy(array).to(device, copy=True) for array in batch.observations))


class Training:
    """One training."""

    def __init__(self, world: TaskWorld, settings: TapFingerSettings, seed: int, steps: int, device: str) -> None:
        if settings.size not in SIZES:
            raise UserError(f"size {settings.size!r}: expected {' or '.join(SIZES)}")
        torch.manual_seed(seed)
        self.world, self.settings, self.seed, self.steps = world, settings, seed, steps
        self.device = torch.device(device)
        self.network = TapFinger(shape_of(world.plan), *SIZES[settings.size]).to(self.device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), settings.rate, eps=1e-5)
        self.batch = TaskBatch(world.plan, settings.worlds, self._workload)
        self.state, self._rule = State(), tuned_rule.compiled
        self._rule_steps: Any = None

    def _workload(self, b: int, episode: int, group: int = 0) -> tuple[int, float]:
        rates = self.settings.lambdas or (float(self.world.plan.rules["rate"][0]),)
        number = (self.seed * 1_000_003 + episode) * self.settings.worlds + b // (group or self.settings.group)
        return TRAINING_SEED + number, rates[number % len(rates)]

    # ---- learning from the rule

    def clone(self, tell: Callable[[str], None]) -> None:
        """Learn to do what the tuned rule does, where it goes."""
        batch = TaskBatch(self.world.plan, self.settings.worlds, partial(self._workload, group=1))  # all of them unlike
        for update in range(self.settings.clone):
            x = as_inputs(batch, self.device)
            slots, allocations = batch.by_rule(self._rule, self.world.rule)
            batch.step(slots, allocations, np.ones(slots.shape))
            for group in self.optimiser.param_groups:
                group["lr"] = self.settings.clone_rate * (1.0 - 0.9 * update / self.settings.clone)
            loss = self._clone_loss(x, torch.from_numpy(slots), torch.from_numpy(allocations))
            self._improve(loss)
            if update % 100 == 0:
                tell(f"cloning the rule: {update} of {self.settings.clone}, loss {loss.item():.3f}")

    def _clone_loss(self, x: Inputs, slots: torch.Tensor, allocations: torch.Tensor) -> torch.Tensor:
        slots, allocations = slots.to(self.device), allocations.to(self.device)
        tokens, scores, _ = self.network.embed(x)
        free = x.fits.sum(-1) > 0  # who could do something
        chosen = torch.log_softmax(scores, -1).gather(-1, slots[..., None])[..., 0]
        amounts = torch.log_softmax(self.network.allocate(x, tokens, slots), -1).gather(-1, allocations[..., None])
        started = (slots < x.slots.shape[2]).to(chosen.dtype)
        return -((chosen + started * amounts[..., 0]) * free).sum() / free.sum().clamp(min=1)

    # ---- learning by itself

    def update(self) -> dict[str, float]:
        """Play a roll-out and learn from it."""
        played = self._play()
        left = 1.0 - self.state.step / self.steps
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate * max(0.1, left)
        rows = self.settings.rollout * self.settings.worlds
        figures: dict[str, float] = {}
        for _ in range(self.settings.epochs):
            for part in torch.randperm(rows, device=self.device).chunk(self.settings.minibatches):
                figures = self._learn({name: values[part] for name, values in played.items()}, max(0.0, left))
        self.state.step += rows
        return figures

    @torch.no_grad()
    def _play(self) -> dict[str, torch.Tensor]:
        """Roll out: everything flattened to (rollout * worlds, ...)."""
        kept: dict[str, list[torch.Tensor]] = {}
        for _ in range(self.settings.rollout):
            x = as_inputs(self.batch, self.device)
            now = torch.from_numpy(self.batch.worlds.world["now"].astype(np.int64)).to(self.device)
            episode = torch.from_numpy(self.batch.episodes.copy()).to(self.device)
            tokens, scores, value = self.network.embed(x)
            slots, log_slot = _drawn(scores)
            allocations, log_amounts = _drawn(self.network.allocate(x, tokens, slots))
            score = log_slot.exp()
            self.batch.step(*(t.cpu().numpy() for t in (slots, allocations, score.double())))
            told = {
                "chosen": slots, "given": allocations, "value": self._whole(value), "now": now, "episode": episode,
                "log_slot": log_slot, "log_amounts": log_amounts,
                "won": torch.from_numpy(self.batch.won.copy()).to(self.device),
                "reward": torch.from_numpy(self.batch.rewards.copy()).float().to(self.device),
                "ended": torch.from_numpy(self.batch.ended.copy()).float().to(self.device),
            }  # fmt: skip
            for name, values in (x._asdict() | told).items():
                kept.setdefault(name, []).append(values)
        last = self._whole(self.network.embed(as_inputs(self.batch, self.device))[2])
        stacked = {name: torch.stack(values) for name, values in kept.items()}
        stacked["advantage"], stacked["target"] = self._advantages(stacked, last)
        return {name: values.flatten(0, 1) for name, values in stacked.items()}

    def _advantages(self, played: dict[str, torch.Tensor], last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Generalised advantage estimation without discount, then relative to the group at the same time."""
        made, running, after = torch.zeros_like(played["reward"]), torch.zeros_like(last), last
        for t in reversed(range(len(made))):
            goes_on = 1.0 - played["ended"][t]
            error = played["reward"][t] + goes_on * after - played["value"][t]
            running = error + self.settings.trace * goes_on * running
            made[t], after = running, played["value"][t]
        target = made + played["value"]
        group = torch.arange(made.shape[1], device=self.device) // self.settings.group
        cell = ((group * 64 + played["episode"] % 64) * 8192 + played["now"]).flatten()
        _, which = torch.unique(cell, return_inverse=True)
        total = torch.zeros(int(which.max()) + 1, device=self.device).index_add(0, which, made.flatten())
        count = torch.zeros_like(total).index_add(0, which, torch.ones_like(made).flatten())
        return made - (total / count)[which].view_as(made), target

    def _learn(self, part: dict[str, torch.Tensor], left: float) -> dict[str, float]:
        x = Inputs(*(part[name] for name in Inputs._fields))
        tokens, scores, value = self.network.embed(x)
        chosen = torch.log_softmax(scores, -1)
        amounts = torch.log_softmax(self.network.allocate(x, tokens, part["chosen"]), -1)
        new_slot = chosen.gather(-1, part["chosen"][..., None])[..., 0]
        new_amounts = amounts.gather(-1, part["given"][..., None])[..., 0]
        won, free = part["won"].to(value.dtype), (x.fits.sum(-1) > 0).to(value.dtype)
        ratio = torch.exp(new_slot - part["log_slot"] + won * (new_amounts - part["log_amounts"]))
        advantage = part["advantage"] / (part["advantage"].std() + 1e-6)
        gain = advantage[:, None]
        clipped = torch.minimum(ratio * gain, ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip) * gain)
        policy = -(clipped * free).sum() / free.sum().clamp(min=1)
        entropy = -((chosen.exp() * chosen).sum(-1) + won * (amounts.exp() * amounts).sum(-1)) * free
        entropy = entropy.sum() / free.sum().clamp(min=1)
        error = nn.functional.smooth_l1_loss(value, (part["target"] - self.state.mean) / self._deviation())
        self._improve(policy + self.settings.value_weight * error - self.settings.entropy * left * entropy)
        self._count(part["target"])
        return {"policy": float(policy.detach()), "value": float(error.detach()), "entropy": float(entropy.detach())}

    def _improve(self, loss: torch.Tensor) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient)
        self.optimiser.step()

    def _deviation(self) -> float:
        return float(
            max(1.0, (self.state.square - self.state.mean**2) ** 0.5 if self.state.square > self.state.mean**2 else 1.0)
        )

    def _whole(self, value: torch.Tensor) -> torch.Tensor:
        return value * self._deviation() + self.state.mean

    def _count(self, targets: torch.Tensor) -> None:
        """Follow the mean and the mean square of returns."""
        self.state.mean += 0.01 * (float(targets.mean()) - self.state.mean)
        self.state.square += 0.01 * (float((targets**2).mean()) - self.state.square)

    # ---- how good it is

    def validate(self) -> Point:
        """The best choice of every agent, on workloads that it never learns from, beside the tuned rule."""
        n = self.settings.validation_workloads
        if self._rule_steps is None:
            worlds = new_worlds(self.world.plan, np.arange(VALIDATION_SEED, VALIDATION_SEED + n))
            run_tasks(self.world.plan, worlds, tuned_rule, self.world.rule)
            self._rule_steps = worlds.world["alive_steps"] / worlds.task.shape[1]
        found = play_greedily(self.network, self.world.plan, range(VALIDATION_SEED, VALIDATION_SEED + n), self.device)
        gap = found - self._rule_steps
        point = Point(self.state.step, self.state.seconds, found.mean(), gap.mean(), 1.98 * gap.std(ddof=1) / n**0.5)
        if all(point.steps < other.steps for other in self.state.points):
            self.state.best = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
        self.state.points.append(point)
        return point


def _drawn(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A choice by scores (..., choices), and its log probability."""
    chances = torch.log_softmax(scores, -1)
    drawn = torch.multinomial(chances.exp().flatten(0, -2), 1).view(*scores.shape[:-1], 1)
    return drawn[..., 0], chances.gather(-1, drawn)[..., 0]


@torch.no_grad()
def play_greedily(network: TapFinger, plan: TaskPlan, seeds: Any, device: torch.device) -> Any:
    """The mean completion time of each workload under the most likely choices (W,)."""
    rate = float(plan.rules["rate"][0])
    batch = TaskBatch(plan, len(seeds), lambda b, episode: (seeds[b] + episode * 10_000_019, rate))
    found = np.full(len(seeds), np.nan)
    while np.isnan(found).any():
        x = as_inputs(batch, device)
        tokens, scores, _ = network.embed(x)
        slots = scores.argmax(-1)
        allocations = network.allocate(x, tokens, slots).argmax(-1)
        score = torch.softmax(scores, -1).gather(-1, slots[..., None])[..., 0]
        batch.step(*(t.cpu().numpy() for t in (slots, allocations, score.double())))
        first = batch.ended & np.isnan(found)
        found[first] = batch.finished[first]
    return found


def train(training: Training, out: Path, resume: bool, until_s: float, tell: Callable[[str], None]) -> State:
    """Train to the end or for so many seconds; `out` has the checkpoint and the curve at any time."""
    file, state = out / "checkpoint.pt", training.state
    out.mkdir(parents=True, exist_ok=True)
    if resume and not file.exists():
        raise UserError(f"{out}: there is no checkpoint to resume; without --resume, training begins")
    if resume:
        saved = torch.load(file, map_location=training.device, weights_only=False)
        training.network.load_state_dict(saved["network"])
        training.optimiser.load_state_dict(saved["optimiser"])
        training.state = state = saved["state"]
    began = time.monotonic() - state.seconds
    end = time.monotonic() + until_s
    if not resume:
        training.clone(tell)
        state.seconds = time.monotonic() - began
        tell(_words(training.validate()))
        _save(training, file, out)
    between = max(1, training.steps // training.settings.validations)
    while state.step < training.steps and time.monotonic() < end:
        figures = training.update()
        state.seconds = time.monotonic() - began
        if state.step - state.points[-1].step >= between or state.step >= training.steps:
            tell(f"{_words(training.validate())}, entropy {figures['entropy']:.3f}, value error {figures['value']:.3f}")
            _save(training, file, out)
    _save(training, file, out)
    return state


def _save(training: Training, file: Path, out: Path) -> None:
    kept = {
        "network": training.network.state_dict(),
        "optimiser": training.optimiser.state_dict(),
        "state": training.state,
    }
    part = file.with_suffix(".part")
    torch.save(kept, part)
    part.replace(file)
    rows = ["step,seconds,steps,gap,ci95"]
    rows += [f"{p.step},{p.seconds:.1f},{p.steps:.5f},{p.gap:.5f},{p.ci95:.5f}" for p in training.state.points]
    write_whole(out / "curve.csv", "\n".join(rows) + "\n")


def _words(point: Point) -> str:
    return (
        f"{point.step:,} decisions, {point.seconds:.0f} s: {point.steps:.3f} steps, "
        f"{point.gap:+.3f} ±{point.ci95:.3f} to the tuned rule"
    )


def _pair(item: str) -> tuple[str, str]:
    name, _, text = item.partition("=")
    return name, text


def _setting(name: str, text: str) -> Any:
    """A setting as it was typed, as what it is; a list of numbers has commas."""
    known = asdict(TapFingerSettings())
    if name not in known:
        raise UserError(f"--hyper {name}: unknown setting{nearest(name, known)}")
    try:
        if isinstance(known[name], tuple):
            return tuple(float(part) for part in text.split(","))
        return type(known[name])(text)
    except ValueError:
        raise UserError(f"--hyper {name}={text}: expected something like {known[name]}") from None


def main() -> int:
    """The stand-alone form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; --resume goes on")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--hyper", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    settings = TapFingerSettings(**{name: _setting(name, text) for name, text in map(_pair, args.hyper)})
    torch.set_num_threads(1)
    training = Training(load_task_world(args.world), settings, args.seed, args.steps, args.device)
    print(json.dumps(asdict(settings)), flush=True)
    train(training, args.out, args.resume, args.seconds, lambda words: print(words, flush=True))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as wrong:
        sys.exit(f"tapfinger: {wrong}")
