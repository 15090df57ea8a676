"""TapFinger's networks and its training: what a decision may depend on, what is possible, and that it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fairlead.domain.errors import UserError
from fairlead.learn.tapfinger import train
from fairlead.learn.tapfinger_network import SIZES, Inputs, TapFinger
from fairlead.learn.tapfinger_play import as_inputs, play_greedily, shape_of
from fairlead.learn.tapfinger_ppo import TapFingerSettings, Training
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.files import TaskWorld, load_task_world, save_task_world, task_world

CPU = torch.device("cpu")
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
    made = TapFinger(shape_of(small_world().plan), *SIZES["small"])
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
        assert its_value.item() == pytest.approx(value[b].item(), abs=1e-4)


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


@pytest.mark.slow
def test_a_short_training_improves_on_its_start(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    world = small_world()
    settings = TapFingerSettings(
        worlds=64, group=8, rollout=32, minibatches=4, clone=30, validations=2, validation_workloads=32, rate=2e-4
    )
    training = Training(world, settings, 1, 2 * 64 * 32, "cpu")
    seeds = range(2**34, 2**34 + 32)
    before = play_greedily(training.network, world.plan, seeds, CPU)
    state = train(training, tmp_path / "run", False, 120.0, lambda words: None)
    training.network.load_state_dict(state.best)
    after = play_greedily(training.network, world.plan, seeds, CPU)
    gain = before - after
    assert gain.mean() > 3 * gain.std() / len(gain) ** 0.5
    assert (tmp_path / "run" / "curve.csv").read_text().startswith("step,seconds,steps,gap,ci95\n0,")
