"""Policies of the world of tasks: what each does in cases worked by hand, and what all of them never do."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import milp

from fairlead.cli.experiments.run_comparison import _by_line
from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.outcomes import Reason
from fairlead.domain.task_records import PREEMPT, RESIZE, START, Placements
from fairlead.domain.tasks import Reach, TaskLinkChange, TaskScenario, TunedRule
from fairlead.experiments.bounds.tasks import completion_bound, has_bound
from fairlead.experiments.task_trial import run_task_trial
from fairlead.experiments.trial import Trial
from fairlead.experiments.tune import tune
from fairlead.policies.conflicts import COPIES, SOFTMAX, prior_of, resolve
from fairlead.policies.jit import jit
from fairlead.policies.tasks.allocations import number_of, useful
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.policies.tasks.replan import fitted_steps
from fairlead.policies.tasks.sia import restart_factor
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.drawn_tasks import reach_of
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.policy_catalog import find_task_policy, task_policies
from fairlead.sim.tasks.run_policy import new_placements, run_tasks
from fairlead.sim.tasks.summary import completion_steps, summarise
from fairlead.sim.tasks.worlds import new_worlds
from task_builders import HERE, by_gpu, cluster, constant, measured, task_type, tasks_scenario

RULE = TunedRule(by="gpu", wanted={"sensitive": {"gpu": 10}}, least={"sensitive": {"gpu": 5}}, packing="best", **HERE)
EVERYWHERE = Reach(draw="links", bandwidth_mbps=(9.0, 9.0), **HERE)
NAMES = sorted(task_policies())


def answer_of(scenario: TaskScenario, name: str, world: Handle) -> list[tuple[int, int, int, list[int]]]:
    """What a policy would do now: (what, task, cluster, amounts)."""
    policy = find_task_policy(name)
    world.knows = policy.known
    world.room = Handle(world.plan, world.worlds, world.b, policy.known).room
    given, out = policy.parameters(facts_of(scenario, world.plan)), new_placements(world.plan, world.room)
    shown: Any = world if policy.kind == "planner" else world.snapshot()
    function = policy.compiled if policy.kind == "compiled" else policy.function
    count = function(shown, given, 0.5, out)
    return [
        (int(r["what"]), int(r["task"]), int(r["cluster"]), a.tolist())
        for r, a in zip(out.rows[:count], out.amounts[:count], strict=True)
    ]


def all_at_once(*types: Any, tasks: int, clusters: tuple[Any, ...] = (cluster("edge-1"),), **more: Any) -> Any:
    """A scenario whose tasks are all there at the start, and its world."""
    more = {"rate": 1e6, "tuned_rule": RULE, "pending": 50} | more
    scenario = tasks_scenario(clusters, types, tasks=tasks, **more)
    plan = build_task_plan(scenario)
    return scenario, Handle(plan, new_worlds(plan, [3]))


def one_of_each(folder: Path, gpus: int, **steps: list[int]) -> Any:
    """A cluster with so many GPUs and a task of each type, in this order, which takes these steps with 1, 2, ... GPUs.

    Steps of the form a / GPUs + b are on the curve that policies fit, so what they know is exact.
    """
    types = [task_type(name, speed, share=1 / len(steps)) for name, speed in measured(folder, **steps).items()]
    scenario = tasks_scenario((cluster("edge-1", 4, gpus),), tuple(types), len(types), 1e6, most_steps=5000)
    plan = build_task_plan(scenario)
    worlds = next(
        w for w in (new_worlds(plan, [seed]) for seed in range(99)) if (np.diff(w.task[0]["type"]) == 1).all()
    )
    return scenario, Handle(plan, worlds)


def do(world: Handle, what: int, task: int, amounts: tuple[int, int, int] = (0, 0, 0)) -> None:
    out = new_placements(world.plan, world.room)
    out.rows[0], out.amounts[0] = (task, 0, what), amounts
    assert world.place(out, 1) == FINE


def run_all(scenario: TaskScenario, name: str, seeds: Any) -> Any:
    plan = build_task_plan(scenario)
    worlds, policy = new_worlds(plan, seeds, history=scenario.rules.most_steps), find_task_policy(name)
    run_tasks(plan, worlds, policy, policy.parameters(facts_of(scenario, plan)))
    return plan, worlds


# ---- all of them

WORLDS = {
    "multi": {},
    "single": {"mode": "single", "rate": 1.0, "switching": 0.5},
    "noise": {"progress_noise": 0.2, "pending": 4},
    "links": {"link_changes": (TaskLinkChange(at_step=4, cluster="edge-1", up=False, **HERE),
                               TaskLinkChange(at_step=9, cluster="edge-1", up=True, **HERE))},
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("world", WORLDS)
def test_every_policy_finishes_every_task_within_what_there_is(name: str, world: str) -> None:
    types = (task_type("insensitive", constant(4), memory=3), task_type("sensitive", by_gpu()))
    scenario = tasks_scenario(types=types, tasks=24, tuned_rule=RULE, **WORLDS[world])
    plan, worlds = run_all(scenario, name, [1, 2])
    assert (worlds.world["done"] == 24).all()
    capacity = plan.capacity.sum(axis=0)
    assert (worlds.history[:, :, 1:] <= capacity).all()
    assert worlds.history[:, :, 1:].max() > 0
    alive = [completion_steps(worlds, b).sum() for b in (0, 1)]
    assert worlds.world["alive_steps"].tolist() == alive == worlds.history[:, :, 0].sum(axis=1).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_does_only_what_it_declares(name: str) -> None:
    policy = find_task_policy(name)
    scenario = tasks_scenario(tasks=40, rate=4.0, tuned_rule=RULE)
    plan = build_task_plan(scenario)
    world = Handle(plan, new_worlds(plan, [5]), 0, policy.known)
    function = policy.compiled if policy.kind == "compiled" else policy.function
    given, out, seen = policy.parameters(facts_of(scenario, plan)), new_placements(plan, world.room), set()
    while not world.over:
        shown: Any = world if policy.kind == "planner" else world.snapshot()
        count = function(shown, given, 0.5, out)
        seen |= set(out.rows["what"][:count].tolist())
        assert world.place(out, count) == FINE
        if not count:
            world.advance()
    allowed = {START} | ({RESIZE} if policy.resizes else set()) | ({PREEMPT} if policy.preempts else set())
    assert seen <= allowed
    assert {START, RESIZE} <= seen if policy.resizes else START in seen


def test_a_policy_is_shown_only_what_it_knows() -> None:
    _, world = all_at_once(task_type("only", constant(4), share=1.0), tasks=2)
    for knows, told in ((0, (False, False)), (1, (True, False)), (2, (False, True)), (3, (True, True))):
        shown = Handle(world.plan, world.worlds, 0, knows).snapshot()
        assert (not np.isnan(shown.pending["left"]).any(), shown.steps.size > 0) == told


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UserError, match="did you mean 'optimus'"):
        find_task_policy("optimos")


# ---- the tuned rule


def test_the_tuned_rule_gives_what_is_wanted_and_waits_below_the_least() -> None:
    scenario, world = all_at_once(task_type("sensitive", by_gpu(), share=1.0), tasks=3)
    assert answer_of(scenario, "tuned-rule", world) == [(START, 0, 0, [2, 10, 0]), (START, 1, 0, [2, 6, 0])]


def test_the_tuned_rules_least_is_no_more_than_a_cluster_has() -> None:
    scenario, world = all_at_once(
        task_type("sensitive", by_gpu(), share=1.0), tasks=1, clusters=(cluster("small", 4, 4),)
    )
    assert answer_of(scenario, "tuned-rule", world) == [(START, 0, 0, [2, 4, 0])]


@pytest.mark.parametrize(("packing", "chosen"), [("best", 1), ("worst", 2)])
def test_the_tuned_rule_packs_where_all_that_is_wanted_fits(packing: Any, chosen: int) -> None:
    clusters = (cluster("a", gpu=8), cluster("b", gpu=11), cluster("c", gpu=16))
    rule = TunedRule(by="gpu", wanted=RULE.wanted, least=RULE.least, packing=packing, **HERE)
    for seed in range(50):  # the first whose one task reaches all clusters
        scenario = tasks_scenario(clusters, (task_type("sensitive", by_gpu(), share=1.0),), 1, 1e6, tuned_rule=rule)
        plan = build_task_plan(scenario)
        world = Handle(plan, new_worlds(plan, [seed]))
        if not (world.snapshot().excluded & int(Reason.UNREACHABLE)).any():
            break
    assert answer_of(scenario, "tuned-rule", world) == [(START, 0, chosen, [2, 10, 0])]


def test_the_tuned_rule_takes_types_that_go_first_first() -> None:
    types = (task_type("insensitive", constant(4), gpu=4), task_type("sensitive", constant(4), gpu=4))
    for first in ("insensitive", "sensitive"):
        rule = TunedRule(by="gpu", first=(first,), wanted={}, least={}, **HERE)
        scenario, world = all_at_once(*types, tasks=12, tuned_rule=rule)
        names = list(scenario.types)
        started = [names[world.worlds.task[0, i]["type"]] for _, i, _, _ in answer_of(scenario, "tuned-rule", world)]
        assert len(started) == 4
        assert set(started) == {first}


def test_the_thrifty_rule_gives_no_more_than_makes_a_task_faster(tmp_path: Path) -> None:
    # Of 12 GPUs the tuned rule gives 10 and 2; 7 are as fast as 10, which leaves 5, and 4 are as fast as 5.
    steps = [9, 8, 7, 6, 6, 5, 4, 4, 4, 4, 3, 3]
    (speed,) = measured(tmp_path, only=steps).values()
    rule = TunedRule(by="gpu", wanted={"only": {"gpu": 10}}, least={}, **HERE)
    one = (cluster("edge-1", 4, 12),)
    scenario, world = all_at_once(task_type("only", speed, share=1.0), tasks=2, clusters=one, tuned_rule=rule)
    assert [a[1] for *_, a in answer_of(scenario, "tuned-rule", world)] == [10, 2]
    assert [a[1] for *_, a in answer_of(scenario, "thrifty-rule", world)] == [7, 4]


def test_without_a_rule_the_tuned_rule_says_how_to_get_one() -> None:
    scenario = tasks_scenario()
    facts = facts_of(scenario, build_task_plan(scenario))
    with pytest.raises(UserError, match="fairlead tune"):
        find_task_policy("tuned-rule").parameters(facts)


# ---- the others


def test_min_gives_the_minimum_and_random_anything_possible() -> None:
    scenario, world = all_at_once(task_type("only", constant(4), memory=1, share=1.0), tasks=8)
    assert sorted(a for _, _, _, a in answer_of(scenario, "min", world)) == [[2, 1, 1]] * 8
    drawn = [a for _, _, _, a in answer_of(scenario, "random", world)]
    assert any(a[0] > 2 for a in drawn)
    assert any(a[1] > 1 for a in drawn)
    assert all(a[2] == 1 for a in drawn), "what is not elastic is given as needed"


def test_optimus_gives_units_where_they_help() -> None:
    types = (task_type("insensitive", constant(4)), task_type("sensitive", by_gpu()))
    scenario, world = all_at_once(*types, tasks=6)
    names = list(scenario.types)
    given = {i: a for _, i, _, a in answer_of(scenario, "optimus", world)}
    amounts = {n: [a[1] for i, a in given.items() if names[world.worlds.task[0, i]["type"]] == n] for n in names}
    assert set(amounts["insensitive"]) == {1}
    assert sum(amounts["sensitive"]) == 16 - len(amounts["insensitive"]), "all GPUs are given out"
    assert max(amounts["sensitive"]) - min(amounts["sensitive"]) <= 1, "alike tasks get alike shares"


def test_optimus_curve_has_cpus_and_gpus_in_their_places() -> None:
    scenario = load_tasks("tapfinger-3")
    plan = build_task_plan(scenario)
    fitted = fitted_steps(facts_of(scenario, plan)).reshape(2, 17, 17)
    assert np.ptp(fitted[0, 2:, 1:]) == pytest.approx(0.0, abs=1e-6)
    sensitive = fitted[1, 2:, 1:]
    assert np.ptp(sensitive, axis=0).max() < 0.2, "CPUs do nothing"
    assert sensitive[0] == pytest.approx(plan.steps[1].reshape(17, 17)[2, 1:], abs=1.2)


def test_tiresias_preempts_who_has_had_most() -> None:
    one = (cluster("edge-1", 2, 1),)
    scenario, world = all_at_once(task_type("a", constant(2)), task_type("b", constant(20)), tasks=12, clusters=one)
    task_types = world.worlds.task[0]["type"]
    first_long = int(np.flatnonzero(task_types == 1)[0])
    threshold = find_task_policy("tiresias").parameters(facts_of(scenario, world.plan))[0]
    assert threshold == 11.0
    do(world, START, first_long, (2, 1, 0))
    for _ in range(10):
        world.advance()
        assert answer_of(scenario, "tiresias", world) == [], "in the first queue, by start"
    world.advance()
    other = 0 if first_long else 1
    assert answer_of(scenario, "tiresias", world) == [
        (PREEMPT, first_long, 0, [0, 0, 0]), (START, other, 0, [2, 1, 0])
    ]  # fmt: skip


def test_tiresias_goes_by_start_inside_a_queue() -> None:
    # Three tasks that came together, room for one: the last started in step 0, the second in step 1, the first never.
    # All in the first queue (the threshold is 20 GPU-steps), so the last goes on, and the first waits for both.
    one = (cluster("edge-1", 2, 1),)
    scenario, world = all_at_once(task_type("only", constant(20), share=1.0), tasks=3, clusters=one)
    for task in (2, 1):
        do(world, START, task, (2, 1, 0))
        world.advance()
        do(world, PREEMPT, task)
    world.advance()
    assert answer_of(scenario, "tiresias", world) == [(START, 2, 0, [2, 1, 0])]
    do(world, START, 1, (2, 1, 0))
    assert answer_of(scenario, "tiresias", world) == [(PREEMPT, 1, 0, [0, 0, 0]), (START, 2, 0, [2, 1, 0])]
    do(world, PREEMPT, 1)
    do(world, START, 2, (2, 1, 0))
    assert answer_of(scenario, "tiresias", world) == [], "the first never ran: it preempts nobody of its queue"


@pytest.mark.parametrize(
    ("short", "amounts"),
    [
        # Each has one of three GPUs, the short one (L) would finish sooner than the long one (H), whose speed doubles
        # with the third: (1/18 - 1/36) / (1/18) = 1/2. L gets it if (pL+ - pL) / pL is more than that:
        ([12, 6, 4], {0: 2, 1: 1}),  # (1/6 - 1/12) / (1/12) = 1
        ([12, 9, 8], {0: 1, 1: 2}),  # (1/9 - 1/12) / (1/12) = 1/3
    ],
)
def test_afs_by_hand(tmp_path: Path, short: list[int], amounts: dict[int, int]) -> None:
    scenario, world = one_of_each(tmp_path, 3, short=short, long=[36, 18, 12])
    assert {i: a[1] for _, i, _, a in answer_of(scenario, "afs", world)} == amounts


def test_hesrpt_by_hand(tmp_path: Path) -> None:
    # Two tasks on 8 GPUs whose steps 840 (1 + 1 / k) fall like k^-0.269 (least squares of logarithms): the exponent
    # 1 / (1 - 0.269) = 1.368 gives the long one 0.5^1.368 = 0.387 of 8: 3 whole GPUs, the short one 4.90: 4, and
    # what is left over. Even shares would be 4 and 4, the shortest alone 1 and 7.
    short = [840 + 840 // k for k in range(1, 9)]
    scenario, world = one_of_each(tmp_path, 8, long=[2 * s for s in short], short=short)
    assert {i: a[1] for _, i, _, a in answer_of(scenario, "hesrpt", world)} == {0: 3, 1: 5}


@pytest.mark.parametrize(
    ("gpus", "amounts"),
    [
        # The goodput of `grows` is its GPUs, `same` has 1 with one. Costs G^-0.5 each, or 1.1 unserved:
        (4, {0: 3, 1: 1}),  # 3 + 1: 0.577 + 1 = 1.577; 4 + 0: 0.5 + 1.1 = 1.6; 2 + 1: 1.707
        (3, {0: 3}),  # 3 + 0: 0.577 + 1.1 = 1.677; 2 + 1: 0.707 + 1 = 1.707
    ],
)
def test_sia_by_hand(tmp_path: Path, gpus: int, amounts: dict[int, int]) -> None:
    scenario, world = one_of_each(tmp_path, gpus, grows=[12, 6, 4, 3][:gpus], same=[12] * gpus)
    assert {i: a[1] for _, i, _, a in answer_of(scenario, "sia", world)} == amounts


def test_sia_restarts_a_task_the_less_the_more_often_it_has_restarted() -> None:
    # A second GPU makes it 17 / 9 = 1.89 times as fast, which is worth a restart while r > 9 / 17 = 0.53. A restart
    # loses a whole step (S = 1): after two steps without one r = (2 - 0) / (2 + 1) = 0.67, after four of which two
    # were restarts r = (4 - 2) / (4 + 1) = 0.4.
    one = (cluster("edge-1", 2, 2),)
    for changes, answer in ((0, [(RESIZE, 0, 0, [2, 2, 0])]), (2, [])):
        scenario, world = all_at_once(
            task_type("only", by_gpu("paper"), share=1.0), tasks=1, clusters=one, switching=0.0
        )
        do(world, START, 0, (2, 1, 0))
        world.advance()
        for gpus in (2, 1)[:changes]:
            do(world, RESIZE, 0, (2, gpus, 0))
            world.advance()
        world.advance()
        assert answer_of(scenario, "sia", world) == answer


def test_sia_keeps_what_is_when_a_plan_is_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two tasks of a type has all GPUs; that the other has them is as good."""
    alike, clusters = task_type("only", by_gpu("paper"), share=1.0), (cluster("edge-1", 4, 3),)
    scenario, world = all_at_once(alike, tasks=2, clusters=clusters, switching=1.0)
    ((_, task, _, amounts),) = answer_of(scenario, "sia", world)
    do(world, START, task, (amounts[0], amounts[1], 0))
    shared: list[float] = []

    def other(cost: Any, **more: Any) -> Any:
        best = milp(cost, **more).x.round()
        found = milp(cost + 1e-3 * best, **more)
        shared.append(float(best @ found.x.round()))
        return found

    monkeypatch.setattr("scipy.optimize.milp", other)
    assert answer_of(scenario, "sia", world) == []
    assert shared == [0.0], "it was given another plan"


def test_sias_restart_factor() -> None:
    assert restart_factor(10, 2, 0.5) == pytest.approx((10 - 2 * 0.5) / (10 + 0.5))
    assert restart_factor(3, 9, 1.0) == 0.05, "never below"
    assert restart_factor(0, 0, 0.0) == 1.0, "where nothing is lost"


def test_amounts_are_useful_if_fewer_are_slower() -> None:
    # CPUs 0..2 by GPUs 0..2, one of each needed, a gigabyte for everyone: the second CPU is of no use.
    steps = np.array([np.inf, np.inf, np.inf, np.inf, 6.0, 3.0, np.inf, 6.0, 3.0])
    most, elastic = np.array([2, 2, 1]), np.array([True, True, False])
    amounts, taken = useful(np.array([1, 1, 1]), most, elastic, steps)
    assert (amounts.tolist(), taken.tolist()) == ([[1, 2, 1], [1, 1, 1]], [3.0, 6.0])


@pytest.mark.parametrize("name", ["optimus", "afs", "hesrpt", "tiresias"])
def test_one_task_per_cluster_goes_to_the_next_best_cluster(name: str) -> None:
    clusters = (cluster("small", 4, 4), cluster("large", 32, 32))
    scenario, world = all_at_once(task_type("only", constant(4), share=1.0), tasks=30, clusters=clusters, mode="single")
    assert sorted(n for _, _, n, _ in answer_of(scenario, name, world)) == [0, 1]


def test_shortest_first_takes_the_short_ones() -> None:
    scenario, world = all_at_once(
        task_type("long", constant(10), 3, 3), task_type("short", constant(1), 3, 3), tasks=14
    )
    task_types = world.worlds.task[0]["type"]
    started = [i for _, i, _, _ in answer_of(scenario, "shortest-first", world)]
    assert len(started) == 5
    assert all(task_types[i] == 1 for i in started)


def test_shortest_first_starts_tasks_that_never_end_with_their_minimum() -> None:
    scenario, world = all_at_once(task_type("endless", constant(1e9), 3, 3), tasks=2)
    assert [amounts for *_, amounts in answer_of(scenario, "shortest-first", world)] == [[3, 3, 0]] * 2


def test_better_informed_policies_are_better_where_the_order_counts() -> None:
    scenario, seeds = load_tasks("pointer-test"), range(6000, 6040)
    steps = {name: run_all(scenario, name, seeds)[1].world["alive_steps"] / 192 for name in ("min", "shortest-first")}
    gain = steps["min"] - steps["shortest-first"]
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def test_the_rollout_planner_beats_the_rule_that_it_starts_from() -> None:
    scenario, seeds = load_tasks("tapfinger-3", ["tasks=64"]), range(6100, 6108)
    rule, planned = (run_all(scenario, name, seeds)[1].world["alive_steps"] for name in ("tuned-rule", "rollout"))
    assert planned.sum() < rule.sum()


# ---- what goes wrong


def _impossible(snapshot: Any, parameters: Any, u: float, out: Placements) -> int:
    out.rows[0] = (0, 0, START)
    out.amounts[0] = 99
    return 1


def _raises(snapshot: Any, parameters: Any, u: float, out: Placements) -> int:
    raise ZeroDivisionError("ha")


def _half(snapshot: Any, parameters: Any, u: float, out: Placements) -> Any:
    return 0.5


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (_impossible, r"policy 'bad' can't start task 0 on cluster 0 with \[99, 99, 99\]"),
        (_raises, "failed: ZeroDiv"),
        (_half, "policy 'bad' failed: TypeError: 'float' object cannot be interpreted as an integer at "),
    ],
)
def test_a_policy_that_goes_wrong_is_named(function: Any, line: str) -> None:
    plan = build_task_plan(tasks_scenario(rate=1e6))
    with pytest.raises(PolicyError, match=line):
        run_tasks(plan, new_worlds(plan, [1]), TaskPolicy("bad", function, "python"), np.zeros(0))


# ---- conflicts


@jit
def _resolved(wanted: Any, scores: Any, priors: Any) -> None:
    resolve(wanted, scores, priors)


@jit
def _prior(free: Any, n: int, minimum: Any, prior: int) -> float:
    return prior_of(free, n, minimum, 0, prior)


def test_a_task_that_several_want_goes_to_the_highest_score_times_prior() -> None:
    for wanted, scores, priors, left in (
        ([4, 4, 7], [0.5, 0.4, 0.1], [2.0, 3.0, 1.0], [-1, 4, 7]),
        ([4, 4, 4], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [4, -1, -1]),
        ([-1, -1, 2], [0.5, 0.5, 0.5], [1.0, 1.0, 1.0], [-1, -1, 2]),
    ):
        given = np.array(wanted, np.int32)
        _resolved(given, np.array(scores), np.array(priors))
        assert given.tolist() == left


def test_the_prior_is_how_many_such_tasks_have_room() -> None:
    free, minimum = np.array([[7, 5, 0]], np.int32), np.array([[2, 1, 0]], np.int32)
    assert _prior(free, 0, minimum, COPIES) == 3.0
    assert _prior(free, 0, minimum, SOFTMAX) == pytest.approx(np.exp(3.5))


# ---- bound and tuning


def test_the_bound_is_exact_where_one_task_at_a_time_fits() -> None:
    _, world = all_at_once(task_type("only", constant(2), 16, 16, share=1.0), tasks=3)
    assert completion_bound(world.plan, world.worlds, 0) == pytest.approx((2 + 4 + 6) / 3)


def test_in_single_task_mode_the_bound_starts_one_task_a_step_on_each_cluster() -> None:
    small = task_type("only", constant(2), 2, 1, share=1.0)
    for mode, clusters, steps in (("multi", 1, (2, 2, 2)), ("single", 1, (2, 3, 4)), ("single", 2, (2, 2, 3))):
        where = tuple(cluster(f"edge-{n}") for n in range(clusters))
        # All three fit side by side. Everybody reaches both clusters or, with one, that one.
        _, world = all_at_once(small, tasks=3, clusters=where, mode=mode, reach=EVERYWHERE)
        assert completion_bound(world.plan, world.worlds, 0) == pytest.approx(sum(steps) / 3)


@pytest.mark.parametrize("mode", ["multi", "single"])
@pytest.mark.parametrize("number", range(12))
def test_the_bound_is_never_above_the_best_of_all_schedules(number: int, mode: str, tmp_path: Path) -> None:
    """Brute force over starts, clusters and amounts of three tasks that come together or one after another."""
    rng = np.random.default_rng(number)
    clusters = tuple(cluster(f"edge-{n}", 16, int(rng.integers(2, 5))) for n in range(rng.integers(1, 3)))
    speeds = measured(tmp_path, a=sorted(rng.integers(1, 6, 3))[::-1], b=sorted(rng.integers(1, 6, 3))[::-1])
    types = tuple(task_type(name, speed) for name, speed in speeds.items())
    rate = float(rng.choice([0.7, 2.0, 1e6]))
    scenario = tasks_scenario(clusters, types, tasks=3, rate=rate, mode=mode)
    plan = build_task_plan(scenario)
    worlds = new_worlds(plan, [number])
    bound = completion_bound(plan, worlds, 0)
    assert bound is not None
    assert bound <= best_of_all_schedules(plan, worlds) + 1e-9


def best_of_all_schedules(plan: Any, worlds: Any, latest: int = 6) -> float:
    """The least mean completion time of tasks that each start within `latest` steps and keep their amounts."""
    ways = [list(ways_of(plan, worlds, i, latest)) for i in range(len(worlds.task[0]))]
    found = [sum(way[0] for way in chosen) for chosen in product(*ways) if possible(plan, chosen)]
    return min(found) / len(ways)


def ways_of(plan: Any, worlds: Any, i: int, latest: int) -> Any:
    """(completion time, cluster, start, end, CPUs, GPUs) of task i; with two CPUs, which are enough."""
    task = worlds.task[0, i]
    reach = int(_reach(plan, worlds, i))
    for n, wait, gpus in product(range(len(plan.capacity)), range(latest), range(1, plan.most[1] + 1)):
        if reach >> n & 1 and gpus <= plan.capacity[n, 1]:
            amounts = plan.minimum[task["type"]].copy()
            amounts[:2] = 2, gpus
            number = number_of(amounts, plan.most, plan.elastic)
            steps = int(plan.steps[task["type"], number])
            start = int(task["arrival"]) + wait
            yield wait + steps, n, start, start + steps, 2, gpus


def possible(plan: Any, ways: Any) -> bool:
    """Whether tasks can be done so, all of them."""
    if plan.rules["single"][0] and len({(n, start) for _, n, start, *_ in ways}) < len(ways):
        return False
    for n, capacity in enumerate(plan.capacity):
        here = [way for way in ways if way[1] == n]
        for _, _, at, *_ in here:  # use is highest when somebody starts
            running = [way[4:] for way in here if way[2] <= at < way[3]]
            if (np.sum(running, axis=0) > capacity[:2]).any():
                return False
    return True


@jit
def _reach(plan: Any, worlds: Any, i: int) -> Any:
    return reach_of(plan, worlds, 0, i)


@pytest.mark.parametrize("changes", [[], ["mode=single", "switching=0.5", "rate=2"]], ids=["multi", "single"])
def test_nobody_who_leaves_tasks_alone_is_below_the_bound(changes: list[str]) -> None:
    scenario = load_tasks("tapfinger-3", ["tasks=48", *changes])
    for seed in (6200, 6201):
        plan = build_task_plan(scenario)
        bound = completion_bound(plan, new_worlds(plan, [seed]), 0)
        for name in ("tuned-rule", "shortest-first", "random", "rollout"):
            _, worlds = run_all(scenario, name, [seed])
            assert bound is not None
            assert bound <= worlds.world["alive_steps"][0] / 48 + 1e-9


def test_there_is_no_bound_where_it_would_not_be_one() -> None:
    assert has_bound(tasks_scenario())
    assert not has_bound(tasks_scenario(progress_noise=0.1))
    assert not has_bound(tasks_scenario(link_changes=WORLDS["links"]["link_changes"]))


def test_there_is_no_bound_where_a_run_is_cut() -> None:
    cut = load_tasks("tapfinger-3", ["rate=30", "most_steps=6"])
    found = run_task_trial(Trial("cut", cut, 0, ("tuned-rule",)))
    assert found.figures["tuned-rule"]["unfinished"] > 0
    assert found.bound is None


def test_a_policy_that_lacks_its_rule_does_not_stop_the_others() -> None:
    found = run_task_trial(Trial("built", tasks_scenario(tasks=10), 0, ("min", "tuned-rule"), bounded=False))
    assert set(found.figures) == {"min"}
    assert "fairlead tune" in found.failures["tuned-rule"]


def test_what_several_policies_lack_is_said_once_and_names_them() -> None:
    lines = _by_line({"tuned-rule": "has no rule", "rollout": "has no rule", "x": "policy 'x' failed"})
    assert lines == {"has no rule": ["rollout", "tuned-rule"], "policy 'x' failed": ["x"]}


def test_tuning_finds_a_better_rule() -> None:
    scenario = tasks_scenario(
        (cluster("edge-1", 8, 8),),
        (task_type("insensitive", constant(4)), task_type("sensitive", by_gpu())),
        tasks=20,
        rate=1.0,
        tuned_rule=TunedRule(by="gpu", wanted={}, least={}, **HERE),
    )
    found = tune(scenario, 6)
    assert found.gain is not None
    assert found.gain.low > 0
    assert found.rule.wanted["sensitive"]["gpu"] > 1
    assert found.rule.wanted.get("insensitive", {"gpu": 1})["gpu"] <= 2


# ---- figures


def test_figures_by_hand() -> None:
    scenario, _ = all_at_once(task_type("only", constant(2), 16, 16, share=1.0), tasks=3)
    plan, worlds = run_all(scenario, "min", [3])
    found = summarise(scenario, plan, worlds, 0)
    assert found["completion_steps"] == found["completion_steps_only"] == found["completion_p50_steps"] == 4.0
    assert found["waiting_steps"] == 2.0
    assert found["used_gpu"] == found["used_cpu"] == 1.0
    assert (found["steps"], found["tasks"], found["unfinished"]) == (6.0, 3.0, 0.0)
