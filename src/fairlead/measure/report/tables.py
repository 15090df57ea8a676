"""The tables of a result: which figures, under which headings, in which units.

The page draws them as HTML (`html`), the commands on a terminal (`cli.experiments.tables`): both have them from here
alone, so that a figure has one name. Text, not markup, which pages escape. `task_tables` has those of tasks.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.phrases import NOTHING, percent, plus_minus, times

Columns = dict[str, list[str]]  # heading -> a cell per row; the first column names the rows
OUTCOME_HEADINGS = {name: f"{name}, %" for name in OUTCOMES}  #: shares of all requests
_REASONS = "rejected_"
_PERCENTILES = (50, 90, 95, 99)
_GROUPS = {"sla": ("SLA class", "SLA classes"), "tenant": ("tenant", "tenants")}


@dataclass(frozen=True)
class Table:
    """A table with a row per policy, unless it says otherwise."""

    title: str
    columns: Columns
    compares: bool = False  # policies are compared by it, so that a terminal shows it too; others are details
    together: int = 0  # so many columns after the first add up; a terminal keeps them side by side where it can

    @property
    def rows(self) -> list[str]:
        """What the first column names; empty when there is nothing to show."""
        return next(iter(self.columns.values()), [])


def tables(point: Point) -> list[Table]:
    """The tables of one label; none when no seed of it is finished."""
    if not point.ranking:
        return []
    made = [
        Table("Outcomes, shares of all requests", _outcomes(point), compares=True, together=len(OUTCOMES)),
        Table("Success between the changes, % of requests that arrive then, all seeds together", _phases(point)),
        Table("Latency of answered requests", _latencies(point), compares=True),
        Table("Energy, slow-down, cost", _costs(point), compares=True),
        Table("Success by SLA class and tenant, and Jain's index of fairness", _fairness(point), compares=True),
        Table("How busy each node was, %", _busy(point)),
    ]
    return [table for table in made if table.rows]


def _outcomes(point: Point) -> Columns:
    """The outcomes, which add up, always in this order; then how far each policy is behind."""
    columns = share_columns(point, {heading: name for name, heading in OUTCOME_HEADINGS.items()})
    columns["behind best, points"] = ["best", *(percent(point.behind_best(p)) for p in point.ranking[1:])]
    if any(reasons := [_reasons(point, p) for p in point.ranking]):
        columns["rejected for, %"] = reasons
    return with_bound(point, columns, {"policy": "upper bound", OUTCOME_HEADINGS["success"]: percent(point.bound)})


def with_bound(point: Point, columns: Columns, bound: dict[str, str]) -> Columns:
    """The columns with what no policy can pass as their first row, if that is known."""
    if math.isnan(point.bound.mean):
        return columns
    return {heading: [bound.get(heading, ""), *cells] for heading, cells in columns.items()}


def _reasons(point: Point, policy: str) -> str:
    figures = point.body["policies"][policy]["figures"]
    found = [(point.figure(policy, f).mean, f.removeprefix(_REASONS)) for f in figures if f.startswith(_REASONS)]
    return ", ".join(f"{name} {100 * mean:.1f}" for mean, name in sorted(found, reverse=True) if mean > 0)


def _phases(point: Point) -> Columns:
    """Success in each span between changes; a bin belongs to the span of its middle."""
    edges = [float(e) for e in point.body["time_s"]]
    starts = [at_s for at_s, _ in point.changes() if edges[0] < at_s < edges[-1]]
    if not starts:
        return {}
    bounds = [edges[0], *starts, edges[-1]]
    span = [bisect_right(starts, (a + b) / 2) for a, b in pairwise(edges)]
    columns: Columns = {"policy": point.ranking}
    for i, (start, end) in enumerate(pairwise(bounds)):
        bins = [b for b, s in enumerate(span) if s == i]
        columns[f"{start:g} to {end:g} s"] = [_share(point, p, bins) for p in point.ranking]
    return columns


def _share(point: Point, policy: str, bins: list[int]) -> str:
    counts = point.detail(policy)["outcomes"]
    total = sum(counts[o][b] for o in OUTCOMES for b in bins)
    return f"{100 * sum(counts['success'][b] for b in bins) / total:.1f}" if total else NOTHING


def _latencies(point: Point) -> Columns:
    names = {"mean latency, ms": "latency_mean_ms"}
    names |= {f"p{p} latency, ms": f"latency_p{p}_ms" for p in _PERCENTILES}
    return figure_columns(point, names, 1, "{:,.1f}")


def _costs(point: Point) -> Columns:
    columns = figure_columns(point, {"energy per success, mJ": "energy_per_success_mj"}, 1, "{:,.0f}")
    columns |= figure_columns(point, {"slow-down": "degradation"}, 1, "{:.3f}")
    columns |= figure_columns(point, {"cost per million successes": "cost_per_success"}, 1e6, "{:,.2f}")
    return columns | share_columns(point, {"busy, %": "utilisation"})


def _fairness(point: Point) -> Columns:
    figures = point.body["policies"][point.ranking[0]]["figures"]
    columns: Columns = {}
    for kind, (one, several) in _GROUPS.items():
        prefix = f"success_{kind}_"
        names = {f"success of {one} {f.removeprefix(prefix)}, %": f for f in figures if f.startswith(prefix)}
        columns |= share_columns(point, names) if names else {}
        columns |= figure_columns(point, {f"fairness over {several}": f"fairness_{kind}"}, 1, "{:.3f}")
    return columns


def _busy(point: Point) -> Columns:
    nodes = point.detail(point.ranking[0])["load"]
    return share_columns(point, {node: f"utilisation_{node}" for node in nodes})


def figure_columns(point: Point, names: dict[str, str], factor: float, form: str) -> Columns:
    """A column per figure: heading -> its name in the document."""
    cells = {h: [plus_minus(times(factor, point.figure(p, f)), form) for p in point.ranking] for h, f in names.items()}
    return {"policy": point.ranking, **cells}


def share_columns(point: Point, names: dict[str, str]) -> Columns:
    """The same for shares, in %: however often a share is shown, it has the same digits."""
    cells = {h: [percent(point.figure(p, f)) for p in point.ranking] for h, f in names.items()}
    return {"policy": point.ranking, **cells}
