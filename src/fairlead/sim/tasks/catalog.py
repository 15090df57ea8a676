"""All task policies by name: the rules of `fairlead.policies.tasks`, and the planners, which need the simulator."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.domain.errors import UserError, nearest
from fairlead.policies.tasks.interface import TaskPolicy, decision_rules
from fairlead.sim.tasks.rollout import rollout


def task_policies() -> dict[str, TaskPolicy]:
    """All of them."""
    return decision_rules() | {rollout.name: rollout}


def find_task_policy(name: str, also: Iterable[str] = ()) -> TaskPolicy:
    """The task policy of that name; else a UserError with the nearest of them and `also`."""
    if name not in task_policies():
        raise UserError(f"unknown task policy {name!r}{nearest(name, [*task_policies(), *also])}")
    return task_policies()[name]
