"""heSRPT: all tasks of a cluster share it, the shorter what is left of one, the larger its share.

Berg, Vesilo, Harchol-Balter 2020: with speeds s(k) = k^p the least mean completion time of m tasks that are there has,
of work x_1 >= ... >= x_m, the shares theta_i = (i / m)^(1 / (1 - p)) - ((i - 1) / m)^(1 / (1 - p)). SmartFill (2025)
generalises it to other concave speeds; here p is fitted to each type's speeds over GPUs (the main resources; of several
the one that brings most). Types that gain nothing (p below 0.1) have their minimum, the others share the rest of what
they use, each at least its minimum, in whole units; what is left over goes to the shortest. Planned anew at every step,
arrivals to come are not thought of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_facts import TaskFacts, main_resources
from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.jit import jit
from fairlead.policies.tasks.allocations import by_amounts, by_role
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import Tasks, emit, fitted_steps, gather, settle_all, steps_with, used

_GAINS = 0.1  # the least exponent of a type that shares


def _parameters(facts: TaskFacts) -> Any:
    """The exponent of each type for each resource, 0 where it does not use that, then the fitted steps."""
    fitted = fitted_steps(facts)
    table = by_amounts(fitted.reshape(facts.steps.shape), facts.most, facts.elastic)
    main = main_resources(facts.role, facts.elastic)[facts.elastic]
    exponents = [
        max((_exponent(times, least, int(axis)) for axis in np.flatnonzero(main)), default=0.0)
        for times, least in zip(table, facts.minimum[:, facts.elastic], strict=True)
    ]
    return np.array([*(used(facts) * np.array(exponents)[:, None]).ravel(), *fitted])


def _exponent(times: Any, least: Any, axis: int) -> float:
    """That of a type's speeds over one of the elastic resources, with its minimum of the others."""
    along: list[Any] = list(least)
    along[axis] = units = np.arange(max(1, least[axis]), times.shape[axis])
    slope = np.polyfit(np.log(units), np.log(times[tuple(along)]), 1)[0] if len(units) > 1 else 0.0
    return min(0.95, max(0.0, -float(slope)))


@jit
def _share(snapshot: Snapshot, tasks: Tasks, exponents: Any, steps: Any, n: int, k: int) -> None:
    """Give out resource `k` of a cluster to those that gain from it; `exponents` is (J, K)."""
    count = 0
    rows, work = np.empty(len(tasks.row), np.int64), np.empty(len(tasks.row))
    for t in range(len(tasks.row)):
        if tasks.to[t] == n and exponents[tasks.type[t], k] > _GAINS:
            rows[count], work[count] = t, -steps_with(snapshot, tasks, steps, t, -1)
            count += 1
    if count == 0:
        return
    order = np.argsort(work[:count], kind="mergesort")  # the most work first
    units = tasks.free[n, k]
    for i in range(count):
        units += tasks.amounts[rows[i], k]
    shares = np.empty(count)
    for i in range(count):
        power = 1.0 / (1.0 - exponents[tasks.type[rows[order[i]]], k])
        shares[i] = units * (((i + 1) / count) ** power - (i / count) ** power)
    for i in range(count - 1, -1, -1):  # the shortest first
        t = rows[order[i]]
        more = min(int(shares[i]), snapshot.most[k]) - tasks.amounts[t, k]
        more = max(0, min(more, tasks.free[n, k]))
        tasks.amounts[t, k] += more
        tasks.free[n, k] -= more
    for i in range(count - 1, -1, -1):  # what is left over, to the shortest
        t = rows[order[i]]
        more = min(tasks.free[n, k], snapshot.most[k] - tasks.amounts[t, k])
        tasks.amounts[t, k] += more
        tasks.free[n, k] -= more


@task_policy("hesrpt", source="heSRPT", knows=("progress", "speed"), resizes=True, prepare=_parameters)
def hesrpt(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    first = snapshot.minimum.size  # of the fitted steps
    exponents = parameters[:first].reshape(snapshot.minimum.shape)
    steps = parameters[first:].reshape(snapshot.steps.shape)
    tasks = gather(snapshot)
    settle_all(snapshot, tasks)
    order = by_role(snapshot.role)
    for n in range(len(snapshot.free)):
        for k in order:
            if snapshot.elastic[k]:
                _share(snapshot, tasks, exponents, steps, n, k)
    return emit(snapshot, tasks, out)
