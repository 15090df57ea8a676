"""A result document of worlds of tasks, as the report reads it: `document` has what it shares with the serving world.

Called by everything about tasks in this folder. Pure; it computes no figure that the document already has.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from fairlead.domain.errors import UserError
from fairlead.measure.report.document import (
    Document,
    Lists,
    Point,
    check_edges,
    check_lengths,
    check_ranking,
    check_sweep,
)
from fairlead.measure.report.schema import first_fault
from fairlead.measure.report.task_schema import TASKS
from fairlead.measure.statistics import Estimate, estimate_of_sums


@dataclass(frozen=True)
class Powers:
    """What a policy knows beyond what can be seen, and whether it interferes with tasks that run."""

    knows: tuple[str, ...]
    preempts: bool
    resizes: bool

    @property
    def touches(self) -> bool:
        """Whether the bound does not hold for it."""
        return self.preempts or self.resizes

    def __str__(self) -> str:
        return ", ".join((*self.knows, *["pre-empt"] * self.preempts, *["resize"] * self.resizes))


@dataclass(frozen=True)
class TaskPoint(Point):
    """One label of a document of tasks. Times are in steps."""

    who: Document  # policies, by name

    objective: ClassVar[str] = "completion_steps"
    sign: ClassVar[int] = -1
    noun: ClassVar[str] = "task"

    @property
    def types(self) -> list[str]:
        """Of tasks."""
        return list(self.body["speeds"])

    @property
    def resources(self) -> list[str]:
        """That tasks are given."""
        return list(self.body["capacity"])

    @property
    def elastic(self) -> list[str]:
        """Resources of which a task may get more than it needs."""
        given = self.detail(self.ranking[0])["given"].values() if self.ranking else ()
        return list(dict.fromkeys(resource for of_type in given for resource in of_type))

    def powers(self, policy: str) -> Powers:
        """What a policy knows and may do."""
        its = self.who[policy]
        return Powers(tuple(its["knows"]), its["preempts"], its["resizes"])

    def changes(self) -> list[tuple[float, str]]:
        """When links change, and how; what happens at the same time is one entry."""
        found: dict[float, list[str]] = {}
        for change in self.body["changes"]:
            found.setdefault(float(change["at_step"]), []).append(str(change["what"]))
        return [(at, "; ".join(words)) for at, words in sorted(found.items())]

    def alive(self, policy: str) -> list[Estimate]:
        """Tasks that have arrived and are not done, in each bin of time, over the seeds."""
        detail, widths = self.detail(policy), self.widths
        bins = zip(detail["alive"], detail["alive_squares"], widths, strict=True)
        return [estimate_of_sums(s, q, self.seeds, width) for s, q, width in bins]

    def used(self, policy: str, resource: str) -> list[float]:
        """The share of all there is of a resource that tasks have, in each bin of time."""
        there = self.body["capacity"][resource] * self.seeds
        sums = self.detail(policy)["used"][resource]
        return [s / (there * w) if there else 0.0 for s, w in zip(sums, self.widths, strict=True)]

    def within(self, policy: str) -> list[float]:
        """The share of tasks that are completed within each edge."""
        counts = self.detail(policy)["completion"]
        return [c / (sum(counts) or 1) for c in accumulate(counts)]

    def given(self, policy: str, task_type: str, resource: str) -> Spread | None:
        """What tasks of a type had of a resource when they ended; None when there are none."""
        return Spread.of(self.detail(policy)["given"][task_type].get(resource, []))

    @property
    def widths(self) -> list[float]:
        """Of the bins of time."""
        return [b - a for a, b in pairwise(self.body["time_steps"])]


@dataclass(frozen=True)
class Spread:
    """How amounts are spread over tasks."""

    mean: float
    low: float  # a tenth of the tasks have less
    high: float  # a tenth of them have more

    @classmethod
    def of(cls, counts: Sequence[int]) -> Spread | None:
        """Of the number of tasks by amount; None when there are none."""
        tasks, so_far = sum(counts), list(accumulate(counts))
        if not tasks:
            return None
        low, high = (float(bisect_left(so_far, share * tasks)) for share in (0.1, 0.9))
        return cls(math.fsum(x * n for x, n in enumerate(counts)) / tasks, low, high)


def is_of_tasks(document: Any) -> bool:
    """Whether it is of this kind."""
    return isinstance(document, dict) and document.get("world") == "tasks"


def task_points(document: Document) -> list[TaskPoint]:
    """The labels of a document, in its order."""
    return [TaskPoint(label, body, document["policies"]) for label, body in document["scenarios"].items()]


def check_tasks(document: Any) -> None:
    """Refuse what no report can be made of, in one line."""
    if fault := first_fault(document, TASKS):
        raise UserError(f"not as fairlead writes it: {fault}")
    if not document["scenarios"]:
        raise UserError("not as fairlead writes it: scenarios: there are none")
    for point in task_points(document):
        check_ranking(point)
        if point.ranking and not point.seeds:
            raise UserError(f"{point.label}: it has a ranking, but no seeds")
        check_edges(point, "time_steps", -math.inf)
        check_edges(point, "completion_steps", 0.0)
        _check_speeds(point)
        for policy in point.ranking:
            _check_policy(point, policy)
    check_sweep(document)


def _check_speeds(point: TaskPoint) -> None:
    for name, speed in point.body["speeds"].items():
        rows, across = [*(len(axis) for axis in speed["amounts"].values()), 1][:2]
        if len(speed["steps"]) != rows or any(len(row) != across for row in speed["steps"]):
            raise UserError(f"{point.label}: speeds.{name}.steps should have {rows} rows of {across}, as its amounts")


def _check_policy(point: TaskPoint, policy: str) -> None:
    if policy not in point.who:
        raise UserError(f"{point.label}: {policy} is in its ranking, but policies does not say what it knows")
    detail, bins = point.detail(policy), len(point.widths)
    for name, found, wanted in (("used", detail["used"], point.resources), ("given", detail["given"], point.types)):
        if set(found) != set(wanted):
            raise UserError(f"{point.label}, {policy}: {name} should be of {', '.join(wanted)}")
    lists: Lists = [("alive", detail["alive"], bins), ("alive_squares", detail["alive_squares"], bins)]
    lists += [(f"used.{resource}", sums, bins) for resource, sums in detail["used"].items()]
    lists.append(("completion", detail["completion"], len(point.body["completion_steps"])))
    check_lengths(point, policy, lists)
