"""The tables of `fairlead sweep`: one per outcome, policies down, points across. Points that do not fit go on below."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from fairlead.cli.experiments.tables import Columns, failed, foot, head, percent, table, width
from fairlead.experiments.compare import Comparison
from fairlead.measure.statistics import Estimate, estimate

Grid = dict[str, dict[str, Estimate]]  # [label][policy]


def show_sweep(out: Console, result: Comparison, given: str, overrides: list[str]) -> None:
    """Print a sweep of the scenario that the user named `given`."""
    labels = [label for label in result.scenarios if result.ranking(label)]
    if labels:
        scenario = result.scenarios[labels[0]]
        head(out, scenario, overrides)
        out.print(f"{seeds_of_all(result, labels)}; shares in % of requests")
        grids = {figure: grid_of(result, labels, figure) for figure in ("success", "late", "inaccurate", "rejected")}
        policies = sorted(result.ranking(labels[0]), key=lambda p: -_sum(g[p].mean for g in grids["success"].values()))
        _success(out, result, grids.pop("success"), policies)
        for figure, grid in grids.items():
            _outcome(out, figure, grid, policies)
    if empty := [label for label in labels if len(result.empty_seeds(label)) == len(result.done_seeds(label))]:
        out.print(f"no request arrives: {escape(', '.join(empty))}")
    if unfinished := [label for label in result.scenarios if label not in labels]:
        out.print(f"no seed is finished: {escape(', '.join(unfinished))}")
    if labels:
        foot(out, scenario, given)
    failed(out, result)


def seeds_of_all(result: Comparison, labels: list[str]) -> str:
    """How many seeds are finished."""
    counts = [len(result.done_seeds(label)) for label in labels]
    if max(counts) == 1:
        return "1 seed, so no interval"
    number = f"{max(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{number} paired seeds; mean and 95 % interval"


def grid_of(result: Comparison, labels: list[str], figure: str) -> Grid:
    """A figure at every point for every policy."""
    return {label: {p: estimate(result.values(label, p, figure)) for p in result.ranking(label)} for label in labels}


def _sum(means: Iterable[float]) -> float:
    return math.fsum(mean for mean in means if not math.isnan(mean))  # a point may be without any request


def _success(out: Console, result: Comparison, grid: Grid, policies: list[str]) -> None:
    """With the best of each point marked, and the bound that no policy can pass."""
    columns: Columns = {}
    bounds = {label: result.bound_values(label) for label in grid}
    rows = [*policies, "upper bound"] if any(bounds.values()) else policies
    for label, cells in grid.items():
        best = result.ranking(label)[0]
        columns[label] = [f"{'* ' if p == best and cells[p].n else ''}{percent(cells[p])}" for p in policies]
        if any(bounds.values()):
            columns[label].append(percent(estimate(bounds[label])))
    out.print("[bold]success[/bold] (* the best there)")
    across(out, {"policy": rows}, columns)


def _outcome(out: Console, figure: str, grid: Grid, policies: list[str]) -> None:
    if not any(e.mean > 0 for cells in grid.values() for e in cells.values()):
        out.print(f"[bold]{figure}[/bold]: none\n")
        return
    out.print(f"[bold]{figure}[/bold]")
    across(out, {"policy": policies}, {label: [percent(cells[p]) for p in policies] for label, cells in grid.items()})


def across(out: Console, rows: Columns, columns: Columns) -> None:
    """As many columns side by side as fit, the others below."""
    part = dict(rows)
    for heading, cells in columns.items():
        if len(part) > 1 and width(part | {heading: cells}) > out.width:
            out.print(table(part))
            part = dict(rows)
        part[heading] = cells
    out.print(table(part))
