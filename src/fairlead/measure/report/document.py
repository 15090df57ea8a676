"""A result document of `fairlead compare` or `sweep`, as the report reads it: checked once, then looked at by label.

Called by everything in this folder. Pure; it computes no figure that the document already has. `task_document` has what
is different in worlds of tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from fairlead.domain.errors import UserError
from fairlead.measure.report.schema import first_fault
from fairlead.measure.statistics import Estimate, paired_difference

Document = dict[str, Any]
Lists = list[tuple[str, Sequence[Any], int]]
OUTCOMES = ("success", "late", "inaccurate", "rejected")
UNKNOWN = Estimate(math.nan, math.nan, 0)
_ALL_UP_TO = 5  # so few policies are all highlighted
_TOP = 3


@dataclass(frozen=True)
class Point:
    """One label of a document: a scenario, or one value of a sweep."""

    label: str
    body: Document

    objective: ClassVar[str] = "success"  # the figure that ranks policies
    sign: ClassVar[int] = 1  # more of it is better
    noun: ClassVar[str] = "request"  # what arrives; the figure of their number is its plural

    @property
    def title(self) -> str:
        """What the scenario is, in words."""
        return str(self.body.get("title") or "")

    @property
    def workload(self) -> str:
        """What arrives, in words; empty in documents that do not say it."""
        return str(self.body.get("workload") or "")

    @property
    def ranking(self) -> list[str]:
        """Policies by the objective, best first; empty when no seed is finished."""
        return list(self.body["ranking"])

    @property
    def seeds(self) -> int:
        """How many seeds are finished."""
        return len(self.body["seeds"])

    @property
    def bound(self) -> Estimate:
        """What no policy can pass; unknown when it was not computed."""
        return _estimate(self.body.get("bound"))

    def figure(self, policy: str, name: str) -> Estimate:
        """A figure of a policy with its interval; unknown when the document does not have it."""
        return _estimate(self.body["policies"][policy]["figures"].get(name))

    def behind_best(self, policy: str) -> Estimate:
        """The objective minus that of the best policy, seed by seed."""
        return _estimate(self.body["policies"][policy]["behind_best"])

    def difference(self, policy: str, base: str, name: str) -> Estimate:
        """A figure of a policy minus that of another, seed by seed; unknown when the document has it not by seed."""
        values, bases = (self.body["policies"][p]["by_seed"].get(name, []) for p in (policy, base))
        if len(values) != len(bases):
            return UNKNOWN
        return paired_difference([number(v) for v in values], [number(b) for b in bases])

    def from_bound(self, policy: str) -> Estimate:
        """How far the policy's objective is from the bound, seed by seed where both are known by seed."""
        bounds = (self.body.get("bound") or {}).get("by_seed") or []
        values = self.body["policies"][policy]["by_seed"].get(self.objective, [])
        if bounds and len(bounds) == len(values):
            return paired_difference([self.sign * number(b) for b in bounds], [self.sign * number(v) for v in values])
        return Estimate(self.sign * (self.bound.mean - self.figure(policy, self.objective).mean), math.nan, 0)

    @property
    def empty_seeds(self) -> list[int]:
        """Finished seeds with which nothing arrives, so that their shares are undefined."""
        arrived = self.body["policies"][self.ranking[0]]["by_seed"].get(f"{self.noun}s", []) if self.ranking else []
        return [seed for seed, many in zip(self.body["seeds"], arrived, strict=False) if many == 0]

    def detail(self, policy: str) -> Document:
        """Counts by time and latency, load by node."""
        return dict(self.body["policies"][policy]["detail"])

    def changes(self) -> list[tuple[float, str]]:
        """When the workload or the links change, and how; what happens at the same time is one entry."""
        found: dict[float, list[str]] = {}
        for change in self.body.get("changes") or []:
            found.setdefault(float(change["at_s"]), []).append(str(change["what"]))
        return [(at_s, "; ".join(words)) for at_s, words in sorted(found.items())]


def points(document: Document) -> list[Point]:
    """The labels of a document, in its order."""
    return [Point(label, body) for label, body in document["scenarios"].items()]


def sweep(document: Document) -> tuple[str, list[Any]] | None:
    """The swept field and its values, one per label; None for a comparison."""
    swept = document["settings"].get("sweep")
    return (str(swept["param"]), list(swept["values"])) if swept else None


def about(document: Document, found: Sequence[Point]) -> str:
    """What was run: title and workload, where all of these points share them, and what was changed."""
    shared = ({p.title for p in found}, {p.workload for p in found})
    changed = document["settings"].get("set")
    words = [*("".join(texts) for texts in shared if len(texts) == 1), f"with {', '.join(changed)}" if changed else ""]
    return "; ".join(filter(None, words))


def about_each(found: Sequence[Point]) -> dict[str, str]:
    """By label, what `about` leaves out: title and workload, where these points differ in them."""
    facts = [(p.title, p.workload) for p in found]
    differ = [len(set(texts)) > 1 for texts in zip(*facts, strict=True)]
    return {
        p.label: "; ".join(text for text, differs in zip(own, differ, strict=True) if text and differs)
        for p, own in zip(found, facts, strict=True)
    }


def what_ran(document: Document, found: Sequence[Point]) -> str:
    """The line below the title of a page, and of a plot in a file: what was run, on how many seeds."""
    seeds = len(document["settings"]["seeds"])
    return "; ".join(filter(None, (about(document, found), f"{seeds} paired seeds" if seeds != 1 else "one seed")))


def by_rank(document: Document) -> list[str]:
    """Policies that have results: those most often among the best, then by mean rank."""
    rankings = [p.ranking for p in points(document)]
    ranks = {name: [r.index(name) for r in rankings if name in r] for ranking in rankings for name in ranking}

    def key(name: str) -> tuple[int, float, str]:
        return -sum(r < _TOP for r in ranks[name]), sum(ranks[name]) / len(ranks[name]), name

    return sorted(ranks, key=key)


def highlighted(document: Document, point: Point) -> list[str]:
    """The policies that stand out until a reader chooses: the best three, or in a sweep all that lead somewhere."""
    if sweep(document) is None:
        order, leaders = point.ranking, set(point.ranking[:1])
    else:
        order, leaders = by_rank(document), {p.ranking[0] for p in points(document) if p.ranking}
    if len(order) <= _ALL_UP_TO:
        return order
    chosen = [name for name in order if name in leaders]
    chosen += [name for name in order if name not in leaders][: max(0, _TOP - len(chosen))]
    return [name for name in order if name in chosen]


def number(value: Any) -> float:
    """A number of the document, in which NaN is null and an infinity a string."""
    return math.nan if value is None else float(value)


def _estimate(value: Document | None) -> Estimate:
    if not value:
        return UNKNOWN
    return Estimate(number(value["mean"]), number(value["ci95"]), int(value["n"]))


def check(document: Any) -> None:
    """Refuse what no report can be made of, in one line."""
    if not isinstance(document, dict) or not document.get("scenarios") or "settings" not in document:
        raise UserError("not a result of `fairlead compare` or `fairlead sweep`")
    if fault := first_fault(document):
        raise UserError(f"not as fairlead writes it: {fault}")
    for point in points(document):
        _check_point(point)
    check_sweep(document)


def _check_point(point: Point) -> None:
    """What belongs together within a label."""
    check_ranking(point)
    for policy in point.ranking:
        _check_detail(point, policy)
    if point.ranking:
        check_edges(point, "time_s", -math.inf)
        check_edges(point, "latency_ms", 0.0)


def check_ranking(point: Point) -> None:
    """Refuse a ranking of policies that are not there, or there twice."""
    if len(set(point.ranking)) < len(point.ranking):
        raise UserError(f"{point.label}: ranking has a policy twice")
    for policy in point.ranking:
        if policy not in point.body["policies"]:
            raise UserError(f"{point.label}: {policy} is in its ranking, but not in its policies")


def check_edges(point: Point, name: str, least: float) -> None:
    """Refuse edges of bins that don't grow from above the least."""
    if not all(a < b for a, b in pairwise((least, *point.body[name]))):
        raise UserError(f"{point.label}: the edges in {name} should grow{' from above 0' if least == 0 else ''}")


def check_lengths(point: Point, policy: str, lists: Lists) -> None:
    """Refuse lists that have another number of bins than expected: (name, list, how many)."""
    for name, values, expected in lists:
        if len(values) != expected:
            raise UserError(f"{point.label}, {policy}: {name} has {len(values)} bins where {expected} are expected")


def check_sweep(document: Document) -> None:
    """Refuse another number of values than labels."""
    swept = sweep(document)
    if swept and len(swept[1]) != len(document["scenarios"]):
        raise UserError(f"{len(swept[1])} values were swept, but it has {len(document['scenarios'])}")


def _check_detail(point: Point, policy: str) -> None:
    detail = point.body["policies"][policy].get("detail")
    if not detail or "time_s" not in point.body or "latency_ms" not in point.body:
        raise UserError(
            f"{point.label}, {policy}: no detail over time in it (an older fairlead made it); run the comparison again"
        )
    bins, latencies = len(point.body["time_s"]) - 1, len(point.body["latency_ms"]) + 1
    lists: Lists = [("latency", detail["latency"], latencies)]
    lists += [(f"outcomes.{name}", detail["outcomes"][name], bins) for name in OUTCOMES]
    lists += [(f"load.{node}", load, bins) for node, load in detail["load"].items()]
    lists += [(f"learned.active.{a}", x, bins) for a, x in (detail.get("learned") or {}).get("active", {}).items()]
    check_lengths(point, policy, lists)
