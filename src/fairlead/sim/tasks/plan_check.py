"""Whether a plan of tasks, its tuned rule and its worlds that came out of files can be run.

What compiled code relies on is checked here, since it looks at no bounds itself: types, shapes, and that every index
leads somewhere. Raises ValueError. Called by `world_file` and, for checkpoints, by `batch`.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairlead.domain.tasks import MOST_CLUSTERS, ROLES, UNNEEDED
from fairlead.inputs.arrays import is_array, require, within
from fairlead.policies.tasks.allocations import unit_of
from fairlead.sim.tasks.speed import WHOLE
from fairlead.sim.tasks.world_arrays import (
    CURVE,
    DONE,
    LINK_CHANGE,
    RATE,
    RUNS,
    TASK_RULES,
    WAITING,
    TaskPlan,
    TaskWorlds,
)

_MOST: Final = 1e15
_MOST_AMOUNT: Final = 100_000
_MOST_TASKS: Final = 1_000_000
_MOST_ALLOCATIONS: Final = 100_000


def check_task_plan(plan: TaskPlan) -> None:
    """Refuse what the engine could not run."""
    (n, k), j, a = plan.capacity.shape, len(plan.minimum), plan.rate.shape[-1]
    whole, real = np.dtype(np.int32), np.dtype(np.float64)
    forms: dict[str, tuple[Any, ...]] = {
        "rules": (TASK_RULES, 1), "capacity": (whole, n, k), "minimum": (whole, j, k), "most": (whole, k),
        "elastic": (np.dtype(np.bool_), k), "role": (np.dtype(np.int8), k),
        "main": (np.dtype(np.bool_), k), "resource": (whole, k), "shares": (real, j),
        "allowed": (np.dtype(np.uint64), j), "form": (whole, j), "rate": (real, j, a), "curve": (whole, j, a),
        "curves": (real, None), "steps": (real, j, a), "changes": (LINK_CHANGE, None),
    }  # fmt: skip
    for name, array in plan._asdict().items():
        is_array(name, array, *forms[name])
    require(1 <= n <= MOST_CLUSTERS and k > 0 and j > 0, "there are no clusters, resources or types, or too many")
    _check_rules(plan.rules[0])
    require(((plan.role >= 0) & (plan.role < len(ROLES)) | (plan.role == UNNEEDED)).all(), "role is out of range")
    require((np.diff((plan.role == UNNEEDED).astype(int)) >= 0).all(), "resources that no task needs are not the last")
    require(sorted(plan.resource.tolist()) == list(range(k)), "resource is no order")
    for name in ("capacity", "minimum", "most"):
        within(name, getattr(plan, name), 0, _MOST_AMOUNT)
    require((plan.minimum > 0).any(axis=1).all(), "a type needs nothing")
    require((plan.minimum <= plan.most).all(), "minimum is out of range")
    within("allowed", plan.allowed, 1, 2**n - 1)
    within("shares", plan.shares, 0.0, 1.0 + 1e-6)
    _check_allocations(plan)
    _check_speeds(plan)
    changes = plan.changes
    within("changes' at", changes["at"], 0, 2**31 - 1)
    require((np.diff(changes["at"]) >= 0).all(), "changes are not in order of time")
    within("changes' cluster", changes["cluster"], 0, n - 1)
    for name in ("bandwidth", "latency"):
        within(f"changes' {name}", changes["state"][name], 0.0, _MOST)


def _check_rules(rules: Any) -> None:
    within("rules' tasks", rules["tasks"], 1, _MOST_TASKS)
    for name in ("pending", "most_steps"):
        within(f"rules' {name}", rules[name], 1, _MOST_AMOUNT)
    within("rules' rate", rules["rate"], 1e-15, _MOST)
    for name in TASK_RULES.names or ():
        if TASK_RULES[name] == np.float64:
            within(f"rules' {name}", rules[name], 0.0, _MOST)


def _check_allocations(plan: TaskPlan) -> None:
    """An allocation's number is that of its amounts in a grid, and every table has a column for each."""
    sizes = [int(most) + 1 for most, elastic in zip(plan.most, plan.elastic, strict=True) if elastic]
    count = math.prod(sizes)
    require(count <= _MOST_ALLOCATIONS and plan.rate.shape[1] == count, "rate does not fit to the resources")


def _units(plan: TaskPlan) -> Any:
    """What a unit of each resource adds to an allocation's number."""
    numbers = range(len(plan.most))
    return np.array([unit_of(k, plan.most, plan.elastic) if plan.elastic[k] else 0 for k in numbers], np.int64)


def _check_speeds(plan: TaskPlan) -> None:
    """Rates are numbers, and where a type has curves they rise from 0 to 1."""
    within("form", plan.form, min(RATE, CURVE), max(RATE, CURVE))
    within("rate", plan.rate, 0.0, _MOST)
    within("steps", plan.steps, 0.0, np.inf)
    for first in np.unique(plan.curve[plan.curve != -1]).tolist():
        require(0 <= first <= len(plan.curves) - 2, "curve is out of range")
        points = plan.curves[first]
        require(2 <= points <= len(plan.curves) - first - 2, "curves are out of range")
        within("curves' distance", plan.curves[first + 1], 1e-9, _MOST)
        along = plan.curves[first + 2 : first + 2 + int(points)]
        rises = along[0] == 0 and 1 <= along[-1] < 2 and (np.diff(along) > 0).all()
        require(points == int(points) and rises, "curves don't rise from 0 to 1")
    least = (plan.minimum * _units(plan)).sum(axis=1)
    by_curve = plan.form == CURVE
    require((plan.curve[by_curve, least[by_curve]] >= 0).all(), "a type's minimum has no curve")


def check_tuned_rule(rule: Any, plan: TaskPlan) -> None:
    """Refuse parameters that the policy `tuned-rule` could not take (see `tuned_rule.parameters`)."""
    j, k = plan.minimum.shape
    is_array("rule", rule, np.dtype(np.float64), 3 + j + 2 * j * k)
    require(rule[0] in range(k) and rule[1] in (0.0, 1.0) and rule[2] == j, "rule does not fit to the resources")
    within("rule", rule, 0, _MOST_AMOUNT)


def check_task_worlds(plan: TaskPlan, worlds: TaskWorlds, slots: Any) -> None:
    """Refuse worlds from which the engine could not go on; `slots` are those of `Observations`.

    The arrays have the types and shapes of such worlds.
    """
    world, task, tasks = worlds.world, worlds.task, worlds.task.shape[1]
    within("worlds' tasks", world["tasks"], tasks, tasks)
    within("worlds' arrived", world["arrived"], 0, tasks)
    within("worlds' waiting", world["waiting"], 0, tasks)
    within("worlds' running", world["running"], 0, worlds.running.shape[1])
    within("worlds' now", world["now"], 0, 2 * _MOST_AMOUNT)
    within("worlds' next_change", world["next_change"], 0, len(plan.changes))
    within("worlds' rate", world["rate"], 1e-15, _MOST)
    within("tasks' type", task["type"], 0, len(plan.minimum) - 1)
    within("tasks' cluster", task["cluster"], -1, len(plan.capacity) - 1)
    within("tasks' allocation", task["allocation"], 0, plan.rate.shape[1] - 1)
    within("tasks' progress", task["progress"], 0.0, _MOST)
    require((task["progress"] < WHOLE)[task["state"] != DONE].all(), "tasks' progress is out of range")
    within("amounts", worlds.amounts, 0, _MOST_AMOUNT)
    within("slots", slots, -1, (world["shown"] - 1)[:, None, None])
    for b in range(len(world)):
        _check_task_world(plan, worlds, b)


def _check_task_world(plan: TaskPlan, worlds: TaskWorlds, b: int) -> None:
    """Whether lists and counts of a world fit to its tasks."""
    world, task = worlds.world[b], worlds.task[b]
    waiting, running = worlds.waiting[b, : world["waiting"]], worlds.running[b, : world["running"]]
    waiting = waiting[waiting != -1]
    for name, listed, state in (("waiting", waiting, WAITING), ("running", running, RUNS)):
        within(name, listed, 0, int(world["arrived"]) - 1)
        fits = (task["state"][listed] == state).all() and (task["state"] == state).sum() == len(listed)
        require(fits and len(set(listed.tolist())) == len(listed), f"{name} does not fit to the tasks")
    require((np.diff(waiting) > 0).all(), "waiting is not in order")
    require((task["state"] == DONE).sum() == world["done"], "done does not fit to the tasks")
    seen = task["seen"][waiting]
    require((seen != 0).sum() == world["shown"], "shown does not fit to the tasks")
    bits = seen[:, None] >> np.arange(len(plan.capacity), dtype=np.uint64) & np.uint64(1)
    require((bits.sum(axis=0) == worlds.seen[b]).all(), "seen does not fit to the tasks")
    within("tasks' cluster", task["cluster"][running], 0, len(plan.capacity) - 1)
    amounts = worlds.amounts[b][running]
    numbers = (amounts * _units(plan)).sum(axis=1)
    require((numbers == task["allocation"][running]).all(), "allocations don't fit to the amounts")
    given = np.zeros_like(plan.capacity)
    np.add.at(given, task["cluster"][running], amounts)
    require((worlds.free[b] >= 0).all() and (worlds.free[b] == plan.capacity - given).all(), "free does not fit")
