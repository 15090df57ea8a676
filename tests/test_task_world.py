"""The world of tasks: equal to its oracle step by step on random play, and right where it can be worked out by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.domain.outcomes import Reason
from fairlead.domain.task_records import PLACEMENT, PREEMPT, RESIZE, START, Placements
from fairlead.domain.tasks import Reach, Speed, TaskLinkChange, TaskScenario
from fairlead.policies.jit import jit
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.reference.tasks import ReferenceTasks, Task
from fairlead.sim.tasks.drawn_tasks import draw_later
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.plan import build_task_plan, most_running
from fairlead.sim.tasks.summary import summarise
from fairlead.sim.tasks.worlds import new_worlds
from task_builders import HERE, by_gpu, cluster, constant, gavel_speed, task_type, tasks_scenario

KNOWS_ALL = 3


def world_of(scenario: TaskScenario, seed: int = 1) -> Handle:
    plan = build_task_plan(scenario)
    return Handle(plan, new_worlds(plan, [seed]), 0, KNOWS_ALL)


def do(world: Handle, what: int, task: int, cluster: int = 0, amounts: tuple[int, ...] = (0, 0, 0)) -> bool:
    answer = Placements(np.zeros(1, PLACEMENT), np.array([amounts], np.int32))
    answer.rows[0] = (task, cluster, what)
    return world.place(answer, 1) == FINE


def task(world: Handle, i: int) -> Any:
    return world.worlds.task[0, i]


# ---- equal to the oracle


def curve_file(folder: Path) -> str:
    rows = ["type,cpu,gpu,time_s,progress"]
    for gpu, length in ((1, 95.0), (4, 41.0), (9, 17.0)):
        rows += [f"sensitive,2,{gpu},{length * t},{p}" for t, p in ((0.2, 0.5), (0.5, 0.5), (0.8, 0.9), (1.0, 1.0))]
    file = folder / "curves.csv"
    file.write_text("\n".join(rows))
    return str(file)


def scenarios(folder: Path) -> dict[str, TaskScenario]:
    links = Reach(draw="links", latency_ms=(10.0, 150.0), most_latency_ms=100.0, **HERE)
    changes = (
        TaskLinkChange(at_step=0, cluster="edge-2", bandwidth=0.7, **HERE),
        TaskLinkChange(at_step=3, cluster="edge-*", latency=1.4, up=False, **HERE),
        TaskLinkChange(
            at_step=3, cluster="edge-2", up=True, bandwidth=0.8, **HERE
        ),  # at the same time: the last counts
        TaskLinkChange(at_step=4, cluster="edge-[13]", up=True, **HERE),
        TaskLinkChange(at_step=5, cluster="edge-1", up=False, **HERE),
        TaskLinkChange(at_step=12, cluster="edge-1", up=True, latency=0.5, **HERE),
    )
    traced = Speed(form="trace", file=curve_file(folder), **HERE)
    gavel = gavel_speed(folder, {"1": 0.5, "2": 0.9, "4": 1.5, "8": 1.2})
    limited = (
        task_type("insensitive", constant(3), memory=10, regions=("north",)),
        task_type("sensitive", by_gpu("paper"), cpu=3, gpu=2, memory=5, certificates=("iso",)),
    )
    unlike = (
        cluster("edge-1", 4, 4, 12, region="north"),
        cluster("edge-2", 9, 7, 20, region="north", certificates=("iso",)),
        cluster("edge-3", 30, 20, 9, certificates=("iso", "other")),
    )
    return {
        "plain": tasks_scenario(),
        "noise": tasks_scenario(progress_noise=0.2, switching=0.5, pending=3, rate=6.0),
        "links": tasks_scenario(reach=links, link_changes=changes, pending=4, rate=5.0),
        "subset-links": tasks_scenario(link_changes=changes, pending=4, rate=5.0),
        "limits": tasks_scenario(unlike, limited, progress_noise=0.1, rate=2.0),
        "throughputs": tasks_scenario(
            types=(task_type("insensitive", constant(3)), task_type("sensitive", gavel, gpu=2))
        ),
        "traces": tasks_scenario(
            types=(task_type("insensitive", constant(2.5)), task_type("sensitive", traced)), switching=0.3
        ),
    }


def compare_task(row: Any, task: Task, oracle: ReferenceTasks) -> None:
    assert row["started"] == (-1 if task.started is None else task.started)
    assert (row["executed"], row["restarts"], row["service"]) == (task.executed, task.restarts, task.service)
    assert row["left"] == pytest.approx(oracle.left(task), abs=1e-9)


def compare_worlds(world: Handle, oracle: ReferenceTasks) -> None:
    snapshot, names = world.snapshot(), list(oracle.scenario.clusters)
    resources = list(oracle.scenario.resources)
    assert world.worlds.world[0]["now"] == oracle.now
    assert snapshot.free.tolist() == [[oracle.free[n][r] for r in resources] for n in names]
    shown = {t.number: t for tasks in oracle.pending.values() for t in tasks}
    assert snapshot.pending["task"].tolist() == sorted(shown)
    assert snapshot.queued.tolist() == [len(oracle.queue(n)) - len(oracle.pending[n]) for n in names]
    for row, excluded in zip(snapshot.pending, snapshot.excluded, strict=True):
        waits = shown[row["task"]]
        assert row["waited"] == oracle.now - waits.arrival
        compare_task(row, waits, oracle)
        for name, why in zip(names, excluded, strict=True):
            assert (not why & ~Reason.NO_CAPACITY) == (waits in oracle.pending[name])
            fits = all(oracle.free[name][r] >= waits.type.minimum.get(r, 0) for r in resources)
            assert (why == 0) == (waits in oracle.pending[name] and fits)
            assert bool(why & Reason.NOT_ALLOWED) == (not waits.type.allowed(oracle.scenario.clusters[name]))
    assert snapshot.running["task"].tolist() == [t.number for t in oracle.running]
    for row, amounts, runs in zip(snapshot.running, snapshot.amounts, oracle.running, strict=True):
        assert (names[row["cluster"]], row["alive"]) == (runs.cluster, oracle.now - runs.arrival)
        compare_task(row, runs, oracle)
        assert amounts.tolist() == [runs.amounts[r] for r in resources]
        assert world.worlds.task[0, runs.number]["progress"] == pytest.approx(runs.progress, abs=1e-12)


@pytest.mark.parametrize("name", ["plain", "noise", "links", "subset-links", "limits", "throughputs", "traces"])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_equals_the_oracle_step_by_step_on_random_play(name: str, seed: int, tmp_path: Path) -> None:
    scenario = scenarios(tmp_path)[name]
    world, oracle, dice = world_of(scenario, 900 + seed), ReferenceTasks(scenario, 900 + seed), random.Random(seed)
    names, resources = list(scenario.clusters), list(scenario.resources)
    refused = 0
    while not world.over:
        compare_worlds(world, oracle)
        for _ in range(dice.randrange(8)):
            what = dice.choice([START] * 5 + [RESIZE, PREEMPT])
            numbers = [t.number for t in (oracle.waiting if what == START else oracle.running)]
            number = dice.choice(numbers) if numbers and dice.random() < 0.95 else dice.randrange(-1, 60)
            n = dice.randrange(len(names))
            low = {r: next(iter(scenario.types.values())).minimum.get(r, 0) for r in resources}
            amounts = tuple(max(0, low[r] + dice.choice((0, 0, 0, 1, 2, 5, -1))) for r in resources[:2])
            fitting = [t.type.minimum["memory"] for t in oracle.waiting + oracle.running if t.number == number]
            amounts = (*amounts, fitting[0] if fitting and dice.random() < 0.9 else 1)
            given = dict(zip(resources, amounts, strict=True))
            done = do(world, what, number, n, amounts)
            expected = (
                oracle.start(number, names[n], given) if what == START
                else oracle.resize(number, given) if what == RESIZE else oracle.preempt(number)
            )  # fmt: skip
            assert done == expected, (what, number, n, amounts)
            refused += not done
            compare_worlds(world, oracle)
        world.advance()
        oracle.advance()
    assert refused > 0, "random play should also try what is not possible"
    finished = {t.number: t.finished for t in oracle.done}
    assert world.worlds.task[0]["finished"].tolist() == [finished.get(i, -1) for i in range(scenario.workload.tasks)]
    alive = sum((t.finished or oracle.now) - t.arrival for t in oracle.done + oracle.waiting + oracle.running)
    assert world.worlds.world[0]["alive_steps"] == alive


# ---- by hand


def steps_by_gpus(name: str, *overrides: str) -> list[float]:
    plan = build_task_plan(load_tasks(name, overrides))
    return plan.steps[1].reshape(17, 17)[2, 1:].tolist()


def test_the_steps_of_tapfingers_sensitive_tasks() -> None:
    assert steps_by_gpus("tapfinger-3") == [21, 10, 7, 5, 4, 4, 3, 3, 3] + [2] * 7
    assert steps_by_gpus("tapfinger-3", "speed=paper") == [17, 9, 6, 5, 4, 3, 3, 3] + [2] * 8
    plan = build_task_plan(load_tasks("tapfinger-3"))
    assert np.isinf(plan.steps.reshape(2, 17, 17)[:, :2]).all(), "below two CPUs there is no progress"
    assert np.unique(plan.steps.reshape(2, 17, 17)[0, 2:, 1:]).tolist() == [4.0]
    assert most_running(plan) == 24


def test_the_steps_of_gavels_throughputs(tmp_path: Path) -> None:
    # 100 training steps, a step of 10 s. One GPU makes 0.6 a second, so 6 of the 100 in a step: 17 steps; two make 11:
    # 10 steps; three, between 1.1 and 2.1 a second, 16: 7 steps; four 21: 5 steps, and more than four no more.
    speed = gavel_speed(tmp_path, {"1": 0.6, "2": 1.1, "4": 2.1})
    for least, expected in ((1, [np.inf, 17, 10, 7, 5, 5, 5]), (2, [np.inf, np.inf, 10, 7, 5, 5, 5])):
        plan = build_task_plan(tasks_scenario(types=(task_type("only", speed, gpu=least, share=1.0),)))
        assert plan.steps[0].reshape(17, 17)[2, :7].tolist() == expected
        assert np.isinf(plan.steps[0].reshape(17, 17)[1]).all(), "below two CPUs there is no progress"


def test_types_with_complementary_needs_have_room_to_run_side_by_side() -> None:
    types = (task_type("cpus", constant(4), 2, 0), task_type("gpus", constant(4), 0, 2))
    world = world_of(tasks_scenario((cluster("edge-1"),), types, tasks=40, rate=1e6, pending=40))
    for row in world.snapshot().pending.copy():
        do(world, START, int(row["task"]), 0, (2, 0, 0) if row["type"] == 0 else (0, 2, 0))
    assert len(world.snapshot().running) == 16 == most_running(world.plan)
    assert world.snapshot().free[0].tolist() == [0, 0, 32]


def test_a_speed_by_what_is_not_elastic_counts_the_minimum() -> None:
    by_memory = Speed(form="paper", resource="memory", **HERE)
    plan = build_task_plan(tasks_scenario(types=(task_type("only", by_memory, memory=8, share=1.0),)))
    assert plan.rate.max() == pytest.approx(np.tanh(0.5))


def test_a_task_is_done_after_its_steps_and_frees_what_it_had() -> None:
    world = world_of(tasks_scenario(tasks=1, types=(task_type("only", constant(2), share=1.0),)))
    while not len(world.snapshot().pending):
        world.advance()
    arrival = int(world.worlds.world[0]["now"])
    n = int(np.flatnonzero(world.snapshot().excluded[0] == 0)[0])
    assert do(world, START, 0, n, (5, 3, 0))
    assert world.snapshot().free[n].tolist() == [11, 13, 32]
    assert len(world.snapshot().pending) == 0
    world.advance()
    assert not world.over
    world.advance()
    assert world.over
    assert task(world, 0)["finished"] == arrival + 2
    assert world.snapshot().free[n].tolist() == [16, 16, 32]
    assert world.worlds.world[0]["alive_steps"] == 2


def test_switching_costs_a_share_of_the_next_steps_progress() -> None:
    one = (cluster("edge-1"),)
    world = world_of(tasks_scenario(one, (task_type("only", constant(4), share=1.0),), tasks=1, switching=0.5))
    while not len(world.snapshot().pending):
        world.advance()
    assert do(world, START, 0, 0, (2, 1, 0))
    assert do(world, RESIZE, 0, 0, (4, 1, 0)), "before it has run, amounts change for nothing"
    world.advance()
    assert task(world, 0)["progress"] == 0.25
    assert do(world, RESIZE, 0, 0, (2, 2, 0))
    world.advance()
    assert task(world, 0)["progress"] == 0.375
    world.advance()
    assert task(world, 0)["progress"] == 0.625
    assert do(world, PREEMPT, 0)
    assert world.snapshot().free[0].tolist() == [16, 16, 32]
    assert len(world.snapshot().pending) == 0, "it is seen again when time goes on"
    world.advance()
    assert do(world, START, 0, 0, (2, 1, 0))
    world.advance()
    assert task(world, 0)["progress"] == 0.75


def test_restarts_are_the_steps_that_paid_for_a_change() -> None:
    world = world_of(
        tasks_scenario((cluster("edge-1"),), (task_type("only", constant(9), share=1.0),), tasks=1, rate=1e6)
    )
    do(world, START, 0, 0, (2, 1, 0))
    assert world.snapshot().running["restarts"].tolist() == [0]
    world.advance()
    for gpus in (2, 3):  # two changes in one step are paid for once
        do(world, RESIZE, 0, 0, (2, gpus, 0))
    world.advance()
    assert (task(world, 0)["restarts"], task(world, 0)["started"]) == (1, 0)
    do(world, PREEMPT, 0)
    world.advance()
    assert (world.snapshot().pending["restarts"].tolist(), world.snapshot().pending["started"].tolist()) == ([1], [0])
    do(world, START, 0, 0, (2, 1, 0))
    world.advance()
    assert world.snapshot().running["restarts"].tolist() == [2]
    assert world.snapshot().running["started"].tolist() == [0], "when it was started first"


def test_a_change_that_is_taken_back_in_the_same_step_is_paid_for() -> None:
    world = world_of(
        tasks_scenario((cluster("edge-1"),), (task_type("only", constant(4), share=1.0),), tasks=1, rate=1e6)
    )
    do(world, START, 0, 0, (2, 1, 0))
    world.advance()
    for gpus in (2, 1):
        do(world, RESIZE, 0, 0, (2, gpus, 0))
    world.advance()
    assert task(world, 0)["progress"] == 0.25 + 0.5 * 0.25
    assert task(world, 0)["restarts"] == 1


def test_where_a_run_is_cut_tasks_under_way_end_and_those_to_come_count_for_nothing() -> None:
    scenario = tasks_scenario(
        (cluster("edge-1"),), (task_type("only", constant(4), share=1.0),), tasks=40, rate=2.0, most_steps=6
    )
    world = world_of(scenario)
    do(world, START, 0, 0, (2, 1, 0))
    while not world.over:
        world.advance()
    found = summarise(scenario, world.plan, world.worlds, 0)
    tasks = world.worlds.task[0]
    arrived = tasks[tasks["arrival"] <= 6]
    assert arrived["arrival"][0] == 0
    assert 2 < len(arrived) < 40
    # The first runs steps 0 to 3; everyone else waits until 6.
    assert found["completion_steps"] == (4 + (6 - arrived["arrival"][1:]).sum()) / len(arrived)
    assert found["unfinished"] == 39 / 40


def test_what_is_left_on_a_measured_curve_is_time_at_the_minimum(tmp_path: Path) -> None:
    # With one GPU 80 % of the progress takes 25 s of 100, with four GPUs all takes a quarter of that. A step is 10 s:
    # one with one GPU does 10 s of the 100, one with four GPUs 40 s; so 0.9 is left, and then 0.5.
    rows = [f"only,2,{gpu},{100 * t / gpu},{p}" for gpu in (1, 4) for t, p in ((0.25, 0.8), (1, 1))]
    (tmp_path / "c.csv").write_text("\n".join(["type,cpu,gpu,time_s,progress", *rows]))
    types = (task_type("only", Speed(form="trace", file=str(tmp_path / "c.csv"), **HERE), share=1.0),)
    world = world_of(tasks_scenario((cluster("edge-1"),), types, tasks=1, rate=1e6, switching=1.0))
    assert world.snapshot().pending["left"].tolist() == [1.0]
    do(world, START, 0, 0, (2, 1, 0))
    world.advance()
    assert world.snapshot().running["left"][0] == pytest.approx(0.9, abs=1e-6)
    assert task(world, 0)["progress"] == pytest.approx(0.32, abs=1e-6)
    do(world, RESIZE, 0, 0, (2, 4, 0))
    world.advance()
    assert world.snapshot().running["left"][0] == pytest.approx(0.5, abs=1e-6)


@jit
def _another_future(plan: Any, worlds: Any, seed: int) -> None:
    draw_later(plan, worlds, 0, seed)


def test_another_future_has_other_tasks_and_knows_of_no_link_change() -> None:
    changes = (TaskLinkChange(at_step=4, cluster="edge-1", up=False, **HERE),)
    world = world_of(tasks_scenario(link_changes=changes, rate=4.0, pending=50))
    for _ in range(3):
        world.advance()
    arrived = int(world.worlds.world[0]["arrived"])
    reach, later = world.worlds.task[0]["reach"][:arrived].copy(), world.worlds.task[0]["arrival"][arrived:].copy()
    assert (reach & np.uint64(1)).any(), "some reach edge-1"
    _another_future(world.plan, world.worlds, 99)
    assert world.worlds.task[0]["arrival"][arrived:].tolist() != later.tolist()
    for _ in range(4):
        world.advance()
    assert world.worlds.link[0]["up"].all()
    assert world.worlds.task[0]["reach"][:arrived].tolist() == reach.tolist()


def test_a_cluster_sees_its_earliest_tasks_and_others_when_time_goes_on() -> None:
    one = (cluster("edge-1", 64, 64),)
    world = world_of(tasks_scenario(one, tasks=20, rate=1000.0, pending=3))
    assert world.snapshot().pending["task"].tolist() == [0, 1, 2]
    assert world.snapshot().queued.tolist() == [17]
    assert not do(world, START, 3, 0, (2, 1, 0)), "it is not seen yet"
    assert do(world, START, 1, 0, (2, 1, 0))
    assert world.snapshot().pending["task"].tolist() == [0, 2]
    world.advance()
    assert world.snapshot().pending["task"].tolist() == [0, 2, 3]


def test_arrivals_are_poisson_and_reach_is_uniform_in_its_size() -> None:
    plan = build_task_plan(tasks_scenario(tasks=20_000, rate=3.0))
    worlds = new_worlds(plan, [5])
    arrivals = np.bincount(worlds.task[0]["arrival"])[:-1]
    assert arrivals.mean() == pytest.approx(3.0, abs=0.1)
    assert arrivals.var() == pytest.approx(3.0, abs=0.2)
    handle = Handle(plan, worlds)
    while worlds.world[0]["arrived"] < 15_000:
        handle.advance()
    reach = worlds.task[0]["reach"][:15_000]
    sizes = np.bincount([bin(word).count("1") for word in reach.tolist()], minlength=4)
    assert sizes[0] == 0
    assert sizes[1:] / 15_000 == pytest.approx([1 / 3] * 3, abs=0.02)
    for n in range(3):
        assert np.mean(reach >> np.uint64(n) & np.uint64(1)) == pytest.approx(2 / 3, abs=0.02)


def test_noise_is_even_and_the_same_for_every_policy() -> None:
    scenario = tasks_scenario(
        tasks=200, rate=500.0, progress_noise=0.2, types=(task_type("only", constant(10), share=1.0),)
    )
    found = []
    for order in (1, -1):
        world = world_of(scenario, 3)
        for i in world.snapshot().pending["task"].tolist()[::order]:
            for n in range(3):
                do(world, START, i, n, (2, 1, 0))
        world.advance()
        ran = world.worlds.task[0]["executed"] == 1
        found.append({i: world.worlds.task[0, i]["progress"] for i in np.flatnonzero(ran).tolist()})
    both = set(found[0]) & set(found[1])
    assert both
    assert all(found[0][i] == found[1][i] for i in both)
    assert 0.0 <= min(found[0].values()) < 0.05
    assert 0.15 < max(found[0].values()) <= 0.2
