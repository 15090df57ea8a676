"""Lines of the objective, or another measure, against the swept value, with bands, and the bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.measure.report.document import Document, Point, highlighted, sweep
from fairlead.measure.report.plots.measure_choice import Measures, by_measure
from fairlead.measure.report.plots.plot import NO_INTERVALS, SHOWN, Plot, Style, known, tooltip, with_ends
from fairlead.measure.report.style import INK, Spec, by_look

Found = list[tuple[Any, Point]]  # value, its point


def over_values(document: Document, points: Sequence[Point], measures: Measures, legend: bool) -> Plot | None:
    """The plot; None for a comparison."""
    swept = sweep(document)
    if swept is None:
        return None
    param, values = swept
    title = f"Against {param}"
    found = [(v, p) for v, p in zip(values, points, strict=True) if p.ranking]
    if not found:
        return Plot("sweep", title, "No seed is finished, so there is nothing to draw.")
    style = Style(by_look(document), highlighted(document, found[0][1]), legend)
    findings = measures.findings([p for _, p in found], "value")
    spec = _spec(found, measures, _x(param, values), style)
    return Plot("sweep", title, _caption(found, measures), findings[measures.first], findings, spec=spec)


def _caption(found: Found, measures: Measures) -> str:
    text = NO_INTERVALS
    if measures.have_intervals([p for _, p in found]):
        text = (
            f"Mean over the seeds; {'bars' if len(found) == 1 else 'bands'} are 95 % intervals of each policy alone. "
            "To compare policies, use 'behind best', whose differences are paired by seed."
        )
    text += " The axis need not start at 0."
    if any(known(p.bound) for _, p in found):
        text += f" The dashed line without points is {measures.bound}."
    return text


def _x(param: str, values: list[Any]) -> Spec:
    """Numbers get a true axis, anything else its places in the given order."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return {
            "field": "value",
            "type": "quantitative",
            "title": param,
            "scale": {"zero": False, "nice": False, "padding": 14},
            "axis": {"values": values, "labelOverlap": True},
        }
    return {"field": "value", "type": "ordinal", "title": param, "sort": [str(v) for v in values]}


def _spec(found: Found, measures: Measures, x: Spec, style: Style) -> Spec:
    y: Spec = {"type": "quantitative", "scale": {"zero": False}, "axis": measures.axis | {"tickCount": 6}}
    texts = {"label": "at", **measures.texts()}
    rows = [measures.row(p, policy) | {"value": _place(v, x)} for v, p in found for policy in p.ranking]
    drawn = measures.have_intervals([p for _, p in found])
    lines: Spec = {
        "data": {"values": rows},
        "transform": [{"filter": SHOWN}, *by_measure()],
        "encoding": {"x": x},
        "layer": [
            *([_intervals(found, y, style)] if drawn else []),
            {
                "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
                "encoding": {"y": y | {"field": "measured"}} | style.lines("color", "strokeDash"),
            },
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"y": y | {"field": "measured"}, "tooltip": tooltip("policy", texts)}
                | style.lines("color"),
            },
        ],
    }
    return {
        "height": 320,
        "params": [{"name": "shown", "value": style.highlighted}, measures.chosen()],
        "layer": [lines, *_bound(found, measures, x, y)],
    }


def _intervals(found: Found, y: Spec, style: Style) -> Spec:
    """Bands along the values; one value alone has no area, so bars."""
    return {
        "transform": [with_ends("measured")],
        "mark": {"type": "area", "opacity": 0.16} if len(found) > 1 else {"type": "rule", "strokeWidth": 1.5},
        "encoding": {"y": y | {"field": "measured_low"}, "y2": {"field": "measured_high"}} | style.lines("color"),
    }


def _place(value: Any, x: Spec) -> Any:
    return value if x["type"] == "quantitative" else str(value)


def _bound(found: Found, measures: Measures, x: Spec, y: Spec) -> list[Spec]:
    rows = [
        {"value": _place(v, x), "bound": p.bound.mean, "label": p.label, "text": measures.text(p.bound)}
        for v, p in found
        if known(p.bound)
    ]
    if not rows:
        return []
    encoding: Spec = {"x": x, "y": y | {"field": "bound"}}
    dashed: Spec = {"strokeDash": [5, 3], "strokeWidth": 1.5, "color": INK}
    hint = [{"field": "label", "title": "at"}, {"field": "text", "title": measures.passing}]
    return [
        {
            "name": "ink_bound",
            "data": {"values": rows},
            "transform": [measures.only_first()],
            "layer": [
                {"name": "ink_bound_line", "mark": {"type": "line"} | dashed, "encoding": encoding},
                {
                    "name": "ink_bound_points",
                    "mark": {"type": "point", "shape": "stroke", "size": 80, "color": INK},
                    "encoding": encoding | {"tooltip": hint},
                },
            ],
        }
    ]
