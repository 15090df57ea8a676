"""Plots of degradation matrices: a heat map each (ECSRL figure 1), the curve with its fit (figure 2), slopes by rho."""

from __future__ import annotations

import math

from fairlead.measure.degradation_matrix import Level, Matrix, names
from fairlead.measure.report.phrases import listed
from fairlead.measure.report.plots.plot import Plot, tooltip
from fairlead.measure.report.style import BUSY_COLOURS, HUES, INK, MUTED, Spec

_CELL_PX = 30
_LEGEND_PX = 40
Slopes = dict[str, list[tuple[float, float]]]  # by what arrives: (rho, slope)


def heat_map(matrix: Matrix, number: int) -> Plot:
    """One matrix; `number` tells those of a device apart."""
    finite = [c for row in matrix.cells for c in row if math.isfinite(c)]
    most = max(finite, default=1.0)
    fits = len(finite) < sum(map(len, matrix.cells))
    return Plot(
        f"matrix-{number}",
        f"{matrix.arriving} arriving",
        f"Its slow-down: its time beside those that run already / its time alone ({matrix.alone_ms:.4g} ms)."
        + (" ∞: there is no room for it." if fits else ""),
        f"One more {matrix.arriving} takes up to {most:.2f} times its time alone beside {listed(matrix.axes)}"
        f"{'; with more of them there is no room for it' if fits else ''}.",
        spec=_cells(matrix, most),
        room_px=58 if len(matrix.axes) > 1 else 24,
    )


def _cells(matrix: Matrix, most: float) -> Spec:
    rows = [
        {"m": m, "r": r, "value": c if math.isfinite(c) else None, "text": f"{c:.2f}" if math.isfinite(c) else "∞"}
        for m, row in enumerate(matrix.cells)
        for r, c in enumerate(row)
    ]
    axis = {"ticks": False, "domain": False, "labelAngle": 0, "labelPadding": 6}
    across = {"title": f"{matrix.axes[1]} running", **axis} if len(matrix.axes) > 1 else None
    colour: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"domain": [1, max(most, 1.001)], "range": list(BUSY_COLOURS)},
        "legend": None,
    }
    dark = f"datum.value > {1 + 0.8 * (most - 1)}"
    text: Spec = {"type": "text", "fontSize": 11}
    cell: Spec = {"type": "rect", "height": {"band": 0.94}, "width": {"band": 0.97}}
    hint = {"m": f"{matrix.axes[0]} running", "text": "slow-down"}
    hint |= {"r": f"{matrix.axes[1]} running"} if len(matrix.axes) > 1 else {}
    return {
        "height": _CELL_PX * len(matrix.cells),
        "data": {"values": rows},
        "params": [],
        "encoding": {
            "x": {"field": "r", "type": "ordinal", "axis": across},
            "y": {"field": "m", "type": "ordinal", "axis": {"title": f"{matrix.axes[0]} running", **axis}},
            "text": {"field": "text"},
            "tooltip": [{"field": f, "title": title} for f, title in hint.items()],
        },
        "layer": [
            {
                "transform": [{"filter": "isNumber(datum.value)"}],
                "mark": cell,
                "encoding": {"color": colour, "text": None},
            },
            {
                "transform": [{"filter": "!isNumber(datum.value)"}],
                "mark": cell | {"color": "rgba(128,136,145,0.28)"},
                "encoding": {"text": None},
            },
            {"name": "on_cell", "transform": [{"filter": dark}], "mark": text | {"color": "white"}},
            {"name": "ink_cell", "transform": [{"filter": f"!({dark})"}], "mark": text | {"color": INK}},
        ],
    }


def curve(matrices: list[Matrix]) -> Plot:
    """The means by concurrency of what arrives on one device, with their fits."""
    series = dict(zip(names(matrices), matrices, strict=True))
    points = [_point(name, level) for name, m in series.items() for level in m.curve() if math.isfinite(level.mean)]
    lines = [
        {"arriving": name, "running": n, "mean": fit.intercept + fit.slope * n}
        for name, m in series.items()
        if (fit := m.fit())
        for n in (1, max(level.running for level in m.curve() if not level.infinite))  # as far as it was fitted
    ]
    some = any(level.infinite for m in matrices for level in m.curve())
    return Plot(
        "curve",
        "Against the number of workloads",
        "A point is the mean over all mixes of that many workloads, the newcomer included; lines are linear fits."
        + (" Hollow points, where not all mixes fit, are left out of the fits." if some else ""),
        f"With each further workload, the slow-down grows by {listed([_slope(n, m) for n, m in series.items()])}.",
        spec=_curve(points, lines, list(series)),
        room_px=54 + _LEGEND_PX,
    )


def _slope(name: str, matrix: Matrix) -> str:
    fit = matrix.fit()
    return (
        f"{fit.slope:z.2f} for {name} (R² {fit.r2:.3f})" if fit else f"an unknown amount for {name} (too few mixes fit)"
    )


def _point(name: str, level: Level) -> Spec:
    text = f"{level.mean:.2f} over {level.cells - level.infinite} of {level.cells} mixes"
    return {"arriving": name, "running": level.running, "mean": level.mean, "whole": not level.infinite, "text": text}


def _curve(points: list[Spec], lines: list[Spec], series: list[str]) -> Spec:
    number = {"type": "quantitative", "scale": {"zero": False, "padding": 12}}
    whole_steps = {"tickMinStep": 1, "format": "d", "title": "workloads running, the newcomer included"}
    x = number | {"field": "running", "axis": whole_steps}
    y = number | {"field": "mean", "axis": {"title": "slow-down", "tickCount": 6}}
    place: Spec = {"x": x, "y": y, "color": _colours(series)}
    mark: Spec = {"type": "point", "size": 60, "opacity": 1}
    hint = {"running": "running", "text": "mean"}
    filled: Spec = {"condition": {"test": "datum.whole", "value": 1}, "value": 0}
    return {
        "height": 300,
        "params": [],
        "layer": [
            {"data": {"values": lines}, "mark": {"type": "line", "strokeWidth": 1.5}, "encoding": place},
            {
                "data": {"values": points},
                "mark": mark,
                "encoding": place
                | {"fill": _colours(series), "fillOpacity": filled, "tooltip": tooltip("arriving", hint)},
            },
        ],
    }


def by_rho(slopes: Slopes) -> Plot:
    """The slope of each curve under other interference."""
    known = {name: [(rho, s) for rho, s in found if math.isfinite(s)] for name, found in slopes.items()}
    rows: list[Spec] = [{"arriving": n, "rho": rho, "slope": s} for n, found in known.items() for rho, s in found]
    ends = [f"{name} from {f[0][1]:z.2f} to {f[-1][1]:z.2f}" for name, f in known.items() if f]
    number = {"type": "quantitative", "scale": {"zero": False, "padding": 8}}
    return Plot(
        "by-rho",
        "Under other interference",
        "Slope of the linear fit by rho: at 0 workloads don't disturb each other, at 1 they are as slow as one by one.",
        f"With rho the slope grows: {listed(ends)}." if ends else "Nothing could be fitted.",
        spec={
            "height": 240,
            "params": [],
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "point": {"size": 45}},
            "encoding": {
                "x": number | {"field": "rho", "axis": {"title": "rho", "values": sorted({r["rho"] for r in rows})}},
                "y": number | {"field": "slope", "axis": {"title": "slope of the slow-down", "tickCount": 6}},
                "color": _colours(list(slopes)),
                "tooltip": tooltip("arriving", {"rho": "rho", "slope": "slope"}),
            },
        },
        room_px=54 + _LEGEND_PX,
    )


def _colours(series: list[str]) -> Spec:
    colours = [HUES[i % len(HUES)] for i in range(len(series))]
    legend = {"title": None, "orient": "bottom", "columns": 3, "labelColor": MUTED}
    return {
        "field": "arriving",
        "type": "nominal",
        "scale": {"domain": series, "range": colours},
        "legend": legend,
    }
