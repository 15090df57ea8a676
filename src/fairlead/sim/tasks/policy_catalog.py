"""All task policies by name: the rules of `fairlead.policies.tasks`, planners, which simulate, and learned ones."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fairlead.domain.errors import UserError, nearest
from fairlead.policies.bundle_registry import is_path
from fairlead.policies.interface import registry
from fairlead.policies.tasks.interface import TaskPolicy, decision_rules
from fairlead.policies.tasks.learned import from_folder, learned_task_policies
from fairlead.sim.tasks.rollout import rollout


def task_policies() -> dict[str, TaskPolicy]:
    """All but the learned ones."""
    return decision_rules() | {rollout.name: rollout}


def find_task_policy(name: str, also: Iterable[str] = ()) -> TaskPolicy:
    """The task policy of that name, or the bundle at that path; else a UserError with the nearest and `also`."""
    if name in task_policies():
        return task_policies()[name]
    if name in (learned := learned_task_policies()):
        return learned[name].opened()
    if is_path(name):
        return from_folder(name, Path(name)).opened()
    if name in registry()[0]:
        raise UserError(f"policy {name!r} decides on requests; this is a scenario of tasks (see `fairlead policies`)")
    raise UserError(f"unknown task policy {name!r}{nearest(name, [*task_policies(), *learned, *also])}")
