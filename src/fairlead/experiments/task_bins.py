"""What a run of tasks looks like beyond its figures: tasks and resources over time, completion times, amounts given.

Made by `task_trial` from a finished world, put together over seeds by `result_file`, drawn by reports. All are whole
numbers in bins that depend on the scenario alone, so that runs of all policies and seeds add up. The run of a learned
policy also has `learned`: its decisions, and how often it fell back.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.tasks import TaskLinkChange, TaskScenario
from fairlead.policies.tasks.allocations import by_amounts
from fairlead.sim.tasks.plan import build_task_plan, resource_names
from fairlead.sim.tasks.summary import completion_steps
from fairlead.sim.tasks.world_arrays import RUNS, TaskPlan, TaskWorlds

_MOST_BINS: Final = 240
_LASTS: Final = 4  # times as long as arrivals take: a slow policy has emptied its queue by then, or never does
_MOST_AMOUNTS: Final = 24  # of a resource, in a grid of completion times
_MOST_STEPS: Final = 100_000  # an episode has no more


def _completion_edges() -> tuple[int, ...]:
    """Whole steps up to 40, then 5 % more from one to the next."""
    edges = list(range(1, 41))
    while edges[-1] < _MOST_STEPS:
        edges.append(int(edges[-1] * 1.05))
    return tuple(edges)


#: A completion time is counted at the first of these that it does not pass.
COMPLETION_STEPS: Final = _completion_edges()


def time_edges(scenario: TaskScenario) -> list[int]:
    """Edges of the bins of time, in steps: four times as long as arrivals take, at most 240 bins."""
    lasts = int(np.ceil(_LASTS * scenario.workload.tasks / scenario.workload.rate_per_step))
    lasts = max(1, min(lasts, scenario.rules.most_steps))
    return [*range(0, lasts, -(-lasts // _MOST_BINS)), lasts]


def task_axes(scenario: TaskScenario) -> dict[str, Any]:
    """What the bins of details are, and what they are shares of, for result files."""
    return {
        "step_s": scenario.rules.interval_s,
        "changes": _changes(scenario),
        "time_steps": time_edges(scenario),
        "completion_steps": list(COMPLETION_STEPS),
        "capacity": {r: sum(c.amounts.get(r, 0) for c in scenario.clusters.values()) for r in scenario.resources},
        "speeds": _speeds(scenario),
    }


def _changes(scenario: TaskScenario) -> list[dict[str, Any]]:
    """When links change, and how, in words; in order of time."""
    ordered = sorted(scenario.link_changes, key=lambda change: change.at_step)
    return [{"at_step": change.at_step, "what": f"links to {change.cluster}: {_words(change)}"} for change in ordered]


def _words(change: TaskLinkChange) -> str:
    parts = [
        change.bandwidth is not None and f"bandwidth x {change.bandwidth:g}",
        change.latency is not None and f"latency x {change.latency:g}",
        change.up is not None and ("up" if change.up else "down"),
    ]
    return ", ".join(part for part in parts if part)


def _speeds(scenario: TaskScenario) -> dict[str, Any]:
    """Steps that a task of each type takes by what it is given, without noise: of the first two elastic resources.

    What else is elastic is at its most. Of long axes only some amounts are taken. A task that never ends is infinite.
    """
    plan = build_task_plan(scenario)
    shown = np.flatnonzero(plan.elastic)[:2]
    names = [resource_names(scenario, plan)[k] for k in shown]
    table = by_amounts(plan.steps, plan.most, plan.elastic)
    table = table[(..., *[-1] * (table.ndim - 1 - len(shown)))]  # (J, amounts of the first, of the second)
    made: dict[str, Any] = {}
    for j, task_type in enumerate(scenario.types):
        axes = [_some(int(plan.minimum[j, k]), int(plan.most[k])) for k in shown]
        steps = table[j][np.ix_(*axes)].reshape(len(axes[0]), -1).tolist()
        made[task_type] = {"amounts": dict(zip(names, axes, strict=True)), "steps": steps}
    return made


def _some(least: int, most: int) -> list[int]:
    """Some whole numbers from the least to the most, evenly spaced."""
    return sorted({round(x) for x in np.linspace(least, most, min(most - least + 1, _MOST_AMOUNTS))})


def task_detail(scenario: TaskScenario, plan: TaskPlan, worlds: TaskWorlds) -> dict[str, Any]:
    """The bins of one finished run.

    `alive` is summed over the steps of a bin, and squared, for its spread over seeds; so is what is `used`, not
    squared. `given` counts, for each type, what its tasks had when they ended.
    """
    edges, history = time_edges(scenario), worlds.history[0]
    sums = np.add.reduceat(history[: edges[-1]].astype(np.int64), edges[:-1], axis=0)
    counts = np.bincount(
        np.searchsorted(COMPLETION_STEPS, completion_steps(worlds, 0)), minlength=len(COMPLETION_STEPS)
    )
    tasks, given, names = worlds.task[0], {}, resource_names(scenario, plan)
    for j, name in enumerate(scenario.types):
        mine = (tasks["type"] == j) & (tasks["state"] >= RUNS)
        given[name] = {
            resource: np.bincount(worlds.amounts[0][mine, k], minlength=int(plan.most[k]) + 1).tolist()
            for k, resource in enumerate(names)
            if plan.elastic[k]
        }
    return {
        "alive": sums[:, 0].tolist(),
        "alive_squares": (sums[:, 0] ** 2).tolist(),
        "used": {name: sums[:, 1 + k].tolist() for k, name in enumerate(names)},
        "completion": counts.tolist(),
        "given": given,
    }


class TaskSum:
    """The details of several seeds, added up as whole numbers, so that their order does not matter."""

    def __init__(self) -> None:
        self._sum: dict[str, Any] = {}

    def add(self, one: dict[str, Any]) -> None:
        """Take in the detail of one more seed."""
        self._sum = _added(self._sum, one)

    def detail(self) -> dict[str, Any]:
        """All of them together, in the form of one."""
        return self._sum


def _added(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(b, dict):
        return {key: _added(a.get(key), b.get(key)) for key in a | b}
    return a + b if isinstance(b, int) else [x + y for x, y in zip(a, b, strict=True)]
