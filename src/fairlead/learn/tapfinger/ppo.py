"""TapFinger's multi-agent PPO: clone the tuned rule, then learn to be better than it.

One network decides for all clusters (MAPPO, Yu et al. 2022, with shared weights); the policy of an agent is
Pr(task) Pr(amounts | task)^m, where m is 0 for agents that lost the task in conflict resolution (equations 13 and 14
of the paper). The reward of a decision is what it saves: the tasks alive, summed over the steps to come, if the tuned
rule takes over before it, less those if it takes over after it, on several futures that are drawn. Over an episode that
adds up to the gap to the rule, on average, if the horizon outlasts what decisions lead to. What an agent learns from is
what its own choice saves, given the others', with what decisions save that follow in the same step, which may mend what
the rule would have done next; those of later steps are discounted. So most luck cancels out: the workload's (Mao et al.
2019), and that of other agents (Foerster et al. 2018). Worlds of one group have the same workload, and advantages are
relative to those of the others at the same time. Values are normalised.

Run by `tapfinger`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from threading import Event
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from fairlead.learn.tapfinger.network import Inputs, TapFinger
from fairlead.learn.tapfinger.play import Roll, play, play_greedily, play_rule, shape_of
from fairlead.policies.conflicts import PRIORS
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.run_policy import run_tasks
from fairlead.sim.tasks.world_file import TaskWorld
from fairlead.sim.tasks.worlds import new_worlds

TRAINING_SEED: Final = 2**33  # of workloads; comparisons use seeds below 2^31
VALIDATION_SEED: Final = 2**32
_FOLLOW: Final = 0.1  # how fast running means follow, a roll-out
_NEVER: Final = -1e6  # log probability of what is masked, or less


@dataclass(frozen=True)
class TapFingerSettings:
    """The settings of a training of a TapFinger agent."""

    size: str = "small"
    """Of the network: small or paper."""
    ablation: str = ""
    """What the network lacks: no-han, no-pointer or vanilla."""
    worlds: int = 256
    """Played at once."""
    group: int = 8
    """Worlds with the same workload."""
    branch: bool = True
    """Whether all of these begin each roll-out where one of them is."""
    rollout: int = 32
    """Joint decisions of each world between updates."""
    epochs: int = 2
    """How often it learns from each roll-out."""
    minibatches: int = 4
    """Gradient steps an epoch."""
    learning_rate: float = 1e-3
    """Of Adam, falling to a tenth."""
    clip: float = 0.2
    """How far a probability moves in an update."""
    entropy: float = 0.003
    """What the entropy of choices is worth, falling to nothing."""
    horizon: int = 16
    """Steps that it is looked ahead, under the tuned rule, to tell what a decision was worth."""
    futures: int = 4
    """Futures, drawn anew for every step of time, on which savings are computed."""
    discount: float = 0.0
    """Of what later decisions save, for each step of time; 0: those of the same step count alone."""
    trace: float = 1.0
    """Lambda of generalised advantage estimation, for each decision."""
    value_weight: float = 0.5
    """Of the critic's loss."""
    longest_gradient: float = 0.5
    """What is longer is cut."""
    prior: str = "copies"
    """Whose claim to a task weighs more: copies (the paper's) or softmax (its authors' program's)."""
    clone: int = 96
    """Roll-outs in which it clones the tuned rule first; 0: none."""
    validations: int = 12
    """How often it is validated; the best of these becomes the bundle."""
    validation_workloads: int = 128
    """Played at each of them."""
    rates: tuple[float, ...] = ()
    """Arrivals a step to train over; none: the scenario's."""


@dataclass
class TaskCurvePoint:
    """A validation: mean completion time, and the gap to the tuned rule on the same workloads with its interval."""

    step: int
    seconds: float
    completion_steps: float
    gap: float
    ci95: float


@dataclass
class State:
    """What training has come to, beside the network."""

    device: str = ""  # where it learnt last
    cloned: int = 0  # roll-outs
    step: int = 0
    seconds: float = 0.0
    points: list[TaskCurvePoint] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)  # parameters of the best network
    mean: float = 0.0  # of returns, for normalised values
    deviation: float = 0.0  # of returns; 0: none were seen yet

    @property
    def best_point(self) -> TaskCurvePoint:
        """The best validation so far."""
        return min(self.points, key=lambda point: point.completion_steps)


class Training:
    """One training: networks, worlds, and what it has come to."""

    def __init__(self, world: TaskWorld, settings: TapFingerSettings, seed: int, steps: int, device: str) -> None:
        torch.manual_seed(seed)
        self.world, self.settings, self.seed, self.steps = world, settings, seed, steps
        self.device, self.state = torch.device(device), State()
        self.network = TapFinger(shape_of(world.plan), settings.size, settings.ablation).to(self.device)
        self.optimiser = torch.optim.Adam(self.network.parameters(), settings.learning_rate, eps=1e-5)
        self._rule = tuned_rule.compiled, world.rule
        self._rates = settings.rates or (float(world.plan.rules["rate"][0]),)
        self.batch, self._apart = self._worlds(), False
        self._roll = Roll(self.batch, settings.rollout, self.device)
        self._rule_steps: Any = None

    @property
    def cloning(self) -> bool:
        """Whether it still clones the rule."""
        return self.state.cloned < self.settings.clone

    @property
    def finished(self) -> bool:
        """Whether all is learnt and validated."""
        points = self.state.points
        return self.state.step >= self.steps and bool(points) and points[-1].step == self.state.step

    @property
    def _group(self) -> int:
        """To clone in, all worlds are unlike; to learn in, groups of them have the same workload."""
        return 1 if self.cloning else self.settings.group

    def _worlds(self) -> TaskBatch:
        prior = PRIORS[self.settings.prior]
        return TaskBatch(self.world.plan, self.settings.worlds, partial(self._workload, self._group), prior)

    def _set_apart(self) -> None:
        """Put new worlds to unlike times of their episodes, as if the rule had played until there."""
        longest = self.batch.worlds.task.shape[1] / self.batch.worlds.world["rate"]
        share = torch.rand(self.settings.worlds // self._group).numpy()
        self.batch.play_until(longest * np.repeat(share, self._group), *self._rule)
        self._apart = True

    def _workload(self, group: int, b: int, episode: int) -> tuple[int, float]:
        number = (self.seed * 1_000_003 + episode) * self.settings.worlds + b // group
        return TRAINING_SEED + number, self._rates[number % len(self._rates)]

    # ---- what a checkpoint keeps

    def saved(self) -> dict[str, Any]:
        """All that training goes on from."""
        if self.finished:
            return {"state": asdict(self.state)}  # there is nothing to go on with
        random = [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if self.device.type == "cuda" else [])]
        whole = self.batch.saved().items()
        worlds = {name: torch.from_numpy(np.frombuffer(bytearray(array), np.uint8)) for name, array in whole}
        nets = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        return nets | {"state": asdict(self.state), "worlds": worlds, "apart": self._apart, "random": random}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what was saved."""
        points = [TaskCurvePoint(**point) for point in saved["state"]["points"]]
        self.state = State(**saved["state"] | {"points": points})
        if self.finished:
            return
        self.network.load_state_dict(saved["network"])
        self.optimiser.load_state_dict(saved["optimiser"])
        torch.set_rng_state(saved["random"][0].cpu())
        if self.device.type == "cuda" and len(saved["random"]) > 1:
            torch.cuda.set_rng_state(saved["random"][1].cpu())
        self.batch, self._apart = self._worlds(), bool(saved["apart"])
        self.batch.restore({name: array.cpu().numpy().tobytes() for name, array in saved["worlds"].items()})

    # ---- learning

    def update(self) -> float:
        """Play a roll-out and learn from it; the loss while it clones, then the entropy of choices."""
        if not self._apart:
            self._set_apart()
        if not self.cloning:
            if self.settings.branch:
                self._branch()
            ahead = self.settings.horizon, self.settings.futures
            self._prepare(play(self.network, self.batch, self._roll, self._rule, *ahead))
            entropy = self._epochs(self._ppo_loss, max(0.0, 1.0 - self.state.step / self.steps))
            self.state.step += self._roll.reward.numel()
            return entropy
        play_rule(self.batch, self._roll, self._rule)
        loss = self._epochs(self._clone_loss, 1.0 - self.state.cloned / self.settings.clone)
        self.state.cloned += 1
        if not self.cloning:
            self.batch, self._apart = self._worlds(), False
        return loss

    def _branch(self) -> None:
        """Put all worlds of a group to where one of them is: what comes then differs by what they do alone."""
        size, group = self.settings.worlds, self.settings.group
        member = torch.randint(group, (size // group,)).numpy()
        self.batch.copy_from(np.repeat(np.arange(0, size, group) + member, group))

    def _epochs(self, loss_of: Any, left: float) -> float:
        """Learn from the roll-out; the mean of the figure that the loss reports."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate * max(0.1, left)
        rows, told = self._roll.reward.numel(), []
        for _ in range(self.settings.epochs):
            for some in np.array_split(torch.randperm(rows).numpy(), self.settings.minibatches):
                self.optimiser.zero_grad(set_to_none=True)
                for where, slots, x in self._roll.pieces(some):
                    loss, figure = loss_of(x, self._roll.done(where, slots), left)
                    (loss * (len(where) / len(some))).backward()
                    told.append(figure)
                nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.longest_gradient)
                self.optimiser.step()
        return float(torch.stack(told).mean())

    def _clone_loss(self, x: Inputs, part: dict[str, torch.Tensor], left: float) -> tuple[torch.Tensor, torch.Tensor]:
        slot, amounts, _ = _judge(self.network, x, part)
        started = (part["chosen"] < x.slots.shape[2]).to(slot[0].dtype)
        can = slot[0] > _NEVER  # an ablated network can't always do as the rule does
        wrong = -self._of_free(x, torch.where(can, slot[0] + started * amounts[0], 0.0))
        return wrong, wrong.detach()

    def _ppo_loss(self, x: Inputs, part: dict[str, torch.Tensor], left: float) -> tuple[torch.Tensor, torch.Tensor]:
        (slot, slot_entropy), (amounts, amounts_entropy), value = _judge(self.network, x, part)
        won, clip = part["won"], self.settings.clip
        ratio = torch.exp(slot - part["log_slot"] + won * (amounts - part["log_amounts"]))
        gain = part["advantage"]
        policy = -self._of_free(x, torch.minimum(ratio * gain, ratio.clamp(1 - clip, 1 + clip) * gain))
        entropy = self._of_free(x, slot_entropy + won * amounts_entropy)
        loss = policy + self.settings.value_weight * self._value_loss(value, part)
        return loss - self.settings.entropy * left * entropy, entropy.detach()

    def _of_free(self, x: Inputs, figures: torch.Tensor) -> torch.Tensor:
        """The mean over agents that could act; every piece is counted with their average number."""
        return (figures * (x.fits.sum(-1) > 0)).sum() / (len(figures) * self._roll.free)

    def _value_loss(self, value: torch.Tensor, part: dict[str, torch.Tensor]) -> torch.Tensor:
        return nn.functional.smooth_l1_loss(value, (part["target"] - self.state.mean) / self.state.deviation)

    # ---- what a roll-out was worth

    def _prepare(self, last: torch.Tensor) -> None:
        """Fill in the roll-out's advantages and targets."""
        roll, state, discount = self._roll, self.state, self.settings.discount
        goes_on = torch.from_numpy(np.where(roll.ended, 0.0, discount**roll.passed)).float().to(self.device)
        whole = state.deviation or 1.0
        value, after = roll.value * whole + state.mean, last[..., 0] * whole + state.mean
        running = torch.zeros_like(after)
        for t in reversed(range(len(value))):
            roll.target[t, :, 1] = goes_on[t] * (after + self.settings.trace * running)  # what is saved later,
            roll.target[t, :, 0] = roll.reward[t] + roll.target[t, :, 1]  # and with what is saved now
            after = value[t, :, 0]
            running = roll.target[t, :, 0] - after
        self._follow(float(roll.target.mean()), float(roll.target.std()))
        roll.advantage[:] = roll.own + (roll.target - value)[..., 1:]
        roll.advantage -= self._of_group(roll.advantage)
        roll.advantage /= roll.advantage[roll.can].std() + 1e-6

    def _follow(self, mean: float, deviation: float) -> None:
        state = self.state
        share = _FOLLOW if state.deviation else 1.0
        state.mean += share * (mean - state.mean)
        state.deviation += share * (max(1e-3, deviation) - state.deviation)

    def _of_group(self, figures: torch.Tensor) -> torch.Tensor:
        """Of each agent the mean over the other worlds of the group at the same time of the episode; 0 without any."""
        roll, size, agents = self._roll, self.settings.group, figures.shape[2]
        world = np.arange(figures.shape[1])
        cell = (world // size * (int(roll.episode.max()) + 1) + roll.episode) * (int(roll.now.max()) + 1) + roll.now
        cells, where = np.unique(cell.ravel(), return_inverse=True)
        member = where.reshape(cell.shape) * size + world % size
        index = torch.from_numpy(member.ravel()).to(self.device)
        total = torch.zeros(len(cells) * size, agents + 1, device=self.device)
        counted = torch.cat([figures.flatten(0, 1), torch.ones(len(index), 1, device=self.device)], -1)
        total.index_add_(0, index, counted)  # a world decides several times at one time, or not at all
        count = total[:, -1:]
        mean, there = (total[:, :-1] / count.clamp(min=1)).view(-1, size, agents), (count > 0).view(-1, size, 1)
        others = (mean.sum(1, keepdim=True) - mean) / (there.sum(1, keepdim=True) - 1).clamp(min=1)
        return others.flatten(0, 1)[index].view_as(figures)

    # ---- how good it is

    def validate(self, stop: Event) -> TaskCurvePoint | None:
        """The best choice of every agent, on workloads that it never learns from, beside the tuned rule; None: stopped.

        With several rates, each has its share of the workloads.
        """
        n = self.settings.validation_workloads
        workloads = [(VALIDATION_SEED + i, self._rates[i % len(self._rates)]) for i in range(n)]
        if self._rule_steps is None:
            self._rule_steps = np.array([self._by_rule(*workload) for workload in workloads])
        prior = PRIORS[self.settings.prior]
        found = play_greedily(self.network, self.world, workloads, prior, self.device, stop)
        if np.isnan(found).any():
            return None
        gap = found - self._rule_steps
        ci95 = _t95(n - 1) * float(gap.std(ddof=1)) / n**0.5
        point = TaskCurvePoint(self.state.step, self.state.seconds, float(found.mean()), float(gap.mean()), ci95)
        if all(point.completion_steps < other.completion_steps for other in self.state.points):
            self.state.best = {name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()}
        self.state.points.append(point)
        return point

    def _by_rule(self, seed: int, rate: float) -> float:
        worlds = new_worlds(self.world.plan, [seed], rate)
        run_tasks(self.world.plan, worlds, tuned_rule, self.world.rule)
        return float(worlds.world["alive_steps"][0] / worlds.task.shape[1])


def _t95(freedom: int) -> float:
    """Student's t, 97.5 %, by its expansion in 1 / freedom: SciPy is not there where training may run."""
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _judge(network: TapFinger, x: Inputs, part: dict[str, torch.Tensor]) -> tuple[Any, Any, torch.Tensor]:
    """Of what was done: log probability and entropy, of slots and of amounts (B, N); and values (B,)."""
    tokens, scores, value = network.embed(x)
    slots = torch.log_softmax(scores, -1)
    amounts = torch.log_softmax(network.allocate(x, tokens, part["chosen"]), -1)
    slot, given = (
        (logs.gather(-1, done[..., None])[..., 0], -(logs.exp() * logs).sum(-1))
        for logs, done in ((slots, part["chosen"]), (amounts, part["given"]))
    )
    return slot, given, value
