"""From a scenario of tasks to the arrays that its worlds share. Nothing is drawn here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fairlead.domain.tasks import TaskScenario, TaskType
from fairlead.policies.jit import jit
from fairlead.scenarios.curves import read_curves
from fairlead.scenarios.gavel import read_throughputs
from fairlead.sim.tasks.layout import CURVE, LINK_CHANGE, LINK_STATE, RATE, ROOT, TASK_RULES, TaskPlan
from fairlead.sim.tasks.speed import steps_to_end

_FORMS = {"constant": RATE, "paper": RATE, "released": ROOT, "trace": CURVE, "gavel": RATE}
_LEAST_RISE = 1e-9  # of a curve from point to point, so that a task on a plateau goes on


def build_task_plan(scenario: TaskScenario) -> TaskPlan:
    """The scenario as arrays."""
    names = list(scenario.resources)
    most = np.array([scenario.most_per_task()[name] for name in names], np.int32)
    elastic = np.array([scenario.resources[name].elastic for name in names])
    types = list(scenario.types.values())
    stride = _strides(most, elastic)
    rate, curve, curves = _speeds(scenario, types, most, elastic, stride)
    plan = TaskPlan(
        rules=_rules(scenario),
        capacity=_amounts(names, (cluster.amounts for cluster in scenario.clusters.values())),
        minimum=_amounts(names, (kind.minimum for kind in types)),
        most=most,
        elastic=elastic,
        stride=stride,
        shares=np.cumsum([kind.share for kind in types]),
        allowed=np.array([_allowed(scenario, kind) for kind in types], np.uint64),
        form=np.array([_FORMS[kind.speed.form] for kind in types], np.int32),
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


def _amounts(names: list[str], given: Any) -> Any:
    return np.array([[amounts.get(name, 0) for name in names] for amounts in given], np.int32).reshape(-1, len(names))


def _strides(most: Any, elastic: Any) -> Any:
    stride, step = np.zeros(len(most), np.int32), 1
    for k in reversed(range(len(most))):  # the last resource counts by one, as in a grid written row by row
        if elastic[k]:
            stride[k], step = step, step * (most[k] + 1)
    return stride


def _rules(s: TaskScenario) -> Any:
    rules, w, reach = np.zeros(1, TASK_RULES), s.workload, s.workload.reach
    rules["single"], rules["links"] = s.rules.mode == "single", reach.draw == "links"
    rules["main"] = max((k for k, r in enumerate(s.resources.values()) if r.elastic), default=len(s.resources) - 1)
    rules["pending"], rules["most_steps"], rules["tasks"] = s.rules.pending, s.rules.most_steps, w.tasks
    rules["rate"], rules["noise"], rules["switching"] = w.rate_per_step, s.rules.progress_noise, s.rules.switching
    rules["bandwidth_low"], rules["bandwidth_span"] = reach.bandwidth_mbps[0], np.ptp(reach.bandwidth_mbps)
    rules["latency_low"], rules["latency_span"] = reach.latency_ms[0], np.ptp(reach.latency_ms)
    rules["least_bandwidth"], rules["most_latency"] = reach.least_bandwidth_mbps, reach.most_latency_ms
    return rules


def _allowed(scenario: TaskScenario, kind: TaskType) -> int:
    return sum(1 << n for n, cluster in enumerate(scenario.clusters.values()) if kind.allowed(cluster))


def _speeds(scenario: TaskScenario, types: list[TaskType], most: Any, elastic: Any, stride: Any) -> tuple[Any, ...]:
    """The rate of each type and allocation, and the curves of those that have some."""
    names = list(scenario.resources)
    grid = list(itertools.product(*(range(m + 1) if e else (0,) for m, e in zip(most, elastic, strict=True))))
    rate, curve = np.zeros((len(types), len(grid))), np.full((len(types), len(grid)), -1, np.int32)
    curves: list[float] = []
    for j, kind in enumerate(types):
        measured = read_curves(scenario, kind) if kind.speed.form == "trace" else None
        rate_at = _rate_at(scenario, kind) if measured is None else None
        for amounts in grid:
            a = int(np.dot(amounts, stride))
            enough = all(
                x >= kind.minimum.get(name, 0) for x, name, e in zip(amounts, names, elastic, strict=True) if e
            )
            if enough and rate_at is not None:
                given = {n: x if e else kind.minimum.get(n, 0) for n, x, e in zip(names, amounts, elastic, strict=True)}
                rate[j, a] = rate_at(given)
            elif enough and measured is not None:
                curve[j, a] = len(curves)
                points, distance = measured.at(dict(zip(names, amounts, strict=True)))
                curves += [float(len(points)), distance, *_rising(points)]
    return rate, curve, np.array(curves, np.float64)


def _rate_at(scenario: TaskScenario, kind: TaskType) -> Callable[[dict[str, int]], float]:
    """The rate of a type by its amounts."""
    speed, counts = kind.speed, kind.speed.resource or ""
    if speed.form == "constant":
        return lambda amounts: 1.0 / (speed.steps or math.inf)
    if speed.form == "gavel":
        throughputs, share = read_throughputs(kind), scenario.rules.interval_s / (speed.total_steps or math.inf)
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
