"""A world of tasks as one file, for training without a scenario loader: the plan's arrays and the tuned rule."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, one_line
from fairlead.domain.tasks import TaskScenario
from fairlead.inputs.arrays import read_npz
from fairlead.measure.write_files import write_whole
from fairlead.policies.tasks.bundle import signature_of
from fairlead.policies.tasks.tuned_rule import parameters
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.plan_check import check_task_plan, check_tuned_rule
from fairlead.sim.tasks.world_arrays import LINK_CHANGE, TASK_RULES, TaskPlan

_RECORDS = {"rules": TASK_RULES, "changes": LINK_CHANGE}


@dataclass(frozen=True)
class TaskWorld:
    """What training needs of a scenario."""

    name: str
    plan: TaskPlan
    rule: Any  # float64: parameters of the tuned rule
    tasks: dict[str, Any]  # resources, types and their speeds, as manifests of bundles have them
    overrides: tuple[str, ...] = ()


def task_world(scenario: TaskScenario, overrides: tuple[str, ...] = ()) -> TaskWorld:
    """The world of a scenario."""
    plan = build_task_plan(scenario)
    facts = facts_of(scenario, plan)
    return TaskWorld(scenario.name, plan, parameters(facts), signature_of(facts), overrides)


def save_task_world(world: TaskWorld, file: Path) -> None:
    """Write it down."""
    about = json.dumps({"name": world.name, "tasks": world.tasks, "overrides": list(world.overrides)})
    arrays = {name: _bytes(name, array) for name, array in world.plan._asdict().items()}
    content = BytesIO()
    np.savez_compressed(content, about=np.array(about), rule=world.rule, **arrays)
    write_whole(file, content.getvalue())


def load_task_world(file: Path) -> TaskWorld:
    """Read it."""
    try:
        found = read_npz(file)
        about = json.loads(str(found["about"]))
        plan = TaskPlan(**{name: _array(name, found[name]) for name in TaskPlan._fields})
        check_task_plan(plan)
        check_tuned_rule(found["rule"], plan)
        name, overrides, tasks = str(about["name"]), tuple(map(str, about["overrides"])), dict(about["tasks"])
        return TaskWorld(name, plan, found["rule"], tasks, overrides)
    except UserError:
        raise
    except Exception as error:  # readers of zip, deflate, npy and JSON have many ways to say no
        raise UserError(f"{file}: not a world of tasks ({one_line(error)})") from None


def _bytes(name: str, array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint8) if name in _RECORDS else array


def _array(name: str, array: Any) -> Any:
    return array.view(_RECORDS[name]) if name in _RECORDS else np.ascontiguousarray(array)
