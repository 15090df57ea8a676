"""The gym: what an episode does is what the engine does, whoever steps it; and Gymnasium's rules are kept."""

from __future__ import annotations

import copy
import doctest
import gc
import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from builders import (
    Ask,
    deploy,
    finished,
    link,
    link_change,
    node,
    rich_scenario,
    scenario,
    seen,
    shared_device,
    source,
    workload_of,
)
from fairlead import __version__
from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import Policy, find, rules
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.scenarios.loader import load
from fairlead.sim.gym import window as window_module
from fairlead.sim.gym.dispatch import DispatchBatch, DispatchSettings
from fairlead.sim.gym.envs import DispatchEnv, WindowEnv
from fairlead.sim.gym.vector import DispatchVectorEnv, WindowVectorEnv
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.world_file import Worlds, load_worlds, save_worlds, workload_seed, worlds_of
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.world_arrays import FAULT

OURS = [p.name for p in rules().values() if p.package == "fairlead"]
VIEWS = ["Dispatch", "Window"]


@pytest.fixture(params=["request", "stream"])
def rich(request: pytest.FixtureRequest) -> Scenario:
    return rich_scenario(request.param)


def brief(made: Scenario, duration_s: float = 1.0) -> Scenario:
    """The same, over soon: some 300 requests."""
    return replace(made, workload=replace(made.workload, duration_s=duration_s))


def worlds_with(made: Scenario, *workloads: Any) -> Worlds:
    """Worlds whose seed i is workloads[i]."""
    return replace(worlds_of(made), draw=lambda seed: workloads[seed])


def trajectory(env: gymnasium.Env[Any, Any], seed: int, steps: int = 300) -> Iterator[tuple[Any, ...]]:
    """What a random agent, possible or impossible actions alike, meets in `steps` steps of several episodes."""
    rng = np.random.default_rng(5)
    observation, info = env.reset(seed=seed)
    yield observation.tobytes(), info["action_mask"].tobytes()
    for _ in range(steps):
        action = rng.integers(env.action_space.n)  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, info = env.step(action)
        yield observation.tobytes(), reward, terminated, truncated, info["action_mask"].tobytes()
        if terminated:
            observation, info = env.reset()
            yield observation.tobytes(), info["action_mask"].tobytes()


# ---- Gymnasium's rules


@pytest.mark.parametrize("view", VIEWS)
def test_gymnasiums_checker_finds_nothing(view: str, rich: Scenario) -> None:
    env = gymnasium.make(f"fairlead/{view}-v1", scenario=rich, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_names_work_with_their_module_and_their_defaults() -> None:
    single = gymnasium.make("fairlead.sim.gym:fairlead/Dispatch-v1")
    assert single.reset(seed=0)[0].shape == single.observation_space.shape
    many = gymnasium.make_vec("fairlead/Window-v1", num_envs=2, scenario="dc-cloud", overrides=["duration_s=5"])
    assert isinstance(many.unwrapped, WindowVectorEnv)
    assert many.reset(seed=0)[0].shape == (2, 6)


@pytest.mark.parametrize("view", VIEWS)
def test_equal_seeds_give_equal_trajectories_and_others_do_not(view: str, rich: Scenario) -> None:
    env, again = (gymnasium.make(f"fairlead/{view}-v1", scenario=rich) for _ in range(2))
    one = list(trajectory(env, 3))
    assert one == list(trajectory(again, 3))
    assert one == list(trajectory(again, 3))  # also when other episodes went before
    assert one != list(trajectory(again, 4))


@pytest.mark.parametrize("view", VIEWS)
def test_observations_lie_in_their_space_whatever_the_actions(view: str, rich: Scenario) -> None:
    env = gymnasium.make(f"fairlead/{view}-v1", scenario=brief(rich)).unwrapped
    rng, episodes = np.random.default_rng(1), 0
    observation, info = env.reset(seed=1)
    for _ in range(1500 if view == "Dispatch" else 60):
        assert observation in env.observation_space
        assert info["action_mask"].dtype == np.int8
        assert env.action_masks().tolist() == info["action_mask"].astype(bool).tolist()  # type: ignore[attr-defined]
        observation, reward, terminated, truncated, info = env.step(rng.integers(env.action_space.n))
        assert np.isfinite(reward)
        assert truncated is False
        if terminated:
            assert 0.0 <= info["success"] <= 1.0
            episodes += 1
            observation, info = env.reset()
    assert episodes >= 2


def test_rendering_is_a_line_of_how_it_goes() -> None:
    env = WindowEnv(rich_scenario(), render_mode="ansi")
    env.reset(options={"workload_seed": 3})
    env.step(0)
    clock = env.batch.handle.worlds[0].clock[0]
    assert env.render().startswith(f"test at 0.25 s: {clock['arrived']} arrived, {clock['succeeded']} succeeded, ")
    with pytest.raises(UserError, match="render_mode 'human'"):
        WindowEnv(rich_scenario(), render_mode="human")


# ---- episodes and seeds


def test_an_exact_workload_can_be_asked_for(rich: Scenario) -> None:
    env = WindowEnv(rich, settings=WindowSettings(("round-robin",)))
    env.reset(seed=9, options={"workload_seed": 3})
    while not env.step(0)[2]:
        pass
    (world,) = env.batch.handle.worlds
    n = int(world.clock[0]["arrived"])
    assert seen(world._replace(rows=world.rows[:n])) == seen(finished(rich, 3, find("round-robin")))


def test_workloads_of_episodes_are_all_unlike_and_never_those_of_comparisons() -> None:
    seeds = [workload_seed(s, k) for s in (*range(50), 2**31, 2**32 - 2) for k in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 2**31
    assert max(seeds) < 2**63


def first_steps(seeds: Any, size: int = 3) -> list[bytes]:
    """What each world of a batch with these seeds shows after a window."""
    batch = WindowBatch(worlds_of(rich_scenario()), size)
    batch.reset(seeds)
    batch.step([0] * size)
    return [row.tobytes() for row in batch.observations]


def test_a_seed_of_any_integer_type_stands_for_those_that_follow() -> None:
    right = first_steps([5, 6, 7])
    assert len(set(right)) == 3
    for seeds in (5, np.int64(5), np.array(5), range(5, 8), np.arange(5, 8, dtype=np.uint8)):
        assert first_steps(seeds) == right
    assert first_steps(2**70 + np.arange(3).astype(object)) == first_steps(2**70 % (2**32 - 1))


def test_worlds_without_a_seed_draw_one_and_then_go_on() -> None:
    batch = WindowBatch(worlds_of(brief(rich_scenario())), 3)
    batch.reset([1, None, 3])
    assert batch.seeds[[0, 2]].tolist() == [1, 3]
    assert batch.seeds[1] >= 0
    drawn = batch.seeds.tolist()
    batch.reset([7, None, None])
    assert batch.seeds.tolist() == [7, *drawn[1:]]
    assert batch.episodes.tolist() == [1, 2, 2]


def test_wrong_seeds_are_told_and_change_nothing() -> None:
    batch = WindowBatch(worlds_of(rich_scenario()), 2)
    batch.reset([8, 9])
    with pytest.raises(UserError, match="1 seeds for 2 worlds: give one seed, or one for each world"):
        batch.reset([4])
    for wrong in (-1, 0.5, "one", [1, -1], [1, 2.0]):
        with pytest.raises(UserError, match=r"seed .*: a whole number from 0 on is needed"):
            batch.reset(wrong)  # type: ignore[arg-type]
    assert batch.seeds.tolist() == [8, 9]
    env = WindowEnv(rich_scenario())
    env.reset(seed=np.int64(3))
    env.reset(seed=2**70)
    for wrong in (-1, 2**63, "one"):
        with pytest.raises(UserError, match=r"workload_seed .*: a whole number from 0 on and below"):
            env.reset(options={"workload_seed": wrong})
    with pytest.raises(UserError, match="option 'seed' is not known: workload_seed is"):
        env.reset(options={"seed": 1})


# ---- copies


@pytest.mark.parametrize("view", VIEWS)
def test_a_copy_goes_on_by_itself_when_the_original_is_gone(view: str, rich: Scenario) -> None:
    env = gymnasium.make(f"fairlead/{view}-v1", scenario=brief(rich))
    untouched = gymnasium.make(f"fairlead/{view}-v1", scenario=brief(rich))
    for each in (env, untouched):
        each.reset(seed=1)
        each.step(0)
    made = copy.deepcopy(env)
    for _ in range(2):
        env.step(1)  # must not reach the copy
    del env
    gc.collect()
    rubbish = [np.full(50_000, -1) for _ in range(50)]  # where freed arrays were
    for _ in range(3):
        terminated = False
        while not terminated:
            (one, *rest, _), (other, *expected, _) = made.step(0), untouched.step(0)
            assert one.tobytes() == other.tobytes()
            assert rest == expected
            terminated = bool(rest[1])
        assert made.reset()[0].tobytes() == untouched.reset()[0].tobytes()
    assert len(rubbish) == 50


def test_copies_of_a_batch_part_ways() -> None:
    batch = DispatchBatch(worlds_of(brief(rich_scenario())), 2)
    untried = copy.deepcopy(batch)  # before the first reset
    batch.reset(1)
    one, other = copy.deepcopy(batch), copy.deepcopy(batch)
    reject = batch.masks.shape[1] - 1
    for _ in range(100):
        one.step([0, 0])
        other.step([reject, reject])
    assert one.handle.worlds[0].clock[0]["rejected"] < other.handle.worlds[0].clock[0]["rejected"]
    assert batch.handle.worlds[0].clock[0]["decisions"] == 1
    untried.reset(1)
    assert untried.observations.tobytes() == batch.observations.tobytes()


def test_a_batch_is_not_pickled() -> None:
    with pytest.raises(TypeError, match=r"can't be pickled: copy\.deepcopy copies it"):
        pickle.dumps(WindowEnv(rich_scenario()))


def test_an_episode_without_decisions_ends_with_its_first_step() -> None:
    made = scenario()
    env = DispatchEnv(worlds_with(made, workload_of([])))
    observation, info = env.reset(options={"workload_seed": 0})
    assert not observation.any()
    assert info["action_mask"].tolist() == [0, 1]
    assert env.step(0)[1:3] == (0.0, True)


# ---- dispatch: the same as the engine's own runs


def choice_of(policy: Policy, batch: DispatchBatch, b: int) -> int:
    """What the policy would do in world `b`: an action."""
    world = batch.handle.worlds[b]
    clock = world.clock[0]
    first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
    u = uniform(int(clock["seed"]), POLICY, i, 0)
    candidates = world.candidates.view(np.recarray)[first:last]
    choice = policy.compiled(world.requests[i], candidates, world.excluded[first:last], u)
    return choice if choice >= 0 else batch.masks.shape[1] - 1


@pytest.mark.parametrize("name", OURS)
def test_driven_by_a_policy_it_equals_that_policys_run(rich: Scenario, name: str) -> None:
    policy, env = find(name), DispatchEnv(rich, settings=DispatchSettings(foresees=True))
    env.reset(options={"workload_seed": 3})
    terminated = False
    while not terminated:
        _, _, terminated, _, info = env.step(choice_of(policy, env.batch, 0))  # type: ignore[arg-type]
        assert not info["invalid"]
    (world,) = env.batch.handle.worlds
    n = int(world.clock[0]["arrived"])
    expected = finished(rich, 3, policy)
    assert seen(world._replace(rows=world.rows[:n])) == seen(expected)
    assert info["success"] == np.mean(expected.rows["outcome"] == Outcome.SUCCESS)


@pytest.mark.parametrize("size", [1, 7])
def test_batches_of_any_size_equal_single_environments(rich: Scenario, size: int) -> None:
    made = brief(rich)
    batch, envs = DispatchBatch(worlds_of(made), size), [DispatchEnv(made) for _ in range(size)]
    batch.reset(11)
    seen_single = [env.reset(seed=11 + b) for b, env in enumerate(envs)]
    rng, ended = np.random.default_rng(2), 0
    for _ in range(900):
        for b, (observation, info) in enumerate(seen_single):
            assert batch.observations[b].tobytes() == observation.tobytes()
            assert batch.masks[b].tobytes() == info["action_mask"].tobytes()
        actions = rng.integers(batch.masks.shape[1], size=size)
        batch.step(actions)
        for b, env in enumerate(envs):
            observation, reward, terminated, _, info = env.step(actions[b])
            assert (batch.rewards[b], batch.terminated[b], batch.invalid[b]) == (reward, terminated, info["invalid"])
            if terminated:
                ended += 1
                assert batch.final_success[b] == info["success"]
                assert batch.final_observations[b].tobytes() == observation.tobytes()
                observation, info = env.reset()
            seen_single[b] = observation, info
    assert ended >= size


def test_masks_are_the_exclusion_bits_and_other_actions_decline(rich: Scenario) -> None:
    batch = DispatchBatch(worlds_of(rich), 1)
    batch.reset(2)
    rng, refused = np.random.default_rng(3), 0
    for _ in range(600):
        world = batch.handle.worlds[0]
        clock = world.clock[0]
        first, last, request = int(clock["first"]), int(clock["last"]), int(clock["request"])
        possible = (world.excluded[first:last] == 0).tolist()
        assert batch.masks[0].tolist() == [*possible, *[0] * (batch.masks.shape[1] - 1 - len(possible)), 1]
        action = int(rng.integers(-2, batch.masks.shape[1] + 2))
        impossible = not 0 <= action < batch.masks.shape[1] or batch.masks[0, action] == 0
        batch.step([action])
        assert batch.invalid[0] == impossible
        if batch.terminated[0]:
            continue
        declined = world.rows[request]["reason"] == Reason.DECLINED
        assert declined == (impossible or action == batch.masks.shape[1] - 1)
        refused += impossible
    assert refused > 50


def test_observation_tells_request_and_candidates_in_their_units() -> None:
    made = scenario(
        devices=[shared_device(rho=0.5)],
        nodes=[node("edge", serving="shared"), node("cloud", cloud=True)],
        deployments=[deploy("small", "edge"), deploy("large", "cloud")],
        sources=[source("a", sla="gold"), source("b", sla="iron")],
    )
    asks = [Ask(0.0), Ask(1.0, deadline_ms=50.0, min_accuracy=0.7, size_kb=20.0, source=1), Ask(2.0, deadline_ms=1e9)]
    work = workload_of(asks)
    work.requests["sla"] = [0, 1, 0]
    env = DispatchEnv(worlds_with(made, work))
    env.reset(options={"workload_seed": 0})
    observation, *_ = env.step(0)  # the first request goes to the edge, which then serves one
    shown = dict(zip(env.batch.features, observation.tolist(), strict=True))
    assert shown["deadline_ms"] == pytest.approx(0.5)
    assert shown["min_accuracy"] == pytest.approx(0.7)
    assert shown["size_kb"] == pytest.approx(0.2)
    assert (shown["model model"], shown["sla gold"], shown["sla iron"]) == (1.0, 0.0, 1.0)
    assert (shown["proc_ms 0"], shown["proc_ms 1"]) == pytest.approx((0.1, 0.2))
    assert (shown["in_flight 0"], shown["in_flight 1"]) == pytest.approx((0.1, 0.0))
    assert (shown["suffered 0"], shown["suffered 1"]) == pytest.approx((0.5, 0.0))  # 1.5 times as long beside the other
    assert (shown["accuracy 0"], shown["accuracy 1"]) == pytest.approx((0.8, 0.9))
    assert (shown["energy_mj 0"], shown["price 0"]) == pytest.approx((0.2, 10.0))  # 20 W * 10 ms; 1e-5, cut at 10
    assert [shown[f"{name} {c}"] for name in ("cloud", "feasible") for c in (0, 1)] == [0.0, 1.0, 1.0, 1.0]
    observation, *_ = env.step(2)
    assert observation[0] == 10.0  # a deadline of 1e9 ms is cut


def test_observation_tells_what_is_in_flight_on_the_node_for_other_variants() -> None:
    made = scenario(
        nodes=[node("edge")],
        deployments=[deploy("small", "edge", share=0.5), deploy("large", "edge", share=0.5)],
    )
    env = DispatchEnv(worlds_with(made, workload_of([Ask(0.0), Ask(1.0), Ask(2.0)])))
    env.reset(options={"workload_seed": 0})
    env.step(0)
    observation, *_ = env.step(1)  # one request for each of the node's two queues
    shown = dict(zip(env.batch.features, observation.tolist(), strict=True))
    for c in (0, 1):
        assert (shown[f"in_flight {c}"], shown[f"others_in_flight {c}"]) == pytest.approx((0.1, 0.1))


def test_reward_is_what_ended_since_the_last_decision() -> None:
    made = scenario(devices=[shared_device(rho=1.0)], nodes=[node(serving="shared")])
    asks = [Ask(0.0), Ask(0.0, deadline_ms=15.0), Ask(100.0), Ask(200.0)]
    settings = DispatchSettings(success_weight=2.0, energy_weight=0.5, degradation_weight=0.25)
    env = DispatchEnv(worlds_with(made, workload_of(asks)), settings=settings)
    env.reset(options={"workload_seed": 0})
    steps = [env.step(0) for _ in asks]
    # Two at once: 20 ms each, one of them late; they share 20 ms * 20 W = 0.4 J; each is slowed to twice its time.
    # Then one alone, 0.2 J, known when the fourth asks; the fourth ends after the last decision.
    parts = [[s[4][key] for key in ("succeeded", "energy_j", "degradation")] for s in steps]
    assert parts == [
        [0, 0, 0],
        pytest.approx([1, 0.4, 2.0]),
        pytest.approx([1, 0.2, 0.0]),
        pytest.approx([1, 0.2, 0.0]),
    ]
    assert [s[1] for s in steps] == pytest.approx([0.0, 2.0 - 0.2 - 0.5, 2.0 - 0.1, 2.0 - 0.1])
    assert [s[2] for s in steps] == [False, False, False, True]


def test_components_add_up_to_the_episodes_figures(rich: Scenario) -> None:
    batch = DispatchBatch(worlds_of(rich), 1, DispatchSettings(1.0, 0.3, 0.1))
    batch.reset(4)
    batch.begin(0, 3)
    batch.observe()
    total, failures, rewards, rng = np.zeros(3), 0.0, 0.0, np.random.default_rng(1)
    ended = False
    while not ended:
        batch.actions[:] = rng.choice(np.flatnonzero(batch.masks[0]))
        ended = batch.play() == 1
        batch.observe()
        total += batch.components[0]
        failures += batch.failures[0]
        rewards += batch.rewards[0]
    world = batch.handle.worlds[0]
    rows = world.rows[: world.clock[0]["arrived"]]
    served = rows["outcome"] != Outcome.REJECTED
    assert total[0] == np.count_nonzero(rows["outcome"] == Outcome.SUCCESS)
    assert failures == np.count_nonzero(rows["outcome"] != Outcome.SUCCESS) > 0
    assert total[1] == pytest.approx(rows["energy_mj"][served].sum() / 1000.0)
    assert rewards == batch.returns[0] == pytest.approx(total @ [1.0, -0.3, -0.1])
    draws, requests, plan = world.draws, world.requests, build_plan(rich)
    alone_ms = np.zeros(len(rows))
    for i in np.flatnonzero(served):
        for d in (rows[i]["choice"], rows[i]["second"]):
            if d >= 0:
                base, per_kb = plan.deployments[d]["base_ms"], plan.deployments[d]["per_kb_ms"]
                alone_ms[i] += (base + per_kb * requests[i]["size_kb"]) * draws[i]["work"]
    assert total[2] == pytest.approx((rows["service_ms"][served] / alone_ms[served] - 1.0).sum())


# ---- windows: the same as the engine's own runs


@pytest.mark.parametrize("name", OURS)
def test_one_policy_all_along_equals_that_policys_run(rich: Scenario, name: str) -> None:
    env = WindowEnv(rich, settings=WindowSettings(("random", name)))
    env.reset(options={"workload_seed": 3})
    rewards, terminated = [], False
    while not terminated:
        _, reward, terminated, _, info = env.step(1)
        rewards.append(reward)
    (world,) = env.batch.handle.worlds
    n = int(world.clock[0]["arrived"])
    expected = finished(rich, 3, find(name))
    assert seen(world._replace(rows=world.rows[:n])) == seen(expected)
    assert info["success"] == np.mean(expected.rows["outcome"] == Outcome.SUCCESS)
    windows = expected.windows
    failed = windows["rejected"] + windows["late"] + windows["inaccurate"]
    failed[-2] += failed[-1]  # the drain counts in the last step
    assert len(rewards) == len(windows) - 1 == 20
    assert rewards == pytest.approx(np.maximum(0.0, 1.0 - failed[:-1] / windows["arrived"][:-1]))


def test_policies_can_change_at_every_window(rich: Scenario) -> None:
    env = WindowEnv(rich, settings=WindowSettings(("closest", "farthest")))
    env.reset(options={"workload_seed": 3})
    for t in range(20):
        env.step(t % 2)
    rows = env.batch.handle.worlds[0].rows
    one, other = (finished(rich, 3, find(name)).rows for name in ("closest", "farthest"))
    assert (rows["choice"][: len(one)] != one["choice"]).any()
    assert (rows["choice"][: len(one)] != other["choice"]).any()


def test_windows_observation_tells_rates_clients_and_loads() -> None:
    made = scenario(nodes=[node("edge"), node("far")], deployments=[deploy("small", "edge"), deploy("large", "far")])
    asks = [Ask(10.0 * i) for i in range(6)]
    env = WindowEnv(worlds_with(replace_window(made, 100.0), workload_of(asks)))
    observation, _ = env.reset(options={"workload_seed": 0})
    assert not observation.any()
    observation, reward, terminated, *_ = env.step(1)  # load-balancing, in a window of 0.1 s
    # 6 of (100 + 50) / s * 0.1 s, all answered within the window; no streams; of 10 and of 5 a window.
    world = env.batch.handle.worlds[0]
    sent = world.dispatched[0]
    assert observation == pytest.approx([6 / 15, 6 / 15, 0.0, sent[0] / 10, sent[1] / 5])
    assert sent.sum() == world.windows[0]["delivered"] == 6
    assert (reward, terminated) == (1.0, False)
    observation, reward, *_ = env.step(1)
    assert not observation.any()
    assert reward == 1.0  # nothing arrives in it, nothing fails


def test_responses_count_in_the_window_that_they_come_in_and_rejections_are_none() -> None:
    made = replace_window(scenario(deployments=[deploy(queue_limit=2)], duration_s=0.3), 100.0)
    env = WindowEnv(worlds_with(made, workload_of([Ask(95.0) for _ in range(5)])))
    env.reset(options={"workload_seed": 0})
    steps = [env.step(0) for _ in range(2)]
    windows = env.batch.handle.worlds[0].windows
    assert windows["rejected"][0] > 0
    answered = int(windows["delivered"][1])  # 10 ms each, one after another
    assert answered + windows["rejected"][0] == 5
    assert [s[0][1] for s in steps] == pytest.approx([0.0, answered / 10])


def replace_window(made: Scenario, window_ms: float) -> Scenario:
    return replace(made, rules=replace(made.rules, window_ms=window_ms))


def test_failures_that_outnumber_arrivals_give_nothing_less_than_zero() -> None:
    asks = [Ask(10.0 * i, deadline_ms=1.0, work=2.0) for i in range(9)] + [Ask(150.0)]
    made = replace_window(scenario(duration_s=0.3), 100.0)
    env = WindowEnv(worlds_with(made, workload_of(asks)))
    env.reset(options={"workload_seed": 0})
    # 20 ms each, one after another: of 9, 4 are late before 100 ms, the other 5 while 1 more arrives.
    assert [env.step(0)[1] for _ in range(3)] == pytest.approx([1 - 4 / 9, 0.0, 1.0])


def test_a_window_of_late_answers_alone_gives_nothing() -> None:
    made = replace_window(scenario(duration_s=0.3), 100.0)
    env = WindowEnv(worlds_with(made, workload_of([Ask(95.0, deadline_ms=5.0)])))
    env.reset(options={"workload_seed": 0})
    assert [env.step(0)[1] for _ in range(3)] == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("duration_s", [0.3, 0.25, 0.05])
def test_an_episode_has_as_many_steps_as_windows_begin(duration_s: float) -> None:
    made = replace_window(scenario(duration_s=duration_s), 100.0)
    env = WindowEnv(worlds_with(made, workload_of([Ask(10.0, work=100.0)])))
    env.reset(options={"workload_seed": 0})
    steps = 1
    while not env.step(0)[2]:
        steps += 1
    assert steps == np.ceil(duration_s / 0.1)
    assert env.batch.handle.worlds[0].clock[0]["finished"] == 1


def test_windows_observation_with_the_mix_tells_what_is_asked_for_and_how_far_nodes_are() -> None:
    made = scenario(
        nodes=[node("edge"), node("far"), node("cut")],
        deployments=[deploy("small", "edge"), deploy("large", "far"), deploy("large", "cut")],
        links=[link(4.0), link(20.0, to="far"), link(40.0, from_="west", to="far")],
        changes=[link_change(at_s=0.05, to="cut", up=False), link_change(at_s=0.5, to="cut", up=True)],
        sites=("east", "west"),
    )
    asks = [Ask(10.0, deadline_ms=30.0, min_accuracy=0.5), Ask(20.0, deadline_ms=80.0), Ask(30.0, deadline_ms=100.0)]
    asks += [Ask(40.0, deadline_ms=200.0, min_accuracy=0.9), Ask(150.0, deadline_ms=10.0, min_accuracy=0.6)]
    worlds = worlds_with(replace_window(made, 100.0), workload_of(asks))
    env = WindowEnv(worlds, settings=WindowSettings(mix=True, nodes=5))
    names = env.batch.features
    assert len(names) == len(set(names)) == 7 + 2 * 5
    observation, _ = env.reset(options={"workload_seed": 0})
    assert not observation[:12].any()
    assert observation[12:] == pytest.approx([0.04, 0.3, 0.04, 0.0, 0.0])  # links are there before requests are
    for expected in ([0.25, 0.5, 0.75, 0.35], [1.0, 1.0, 1.0, 0.6], [0.0, 0.0, 0.0, 0.0]):
        observation, *_ = env.step(1)
        assert observation[3:7] == pytest.approx(expected)
        sent = env.batch.handle.worlds[0].dispatched[env.batch.handle.worlds[0].clock[0]["window"] - 1]
        assert observation[7:12] == pytest.approx([sent[0] / 10, sent[1] / 5, sent[2] / 5, 0.0, 0.0])
        assert observation[12:] == pytest.approx([0.04, 0.3, 10.0, 0.0, 0.0])  # the third is cut off


def test_clients_that_are_there_before_the_start_are_seen_before_their_first_request() -> None:
    env = WindowEnv(load("aset-testbed", ["duration_s=20"]))
    observation, _ = env.reset(options={"workload_seed": 3})
    there = env.batch.worlds.draw(3).streams["early"].sum()
    assert observation[2] * capacity_qps(env.batch.worlds.plan).sum() / 10.0 == pytest.approx(there)
    assert there > 20
    assert not np.delete(observation, 2).any()


def test_padding_nodes_changes_nothing_but_zeros(rich: Scenario) -> None:
    plain, padded = (WindowEnv(rich, settings=WindowSettings(nodes=n)) for n in (None, 7))
    plain.reset(options={"workload_seed": 1})
    padded.reset(options={"workload_seed": 1})
    for t in range(20):
        one, other = plain.step(t % 6)[0], padded.step(t % 6)[0]
        assert one.tolist() == other[: len(one)].tolist()
        assert not other[len(one) :].any()
    with pytest.raises(UserError, match=r"settings.nodes is 2: test has 3 nodes, so 3 or more"):
        WindowEnv(rich, settings=WindowSettings(nodes=2))


def test_window_settings_name_compiled_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scenario()
    with pytest.raises(UserError, match=r"unknown policy 'closes' .did you mean 'closest'"):
        WindowEnv(made, settings=WindowSettings(("closes",)))
    with pytest.raises(UserError, match="at least one policy"):
        WindowEnv(made, settings=WindowSettings(()))
    with pytest.raises(UserError, match="a batch of 0 worlds"):
        WindowBatch(worlds_of(made), 0)
    script = Policy("script", lambda *_: 0, "python")
    monkeypatch.setattr(window_module, "find", lambda name: script)
    with pytest.raises(UserError, match="policy 'script' is plain Python"):
        WindowEnv(made, settings=WindowSettings(("script",)))


def test_a_policy_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rich_scenario()
    beyond = Policy("beyond", lambda request, candidates, excluded, u: 99, package="test")
    monkeypatch.setattr(window_module, "find", lambda name: beyond)
    env = WindowEnv(made, settings=WindowSettings(("beyond",)))
    env.reset(seed=1)
    with pytest.raises(PolicyError, match="policy 'beyond' chose an impossible candidate, 99"):
        env.step(0)
    with pytest.raises(PolicyError, match="reset first"):
        env.step(0)


def raises(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    if u >= 0.0:
        raise ValueError("the cable is cut")
    return 0


def test_a_policy_that_raises_is_named_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"raises": Policy("raises", raises, package="test"), "random": find("random")}
    monkeypatch.setattr(window_module, "find", known.__getitem__)
    batch = WindowBatch(worlds_of(rich_scenario()), 3, WindowSettings(("random", "raises")))
    batch.reset(1)
    with pytest.raises(PolicyError, match=r"^policy 'raises' failed: ValueError: the cable is cut"):
        batch.step([0, 1, 0])


def test_steps_out_of_order_and_out_of_range_are_told() -> None:
    for unready in (DispatchEnv(rich_scenario()), env := WindowEnv(rich_scenario())):
        with pytest.raises(UserError, match="reset comes before"):
            unready.step(0)
    env.reset(seed=1)
    with pytest.raises(UserError, match=r"actions are 0\.\.5, not 6\.\.6"):
        env.step(6)
    with pytest.raises(UserError, match=r"overrides .rate=3. need a scenario's name"):
        WindowEnv(rich_scenario(), overrides=["rate=3"])


@pytest.mark.parametrize("env_class", [DispatchEnv, WindowEnv])
def test_a_finished_episode_wants_a_reset(env_class: Any) -> None:
    env = env_class(brief(rich_scenario(), 0.5))
    env.reset(seed=1)
    while not env.step(0)[2]:
        pass
    with pytest.raises(UserError, match="the episode has ended: reset first"):
        env.step(0)
    env.reset()
    env.step(0)


def test_actions_are_one_whole_number_for_each_world() -> None:
    batch = DispatchBatch(worlds_of(rich_scenario()), 2)
    batch.reset(1)
    batch.step(np.array([0, 1], np.uint8))
    for wrong in (0, [0], [0, 0, 0], [[0, 0]], [0.0, 1.0]):
        with pytest.raises(UserError, match="one whole number for each of 2 worlds is needed"):
            batch.step(wrong)
    env = DispatchEnv(rich_scenario())
    env.reset(seed=1)
    with pytest.raises(TypeError):
        env.step(0.5)


def test_the_world_says_what_is_possible_whatever_is_written_into_the_masks(rich: Scenario) -> None:
    batch = DispatchBatch(worlds_of(rich), 1)
    batch.reset(2)
    while batch.masks[0].all():
        batch.step([0])
    excluded = int(np.flatnonzero(batch.masks[0] == 0)[0])
    batch.masks[:] = 1
    batch.step([excluded])
    assert batch.invalid[0]


def test_a_world_that_stands_still_is_told() -> None:
    batch = DispatchBatch(worlds_of(rich_scenario()), 2)
    batch.reset(1)
    batch.handle.codes[1] = FAULT
    with pytest.raises(PolicyError, match="stands still: reset first"):
        batch.step([0, 0])
    batch.reset(1)
    batch.step([0, 0])


def test_buffers_are_written_to_and_never_replaced() -> None:
    batch = DispatchBatch(worlds_of(rich_scenario()), 2)
    for name in ("observations", "masks", "rewards", "actions", "invalid", "components"):
        with pytest.raises(AttributeError, match=f"{name} can't be replaced"):
            setattr(batch, name, np.zeros(2))
    batch.rewards += 1.0  # in place
    assert batch.rewards.tolist() == [1.0, 1.0]


# ---- many at once


@pytest.mark.parametrize("view", VIEWS)
def test_vector_equals_gymnasiums_vector_of_singles(view: str, rich: Scenario) -> None:
    single, vector = (DispatchEnv, DispatchVectorEnv) if view == "Dispatch" else (WindowEnv, WindowVectorEnv)
    made = brief(rich)
    ours = vector(num_envs=3, scenario=made)
    theirs = SyncVectorEnv([lambda: single(made)] * 3, autoreset_mode=AutoresetMode.SAME_STEP)
    assert ours.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    (one, infos), (other, their_infos) = ours.reset(seed=8), theirs.reset(seed=8)
    theirs.action_space.seed(1)
    ended = 0
    for _ in range(900 if view == "Dispatch" else 50):
        assert one.tobytes() == other.tobytes()
        assert one in ours.observation_space
        assert plain(infos) == plain(their_infos)
        actions = theirs.action_space.sample()
        (one, *results, infos), (other, *expected, their_infos) = ours.step(actions), theirs.step(actions)
        for result, right in zip(results, expected, strict=True):
            assert result.dtype == right.dtype
            assert result.tolist() == right.tolist()
        ended += np.count_nonzero(results[1])
    assert ended >= 3


def plain(infos: dict[str, Any]) -> dict[str, Any]:
    """Infos as what can be compared with ==, types included."""
    return {
        key: plain(value) if isinstance(value, dict) else (value.dtype, str(value.tolist()))
        for key, value in infos.items()
    }


def test_vectors_render_nothing() -> None:
    arguments: dict[str, Any] = {"num_envs": 2, "scenario": rich_scenario()}
    assert gymnasium.make_vec("fairlead/Window-v1", render_mode=None, **arguments).render_mode is None
    with pytest.raises(UserError, match="render_mode 'ansi': a vector environment does not render"):
        gymnasium.make_vec("fairlead/Window-v1", render_mode="ansi", **arguments)


def test_vector_goes_on_with_the_next_episodes_unless_seeded() -> None:
    envs = WindowVectorEnv(num_envs=2, scenario=rich_scenario())
    envs.reset(seed=[4, 4])
    first, _, _, _, _ = envs.step([0, 0])
    assert first[0].tobytes() == first[1].tobytes()  # the same seed, the same workload
    envs.reset()
    assert envs.step([0, 0])[0].tobytes() != first.tobytes()
    envs.reset(seed=[4, 4])
    assert envs.step([0, 0])[0].tobytes() == first.tobytes()
    with pytest.raises(UserError, match="options workload_seed"):
        envs.reset(options={"workload_seed": 1})


def test_returns_and_lengths_of_ended_episodes_are_kept() -> None:
    batch = WindowBatch(worlds_of(rich_scenario()), 2)
    batch.reset(6)
    total = np.zeros(2)
    for _ in range(20):
        batch.step([0, 1])
        total += batch.rewards
    assert batch.terminated.all()
    assert batch.final_returns.tolist() == total.tolist()
    assert batch.final_lengths.tolist() == [20, 20]
    assert batch.lengths.tolist() == [0, 0]
    assert batch.episodes.tolist() == [2, 2]


# ---- away from home


def test_saved_worlds_are_the_same_worlds(tmp_path: Path, rich: Scenario) -> None:
    path = tmp_path / "world.npz"
    save_worlds(path, rich, [3, 4])
    saved = load_worlds(path)
    drawn = worlds_of(rich)
    assert (saved.name, saved.models, saved.nodes, saved.sla_classes) == ("test", ("model",), drawn.nodes, ("s",))
    for seed in (3, 4):
        one, other = saved.draw(seed), make_workload(rich, seed)
        for name in ("requests", "draws", "streams"):
            a, b = getattr(one, name), getattr(other, name)
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
    envs = [DispatchEnv(path), DispatchEnv(rich)]
    for env in envs:
        env.reset(options={"workload_seed": 4})
    for _ in range(200):
        (one, *rest, _), (other, *expected, _) = (env.step(0) for env in envs)
        assert one.tobytes() == other.tobytes()
        assert rest == expected
    assert {saved.draw(workload_seed(s, k)).seed for s in range(3) for k in range(3)} == {3, 4}
    with pytest.raises(UserError, match=r"world\.npz: has no workload of seed 7; it has 3, 4"):
        envs[0].reset(options={"workload_seed": 7})


def test_a_file_of_worlds_says_what_it_is(tmp_path: Path) -> None:
    made = rich_scenario()
    save_worlds(tmp_path / "one", made, np.array([3]))
    save_worlds(tmp_path / "two.npz", brief(made), [3])
    one, two = (json.loads(str(np.load(tmp_path / name)["about"])) for name in ("one.npz", "two.npz"))
    assert (one["fairlead"], one["seeds"]) == (__version__, [3])
    assert one["scenario"] != two["scenario"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.npz", "two.npz"]
    with pytest.raises(UserError, match="can't write it: No such file"):
        save_worlds(tmp_path / "nowhere" / "one.npz", made, [3])


def test_damaged_files_of_worlds_are_told(tmp_path: Path) -> None:
    save_worlds(tmp_path / "whole.npz", brief(rich_scenario(), 0.1), [3])
    whole, path = (tmp_path / "whole.npz").read_bytes(), tmp_path / "damaged.npz"
    np.save(tmp_path / "array.npy", np.zeros(3))
    contents = [b"", b"no", (tmp_path / "array.npy").read_bytes()]
    contents += [whole[:n] for n in range(1, len(whole), len(whole) // 20)]
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(UserError, match="no file of worlds") as told:
            load_worlds(path)
        assert "\n" not in str(told.value)
    drawn = load_worlds(tmp_path / "whole.npz").draw(3)
    for at in range(0, len(whole), len(whole) // 200):  # a bit that the archive does not need may flip
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        try:
            loaded = load_worlds(path)
        except UserError:
            continue
        assert loaded.draw(3).requests.tobytes() == drawn.requests.tobytes()


def rewritten(source: Path, target: Path, **arrays: Any) -> Path:
    """The file of worlds with other arrays."""
    with np.load(source) as file:
        np.savez(target, **{**{name: file[name] for name in file.files}, **arrays})
    return target


def test_files_of_worlds_with_other_types_sizes_or_indices_are_told(tmp_path: Path) -> None:
    path = tmp_path / "world.npz"
    save_worlds(path, brief(rich_scenario(), 0.1), [3])
    with np.load(path) as file:
        requests, plan_links, deployments = (file[n] for n in ("requests", "plan_links", "plan_deployments"))
    load_worlds(rewritten(path, tmp_path / "same.npz"))
    names = REQUEST.names or ()
    swapped = np.dtype([(name, REQUEST.fields[name][0]) for name in reversed(names)])  # type: ignore[index]
    wrong: dict[str, dict[str, Any]] = {
        "requests has another type": {"requests": np.zeros(len(requests), swapped)},
        "sizes don't fit": {"requests": requests[:-1]},
        "nodes don't fit": {"plan_links": plan_links[:-1].copy()},
        "Plan.links must be": {"plan_links": np.asfortranarray(plan_links)},
        "deployments' station is out of range": {"plan_deployments": with_last(deployments, "station", 9)},
    }
    for field, value in {"model": 1, "site": 2, "source": 2, "sla": 1, "stream": 10**6}.items():
        wrong[f"requests' {field} is out of range"] = {"requests": with_last(requests, field, value)}
    for message, arrays in wrong.items():
        with pytest.raises(UserError, match=message):
            load_worlds(rewritten(path, tmp_path / "wrong.npz", **arrays))


def with_last(records: Any, field: str, value: int) -> Any:
    changed = records.copy()
    changed[field][-1] = value
    return changed


def test_files_that_are_no_worlds_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't read it: No such file"):
        load_worlds(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", about=np.array('{"format": 99}'))
    with pytest.raises(UserError, match="worlds of format 99, this version reads 4"):
        load_worlds(tmp_path / "c.npz")
    with pytest.raises(UserError, match="at least one seed"):
        save_worlds(tmp_path / "d.npz", scenario(), [])


AWAY = """
import sys
for name in ("gymnasium", "pydantic", "yaml", "scipy", "rich", "pyarrow"):
    sys.modules[name] = None
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.window import WindowBatch
from fairlead.sim.gym.world_file import load_worlds
worlds = load_worlds(sys.argv[1])
for batch in (DispatchBatch(worlds, 2), WindowBatch(worlds, 2)):
    batch.reset(0)
    for _ in range(25):
        batch.step([0, 0])
    print(batch.lengths.tolist())
"""


def test_batches_run_on_numpy_and_numba_alone(tmp_path: Path) -> None:
    save_worlds(tmp_path / "world.npz", rich_scenario(), [3])
    command = [sys.executable, "-c", AWAY, str(tmp_path / "world.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[25, 25]", "[5, 5]"], done.stderr


def test_a_broken_gymnasium_does_not_reach_the_batches(tmp_path: Path) -> None:
    (tmp_path / "gymnasium.py").write_text("print('asked for'); raise ImportError('of something else')")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import fairlead.sim.gym.dispatch; print('there')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == "asked for", done.stderr
    assert done.stdout.endswith("there\n"), done.stderr


# ---- docs


@pytest.mark.parametrize("module", ["dispatch", "window", "envs"])
def test_doctests(module: str) -> None:
    result = doctest.testmod(import_module(f"fairlead.sim.gym.{module}"))
    assert result.attempted > 3
    assert result.failed == 0


@pytest.mark.parametrize("name", ["ecsrl", "full-edge"])
def test_docstring_places_features_where_they_are(name: str) -> None:
    worlds = worlds_of(load(name))
    features, models, classes = DispatchBatch(worlds, 1).features, len(worlds.models), len(worlds.sla_classes)
    head, slots = 4 + models + classes, (len(DispatchBatch(worlds, 1).features) - 4 - models - classes) // 17
    assert features[:4] == ("deadline_ms", "min_accuracy", "size_kb", "rate_qps")
    assert features[4] == f"model {worlds.models[0]}"
    assert features[4 + models] == f"sla {worlds.sla_classes[0]}"
    for c in (0, slots - 1):
        at = head + 16 * c
        names = {0: "feasible", 1: "net_ms", 5: "service_rate", 8: "suffered", 11: "energy_mj", 15: "others_in_flight"}
        assert {i: features[at + i] for i in names} == {i: f"{n} {c}" for i, n in names.items()}
        assert features[head + 16 * slots + c] == f"cloud {c}"
