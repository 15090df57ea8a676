"""The world of tasks in Gymnasium's and PettingZoo's forms: their rules are kept, masks are exact."""

from __future__ import annotations

import doctest
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import parallel_api_test, parallel_seed_test

from fairlead.domain.errors import UserError
from fairlead.domain.task_records import START
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.gym import tasks
from fairlead.sim.gym.tasks import TasksEnv, TasksParallelEnv
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.run_policy import new_placements, run_tasks
from fairlead.sim.tasks.worlds import new_worlds

SMALL = ["tasks=12", "resources.cpu.most_per_task=3", "resources.gpu.most_per_task=4"]
PLACES = [("tapfinger-3", SMALL), ("tapfinger-3", [*SMALL, "mode=single"]), ("tapfinger-6-hetero", SMALL)]


def play(env: Any, seed: int, dice: Any) -> Any:
    """An episode of random possible actions: everything that was told."""
    seen, _ = env.reset(seed=seed)
    while True:
        yield seen
        action = int(dice.choice(np.flatnonzero(seen["action_mask"])))
        seen, reward, terminated, truncated, info = env.step(action)
        yield reward, info
        if terminated or truncated:
            yield seen
            return


@pytest.mark.parametrize(("name", "overrides"), PLACES)
def test_gymnasium_and_pettingzoo_find_no_fault(name: str, overrides: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not an instance of.*|.*action_mask.*|.*spec.*")
        check_env(TasksEnv(name, overrides), skip_render_check=True)
    parallel_api_test(TasksParallelEnv(name, overrides), num_cycles=200)
    parallel_seed_test(lambda: TasksParallelEnv(name, overrides), num_cycles=50)


def test_it_is_made_by_name_and_its_example_runs() -> None:
    env = gymnasium.make("fairlead.sim.gym:fairlead/Tasks-v1", scenario="tapfinger-3", overrides=SMALL)
    assert isinstance(env.unwrapped, TasksEnv)
    assert doctest.testmod(tasks).failed == 0


@pytest.mark.parametrize(("name", "overrides"), PLACES)
def test_observations_lie_in_their_space_and_seeds_tell_episodes(name: str, overrides: list[str]) -> None:
    env = TasksEnv(name, overrides)
    runs = [list(play(env, seed, np.random.default_rng(5))) for seed in (3, 3, 4)]
    for seen in (step for step in runs[0] if isinstance(step, dict)):
        assert env.observation_space.contains(seen)
    assert str(runs[0]) == str(runs[1])
    assert str(runs[0]) != str(runs[2])


def test_every_action_that_the_mask_allows_starts_a_task_and_no_other_does() -> None:
    env = TasksEnv("tapfinger-3", SMALL)
    dice = np.random.default_rng(1)
    for seed in range(3):
        seen, _ = env.reset(seed=seed)
        possible = np.flatnonzero(seen["action_mask"])[1:]
        impossible = np.flatnonzero(seen["action_mask"] == 0)
        for action, starts in ((dice.choice(possible), True), (dice.choice(impossible), False)):
            env.reset(seed=seed)
            before = int(env._game.batch.worlds.world[0]["running"])
            env.step(action)
            world = env._game.batch.worlds.world[0]
            assert (int(world["running"]) > before or int(world["done"]) > 0) == starts


def test_in_single_task_mode_every_cluster_has_a_turn_before_time_goes_on() -> None:
    env = TasksEnv("tapfinger-3", [*SMALL, "mode=single"])
    worlds, each, turns = env._game.batch.worlds, env._game.actions - 1, []
    dice = np.random.default_rng(3)
    seen, _ = env.reset(seed=5)
    ended = False
    while not ended:
        turn = int(seen["observation"][-3:].argmax())
        assert seen["observation"][-3:].sum() == 1
        possible = np.flatnonzero(seen["action_mask"])[1:]
        assert set((possible - 1) // each) == {turn}, "only the cluster whose turn it is can act, and it can"
        turns.append((int(worlds.world[0]["now"]), turn))
        seen, _, ended, _, info = env.step(int(dice.choice(possible)) if dice.random() < 0.9 else 0)
    assert turns == sorted(set(turns)), "in their order, each once in a step"
    # The same starts, through the engine's own single-task mode, which lets a cluster start one task a step.
    tasks, amounts = worlds.task[0].copy(), worlds.amounts[0].copy()
    together = np.bincount(tasks["started"])
    assert together.max() > 1, "several clusters start in one step"
    plan = build_task_plan(load_tasks("tapfinger-3", [*SMALL, "mode=single"]))
    world = Handle(plan, new_worlds(plan, [int(worlds.world[0]["seed"])]))
    out = new_placements(plan, world.room)
    while not world.over:
        now = np.flatnonzero(tasks["started"] == world.worlds.world[0]["now"])
        for row, i in enumerate(now):
            out.rows[row], out.amounts[row] = (i, tasks["cluster"][i], START), amounts[i]
        assert world.place(out, len(now)) == FINE
        world.advance()
    assert world.worlds.task[0]["finished"].tolist() == tasks["finished"].tolist()
    assert info["completion_steps"] == world.worlds.world[0]["alive_steps"] / 12


def test_in_single_task_mode_who_lost_a_task_chooses_again_before_time_goes_on() -> None:
    env = TasksParallelEnv("tapfinger-3", [*SMALL, "mode=single"])
    names, batch, met = env.possible_agents, env._game.batch, 0
    for seed in range(200):
        seen, _ = env.reset(seed=seed)
        views, rows = batch.observations, batch.observations.slots[0]
        both = set(rows[0][views.fits[0, 0] > 0]) & set(rows[1][views.fits[0, 1] > 0])
        if not both or views.fits[0, 1].sum() < 2:
            continue
        met += 1
        row = min(both)
        slots = [int(np.flatnonzero(rows[n] == row)[0]) for n in (0, 1)]
        each = (env._game.actions - 1) // batch.slots
        least = [int(np.flatnonzero(env._game.mask(n).reshape(-1, each)[slots[n]])[0]) for n in (0, 1)]
        actions = {names[n]: 1 + slots[n] * each + least[n] for n in (0, 1)} | {names[2]: 0}
        now = env._game.now
        seen, rewards, *_ = env.step(actions)
        assert (int(batch.worlds.world[0]["running"]), env._game.now) == (1, now)
        can = [int(seen[name]["action_mask"].sum()) > 1 for name in names]
        assert can == [False, True, False]  # of equals the first has won
        assert set(rewards.values()) == {0.0}
        env.step(dict.fromkeys(names, 0))
        assert env._game.now > now
    assert met > 20


def test_nothing_passes_the_turn_on_and_so_does_what_is_not_possible() -> None:
    env = TasksEnv("tapfinger-3", [*SMALL, "mode=single"])
    each = env._game.actions - 1
    for seed in range(40):
        seen, _ = env.reset(seed=seed)
        if all(env._game.mask(n).any() for n in range(3)):
            break
    for turn, action in ((0, 0), (1, 1 + each), (2, 1)):  # nothing; no amounts at all; another cluster's
        assert (seen["observation"][-3:].tolist().index(1), env._game.now) == (turn, 0)
        assert seen["action_mask"][action] == (action == 0)
        seen, reward, _, _, _ = env.step(action)
    assert (int(env._game.batch.worlds.world[0]["running"]), env._game.now > 0, reward < 0) == (0, True, True)


def test_the_return_is_the_sum_of_completion_times() -> None:
    env = TasksEnv("tapfinger-3", SMALL)
    told = list(play(env, 7, np.random.default_rng(2)))
    rewards = [step for step in told if isinstance(step, tuple)]
    assert -sum(reward for reward, _ in rewards) == pytest.approx(12 * rewards[-1][1]["completion_steps"])


def test_agents_that_want_the_same_task_get_it_once() -> None:
    env = TasksParallelEnv("tapfinger-3", SMALL)
    for seed in range(40):
        seen, _ = env.reset(seed=seed)
        slots = env._game.batch.observations.slots[0, :, 0]
        if (slots == 0).all():
            break
    actions = {name: int(np.flatnonzero(s["action_mask"])[1]) for name, s in seen.items()}
    env.step(actions)
    assert env._game.batch.won[0].sum() == 1


def test_a_proposal_that_is_not_possible_takes_nothing_from_one_that_is() -> None:
    env = TasksParallelEnv("tapfinger-3", SMALL)
    for seed in range(40):
        seen, _ = env.reset(seed=seed)
        if (env._game.batch.observations.slots[0, :2, 0] == 0).all():
            break
    impossible = 1  # the first slot with nothing at all
    assert seen["edge-1"]["action_mask"][impossible] == 0
    possible = int(np.flatnonzero(seen["edge-2"]["action_mask"])[1])
    env.step({"edge-1": impossible, "edge-2": possible, "edge-3": 0})
    assert env._game.batch.won[0].tolist() == [False, True, False]


def test_after_the_end_a_step_is_refused() -> None:
    env = TasksEnv("tapfinger-3", SMALL)
    list(play(env, 1, np.random.default_rng(1)))
    with pytest.raises(UserError, match="reset first"):
        env.step(0)
    with pytest.raises(UserError, match="need a scenario"):
        TasksEnv(load_tasks("tapfinger-3"), SMALL)


def test_a_batch_that_does_what_the_rule_does_is_as_good_as_the_rule() -> None:
    scenario = load_tasks("tapfinger-3")
    plan = build_task_plan(scenario)
    given = tuned_rule.parameters(facts_of(scenario, plan))
    seeds = list(range(6300, 6332))
    batch = TaskBatch(plan, len(seeds), lambda b, episode: (seeds[b] + 1000 * episode, 3.0))
    found, returns = np.full(len(seeds), np.nan), np.zeros(len(seeds))
    while np.isnan(found).any():
        slots, allocations = batch.by_rule(tuned_rule.compiled, given)
        batch.step(slots, allocations, np.ones(slots.shape))
        going = np.isnan(found)
        returns[going] += batch.rewards[going]
        found[going & batch.ended] = batch.finished[going & batch.ended]
    assert -returns / 192 == pytest.approx(found)
    worlds = new_worlds(plan, seeds)
    run_tasks(plan, worlds, tuned_rule, given)
    assert found.mean() == pytest.approx((worlds.world["alive_steps"] / 192).mean(), abs=0.05)
