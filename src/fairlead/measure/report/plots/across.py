"""Success (or another outcome) of each policy in each scenario of a comparison, with intervals and the bound."""

from __future__ import annotations

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

_SCENARIO_PX = 84


def across(document: Document, legend: bool) -> Plot | None:
    """The plot; None for a sweep, or when there are no two scenarios to set side by side."""
    found = [p for p in points(document) if p.ranking]
    if sweep(document) is not None or len(found) < 2:
        return None
    style = Style(by_look(document), _all_highlighted(document, found), legend)
    drawn = any(has_interval(p.figure(policy, "success")) for p in found for policy in p.ranking)
    bound = " The upright stroke is the upper bound on success, which no policy can pass."
    findings = {name: _finding(found, name) for name in OUTCOMES}
    return Plot(
        "across",
        "Across the scenarios",
        f"Mean over the seeds{' with 95 % intervals of each policy alone' if drawn else f'. {NO_INTERVALS}'}; "
        f"the axis need not start at 0.{bound if any(known(p.bound) for p in found) else ''}",
        findings["success"],
        findings,
        spec=_spec(found, style),
    )


def _all_highlighted(document: Document, found: list[Point]) -> list[str]:
    """Whoever stands out in one of the scenarios."""
    names = {name for point in found for name in highlighted(document, point)}
    return [name for name in by_look(document) if name in names]


def _finding(found: list[Point], outcome: str) -> str:
    lead = [f"{p.label} {p.ranking[0]} {percent(p.figure(p.ranking[0], outcome))} %" for p in found]
    what = "Best by scenario" if outcome == "success" else f"Requests {outcome} under the best by scenario"
    return f"{what}: {'; '.join(lead)}."


def _spec(found: list[Point], style: Style) -> Spec:
    labels = [p.label for p in found]
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK, "labelLimit": 120}
    x: Spec = {
        "type": "quantitative",
        "scale": {"zero": False},
        "axis": {"format": "%", "title": "share of requests", "tickCount": 6},
    }
    y: Spec = {"field": "label", "type": "nominal", "sort": labels, "axis": axis | {"grid": True}}
    place: Spec = {"y": y, "yOffset": {"field": "policy", "type": "nominal", "sort": style.policies}}
    low, high = {"field": "share_low"}, {"field": "share_high"}
    texts = {"label": "in", **{f"{o}_text": o for o in OUTCOMES}}
    rows = [_row(point, policy) for point in found for policy in point.ranking]
    rule: Spec = {"type": "rule", "strokeWidth": 1.5}
    point_mark: Spec = {"type": "point", "filled": True, "size": 60, "opacity": 1}
    return {
        "height": _SCENARIO_PX * len(found),
        "params": [{"name": "shown", "value": style.highlighted}, {"name": "measure", "value": "success"}],
        "layer": [
            {
                "data": {"values": rows},
                "transform": [{"filter": SHOWN}, *by_measure()],
                "encoding": place,
                "layer": [
                    {
                        "transform": [with_ends("share")],
                        "mark": rule,
                        "encoding": {"x": x | low, "x2": high} | style.lit("color"),
                    },
                    {
                        "mark": point_mark,
                        "encoding": {"x": x | {"field": "share"}, "tooltip": tooltip("policy", texts)}
                        | style.lit("color", "shape"),
                    },
                ],
            },
            *_bounds(found, x, y),
        ],
    }


def _row(point: Point, policy: str) -> Spec:
    row: Spec = {"policy": policy, "label": point.label}
    for name in OUTCOMES:
        share = point.figure(policy, name)
        if known(share):
            row[name] = share.mean
            row |= ends(name, share, 0.0, 1.0)
        row[f"{name}_text"] = f"{percent(share)} %"
    return row


def _bounds(found: list[Point], x: Spec, y: Spec) -> list[Spec]:
    rows = [{"label": p.label, "bound": p.bound.mean, "text": f"{percent(p.bound)} %"} for p in found if known(p.bound)]
    if not rows:
        return []
    return [
        {
            "name": "ink_bound",
            "data": {"values": rows},
            "transform": [{"filter": "measure == 'success'"}],
            "mark": {"type": "tick", "thickness": 1.5, "color": INK, "size": 0.7 * _SCENARIO_PX},
            "encoding": {
                "x": x | {"field": "bound"},
                "y": y,
                "tooltip": [{"field": "label", "title": "in"}, {"field": "text", "title": "no policy can pass"}],
            },
        }
    ]
