"""What task policies know before they decide; each prepares its parameters from this noun.

A host fills it in: the simulator from a scenario (`fairlead.sim.tasks.facts`), a controller from what it knows of its
clusters. K resources, J types of tasks, A allocations, the ways to give a task elastic resources; their numbers are
those of `fairlead.policies.tasks.allocations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.domain.tasks import UNNEEDED, TunedRule


@dataclass(frozen=True, kw_only=True)
class TaskFacts:
    """What is known of clusters and tasks before any task arrives, in the order of snapshots."""

    name: str  # of the scenario or the clusters, for messages
    resources: tuple[str, ...]  # names (K,); those that no task needs come last
    role: Any  # int8 (K,): places in `fairlead.domain.tasks.ROLES`; or UNNEEDED
    most: Any  # int32 (K,): what a task gets at most; 0 of what no task needs
    elastic: Any  # bool (K,)
    types: tuple[str, ...]  # names (J,)
    shares: Any  # float64 (J,): of all tasks
    minimum: Any  # int32 (J, K)
    steps: Any  # float64 (J, A): steps that an allocation takes; empty for policies that don't know speeds
    switching: float  # what is left of a step's progress after a task's amounts have changed
    tuned_rule: TunedRule | None = None  # what the policy `tuned-rule` does here


def needed(role: Any) -> int:
    """How many resources tasks need or can use: they come first."""
    return int((role != UNNEEDED).sum())


def main_resources(role: Any, elastic: Any) -> Any:
    """The resources that count where a policy looks at one type alone, such as GPU time: bool (K,).

    Accelerators where tasks can get more or less of these; else processors, and so on down the roles. Where nothing is
    elastic, accelerators if tasks need any, and so on.
    """
    candidates = elastic if elastic.any() else role != UNNEEDED
    return candidates & (role == role[candidates].min(initial=UNNEEDED))
