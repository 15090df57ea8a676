"""Measured progress of a traced task over time, one line for each allocation. Called for `fairlead trace --plots`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairlead.measure.report.plots.plot import Plot
from fairlead.measure.report.style import HUES


def progress(task_type: str, curves: Mapping[str, Sequence[tuple[float, float]]], end: str) -> Plot:
    """One plot of a type: points of (time_s, progress) by what it was given; `end` says when it is done."""
    rows = [
        {"given": given, "time_s": time_s, "progress": 100 * share}
        for given, points in curves.items()
        for time_s, share in ((0.0, 0.0), *points)
    ]
    names = list(curves)
    times = ", ".join(f"{points[-1][0]:.3g} s with {given}" for given, points in curves.items())
    colours = [HUES[n % len(HUES)] for n in range(len(names))]
    legend = {"title": None, "orient": "bottom", "columns": 4, "symbolType": "circle"}
    return Plot(
        "progress",
        f"Progress of {task_type}",
        f"{end}. Of each allocation, the run of median time is drawn.",
        f"It takes {times}.",
        spec={
            "height": 240,
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 30}},
            "encoding": {
                "x": {"field": "time_s", "type": "quantitative", "axis": {"title": "seconds", "tickCount": 8}},
                "y": {"field": "progress", "type": "quantitative", "axis": {"title": "progress, %", "tickCount": 5}},
                "color": {
                    "field": "given",
                    "type": "nominal",
                    "scale": {"domain": names, "range": colours},
                    "legend": legend,
                },
            },
        },
    )
