"""A table of cells, policies by resources: how much was in use over the whole run."""

from __future__ import annotations

from fairlead.measure.report.plots.plot import Plot, known
from fairlead.measure.report.plots.utilisation import busy_cell, busy_cells, busy_room_px
from fairlead.measure.report.task_document import TaskPoint

_TITLE = "Resources in use"


def used(point: TaskPoint) -> Plot:
    """The plot, or why there is none."""
    figures = {(p, r): point.figure(p, f"used_{r}") for p in point.ranking for r in point.resources}
    rows = [{"policy": p, "resource": r} | busy_cell(e) for (p, r), e in figures.items() if known(e)]
    if not rows:
        return Plot("used", _TITLE, "Nothing to draw: the document has no use of resources.")
    best = [f"{row['resource']} {row['text']}" for row in rows if row["policy"] == point.ranking[0]]
    return Plot(
        "used",
        _TITLE,
        "Share of each resource in use over the whole run, mean over the seeds. A policy that takes longer spreads the "
        "same work over more time.",
        f"Under {point.ranking[0]}: {', '.join(best)}.",
        spec=busy_cells(rows, point.ranking, point.resources, "resource"),
        room_px=busy_room_px(point.resources),
    )
