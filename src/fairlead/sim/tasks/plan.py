"""From a scenario of tasks to the arrays that its worlds share. Nothing is drawn here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fairlead.domain.task_facts import main_resources
from fairlead.domain.tasks import UNNEEDED, TaskScenario, TaskType
from fairlead.policies.jit import jit
from fairlead.policies.tasks.allocations import all_allocations
from fairlead.scenarios.gavel_throughputs import read_throughputs
from fairlead.scenarios.resource_order import OrderedResources, ordered_resources
from fairlead.sim.tasks.speed import steps_to_end
from fairlead.sim.tasks.world_arrays import CURVE, LINK_CHANGE, LINK_STATE, RATE, ROOT, TASK_RULES, TaskPlan

_FORMS = {"constant": RATE, "paper": RATE, "released": ROOT, "trace": CURVE, "gavel": RATE}
_LEAST_RISE = 1e-9  # of a curve from point to point, so that a task on a plateau goes on


def build_task_plan(scenario: TaskScenario) -> TaskPlan:
    """The scenario as arrays."""
    ordered = ordered_resources(scenario)
    names, is_needed = ordered.names, np.arange(len(ordered.names)) < ordered.needed
    most = np.array([scenario.most_per_task()[name] for name in names], np.int32) * is_needed
    elastic = np.array([scenario.resources[name].elastic for name in names]) & is_needed
    role = np.where(is_needed, [scenario.resources[name].role_number for name in names], UNNEEDED).astype(np.int8)
    types = list(scenario.types.values())
    minimum = _amounts(names, (task_type.minimum for task_type in types)) * is_needed
    rate, curve, curves = _speeds(scenario, ordered, most, elastic)
    plan = TaskPlan(
        rules=_rules(scenario),
        capacity=_amounts(names, (cluster.amounts for cluster in scenario.clusters.values())),
        minimum=minimum,
        most=most,
        elastic=elastic,
        role=role,
        main=main_resources(role, elastic),
        resource=np.array([list(scenario.resources).index(name) for name in names], np.int32),
        shares=np.cumsum([task_type.share for task_type in types]),
        allowed=np.array([_allowed(scenario, task_type) for task_type in types], np.uint64),
        form=np.array([_FORMS[task_type.speed.form] for task_type in types], np.int32),
        rate=rate,
        curve=curve,
        curves=curves,
        steps=np.full(rate.shape, math.inf),
        changes=_changes(scenario),
    )
    _fill_steps(plan, scenario.rules.most_steps)
    return plan


def most_running(plan: TaskPlan) -> int:
    """No more tasks than this can run at once.

    A cluster runs at most capacity / (the least that any type needs) tasks that need a resource. If all types need some
    resource, that bounds them all; else every task needs one resource at least, so the sum over resources does.
    """
    total = 0
    for capacity in plan.capacity:
        by_resource = [
            (int(c) // int(needs[needs > 0].min()), bool((needs > 0).all()))
            for c, needs in zip(capacity, plan.minimum.T, strict=True)
            if (needs > 0).any()
        ]
        shared = [copies for copies, all_need_it in by_resource if all_need_it]
        total += min(shared) if shared else sum(copies for copies, _ in by_resource)
    return max(1, min(total, int(plan.rules["tasks"][0])))


def resource_names(scenario: TaskScenario, plan: TaskPlan) -> list[str]:
    """Names of the resources in the plan's order."""
    names = list(scenario.resources)
    return [names[k] for k in plan.resource]


def _amounts(names: Sequence[str], given: Any) -> Any:
    return np.array([[amounts.get(name, 0) for name in names] for amounts in given], np.int32).reshape(-1, len(names))


def _rules(s: TaskScenario) -> Any:
    rules, w, reach = np.zeros(1, TASK_RULES), s.workload, s.workload.reach
    rules["single"], rules["links"] = s.rules.mode == "single", reach.draw == "links"
    rules["pending"], rules["most_steps"], rules["tasks"] = s.rules.pending, s.rules.most_steps, w.tasks
    rules["rate"], rules["noise"], rules["switching"] = w.rate_per_step, s.rules.progress_noise, s.rules.switching
    rules["bandwidth_low"], rules["bandwidth_span"] = reach.bandwidth_mbps[0], np.ptp(reach.bandwidth_mbps)
    rules["latency_low"], rules["latency_span"] = reach.latency_ms[0], np.ptp(reach.latency_ms)
    rules["least_bandwidth"], rules["most_latency"] = reach.least_bandwidth_mbps, reach.most_latency_ms
    return rules


def _allowed(scenario: TaskScenario, task_type: TaskType) -> int:
    return sum(1 << n for n, cluster in enumerate(scenario.clusters.values()) if task_type.allowed(cluster))


def _speeds(scenario: TaskScenario, ordered: OrderedResources, most: Any, elastic: Any) -> tuple[Any, ...]:
    """The rate of each type and allocation, and the curves of those that have some."""
    elastic_names = [name for name, e in zip(ordered.names, elastic, strict=True) if e]
    grid = all_allocations(most, elastic).tolist()
    types = list(scenario.types.values())
    rate, curve = np.zeros((len(types), len(grid))), np.full((len(types), len(grid)), -1, np.int32)
    curves: list[float] = []
    for j, task_type in enumerate(types):
        measured = ordered.curves.get(task_type.name)
        rate_at = _rate_at(scenario, task_type) if measured is None else None
        for a, amounts in enumerate(grid):
            given = dict(zip(elastic_names, amounts, strict=True))
            if any(amount < task_type.minimum.get(name, 0) for name, amount in given.items()):
                continue
            given = {name: task_type.minimum.get(name, 0) for name in ordered.names} | given
            if rate_at is not None:
                rate[j, a] = rate_at(given)
            elif measured is not None:
                curve[j, a] = len(curves)
                points, distance = measured.at(given)
                curves += [float(len(points)), distance, *_rising(points)]
    return rate, curve, np.array(curves, np.float64)


def _rate_at(scenario: TaskScenario, task_type: TaskType) -> Callable[[dict[str, int]], float]:
    """The rate of a type by its amounts."""
    speed, counts = task_type.speed, task_type.speed.resource or ""
    if speed.form == "constant":
        return lambda amounts: 1.0 / (speed.steps or math.inf)
    if speed.form == "gavel":
        throughputs, share = read_throughputs(task_type), scenario.rules.interval_s / (speed.total_steps or math.inf)
        return lambda amounts: throughputs.at(amounts[counts]) * share
    return lambda amounts: math.tanh(amounts[counts] / speed.scale)


def _rising(points: list[float]) -> list[float]:
    return (np.maximum.accumulate(points) + _LEAST_RISE * np.arange(len(points))).tolist()


def _changes(s: TaskScenario) -> Any:
    """Each change as the state of one cluster's links from then on."""
    found = []
    for n, name in enumerate(s.clusters):
        bandwidth, latency, up = 1.0, 1.0, True
        for change in sorted(s.link_changes, key=lambda change: change.at_step):
            if fnmatchcase(name, change.cluster):
                bandwidth = bandwidth if change.bandwidth is None else change.bandwidth
                latency = latency if change.latency is None else change.latency
                up = up if change.up is None else change.up
                found.append((change.at_step, n, (bandwidth, latency, up)))
    changes = np.zeros(len(found), LINK_CHANGE)
    for row, (at, n, state) in zip(changes, sorted(found, key=lambda change: change[0]), strict=True):
        row["at"], row["cluster"], row["state"] = at, n, np.array(state, LINK_STATE)
    return changes


@jit
def _fill_steps(plan: TaskPlan, most: int) -> None:
    for j in range(plan.steps.shape[0]):
        for a in range(plan.steps.shape[1]):
            if plan.rate[j, a] > 0.0 or plan.curve[j, a] >= 0:
                plan.steps[j, a] = steps_to_end(plan, j, a, most)
