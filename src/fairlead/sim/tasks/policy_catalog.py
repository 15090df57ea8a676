"""All task policies by name: the rules of `fairlead.policies.tasks`, planners, which simulate, and learned ones.

Third parties' come from the entry points `fairlead.task_policies` of their packages.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from fairlead.domain.errors import UserError, nearest
from fairlead.policies.bundle_registry import is_path
from fairlead.policies.entry_points import load_policies
from fairlead.policies.interface import registry
from fairlead.policies.tasks.interface import ENTRY_POINT_GROUP, TaskPolicy, decision_rules
from fairlead.policies.tasks.learned import from_folder, learned_task_policies
from fairlead.sim.tasks.rollout import rollout


@cache
def task_registry() -> tuple[dict[str, TaskPolicy], dict[str, str]]:
    """All but the learned ones, and what went wrong with third parties' that did not load (entry point -> one line)."""
    ours = decision_rules() | {rollout.name: rollout}
    theirs, broken = load_policies(ENTRY_POINT_GROUP, TaskPolicy, {*ours, *learned_task_policies()})
    return ours | theirs, broken


def task_policies() -> dict[str, TaskPolicy]:
    """All but the learned ones."""
    return task_registry()[0]


def find_task_policy(name: str, also: Iterable[str] = ()) -> TaskPolicy:
    """The task policy of that name, or the bundle at that path; else a UserError with the nearest and `also`."""
    found, broken = task_registry()
    if name in found:
        return found[name]
    if name in broken:
        raise UserError(broken[name])
    if name in (learned := learned_task_policies()):
        return learned[name]
    if is_path(name):
        return from_folder(name, Path(name))
    if name in registry()[0]:
        raise UserError(
            f"policy {name!r} decides on requests, and this is a scenario of tasks (see `fairlead policies`)"
        )
    raise UserError(f"unknown task policy {name!r}{nearest(name, [*found, *learned, *also])}")
