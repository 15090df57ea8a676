"""The figures of a finished world of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.tasks import TaskScenario
from fairlead.sim.tasks.plan import resource_names
from fairlead.sim.tasks.world_arrays import DONE, FUTURE, TaskPlan, TaskWorlds


def completion_steps(worlds: TaskWorlds, b: int) -> Any:
    """How many steps each task that arrived was alive (T,); what is not done counts as done at the end."""
    tasks, now = worlds.task[b], worlds.world[b]["now"]
    arrived = tasks["state"] != FUTURE
    return np.where(tasks["state"] == DONE, tasks["finished"], now)[arrived] - tasks["arrival"][arrived]


def summarise(scenario: TaskScenario, plan: TaskPlan, worlds: TaskWorlds, b: int) -> dict[str, float]:
    """Completion times in steps, how busy resources were, by name. Shares are of what there is, over the whole run."""
    steps, world = completion_steps(worlds, b), worlds.world[b]
    steps = steps if len(steps) else np.full(1, np.nan)  # nothing has arrived
    tasks = worlds.task[b][worlds.task[b]["state"] != FUTURE]
    started = np.where(tasks["started"] >= 0, tasks["started"], world["now"])
    made = {"completion_steps": float(steps.mean())}
    made |= {f"completion_p{q}_steps": float(np.percentile(steps, q)) for q in (50, 90, 95, 99)}
    made["waiting_steps"] = float((started - tasks["arrival"]).mean()) if len(tasks) else float("nan")
    for j, name in enumerate(scenario.types):
        of_type = steps[: len(tasks)][tasks["type"] == j]
        made[f"completion_steps_{name}"] = float(of_type.mean()) if len(of_type) else float("nan")
    given = worlds.history[b, : world["now"], 1:].sum(axis=0)
    for k, name in enumerate(resource_names(scenario, plan)):
        made[f"used_{name}"] = float(given[k] / max(1, plan.capacity[:, k].sum() * world["now"]))
    made |= {"steps": float(world["now"]), "tasks": float(len(tasks))}
    made["unfinished"] = 1.0 - float(np.sum(tasks["state"] == DONE)) / int(world["tasks"])
    return made
