"""The tables of `fairlead sweep`: one per outcome, policies down, points across. Points that do not fit go on below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape

from fairlead.cli.experiments.tables import failed, foot, head, print_columns, seeds_in_words
from fairlead.measure.report.document import Document, Point, about
from fairlead.measure.report.report_adapter import ReportAdapter, adapter_of
from fairlead.measure.report.tables import Columns
from fairlead.measure.statistics import Estimate


def show_sweep(out: Console, document: Document, given: str) -> None:
    """Print a sweep of the scenario that the user named `given`."""
    adapter = adapter_of(document)
    found = adapter.points(document)
    ran = [point for point in found if point.ranking]
    if ran:
        head(out, given, about(document, found))
        out.print(seeds_in_words(ran))
        policies = _in_order(ran)
        for figure, heading in adapter.swept.items():
            _outcome(out, adapter, ran, policies, figure, heading)
    if empty := [point.label for point in ran if len(point.empty_seeds) == point.seeds]:
        out.print(f"no request arrives: {escape(', '.join(empty))}")
    if unfinished := [point.label for point in found if not point.ranking]:
        out.print(f"no seed is finished: {escape(', '.join(unfinished))}")
    if ran:
        foot(out, ran[0].body["assumptions"], given)
    failed(out, document)


def _in_order(ran: Sequence[Point]) -> list[str]:
    """Policies by the objective over all points, best first."""

    def key(policy: str) -> float:
        means = [point.figure(policy, point.objective).mean for point in ran]
        return -ran[0].sign * math.fsum(mean for mean in means if not math.isnan(mean))  # nothing may arrive at a point

    return sorted(ran[0].ranking, key=key)


def _outcome(
    out: Console, adapter: ReportAdapter, ran: Sequence[Point], policies: list[str], figure: str, heading: str
) -> None:
    """One figure at every point; of the objective with the best of each point marked, and the bound."""
    objective = figure == ran[0].objective
    if not objective and not any(point.figure(p, figure).mean > 0 for point in ran for p in policies):
        out.print(f"[bold]{heading}[/bold]: none\n")
        return
    bounded = objective and any(not math.isnan(point.bound.mean) for point in ran)
    out.print(f"[bold]{heading}[/bold]{' (* marks the best of a column)' if objective else ''}")
    columns: Columns = {"policy": [*policies, *[adapter.bound] * bounded]}
    for point in ran:
        cells = [_cell(adapter.write, point, p, figure, objective) for p in policies]
        columns[point.label] = [*cells, *[adapter.write(point.bound)] * bounded]
    print_columns(out, columns)


def _cell(write: Callable[[Estimate], str], point: Point, policy: str, figure: str, objective: bool) -> str:
    value = point.figure(policy, figure)
    best = objective and policy == point.ranking[0] and value.n
    return f"{'* ' if best else ''}{write(value)}"
