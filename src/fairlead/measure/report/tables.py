"""The tables of the page: every figure with its interval, one block per label. Called by the page; returns HTML.

Whatever comes from the document is escaped here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from html import escape
from itertools import pairwise

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.phrases import NOTHING, percent, plus_minus, times

Columns = dict[str, list[str]]  # heading -> a cell per row
_REASONS = "rejected_"
_PERCENTILES = (50, 90, 95, 99)


def tables(point: Point) -> str:
    """The tables behind the plots of one label."""
    if not point.ranking:
        return "<p>No seed is finished.</p>"
    made = [
        ("Outcomes, % of requests", _outcomes(point)),
        ("Success between the changes, % of requests that arrive then, all seeds together", _phases(point)),
        ("Latency of answered requests, ms", _latencies(point)),
        ("Energy, degradation, cost", _costs(point)),
        ("Success of classes and tenants in %, and Jain's index of fairness over them", _fairness(point)),
        ("How busy each node was, %", _busy(point)),
    ]
    return "\n".join(details(title, columns, is_open=i == 0) for i, (title, columns) in enumerate(made) if columns)


def _outcomes(point: Point) -> Columns:
    columns = {"policy": point.ranking, "success": [percent(point.figure(p, "success")) for p in point.ranking]}
    columns["behind best"] = ["best", *(percent(point.behind_best(p)) for p in point.ranking[1:])]
    columns |= {name: [percent(point.figure(p, name)) for p in point.ranking] for name in OUTCOMES[1:]}
    columns["rejected for"] = [_reasons(point, p) for p in point.ranking]
    if math.isnan(point.bound.mean):
        return columns
    bound = {"policy": "upper bound", "success": percent(point.bound)}
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
    names = {"mean": "latency_mean_ms"} | {f"p{p}": f"latency_p{p}_ms" for p in _PERCENTILES}
    return figure_columns(point, names, 1, "{:.1f}")


def _costs(point: Point) -> Columns:
    columns = figure_columns(point, {"mJ a success": "energy_per_success_mj"}, 1, "{:,.0f}")
    columns |= figure_columns(point, {"degradation": "degradation"}, 1, "{:.3f}")
    columns |= figure_columns(point, {"cost of a million successes": "cost_per_success"}, 1e6, "{:.2f}")
    return columns | figure_columns(point, {"busy, %": "utilisation"}, 100, "{:.1f}")


def _fairness(point: Point) -> Columns:
    figures = point.body["policies"][point.ranking[0]]["figures"]
    columns: Columns = {}
    for kind in ("sla", "tenant"):
        prefix = f"success_{kind}_"
        names = {f"{kind} {f.removeprefix(prefix)}": f for f in figures if f.startswith(prefix)}
        columns |= figure_columns(point, names, 100, "{:.1f}") if names else {}
        columns |= figure_columns(point, {f"fairness, {kind}": f"fairness_{kind}"}, 1, "{:.3f}")
    return columns


def _busy(point: Point) -> Columns:
    nodes = point.detail(point.ranking[0])["load"]
    return figure_columns(point, {node: f"utilisation_{node}" for node in nodes}, 100, "{:.1f}")


def figure_columns(point: Point, names: dict[str, str], factor: float, form: str) -> Columns:
    """A column per figure: heading -> its name in the document."""
    cells = {h: [plus_minus(times(factor, point.figure(p, f)), form) for p in point.ranking] for h, f in names.items()}
    return {"policy": point.ranking, **cells}


def details(title: str, columns: Columns, is_open: bool) -> str:
    """A table that opens."""
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>\n{table(title, columns)}\n</details>"
    )


def table(title: str, columns: Columns) -> str:
    """A table that scrolls in its own box."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in columns)
    rows = [
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in zip(*columns.values(), strict=True)
    ]
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )
