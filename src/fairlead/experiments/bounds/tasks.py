"""A lower bound on the mean completion time of tasks: the start-time linear program.

One variable for each task, cluster that it reaches, amounts and start; its value is the share of the task that is done
so. Everyone is done once, no cluster gives more than it has at any step nor, in single-task mode, starts more than one
task in a step, and the sum of completion times is least. A schedule is a 0/1 solution, so none can be below the
optimum: none that neither resizes nor pre-empts, on a workload without noise and with links that do not change. Starts
later than `LATEST` steps after arrival are one variable that uses no resources, so that leaving them out keeps
the bound valid. HiGHS solves it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.tasks import TaskScenario
from fairlead.policies.jit import jit
from fairlead.policies.tasks.allocations import useful
from fairlead.sim.tasks.drawn_tasks import reach_of
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds

LATEST: Final = 30
_MOST_VARIABLES: Final = 1_000_000


def has_bound(scenario: TaskScenario) -> bool:
    """Whether the bound is valid for a scenario."""
    return scenario.rules.progress_noise == 0 and not scenario.link_changes


def completion_bound(plan: TaskPlan, worlds: TaskWorlds, b: int) -> float | None:
    """The bound in steps for the workload of world `b`; None when it is too large to be solved here."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    if not np.isfinite(plan.steps).any(axis=1).all():
        return None  # a type that never ends
    types = range(len(plan.minimum))
    choices = [useful(plan.minimum[j], plan.most, plan.elastic, plan.steps[j]) for j in types]
    tasks, (clusters, resources) = len(worlds.task[b]), plan.capacity.shape
    reach = np.zeros(tasks, np.uint64)
    _fill_reach(plan, worlds, b, reach)
    task_types, arrivals = worlds.task[b]["type"], worlds.task[b]["arrival"]
    last = int(arrivals.max()) + LATEST + int(max(steps.max() for _, steps in choices)) + 1
    starts = np.arange(LATEST + 1)
    begins = last * clusters * resources  # behind the rows of resources, those of starts: cluster n at t is t * N + n
    single = bool(plan.rules["single"][0])
    cost, owner, rows, columns, values = [], [], [], [], []
    made = 0
    for i in range(tasks):
        amounts, steps = choices[task_types[i]]  # (A, K), (A,)
        cost.append(np.array([LATEST + 1 + steps.min()]))
        owner.append(np.array([i]))
        made += 1
        for n in range(clusters):
            if not int(reach[i]) >> n & 1:
                continue
            fits = (amounts <= plan.capacity[n]).all(axis=1)
            for need, takes in zip(amounts[fits], steps[fits].astype(int), strict=True):
                cost.append(starts + takes)
                owner.append(np.full(len(starts), i))
                times = arrivals[i] + starts[:, None] + np.arange(takes)  # (S, takes)
                for k in np.flatnonzero(need):
                    rows.append(((times * clusters + n) * resources + k).ravel())
                    columns.append(np.repeat(made + starts, takes))
                    values.append(np.full(times.size, float(need[k])))
                if single:
                    rows.append(begins + (arrivals[i] + starts) * clusters + n)
                    columns.append(made + starts)
                    values.append(np.ones(len(starts)))
                made += len(starts)
        if made > _MOST_VARIABLES:
            return None
    once = csr_array((np.ones(made), (np.concatenate(owner), np.arange(made))), (tasks, made))
    place = np.concatenate(rows), np.concatenate(columns)
    used = csr_array((np.concatenate(values), place), (begins + last * clusters, made))
    busy = np.flatnonzero(np.diff(used.indptr))
    capacity = np.append(np.tile(plan.capacity.ravel(), last), np.ones(last * clusters))[busy]
    objective = np.concatenate(cost) / tasks
    found = linprog(objective, A_ub=used[busy], b_ub=capacity, A_eq=once, b_eq=np.ones(tasks), method="highs")
    return float(found.fun) if found.status == 0 else None


@jit
def _fill_reach(plan: TaskPlan, worlds: TaskWorlds, b: int, reach: Any) -> None:
    for i in range(len(reach)):
        reach[i] = reach_of(plan, worlds, b, i)
