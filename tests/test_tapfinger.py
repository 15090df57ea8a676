"""TapFinger's networks and its training: what a decision may depend on, what is possible, and that it learns."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Fallback
from fairlead.domain.task_records import Snapshot
from fairlead.learn.tapfinger import export
from fairlead.learn.tapfinger.export import write_bundle
from fairlead.learn.tapfinger.network import ABLATIONS, Inputs, TapFinger
from fairlead.learn.tapfinger.play import as_inputs, play, shape_of
from fairlead.learn.tapfinger.ppo import TapFingerSettings, TaskCurvePoint, Training
from fairlead.learn.tapfinger.training import TapFingerQuestion, train_tapfinger
from fairlead.policies.bundle import Model
from fairlead.policies.tasks.allocations import number_of
from fairlead.policies.tasks.bundle import OUTPUTS, SHIPPED
from fairlead.policies.tasks.learned import LearnedTaskPolicy, Placer, _with_started
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.policy_catalog import find_task_policy
from fairlead.sim.tasks.run_policy import new_placements, run_tasks
from fairlead.sim.tasks.world_arrays import RUNS
from fairlead.sim.tasks.world_file import TaskWorld, load_task_world, save_task_world, task_world
from fairlead.sim.tasks.worlds import new_worlds

CPU = torch.device("cpu")
TINY = TapFingerSettings(worlds=16, group=4, rollout=8, minibatches=2, clone=2, validations=2, validation_workloads=2)
SMALL = ("tasks=40",)


def small_world() -> TaskWorld:
    return task_world(load_tasks("tapfinger-3", SMALL), SMALL)


def some_inputs(world: TaskWorld, worlds: int = 16, steps: int = 25) -> tuple[TaskBatch, Inputs]:
    """Worlds amid their episodes."""
    batch = TaskBatch(world.plan, worlds, lambda b, episode: (2**33 + 100 * b + episode, 3.0))
    for _ in range(steps):
        slots, allocations = batch.by_rule(tuned_rule.compiled, world.rule)
        batch.step(slots, allocations, np.ones(slots.shape))
    return batch, as_inputs(batch.observations, CPU)


@pytest.fixture(scope="module")
def network() -> TapFinger:
    torch.manual_seed(1)
    made = TapFinger(shape_of(small_world().plan), "small")
    for head in (made.score, made.amounts[-1], made.value[-1]):
        torch.nn.init.normal_(head.weight)  # so that choices differ
    return made.eval()


def test_a_decision_does_not_depend_on_who_else_is_in_the_batch(network: TapFinger) -> None:
    _, x = some_inputs(small_world())
    tokens, scores, value = network.embed(x)
    for b in (0, 7):
        alone = Inputs(*(part[b : b + 1] for part in x))
        its_tokens, its_scores, its_value = network.embed(alone)
        assert torch.allclose(its_tokens[0], tokens[b], atol=1e-4)
        assert torch.allclose(its_scores[0], scores[b], atol=1e-4)
        assert torch.allclose(its_value[0], value[b], atol=1e-4)


def test_padding_says_nothing(network: TapFinger) -> None:
    _, x = some_inputs(small_world())
    there = x.seen.amax(-1, keepdim=True), x.runs_on.amax(-1, keepdim=True)
    other = x._replace(pending=x.pending + 5.0 * (1 - there[0]), running=x.running - 3.0 * (1 - there[1]))
    before, after = network.embed(x), network.embed(other)
    assert torch.allclose(before[1], after[1], atol=1e-4)
    assert torch.allclose(before[2], after[2], atol=1e-4)


def test_clusters_that_change_places_change_places_in_the_answer(network: TapFinger) -> None:
    _, x = some_inputs(small_world())
    order = torch.tensor([2, 0, 1])
    moved = x._replace(
        cluster=x.cluster[:, order], free=x.free[:, order], slots=x.slots[:, order], fits=x.fits[:, order],
        seen=x.seen[..., order], runs_on=x.runs_on[..., order],
    )  # fmt: skip
    assert torch.allclose(network.embed(x)[1][:, order], network.embed(moved)[1], atol=1e-4)


def test_pending_tasks_with_the_same_links_are_told_apart(network: TapFinger) -> None:
    _, x = some_inputs(small_world(), worlds=64)
    width = x.pending.shape[-1]
    changed = x.pending.clone()
    changed[..., width - 2] += 1.0 * (torch.arange(x.pending.shape[1]) == 0)  # the first has waited longer
    scores, others = network.embed(x)[1], network.embed(x._replace(pending=changed))[1]
    mine = (x.slots == 0) & (x.fits > 0)
    moved = (others - scores)[..., :-1][mine]
    assert len(moved) > 10
    assert (moved.abs() > 1e-4).float().mean() > 0.9


def test_only_what_is_possible_has_a_chance(network: TapFinger) -> None:
    world = small_world()
    batch, x = some_inputs(world)
    tokens, scores, _ = network.embed(x)
    chances = torch.softmax(scores, -1)
    assert (chances[..., :-1][x.fits == 0] == 0).all()
    assert (chances[..., -1] > 0).all()
    slots = scores.argmax(-1)
    amounts = torch.softmax(network.allocate(x, tokens, slots), -1)
    grid = np.array(list(np.ndindex(17, 17)))
    for b in range(len(slots)):
        for n in range(3):
            possible = grid[amounts[b, n].detach().numpy() > 0]
            if slots[b, n] == batch.slots:
                assert possible.tolist() == [[0, 0]]
                continue
            assert (possible >= [2, 1]).all()
            assert (possible <= x.free[b, n].numpy()).all()
            assert len(possible) == np.prod(np.minimum(x.free[b, n].numpy(), 16) - [2, 1] + 1)


def test_a_world_goes_through_a_file(tmp_path: Path) -> None:
    world = small_world()
    save_task_world(world, tmp_path / "w.npz")
    again = load_task_world(tmp_path / "w.npz")
    assert (again.name, again.overrides) == ("tapfinger-3", SMALL)
    assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(world.plan, again.plan, strict=True))
    (tmp_path / "x.npz").write_bytes(b"no")
    for file, words in ((tmp_path / "x.npz", "not a world of tasks"), (tmp_path / "y.npz", "can't read it")):
        with pytest.raises(UserError, match=words):
            load_task_world(file)


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_what_an_ablation_leaves_out(ablation: str) -> None:
    torch.manual_seed(1)
    made = TapFinger(shape_of(small_world().plan), "small", ablation).eval()
    torch.nn.init.normal_(made.score.weight)
    _, x = some_inputs(small_world(), worlds=64)
    _, scores, _ = made.embed(x)
    possible = scores[..., :-1] > -1e8
    several = (x.fits > 0).sum(-1) > 1
    if ablation == "no-han":  # what other clusters are like says nothing
        far = x.cluster.clone()
        far[:, 0] += 1.0
        assert torch.allclose(made.embed(x._replace(cluster=far))[1][:, 1:], scores[:, 1:])
    elif ablation == "no-pointer":  # all that fit have the same chance
        chances = scores[..., :-1].masked_fill(~possible, float("nan"))
        spread = chances.nan_to_num(-9e9).amax(-1) - chances.nan_to_num(9e9).amin(-1)
        assert (spread[several].abs() < 1e-4).all()
        made.score.weight.data *= -1  # here everyone wants nothing, with this anything but that
        chosen, first = made.choose(x)[0], (x.fits > 0).float().argmax(-1)
        several &= chosen < x.slots.shape[2]
        chosen, first = chosen[several], first[several]
        assert possible[several].gather(-1, chosen[:, None]).all()
        assert 0.2 < (chosen == first).float().mean() < 0.8  # any of them, not the first
    else:  # the first that fits, or nothing
        assert (possible.sum(-1)[several] == 1).all()
        first = (x.fits > 0).float().argmax(-1)
        assert (possible.float().argmax(-1)[several] == first[several]).all()
    assert several.sum() > 10


def test_what_an_ablated_network_cannot_do_is_not_cloned() -> None:
    training = Training(small_world(), replace(TINY, ablation="vanilla"), 1, 512, "cpu")
    assert 0.0 < training.update() < 50.0  # the rule's own choices are masked at times, at a log probability of -1e9


class Quiet:
    """Is told and keeps it; may stop after some validations."""

    def __init__(self, stop_after: int = 99) -> None:
        self.points: list[TaskCurvePoint] = []
        self._stop_after = stop_after

    def doing(self, what: str) -> None: ...

    def step(self, done: int, total: int) -> None: ...

    def figures(self, step: int, figures: dict[str, float]) -> None: ...

    def validated(self, point: TaskCurvePoint, best: bool) -> None:
        self.points.append(point)
        if len(self.points) == self._stop_after:
            signal.raise_signal(signal.SIGINT)


def question(out: Path, settings: TapFingerSettings = TINY, steps: int = 512, seed: int = 1) -> TapFingerQuestion:
    return TapFingerQuestion(small_world(), settings, steps, seed, "cpu", out, "fairlead train tapfinger ...")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, of a training that was never stopped."""
    out = tmp_path_factory.mktemp("tapfinger") / "whole"
    train_tapfinger(question(out), Quiet(), resume=False)
    return out


def judged(mode: str, size: int, more: tuple[str, ...] = ()) -> tuple[TaskBatch, tuple[Any, Any]]:
    """Worlds, and the rule that decisions are judged by."""
    changes = (*SMALL, f"mode={mode}", *more)
    world = task_world(load_tasks("tapfinger-3", changes), changes)
    batch = TaskBatch(world.plan, size, lambda b, episode: (2**33 + 100 * b + episode, 3.0))
    return batch, (tuned_rule.compiled, world.rule)


def test_a_rule_saves_nothing_against_itself_however_far_one_looks() -> None:
    for horizon in (7, 40):
        batch, rule = judged("single", 16)
        for _ in range(60):
            wanted = [*batch.by_rule(*rule), np.ones(batch.won.shape)]
            team, own = batch.saves(wanted, rule, horizon, 2)
            assert not team.any()
            assert not own.any()
            batch.step(*wanted)


def least_allocation(plan: Any) -> int:
    """The number of the amounts that are the minimum of every type."""
    return max(number_of(minimum, plan.most, plan.elastic) for minimum in plan.minimum)


def test_who_loses_a_task_to_another_loses_nothing_by_it() -> None:
    """In single-task mode the rule then decides for it, beside what the others have started, and for nobody else."""
    batch, rule = judged("single", 64)
    lost, least = 0, least_allocation(batch.plan)
    for _ in range(40):
        slots, allocations = batch.by_rule(*rule)
        scores = np.ones(slots.shape)
        rows = np.take_along_axis(batch.observations.slots, np.minimum(slots, batch.slots - 1)[..., None], 2)[..., 0]
        for b in np.flatnonzero(slots[:, 0] < batch.slots):  # everyone who can wants what the first cluster wants
            for n in (1, 2):
                same = np.flatnonzero(batch.observations.slots[b, n] == rows[b, 0])
                if len(same) and batch.observations.fits[b, n, same[0]]:
                    slots[b, n], allocations[b, n], scores[b, n] = same[0], least, 1e-9
                    lost += 1
        wanted = slots, allocations, scores
        team, _ = batch.saves(wanted, rule, 16, 1)
        assert not team.any()
        batch.step(*wanted)
    assert lost > 50


@pytest.mark.parametrize("mode", ["multi", "single"])
def test_waiting_where_the_rule_would_start_something_costs_everyone(mode: str) -> None:
    batch, rule = judged(mode, 64)
    slots, allocations = batch.by_rule(*rule)
    wanted = np.full_like(slots, batch.slots), allocations, np.ones(slots.shape)
    team, own = batch.saves(wanted, rule, 30, 2)
    assert team.mean() < -1
    if mode == "multi":
        assert (own == team[:, None]).all(), "any of them could have started it"
    else:
        starts = slots < batch.slots
        assert own[starts].mean() < -0.5
        assert (team[:, None] <= own + 1e-9).mean() > 0.9, "each is to blame for its own waiting alone"


def test_who_has_had_its_go_starts_nothing_more_in_that_step() -> None:
    batch, _ = judged("single", 32)
    least = least_allocation(batch.plan)
    everyone = np.zeros(batch.won.shape, np.int64), np.full(batch.won.shape, least), np.ones(batch.won.shape)
    started = np.zeros(batch.won.shape, np.int64)
    for _ in range(60):
        now = batch.worlds.world["now"].copy()
        batch.step(*everyone)  # the first task that each sees, whether it may or not
        started += batch.won
        assert started.max() <= 1
        started[(batch.worlds.world["now"] != now) | batch.ended] = 0


@pytest.mark.parametrize("mode", ["multi", "single"])
def test_what_decisions_save_adds_up_to_the_gap_to_the_rule(mode: str) -> None:
    """On average: they are judged on other futures than those that come."""
    batch, rule = judged(mode, 64, ("progress_noise=0.2",))
    worlds = new_worlds(batch.plan, [2**33 + 100 * b for b in range(64)])
    run_tasks(batch.plan, worlds, tuned_rule, rule[1])
    by_rule = worlds.world["alive_steps"] / 40
    total, done, mine, dice = np.zeros(64), np.zeros(64, bool), np.zeros(64), np.random.default_rng(1)
    while not done.all():
        slots, allocations = batch.by_rule(*rule)
        slots[dice.random(slots.shape) < 0.3] = batch.slots  # who would start something starts nothing
        wanted = slots, allocations, np.ones(slots.shape)
        team, _ = batch.saves(wanted, rule, 5000, 4)
        total += np.where(done, 0.0, team)
        batch.step(*wanted)
        mine = np.where(batch.ended & ~done, batch.finished, mine)
        done |= batch.ended
    off = total / 40 - (by_rule - mine)
    assert abs(off.mean()) < 3 * off.std() / 8
    assert (mine - by_rule).mean() > 10 * off.std() / 8


def test_what_an_agent_saves_is_its_own_doing() -> None:
    """Who acts alone saves all, who waits while others act nothing."""
    batch, rule = judged("multi", 64)
    alone = together = 0
    least = least_allocation(batch.plan)
    for _ in range(40):
        slots, allocations = batch.by_rule(*rule)
        acts = slots < batch.slots
        slow = acts & (np.cumsum(acts, 1) == 1)  # the first who starts something gives it as little as possible
        wanted = slots, np.where(slow, least, allocations), np.ones(slots.shape)
        team, own = batch.saves(wanted, rule, 30, 1)
        one = acts.sum(1) == 1
        assert (own[one][acts[one]] == team[one]).all()
        assert not own[~acts & acts.any(1)[:, None]].any()
        alone, together = alone + int((team[one] != 0).sum()), together + int((own[~one][slow[~one]] != 0).sum())
        batch.step(*wanted)
    assert alone > 10
    assert together > 10


def test_a_roll_out_is_worth_what_it_saves_against_the_group() -> None:
    """Two worlds of a group, three decisions, by hand: trace and discount 0.5, values 1, 2 and 3, then 4.

    The first agent saves all of it, the second half, the third nothing; what comes later is everyone's.
    """
    settings = replace(TINY, worlds=2, group=2, rollout=3, trace=0.5, discount=0.5)
    training = Training(small_world(), settings, 1, 512, "cpu")
    roll = training._roll
    roll.episode[:], roll.ended[:], roll.passed[:], roll.can[:] = 1, False, 1, True
    roll.now[:] = [[0, 0], [1, 1], [2, 3]]
    roll.reward[:] = torch.tensor([[2.0, -2.0], [0.0, 0.0], [-9.0, 0.0]])
    roll.own[:] = roll.reward[..., None] * torch.tensor([1.0, 0.5, 0.0])
    roll.ended[2, 0] = True
    roll.value[..., 0] = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    roll.value[..., 1] = 0.5  # of what comes later
    training._prepare(torch.tensor([[4.0, 9.0], [4.0, 9.0]]))
    # errors of the first: 2 + 1 - 1, 0 + 1.5 - 2, -9 - 3 (ended); of the second: -2 + 1 - 1, -0.5, 0 + 2 - 3
    made = torch.tensor([[2 + 0.25 * -3.5, -2 + 0.25 * -0.75], [-0.5 + 0.25 * -12, -0.5 + 0.25 * -1], [-12, -1.0]])
    whole = made + torch.tensor([[1.0], [2.0], [3.0]])
    assert torch.allclose(roll.target, torch.stack([whole, whole - roll.reward], -1))
    mine = (whole - roll.reward - 0.5)[..., None] + roll.own
    apart = torch.stack([mine[0] - mine[0].flip(0), mine[1] - mine[1].flip(0), mine[2]])  # at 2 and 3 each is alone
    assert torch.allclose(roll.advantage, apart / (apart.std() + 1e-6), atol=1e-5)


def test_who_lost_a_task_learns_nothing_about_its_amounts() -> None:
    training = Training(small_world(), TINY, 1, 512, "cpu")
    while training.cloning:
        training.update()
    training._prepare(play(training.network, training.batch, training._roll, training._rule, 32, 1))
    (*_, (where, slots, x)) = training._roll.pieces(np.arange(128))
    part = training._roll.done(where, slots)
    for won in (0.0, 1.0):
        training.network.zero_grad()
        training._ppo_loss(x, part | {"won": torch.full_like(part["won"], won)}, 0.0)[0].backward()
        learnt = float(training.network.amounts[-1].weight.grad.abs().sum())
        assert (learnt > 0) == (won > 0)


def test_worlds_begin_at_unlike_times_those_of_a_group_at_one() -> None:
    training = Training(small_world(), replace(TINY, worlds=64, clone=1), 1, 512, "cpu")
    last_arrival = 40 / training._rates[0]
    for group in (1, 4):
        training._set_apart()
        now = training.batch.worlds.world["now"].reshape(-1, group)
        assert (now == now[:, :1]).all()
        assert len(np.unique(now)) > 8
        assert now.max() <= last_arrival + 20
        assert training.batch.worlds.world["done"].max() > 20
        training.update()


def test_worlds_that_are_cut_early_can_be_begun_at_unlike_times() -> None:
    changes = ("tasks=40", "rules.most_steps=8")
    world = task_world(load_tasks("tapfinger-3", changes), changes)
    training = Training(world, TINY, 1, 512, "cpu")
    training._set_apart()
    assert training.batch.worlds.world["now"].max() < 8


def test_a_group_branches_from_one_of_its_worlds(tmp_path: Path) -> None:
    training = Training(small_world(), TINY, 1, 512, "cpu")
    for _ in range(TINY.clone + 1):
        training.update()
    worlds, observations = training.batch.worlds, training.batch.observations
    before = worlds.world.copy().reshape(4, 4)
    assert any(len(np.unique(row)) > 1 for row in before["alive_steps"])  # each went its own way
    training._branch()
    for g, row in enumerate(worlds.world.reshape(4, 4)):
        assert (row == row[0]).all()
        assert row[0] in before[g]
    assert all((part.reshape(4, 4, -1) == part.reshape(4, 4, -1)[:, :1]).all() for part in observations)
    assert len(np.unique(worlds.world["seed"])) == 4


def test_a_training_that_is_resumed_goes_on_as_if_never_stopped(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "as_onnx", lambda *_: b"")  # most of the time, and no part of what is resumed
    monkeypatch.setattr(export, "check", lambda *_: None)
    out = tmp_path / "stopped"
    assert train_tapfinger(question(out), Quiet(stop_after=2), resume=False).step < 512
    state = train_tapfinger(question(out), Quiet(), resume=True)
    assert state.step == 512
    one, other = (torch.load(folder / "checkpoint", weights_only=True) for folder in (trained, out))
    for name, value in one["state"]["best"].items():
        assert torch.equal(value, other["state"]["best"][name]), name
    curves = [(folder / "curve.csv").read_text().splitlines() for folder in (trained, out)]
    without_seconds = [[",".join(line.split(",")[:1] + line.split(",")[2:]) for line in curve] for curve in curves]
    assert without_seconds[0] == without_seconds[1]
    assert len(curves[0]) == 4


def test_a_checkpoint_of_another_training_is_refused(trained: Path, tmp_path: Path) -> None:
    wrong = {
        "size was small, now paper": question(trained, replace(TINY, size="paper")),
        "seed was 1, now 2": question(trained, seed=2),
        "steps was 512, now 600": question(trained, steps=600),
    }
    for words, asked in wrong.items():
        with pytest.raises(UserError, match=words):
            train_tapfinger(asked, Quiet(), resume=True)
    other = replace(question(trained), world=task_world(load_tasks("tapfinger-3", ("tasks=41",)), ("tasks=41",)))
    with pytest.raises(UserError, match="scenario was"):
        train_tapfinger(other, Quiet(), resume=True)
    with pytest.raises(UserError, match="the folder already has a training"):
        train_tapfinger(question(trained), Quiet(), resume=False)
    with pytest.raises(UserError, match="no checkpoint to resume"):
        train_tapfinger(question(tmp_path / "none"), Quiet(), resume=True)
    (tmp_path / "checkpoint").write_bytes(b"no")
    with pytest.raises(UserError, match="not a checkpoint"):
        train_tapfinger(question(tmp_path), Quiet(), resume=True)


@pytest.mark.parametrize("mode", ["multi", pytest.param("single", marks=pytest.mark.slow)])
def test_a_bundle_decides_as_the_network_does(network: TapFinger, tmp_path: Path, mode: str) -> None:
    changes = (*SMALL, f"mode={mode}")
    world = task_world(load_tasks("tapfinger-3", changes), changes)
    write_bundle(tmp_path, network, world, {"summary": "a test's", "tasks": world.tasks, "prior": "copies"}, "")
    policy = find_task_policy(str(tmp_path))
    assert isinstance(policy, LearnedTaskPolicy)
    seeds, until = np.arange(2**33, 2**33 + 32), 8
    batch = TaskBatch(world.plan, len(seeds), lambda b, episode: (int(seeds[b]) + 1000 * episode, 3.0))
    goes = again = 0
    while (batch.worlds.world["now"] < until).any():
        slots, allocations, score = network.choose(as_inputs(batch.observations, CPU))
        now = batch.worlds.world["now"].copy()
        batch.step(slots.numpy(), allocations.numpy(), score.detach().double().numpy())
        goes, again = goes + len(seeds), again + int((batch.worlds.world["now"] == now).sum())
    assert again > goes / 4  # in multi-task mode until nobody wants more, in single-task mode who has lost a task
    worlds, placer = new_worlds(world.plan, seeds), policy.decider(world.rule)
    for b in range(len(seeds)):
        handle = Handle(world.plan, worlds, b)
        out = new_placements(world.plan, handle.room)
        while worlds.world[b]["now"] < until:
            count = placer.decide(handle.snapshot(), 0.5, out).choice
            assert handle.place(out, count) == FINE
            if count == 0 or mode == "single":
                handle.advance()
    assert not placer.fallbacks
    began = [(w.task["started"] >= 0) & (w.task["started"] < until) for w in (batch.worlds, worlds)]
    assert (began[0] == began[1]).all()
    assert began[0].sum() > 200
    for field in ("started", "cluster"):
        assert (batch.worlds.task[field][began[0]] == worlds.task[field][began[0]]).all()
    done = began[0] & (batch.worlds.task["state"] == RUNS) & (worlds.task["state"] == RUNS)
    assert (batch.worlds.amounts[done] == worlds.amounts[done]).all()


def test_what_others_see_once_some_have_started_a_task_is_as_in_the_world() -> None:
    """Clusters see a few tasks each, and others reach what is started: it leaves their queues."""
    changes = ("mode=single", "tasks=200", "rate=12", "pending=3")
    world = task_world(load_tasks("tapfinger-testbed-6", changes), changes)
    worlds, left = new_worlds(world.plan, [2**33 + 5]), 0
    handle = Handle(world.plan, worlds, 0)
    out = new_placements(world.plan, handle.room)
    for _ in range(60):
        before = Snapshot(*(part.copy() if hasattr(part, "copy") else part for part in handle.snapshot()))
        if tuned_rule.compiled(before, world.rule, 0.5, out) > 0:
            expected = _with_started(before, out, slice(0, 1))
            assert handle.place(out, 1) == FINE
            now = handle.snapshot()
            for part in ("free", "queued", "amounts"):
                assert (getattr(now, part) == getattr(expected, part)).all(), part
            assert (now.pending["task"] == expected.pending["task"]).all()
            left += int((now.queued < before.queued).sum())
        handle.advance()
    assert left > 5


def test_a_failure_after_some_have_agreed_is_counted_and_what_they_agreed_on_stays(trained: Path) -> None:
    changes = (*SMALL, "mode=single")
    world = task_world(load_tasks("tapfinger-3", changes), changes)
    policy = find_task_policy(str(trained))
    assert isinstance(policy, LearnedTaskPolicy)

    class WorksOnce:
        def __init__(self) -> None:
            self.asked = 0

        def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            self.asked += 1
            if self.asked > 1:
                raise RuntimeError("out of memory")
            slot = inputs["fits"].argmax(-1)
            return [slot, np.full(slot.shape, 2 * 17 + 1), np.ones(slot.shape, np.float32)]

    policy.bundle.model = Model(fake := WorksOnce(), OUTPUTS)
    placer = policy.decider(world.rule)
    handle = Handle(world.plan, new_worlds(world.plan, [70_002]), 0)
    out = new_placements(world.plan, handle.room)
    while True:
        count = placer.decide(handle.snapshot(), 0.5, out).choice
        if fake.asked == 2:
            break
        assert handle.place(out, count) == FINE
        fake.asked = 0
        handle.advance()
    assert count > 0
    assert placer.fallbacks == {Fallback.OUTPUT: 1}


def test_the_best_network_is_kept_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(small_world(), TINY, 1, 512, "cpu")
    kept = []
    for completion in (5.0, 4.0, 6.0):
        found = np.full(TINY.validation_workloads, completion)
        monkeypatch.setattr("fairlead.learn.tapfinger.ppo.play_greedily", lambda *_, found=found: found)
        with torch.no_grad():
            next(training.network.parameters()).add_(1.0)
        kept.append(next(training.network.parameters()).detach().clone())
        training.validate(threading.Event())
    assert training.state.best_point.completion_steps == 4.0
    assert torch.equal(next(iter(training.state.best.values())), kept[1])


def test_whoever_would_never_start_anything_is_helped(trained: Path) -> None:
    """A network that always wants nothing: the rule decides when nothing runs."""
    scenario = load_tasks("tapfinger-3", SMALL)
    world, policy = small_world(), find_task_policy(str(trained))
    assert isinstance(policy, LearnedTaskPolicy)

    class Nothing:
        def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            clusters, slots = inputs["slots"].shape[1:]
            return [
                np.full((1, clusters), slots),
                np.zeros((1, clusters), np.int64),
                np.ones((1, clusters), np.float32),
            ]

    policy.bundle.model = Model(Nothing(), OUTPUTS)
    worlds = new_worlds(world.plan, [70_000])
    placer = run_tasks(world.plan, worlds, policy, policy.parameters(facts_of(scenario, world.plan)))
    assert worlds.world["done"][0] == 40
    assert placer.fallbacks[Fallback.IDLE] > 2


@pytest.mark.parametrize("answer", ["nan", "too little", "too much", "raises"])
def test_an_answer_that_makes_no_sense_is_the_rules_to_give(trained: Path, answer: str) -> None:
    scenario, world = load_tasks("tapfinger-3", SMALL), small_world()
    policy = find_task_policy(str(trained))
    assert isinstance(policy, LearnedTaskPolicy)

    class Wrong:
        def run(self, outputs: list[str], inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
            if answer == "raises":
                raise RuntimeError("out of memory")
            slot = inputs["fits"].argmax(-1)
            amounts = np.full(slot.shape, {"too little": 0, "too much": 10 * 17 + 10}.get(answer, 2 * 17 + 1))
            return [slot, amounts, np.full(slot.shape, np.nan if answer == "nan" else 1.0, np.float32)]

    policy.bundle.model = Model(Wrong(), OUTPUTS)
    by_rule, by_policy = (new_worlds(world.plan, [70_000]) for _ in range(2))
    run_tasks(world.plan, by_rule, tuned_rule, world.rule)
    placer = run_tasks(world.plan, by_policy, policy, policy.parameters(facts_of(scenario, world.plan)))
    if answer == "too much":  # but not for a cluster that is empty
        assert placer.fallbacks[Fallback.OUTPUT] > 5
        return
    assert placer.fallbacks == {Fallback.OUTPUT: placer.decisions}
    assert by_policy.world["alive_steps"] == by_rule.world["alive_steps"]


def test_a_bundle_of_tasks_is_refused_where_requests_are(capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(SHIPPED / "tapfinger-3-agents")
    assert main(["compare", "full-edge", "--policies", folder, "--seeds", "1", "--no-bound"]) == 2
    assert capsys.readouterr().err == (
        f"fairlead: policy {folder!r}: it decides on tasks, and this is a scenario of requests\n"
    )


def test_a_bundle_keeps_the_speeds_of_its_training(trained: Path) -> None:
    world, policy = small_world(), find_task_policy(str(trained))
    assert isinstance(policy, LearnedTaskPolicy)
    assert policy.bundle.manifest.document["tasks"]["speeds"] == world.tasks["speeds"]
    assert sorted(world.tasks["speeds"]) == ["insensitive", "sensitive"]
    assert policy.bundle.warning("mine", facts_of(load_tasks("tapfinger-3"), world.plan)) == ""


def test_a_broken_bundle_says_so(trained: Path, tmp_path: Path) -> None:
    def broken(name: str, change: Callable[[Path], object]) -> str:
        folder = tmp_path / name
        shutil.copytree(trained, folder)
        change(folder)
        return str(folder)

    def edit(**changes: object) -> Callable[[Path], object]:
        def change(folder: Path) -> None:
            file = folder / "manifest.json"
            file.write_text(json.dumps(json.loads(file.read_text()) | changes))

        return change

    with pytest.raises(UserError, match=r"policy .*no such folder"):
        find_task_policy(str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"policy .*it is a dispatcher"):
        find_task_policy(broken("kind", edit(kind="dispatcher")))
    wrong = {
        "manifest.json: No such file": broken("empty", lambda folder: (folder / "manifest.json").unlink()),
        "sha256": broken("model", lambda folder: (folder / "model.onnx").write_bytes(b"no")),
        "model.onnx: ": broken("gone", lambda folder: (folder / "model.onnx").unlink()),
        "trained on 'tasks-0'": broken("version", edit(features="tasks-0")),
        "it has format 7": broken("format", edit(format=7)),
        "lacks 'resources'": broken("tasks", edit(tasks={})),
    }
    for words, folder in wrong.items():
        placer = find_task_policy(folder).decider(np.zeros(0))
        assert isinstance(placer, Placer)
        assert placer.fault
        assert words in placer.fault.why
    policy = find_task_policy(str(trained))
    testbed = load_tasks("tapfinger-testbed-3")
    with pytest.raises(
        UserError,
        match=r"trained for other resources: gpu \(most 16, elastic\); tapfinger-testbed-3 has gpu \(most 8, elastic\)",
    ):
        policy.parameters(facts_of(testbed, task_world(testbed).plan))


def test_the_command_trains_a_bundle_that_compare_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hyper = ["worlds=8", "group=4", "rollout=4", "minibatches=1", "clone=1", "validations=1", "validation_workloads=2"]
    tiny = [word for one in hyper for word in ("--hyper", one)]
    place = ["--scenario", "tapfinger-3", "--set", "tasks=12"]
    out = str(tmp_path / "mine")
    assert main(["train", "tapfinger", *place, *tiny, "--steps", "32", "--out", out]) == 0
    told = capsys.readouterr()
    assert "to the tuned rule" in told.out
    assert told.err.startswith("cloning the tuned rule (0 of 1)\n0 decisions after")
    assert any((tmp_path / "mine" / "logs").iterdir())
    reproduce = json.loads((tmp_path / "mine" / "manifest.json").read_text())["reproduce"]
    assert reproduce.startswith("fairlead train tapfinger --scenario tapfinger-3 --set tasks=12")
    result = tmp_path / "out.json"
    compared = ["compare", "tapfinger-3", "--set", "tasks=12", "--policies", f"tuned-rule,{out}", "--seeds", "2"]
    assert main([*compared, "--json", str(result)]) == 0
    detail = json.loads(result.read_text())["scenarios"]["tapfinger-3"]["policies"][out]["detail"]
    assert detail["learned"]["decisions"] > 0


@pytest.mark.slow
def test_the_stand_alone_form_stops_in_time_and_leaves_a_checkpoint(tmp_path: Path) -> None:
    world, out = tmp_path / "world.npz", tmp_path / "there"
    assert main(["train", "tapfinger", "--scenario", "tapfinger-3", "--set", "tasks=12", "--world", str(world)]) == 0
    hyper = ["worlds=8", "group=4", "rollout=4", "minibatches=1", "clone=1", "validations=1", "validation_workloads=2"]
    command = [sys.executable, "-m", "fairlead.learn.tapfinger", "--world", str(world), "--out", str(out)]
    command += ["--steps", "32", "--device", "cpu", *(word for one in hyper for word in ("--hyper", one))]
    stopped = subprocess.run([*command, "--seconds", "0"], capture_output=True, text=True)
    assert (stopped.returncode, stopped.stderr) == (130, "")
    finished = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.count("to the tuned rule") == 2
    assert find_task_policy(str(out)).summary.startswith("TapFinger agent")
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2
    assert again.stderr.startswith(f"tapfinger: {out}: the folder already has a training")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scenario", "full-edge"], "full-edge"),
        (["--scenario", "tapfinger-3", "--size", "huge"], "size 'huge': expected small or paper"),
        (["--scenario", "tapfinger-3", "--ablation", "x"], "ablation 'x'"),
        (["--scenario", "tapfinger-3", "--hyper", "group=3"], "group=3"),
        (["--scenario", "tapfinger-3", "--hyper", "minibatches=99999"], "no more than 8192 decisions to share"),
        (["--scenario", "tapfinger-3", "--rates", "2,0"], "--rates 2,0: expected more than 0"),
        (["--scenario", "tapfinger-3", "--hyper", "wrlds=3"], "did you mean 'worlds'"),
        (["--scenario", "tapfinger-3", "--scenario", "tapfinger-6"], "give it once"),
        ([], "--scenario"),
    ],
)
def test_wrong_options_are_one_line(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "tapfinger", *options, "--out", str(tmp_path / "x")]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


@pytest.mark.slow
def test_a_short_training_passes_the_clone_that_it_begins_as(tmp_path: Path) -> None:
    """With all that is default but its length: by more than chance, on workloads that it does not learn from."""
    scenario = load_tasks("tapfinger-3", ())
    settings = TapFingerSettings(clone=12, validations=1, validation_workloads=48)
    asked = replace(question(tmp_path / "run", settings, 3 * 8192), world=task_world(scenario, ()))
    told = Quiet()
    train_tapfinger(asked, told, resume=False)
    first, last = told.points[0], told.points[-1]
    assert last.gap + last.ci95 < first.gap - first.ci95


@pytest.mark.slow
def test_a_short_training_improves_on_its_start(tmp_path: Path) -> None:
    """Without a clone to begin with: it comes to a quarter of where it began, with advantages of 0 to no less.

    Later steps count, as there is no rule to take over in them from who knows nothing.
    """
    cut = (*SMALL, "rules.most_steps=100")  # a network that knows nothing may never end
    scenario = load_tasks("tapfinger-3", cut)
    world, seeds = task_world(scenario, cut), range(2**34, 2**34 + 24)
    settings = TapFingerSettings(
        worlds=64, group=8, rollout=32, minibatches=4, clone=0, discount=0.9, validations=1, validation_workloads=24
    )
    asked, told = replace(question(tmp_path / "run", settings, 14 * 64 * 32), world=world), Quiet()
    train_tapfinger(asked, told, resume=False)
    policy, worlds = find_task_policy(str(tmp_path / "run")), new_worlds(world.plan, np.array(seeds))
    placer = run_tasks(world.plan, worlds, policy, policy.parameters(facts_of(scenario, world.plan)))
    assert isinstance(policy, LearnedTaskPolicy)
    assert placer.fallbacks.total() < placer.decisions / 20
    assert worlds.world["alive_steps"].mean() / 40 < 0.4 * told.points[0].completion_steps
