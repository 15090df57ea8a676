"""Resources by role: what is decided depends neither on their order in a file, nor on names, nor on what nobody needs.

Every policy's schedule on a scenario is compared with its schedule on the same scenario written in another way.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.task_facts import TaskFacts, main_resources
from fairlead.domain.tasks import ROLES, UNNEEDED, Resource, Speed, TaskScenario, TunedRule
from fairlead.policies.tasks.allocations import all_allocations, amounts_of, number_of, unit_of
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.policies.tasks.learned import learned_task_policies
from fairlead.policies.tasks.replan import fitted_steps
from fairlead.scenarios.loader import load_any, load_tasks
from fairlead.sim.reference.tasks import ReferenceTasks
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.plan import build_task_plan, resource_names
from fairlead.sim.tasks.policy_catalog import find_task_policy, task_policies
from fairlead.sim.tasks.run_policy import new_placements, run_tasks
from fairlead.sim.tasks.summary import summarise
from fairlead.sim.tasks.worlds import new_worlds
from task_builders import HERE, by_gpu, constant, tasks_scenario

Change = Callable[[TaskScenario, Path], TaskScenario]
AMOUNTS = (40, 0, 7, 100, 3, 25)  # of a resource that no task needs, by cluster


# ---- the same scenario, written in another way


def with_unneeded(scenario: TaskScenario, at: int, resource: Resource, told: bool = False) -> TaskScenario:
    """A scenario with one resource more, in this place of the list, that no task needs; types may say so."""
    resources = list(scenario.resources.items())
    resources.insert(at, (resource.name, resource))
    clusters = {
        name: replace(cluster, amounts={resource.name: AMOUNTS[n % len(AMOUNTS)], **cluster.amounts})
        for n, (name, cluster) in enumerate(scenario.clusters.items())
    }
    zero = {resource.name: 0} if told else {}
    types = {
        name: replace(task_type, minimum={**zero, **task_type.minimum}) for name, task_type in scenario.types.items()
    }
    return replace(scenario, resources=dict(resources), clusters=clusters, types=types)


def in_another_order(scenario: TaskScenario, order: random.Random) -> TaskScenario:
    """The scenario with its resources in another order."""
    names = list(scenario.resources)
    while names == list(scenario.resources):
        order.shuffle(names)
    return replace(scenario, resources={name: scenario.resources[name] for name in names})


def renamed(scenario: TaskScenario, names: Mapping[str, str], folder: Path) -> TaskScenario:
    """The scenario with other names of resources, in its measured curves too."""

    def amounts(given: Mapping[str, int]) -> dict[str, int]:
        return {names[name]: amount for name, amount in given.items()}

    def speed(given: Speed) -> Speed:
        file = given.file
        if given.form == "trace":
            with Path(str(file)).open() as text:
                header, *rows = csv.reader(text)
            file = str(folder / "renamed.csv")
            with Path(file).open("w", newline="") as text:
                csv.writer(text).writerows([[names.get(column, column) for column in header], *rows])
        return replace(given, file=file, resource=given.resource and names[given.resource])

    rule = scenario.tuned_rule
    if rule is not None:
        wanted, least = (
            {task_type: amounts(of) for task_type, of in part.items()} for part in (rule.wanted, rule.least)
        )
        rule = replace(rule, by=names[rule.by], wanted=wanted, least=least)
    return replace(
        scenario,
        resources={names[name]: replace(resource, name=names[name]) for name, resource in scenario.resources.items()},
        clusters={name: replace(c, amounts=amounts(c.amounts)) for name, c in scenario.clusters.items()},
        types={
            name: replace(task_type, minimum=amounts(task_type.minimum), speed=speed(task_type.speed))
            for name, task_type in scenario.types.items()
        },
        tuned_rule=rule,
    )


def swapped(scenario: TaskScenario, folder: Path) -> TaskScenario:
    """Each resource has the name of another."""
    names = list(scenario.resources)
    return renamed(scenario, dict(zip(names, [*names[1:], names[0]], strict=True)), folder)


VPU = Resource(name="vpu", role="accelerator", most_per_task=9)
CHANGES: dict[str, Change] = {
    "an accelerator that no task needs, first": lambda s, folder: with_unneeded(s, 0, VPU),
    "an accelerator that no task needs, between": lambda s, folder: with_unneeded(s, 1, VPU, told=True),
    "an accelerator that no task needs, last": lambda s, folder: with_unneeded(s, len(s.resources), VPU),
    "a processor that no task needs, of which tasks may have all": lambda s, folder: with_unneeded(
        s, 0, Resource(name="dsp", role="processor")
    ),
    "memory that no task needs": lambda s, folder: with_unneeded(s, 1, Resource(name="memory_2", elastic=False)),
    "another order": lambda s, folder: in_another_order(s, random.Random(1)),
    "other names": lambda s, folder: swapped(s, folder),
    "all of it": lambda s, folder: swapped(
        in_another_order(
            with_unneeded(with_unneeded(s, 0, VPU), 2, Resource(name="a", role="other")), random.Random(2)
        ),
        folder,
    ),
}

WORLDS = {
    "tapfinger-3": ("tapfinger-3", "tasks=16"),
    "single": ("tapfinger-3", "tasks=16", "mode=single", "switching=0.5", "progress_noise=0.1"),
    "testbed": (
        "tapfinger-testbed-3", "tasks=8", "clusters.*.amounts.cpu=16", "clusters.*.amounts.gpu=8", "rate=0.75"
    ),
    "two-accelerators": (),
}  # fmt: skip
NAMES = [*sorted(task_policies()), *sorted(learned_task_policies())]


def two_accelerators() -> TaskScenario:
    """Half of the tasks run faster with more GPUs, half with more NPUs, all need memory."""
    base = load_tasks("tapfinger-3", ["tasks=16"])
    resources = {
        "cpu": Resource(name="cpu", most_per_task=4),
        "gpu": Resource(name="gpu", most_per_task=6),
        "npu": Resource(name="npu", most_per_task=5),
        "memory": Resource(name="memory", elastic=False),
    }
    minimum = {"insensitive": {"cpu": 1, "npu": 1, "memory": 2}, "sensitive": {"cpu": 2, "gpu": 1, "memory": 3}}
    speeds = {"insensitive": "npu", "sensitive": "gpu"}
    rule = {"sensitive": {"gpu": 5}, "insensitive": {"npu": 4}}
    return replace(
        base,
        resources=resources,
        clusters={
            name: replace(cluster, amounts={"cpu": 12, "gpu": 9, "npu": 8, "memory": 30})
            for name, cluster in base.clusters.items()
        },
        types={
            name: replace(
                task_type, minimum=minimum[name], speed=Speed(form="paper", resource=speeds[name], scale=8, **HERE)
            )
            for name, task_type in base.types.items()
        },
        tuned_rule=TunedRule(by="npu", wanted=rule, least={}, **HERE),
    )


@cache
def scenario_of(world: str) -> TaskScenario:
    return two_accelerators() if world == "two-accelerators" else load_tasks(WORLDS[world][0], WORLDS[world][1:])


def schedule(scenario: TaskScenario, name: str, seeds: Any = (5,)) -> Any:
    """What becomes of every task under a policy, and with what; what is given out over time. By role, without names."""
    plan, policy = build_task_plan(scenario), find_task_policy(name)
    worlds = new_worlds(plan, seeds, history=200)
    run_tasks(plan, worlds, policy, policy.parameters(facts_of(scenario, plan)))
    needed = plan.elastic | (plan.minimum > 0).any(axis=0)
    rest = np.flatnonzero(~needed)
    assert not worlds.amounts[..., rest].any(), "of what no task needs nobody gets any"
    roles = [ROLES[role] for role in plan.role[needed]]
    assert not worlds.history[..., 1 + rest].any()
    amounts, history = worlds.amounts[..., needed].tolist(), worlds.history[..., np.r_[True, needed]].tolist()
    return roles, worlds.task.tolist(), amounts, history


@cache
def plain_schedule(world: str, name: str) -> Any:
    return schedule(scenario_of(world), name)


def applies(world: str, name: str) -> bool:
    """Whether a policy decides there: models where the tasks are those that they were trained with."""
    if name not in learned_task_policies():
        return True
    scenario = scenario_of(world)
    try:
        find_task_policy(name).parameters(facts_of(scenario, build_task_plan(scenario)))
    except UserError:
        return False
    return True


RUNS = [(world, name) for world in WORLDS for name in NAMES if applies(world, name)]


def test_models_are_among_the_policies() -> None:
    learned = {name for world, name in RUNS if name in learned_task_policies()}
    assert {"tapfinger-3-agents", "tapfinger-testbed-3-agents"} <= learned


@pytest.mark.parametrize(("world", "name"), RUNS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_schedule_is_the_same_however_resources_are_written(
    world: str, name: str, change: str, tmp_path: Path
) -> None:
    changed = CHANGES[change](scenario_of(world), tmp_path)
    assert schedule(changed, name) == plain_schedule(world, name)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("world", WORLDS)
def test_a_plan_is_the_same_however_resources_are_written(world: str, seed: int, tmp_path: Path) -> None:
    """Of any number of resources that no task needs, of any role, in any place, under any names."""
    dice, scenario = random.Random(seed), scenario_of(world)
    for n in range(dice.randrange(4)):
        elastic = dice.random() < 0.7
        most = dice.choice([None, 1, 50_000]) if elastic else None
        more = Resource(name=f"more-{n}", role=dice.choice(ROLES), elastic=elastic, most_per_task=most)
        scenario = with_unneeded(scenario, dice.randrange(len(scenario.resources) + 1), more, dice.random() < 0.5)
    names = list(scenario.resources)
    scenario = in_another_order(scenario, dice)
    scenario = renamed(scenario, dict(zip(names, dice.sample(names, len(names)), strict=True)), tmp_path)
    plan, found = build_task_plan(scenario_of(world)), build_task_plan(scenario)
    needed = plan.capacity.shape[1]
    for field, array in plan._asdict().items():
        if field != "resource":
            changed = getattr(found, field)
            cut = changed[..., :needed] if field in BY_RESOURCE else changed
            assert (cut.tolist() == array.tolist()) or np.array_equal(cut, array, equal_nan=True), field
    assert not found.most[needed:].any()
    assert not found.elastic[needed:].any()
    assert not found.minimum[:, needed:].any()
    assert (found.role[needed:] == UNNEEDED).all()


BY_RESOURCE = {"capacity", "minimum", "most", "elastic", "role", "main"}


def test_alike_resources_of_one_role_are_interchangeable(tmp_path: Path) -> None:
    """Two accelerators that differ in nothing but their names: whichever comes first, the schedule is the same."""
    base = two_accelerators()
    alike = replace(
        base,
        resources={**base.resources, "npu": replace(base.resources["npu"], most_per_task=6)},
        clusters={n: replace(c, amounts={**c.amounts, "npu": c.amounts["gpu"]}) for n, c in base.clusters.items()},
    )
    other = renamed(alike, {"cpu": "cpu", "gpu": "npu", "npu": "gpu", "memory": "memory"}, tmp_path)
    for name in ("optimus", "random"):
        assert schedule(other, name)[1] == schedule(alike, name)[1]


# ---- which resources are needed


def curves_file(folder: Path, *columns: str, rows: list[str]) -> Speed:
    file = folder / "curves.csv"
    file.write_text("\n".join([",".join(("type", *columns, "time_s", "progress")), *rows]))
    return Speed(form="trace", file=str(file), **HERE)


def needed_names(scenario: TaskScenario) -> list[str]:
    plan = build_task_plan(scenario)
    needed = plan.elastic | (plan.minimum > 0).any(axis=0)
    return [name for name, is_needed in zip(resource_names(scenario, plan), needed, strict=True) if is_needed]


def with_speeds(scenario: TaskScenario, speed: Speed, **minimum: int) -> TaskScenario:
    types = {name: replace(task_type, speed=speed, minimum=minimum) for name, task_type in scenario.types.items()}
    return replace(scenario, types=types)


def test_what_makes_tasks_faster_is_needed_though_they_can_do_without(tmp_path: Path) -> None:
    base = load_tasks("tapfinger-3", ["tasks=12"])
    rows = [f"{name},{cpu},{gpu},{40 / (cpu + gpu)},1" for name in base.types for cpu in (1, 2) for gpu in (0, 1)]
    faster = with_speeds(base, curves_file(tmp_path, "cpu", "gpu", rows=rows), cpu=1)
    assert needed_names(faster) == ["cpu", "gpu"]
    assert needed_names(with_speeds(base, by_gpu("paper"), cpu=1)) == ["cpu", "gpu"]
    rows = [f"{name},{cpu},0,{40 / cpu},1" for name in base.types for cpu in (1, 2)]
    assert needed_names(with_speeds(base, curves_file(tmp_path, "cpu", "gpu", rows=rows), cpu=1)) == ["cpu"]
    rows = [f"{name},{cpu},{40 / cpu},1" for name in base.types for cpu in (1, 2)]
    assert needed_names(with_speeds(base, curves_file(tmp_path, "cpu", rows=rows), cpu=1)) == ["cpu"]


def test_what_only_types_that_never_arrive_need_is_not_needed() -> None:
    base = load_tasks("tapfinger-3", ["tasks=12"])
    types = {
        "insensitive": replace(base.types["insensitive"], share=1.0, minimum={"cpu": 2}),
        "sensitive": replace(base.types["sensitive"], share=0.0),
    }
    scenario = replace(base, types=types, tuned_rule=TunedRule(by="cpu", wanted={}, least={}, **HERE))
    assert needed_names(scenario) == ["cpu"]
    for name in sorted(task_policies()):
        plan, policy = build_task_plan(scenario), find_task_policy(name)
        worlds = new_worlds(plan, [1], history=200)
        run_tasks(plan, worlds, policy, policy.parameters(facts_of(scenario, plan)))
        figures = summarise(scenario, plan, worlds, 0)
        assert figures["unfinished"] == 0.0
        assert figures["used_gpu"] == 0.0 < figures["used_cpu"]


def test_figures_keep_the_names_of_resources() -> None:
    scenario = scenario_of("single")
    changed = in_another_order(with_unneeded(scenario, 0, VPU), random.Random(3))
    found = []
    for one in (scenario, changed):
        plan, policy = build_task_plan(one), find_task_policy("min")
        worlds = new_worlds(plan, [5], history=200)
        run_tasks(plan, worlds, policy, np.zeros(0))
        found.append(summarise(one, plan, worlds, 0))
    assert found[1] == found[0] | {"used_vpu": 0.0}


def test_the_oracle_agrees_in_any_order_of_resources() -> None:
    """Random play with what a task may not have, too: of what no task needs even a unit is refused."""
    scenario = with_unneeded(
        in_another_order(two_accelerators(), random.Random(4)), 0, Resource(name="x", role="other")
    )
    plan, dice = build_task_plan(scenario), random.Random(5)
    names, clusters = resource_names(scenario, plan), list(scenario.clusters)
    world, oracle = Handle(plan, new_worlds(plan, [7]), 0, 3), ReferenceTasks(scenario, 7)
    out, refused = new_placements(plan, world.room), 0
    while not world.over:
        for _ in range(8):
            number, n = dice.randrange(16), dice.randrange(len(clusters))
            least = list(scenario.types.values())[world.worlds.task[0, number]["type"]].minimum
            amounts = {name: least.get(name, 0) + dice.choice((0, 0, 0, 0, 0, 0, 0, 1)) for name in names}
            out.rows[0], out.amounts[0] = (number, n, 0), [amounts[name] for name in names]
            done = world.place(out, 1) == FINE
            assert done == oracle.start(number, clusters[n], amounts)
            refused += not done
        world.advance()
        oracle.advance()
        rows = world.worlds.task[0]
        assert [rows[t.number]["service"] for t in oracle.running] == [t.service for t in oracle.running]
        assert [[oracle.free[c][r] for r in names] for c in clusters] == world.snapshot().free.tolist()
    assert refused > 0
    assert {t.number: t.finished for t in oracle.done} == dict(enumerate(world.worlds.task[0]["finished"].tolist()))


# ---- roles in files


def test_a_role_is_told_by_the_file_or_by_the_name() -> None:
    roles = {name: Resource(name=name).role for name in ("cpu", "GPU", "npu", "memory_gb", "ram")}
    assert list(roles.values()) == ["processor", "accelerator", "accelerator", "memory", "memory"]
    assert Resource(name="gpu", role="other").role == "other"


@pytest.mark.parametrize(
    ("resources", "line"),
    [
        ({"dsp": {}}, "resources.dsp: role is missing: expected accelerator, processor, memory or other"),
        (
            {"gpu": {"role": "fast"}},
            "resources.gpu.role: expected 'accelerator', 'processor', 'memory' or 'other', got",
        ),
        (
            {
                "cpu": {"elastic": False, "most_per_task": None},
                "gpu": {"elastic": False, "most_per_task": None},
                "npu": {},
            },
            "resources: at least one resource that tasks need must be elastic",
        ),
    ],
)
def test_what_is_wrong_with_resources_is_told_in_one_line(tmp_path: Path, resources: Any, line: str) -> None:
    file = tmp_path / "mine.yaml"
    data = {"world": "tasks", "extends": "tapfinger-3", "resources": resources}
    file.write_text(yaml.safe_dump(data))
    with pytest.raises(UserError) as error:
        load_any(str(file))
    assert line in str(error.value)
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_what_no_task_needs_makes_no_more_allocations() -> None:
    """It would be 29 million, were it counted."""
    scenario = load_tasks("tapfinger-3", ["tasks=12"])
    huge = with_unneeded(scenario, 0, Resource(name="npu"))
    huge = replace(
        huge, clusters={n: replace(c, amounts={**c.amounts, "npu": 99_999}) for n, c in huge.clusters.items()}
    )
    assert build_task_plan(huge).steps.shape == build_task_plan(scenario).steps.shape


# ---- numbers of allocations


def test_a_number_stands_for_amounts_and_back() -> None:
    most, elastic = np.array([3, 5, 0, 2], np.int32), np.array([True, False, False, True])
    minimum = np.array([[1, 4, 0, 1]], np.int32)
    grid = all_allocations(most, elastic)
    assert grid.tolist() == [[a, b] for a in range(4) for b in range(3)]
    out = np.zeros(4, np.int32)
    for number, (first, last) in enumerate(grid):
        amounts_of(number, minimum, most, elastic, 0, out)
        assert out.tolist() == [first, 4, 0, last]
        assert number_of(out, most, elastic) == number
    assert [unit_of(k, most, elastic) for k in (0, 3)] == [3, 1]
    assert all_allocations(most, np.zeros(4, np.bool_)).shape == (1, 0), "nothing elastic: one way"


# ---- facts


def controller_facts(**more: Any) -> TaskFacts:
    """What a controller knows of tapfinger-3, which it has no scenario of."""
    steps = build_task_plan(load_tasks("tapfinger-3")).steps
    made: dict[str, Any] = {
        "name": "my clusters",
        "resources": ("cpu", "nvidia.com/gpu"),
        "role": np.array([ROLES.index("processor"), ROLES.index("accelerator")], np.int8),
        "most": np.array([16, 16], np.int32),
        "elastic": np.array([True, True]),
        "types": ("insensitive", "sensitive"),
        "shares": np.array([0.5, 0.5]),
        "minimum": np.array([[2, 1], [2, 1]], np.int32),
        "steps": steps,
        "switching": 1.0,
        "tuned_rule": TunedRule(
            by="nvidia.com/gpu",
            wanted={"sensitive": {"nvidia.com/gpu": 10, "cpu": 4}},
            least={"sensitive": {"nvidia.com/gpu": 4, "cpu": 2}},
            **HERE,
        ),
    }
    return TaskFacts(**(made | more))


@pytest.mark.parametrize("name", [name for world, name in RUNS if world == "tapfinger-3"])
def test_a_policy_prepares_from_facts_without_a_scenario(name: str) -> None:
    scenario = load_tasks("tapfinger-3")
    policy = find_task_policy(name)
    ours = policy.parameters(facts_of(scenario, build_task_plan(scenario)))
    assert policy.parameters(controller_facts()).tolist() == ours.tolist()


def test_a_policy_is_told_speeds_only_if_it_declares_that_it_knows_them() -> None:
    def longest(facts: TaskFacts) -> Any:
        return [facts.steps.size]

    for knows, size in (((), 0), (("progress",), 0), (("speed",), 2 * 17 * 17)):
        policy = TaskPolicy("mine", lambda *given: 0, "python", knows=knows, prepare=longest)
        assert policy.parameters(controller_facts()).tolist() == [size]


def test_a_policy_that_can_not_prepare_is_named() -> None:
    policy = TaskPolicy("mine", lambda *given: 0, "python", prepare=lambda facts: 1 / 0)
    with pytest.raises(
        PolicyError, match="policy 'mine' failed while it prepared: ZeroDivisionError: division by zero at"
    ):
        policy.parameters(controller_facts())


def test_the_main_resources_are_the_elastic_ones_of_the_first_role() -> None:
    role = np.array([ROLES.index(r) for r in ("processor", "accelerator", "accelerator", "memory")], np.int8)
    for elastic, main in (
        ([1, 1, 1, 0], [0, 1, 1, 0]),
        ([1, 0, 1, 0], [0, 0, 1, 0]),
        ([1, 0, 0, 1], [1, 0, 0, 0]),
        ([0, 0, 0, 1], [0, 0, 0, 1]),
        ([0, 0, 0, 0], [0, 1, 1, 0]),  # nothing is elastic
    ):
        assert main_resources(role, np.array(elastic, bool)).tolist() == [bool(m) for m in main]


def test_a_type_is_fitted_by_the_accelerators_that_it_uses() -> None:
    """A task that runs on NPUs gains nothing from GPUs, in the fitted curve as in truth."""
    scenario = two_accelerators()
    facts = facts_of(scenario, build_task_plan(scenario))
    fitted = fitted_steps(facts).reshape(2, 5, 6, 7)  # by cpu, npu and gpu: of one role the one with less goes first
    assert [facts.resources[k] for k in np.flatnonzero(facts.elastic)] == ["cpu", "npu", "gpu"]
    on_npus, on_gpus = fitted[0, 1:, 1:], fitted[1, 2:, :, 1:]
    assert np.ptp(on_npus, axis=2).max() == 0.0 < np.ptp(on_npus, axis=1).min()
    assert np.ptp(on_gpus, axis=1).max() == 0.0 < np.ptp(on_gpus, axis=2).min()


def test_a_model_runs_where_resources_have_other_names_and_not_where_they_have_other_roles(tmp_path: Path) -> None:
    scenario, policy = load_tasks("tapfinger-3"), find_task_policy("tapfinger-3-agents")
    other = renamed(scenario, {"cpu": "cores", "gpu": "cards"}, tmp_path)
    assert policy.parameters(facts_of(other, build_task_plan(other))).size
    memory = replace(scenario, resources={**scenario.resources, "gpu": Resource(name="gpu", role="memory")})
    with pytest.raises(UserError, match="was trained for other resources"):
        policy.parameters(facts_of(memory, build_task_plan(memory)))


def test_nothing_elastic_is_left_of_curves_by_what_nobody_needs(tmp_path: Path) -> None:
    """Curves without a column for elastic resources: only places are left to decide."""
    base = tasks_scenario(types=(), tasks=12)
    rows = [f"{name},20,1" for name in ("a", "b")]
    speed = curves_file(tmp_path, rows=rows)
    task_types = load_tasks("tapfinger-3").types
    types = {
        name: replace(task_type, name=name, speed=speed, minimum={"memory": 3})
        for name, task_type in zip(("a", "b"), task_types.values(), strict=True)
    }
    scenario = replace(base, types=types, tuned_rule=TunedRule(by="memory", wanted={}, least={}, **HERE))
    assert needed_names(scenario) == ["memory"]
    for name in sorted(task_policies()):
        assert len(schedule(scenario, name, [1])[1][0]) == 12
    assert needed_names(replace(scenario, types={n: replace(t, speed=constant(2)) for n, t in types.items()}))
