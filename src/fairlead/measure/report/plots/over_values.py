"""Lines of success (or another outcome) against the swept value, with bands, and the upper bound."""

from __future__ import annotations

from typing import Any

from fairlead.measure.report.document import OUTCOMES, Document, Point, highlighted, points, sweep
from fairlead.measure.report.plots.common import (
    NO_INTERVALS,
    SHOWN,
    Plot,
    Style,
    by_measure,
    ends,
    has_interval,
    known,
    tooltip,
    with_ends,
)
from fairlead.measure.report.style import INK, Spec, by_look
from fairlead.measure.report.words import percent

Found = list[tuple[Any, Point]]  # value, its point


def over_values(document: Document, legend: bool) -> Plot | None:
    """The plot; None for a comparison."""
    swept = sweep(document)
    if swept is None:
        return None
    param, values = swept
    title = f"Against {param}"
    found = [(v, p) for v, p in zip(values, points(document), strict=True) if p.ranking]
    if not found:
        return Plot("sweep", title, "No seed is finished, so there is nothing to draw.")
    style = Style(by_look(document), highlighted(document, found[0][1]), legend)
    findings = {name: _finding(found, name) for name in OUTCOMES}
    return Plot(
        "sweep", title, _caption(found), findings["success"], findings, spec=_spec(found, _x(param, values), style)
    )


def _caption(found: Found) -> str:
    text = NO_INTERVALS
    if _have_intervals(found):
        text = (
            f"Mean over the seeds; {'bars' if len(found) == 1 else 'bands'} are 95 % intervals of each policy alone, "
            "differences are paired by seed: look at behind best."
        )
    text += " The axis need not start at 0."
    if any(known(p.bound) for _, p in found):
        text += " The dashed line without points is the upper bound on success, which no policy can pass."
    return text


def _finding(found: Found, outcome: str) -> str:
    lead = [f"{p.label} {p.ranking[0]} {percent(p.figure(p.ranking[0], outcome))} %" for _, p in found]
    what = "Best by value" if outcome == "success" else f"Requests {outcome} under the best by value"
    return f"{what}: {'; '.join(lead)}."


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


def _spec(found: Found, x: Spec, style: Style) -> Spec:
    y: Spec = {
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"format": "%", "title": "share of requests", "tickCount": 6},
    }
    texts = {"label": "at", **{f"{o}_text": o for o in OUTCOMES}}
    lines: Spec = {
        "data": {"values": [_row(v, p, policy, x) for v, p in found for policy in p.ranking]},
        "transform": [{"filter": SHOWN}, *by_measure()],
        "encoding": {"x": x},
        "layer": [
            *([_intervals(found, y, style)] if _have_intervals(found) else []),
            {
                "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
                "encoding": {"y": y | {"field": "share"}} | style.lines("color", "strokeDash"),
            },
            {
                "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
                "encoding": {"y": y | {"field": "share"}, "tooltip": tooltip("policy", texts)} | style.lines("color"),
            },
        ],
    }
    return {
        "height": 320,
        "params": [{"name": "shown", "value": style.highlighted}, {"name": "measure", "value": "success"}],
        "layer": [lines, *_bound(found, x, y)],
    }


def _have_intervals(found: Found) -> bool:
    return any(has_interval(p.figure(policy, "success")) for _, p in found for policy in p.ranking)


def _intervals(found: Found, y: Spec, style: Style) -> Spec:
    """Bands along the values; one value alone has no area, so bars."""
    return {
        "transform": [with_ends("share")],
        "mark": {"type": "area", "opacity": 0.16} if len(found) > 1 else {"type": "rule", "strokeWidth": 1.5},
        "encoding": {"y": y | {"field": "share_low"}, "y2": {"field": "share_high"}} | style.lines("color"),
    }


def _row(value: Any, point: Point, policy: str, x: Spec) -> Spec:
    row: Spec = {"policy": policy, "label": point.label, "value": value if x["type"] == "quantitative" else str(value)}
    for name in OUTCOMES:
        share = point.figure(policy, name)
        if known(share):
            row[name] = share.mean
            row |= ends(name, share, 0.0, 1.0)
        row[f"{name}_text"] = f"{percent(share)} %"
    return row


def _bound(found: Found, x: Spec, y: Spec) -> list[Spec]:
    rows = [
        {
            "value": v if x["type"] == "quantitative" else str(v),
            "bound": p.bound.mean,
            "label": p.label,
            "text": f"{percent(p.bound)} %",
        }
        for v, p in found
        if known(p.bound)
    ]
    if not rows:
        return []
    encoding: Spec = {"x": x, "y": y | {"field": "bound"}}
    only = [{"filter": "measure == 'success'"}]
    dashed: Spec = {"strokeDash": [5, 3], "strokeWidth": 1.5, "color": INK}
    hint = [{"field": "label", "title": "at"}, {"field": "text", "title": "no policy can pass"}]
    return [
        {
            "name": "ink_bound",
            "data": {"values": rows},
            "transform": only,
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
