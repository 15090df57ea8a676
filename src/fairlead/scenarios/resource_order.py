"""The order in which worlds of tasks have their resources: those that tasks need, by role, then the others.

It depends neither on the order in the file nor on names, so no decision does. Resources of one role are ordered by all
else that the scenario says of them; if that is equal too, they are interchangeable. Tasks get nothing of a resource
that none needs. Called by `fairlead.sim.tasks.plan` and by its oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead.domain.tasks import Resource, TaskScenario, TaskType
from fairlead.scenarios.progress_curves import Curves, read_curves

#: Allocations are numbered by this order: models that were trained know it.
_ORDER: Final = ("processor", "accelerator", "memory", "other")

_AllCurves = dict[str, Curves]  # of the types that have some


@dataclass(frozen=True)
class OrderedResources:
    """The resources of a scenario, in order."""

    names: tuple[str, ...]  # of all
    needed: int  # so many, the first, that tasks need
    curves: _AllCurves  # by the elastic ones of these


def ordered_resources(scenario: TaskScenario) -> OrderedResources:
    """The resources of a scenario in the order of its worlds."""
    curves = {
        name: read_curves(scenario, task_type)
        for name, task_type in scenario.types.items()
        if task_type.speed.form == "trace"
    }
    ordered = sorted(scenario.resources.values(), key=lambda resource: _key(scenario, resource, curves))
    needed = [resource for resource in ordered if _needed(scenario, resource, curves)]
    elastic = [resource.name for resource in needed if resource.elastic]
    by_needed = {name: found.by(elastic) for name, found in curves.items()}
    return OrderedResources(tuple(resource.name for resource in ordered), len(needed), by_needed)


def _needed(scenario: TaskScenario, resource: Resource, curves: _AllCurves) -> bool:
    """Whether tasks that arrive need the resource, or run faster with it."""
    return any(
        task_type.minimum.get(resource.name, 0) > 0
        or (resource.elastic and (task_type.speed.resource == resource.name or _measured(task_type, resource, curves)))
        for task_type in scenario.types.values()
        if task_type.share > 0
    )


def _measured(task_type: TaskType, resource: Resource, curves: _AllCurves) -> bool:
    """Whether a type was measured with some of a resource."""
    return task_type.name in curves and any(amount for amount, _ in curves[task_type.name].profile(resource.name))


def _key(scenario: TaskScenario, resource: Resource, curves: _AllCurves) -> Any:
    name = resource.name
    profiles = [found.profile(name) if resource.elastic else [] for found in curves.values()]
    return (
        not _needed(scenario, resource, curves),
        _ORDER.index(str(resource.role)),
        resource.elastic,
        scenario.most_per_task()[name],
        [cluster.amounts.get(name, 0) for cluster in scenario.clusters.values()],
        [(task_type.minimum.get(name, 0), task_type.speed.resource == name) for task_type in scenario.types.values()],
        profiles,
    )
