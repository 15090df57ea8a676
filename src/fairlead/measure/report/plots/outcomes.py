"""Stacked bars of what became of the requests, best success first, with intervals and the upper bound."""

from __future__ import annotations

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.phrases import percent, verdict
from fairlead.measure.report.plots.plot import (
    NO_INTERVALS,
    ROW_PX,
    SHOWN,
    Plot,
    ends,
    has_interval,
    known,
    tooltip,
    with_ends,
)
from fairlead.measure.report.style import INK, OUTCOME_COLOURS, Spec

# Whether success fits on its bar in words, short of the interval; a character takes some 6 px.
_FREE = "min(datum.success, isValid(datum.success_low) ? datum.success_low : 1) * width"
_FITS = f"{_FREE} > 6 * length(datum.success_text) + 10"


def outcomes(point: Point) -> Plot:
    """The plot."""
    drawn = any(has_interval(point.figure(p, "success")) for p in point.ranking)
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK}
    spec: Spec = {
        "height": ROW_PX * len(point.ranking),
        "data": {"values": [_row(point, policy) for policy in point.ranking]},
        "params": [{"name": "shown", "value": point.ranking}],
        "encoding": {"y": {"field": "policy", "type": "nominal", "sort": point.ranking, "axis": axis}},
        "layer": [_bars(), *([_interval()] if drawn else []), *_labels(), *_bound(point)],
    }
    last = point.ranking[-1]
    interval = "; the thin line is the 95 % interval of success." if drawn else f". {NO_INTERVALS}"
    bound = " The dashed line is the upper bound, which no policy can pass." if known(point.bound) else ""
    return Plot(
        "outcomes",
        "What became of the requests",
        f"Share of requests by outcome, best success first{interval}{bound}",
        f"{verdict(point)} Last is {last} with {percent(point.figure(last, 'success'))} %.",
        spec=spec,
        room_px=112,
    )


def _row(point: Point, policy: str) -> Spec:
    shares = {name: point.figure(policy, name) for name in OUTCOMES}
    row: Spec = {"policy": policy, "behind_text": "best"} | ends("success", shares["success"], 0.0, 1.0)
    if policy != point.ranking[0]:
        row["behind_text"] = f"{percent(point.behind_best(policy))} points"
    row |= {name: share.mean for name, share in shares.items() if known(share)}
    return row | {f"{name}_text": f"{percent(share)} %" for name, share in shares.items()}


def _bars() -> Spec:
    texts = {"success_text": "success", "behind_text": "behind best"} | {f"{o}_text": o for o in OUTCOMES[1:]}
    return {
        "transform": [
            {"fold": list(OUTCOMES), "as": ["outcome", "share"]},
            {"calculate": f"indexof({list(OUTCOMES)}, datum.outcome)", "as": "order"},
        ],
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "x": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1], "nice": False},
                "axis": {"format": "%", "title": "share of requests", "tickCount": 5},
            },
            "color": {
                "field": "outcome",
                "type": "nominal",
                "scale": {"domain": list(OUTCOMES), "range": list(OUTCOME_COLOURS.values())},
                "legend": {
                    "title": None,
                    "orient": "bottom",
                    "symbolType": "square",
                    "columns": 2,  # a phone has room for no more
                },
            },
            "order": {"field": "order"},
            "opacity": {"condition": {"test": SHOWN, "value": 1}, "value": 0.45},
            "tooltip": tooltip("policy", texts),
        },
    }


def _interval() -> Spec:
    """The interval of success as a line."""
    return {
        "name": "ink_interval",
        "transform": [with_ends("success")],
        "mark": {"type": "rule", "strokeWidth": 2, "color": INK},
        "encoding": {"x": {"field": "success_low", "type": "quantitative"}, "x2": {"field": "success_high"}},
    }


def _labels() -> list[Spec]:
    """Success in words: white on its bar, ink on a faded one; beside a bar that is too short, ink with a halo."""
    text: Spec = {"type": "text", "align": "left", "fontSize": 11}
    words: Spec = {"text": {"field": "success_text"}}
    beside = [
        {"filter": f"!({_FITS})"},
        {"calculate": "max(datum.success || 0, datum.success_high || 0)", "as": "end"},
    ]
    at_end = words | {"x": {"field": "end", "type": "quantitative"}}
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round", "color": "white"}
    return [
        {
            "name": "on_bar",
            "transform": [{"filter": f"{SHOWN} && {_FITS}"}],
            "mark": text | {"x": 6, "color": "white"},
            "encoding": words,
        },
        {
            "name": "ink_faded",
            "transform": [{"filter": f"!({SHOWN}) && {_FITS}"}],
            "mark": text | {"x": 6, "color": INK},
            "encoding": words,
        },
        {"name": "halo_beside", "transform": beside, "mark": text | {"dx": 8} | halo, "encoding": at_end},
        {"name": "ink_beside", "transform": beside, "mark": text | {"dx": 8, "color": INK}, "encoding": at_end},
    ]


def _bound(point: Point) -> list[Spec]:
    """The upper bound as a dashed line over all bars, named above them."""
    if not known(point.bound):
        return []
    x: Spec = {"datum": point.bound.mean, "type": "quantitative"}
    text = f"upper bound {percent(point.bound)} %"
    side = {"align": "right", "dx": 4} if point.bound.mean > 0.5 else {"align": "left", "dx": -4}
    return [
        {
            "name": "ink_bound",
            "data": {"values": [{"text": text}]},
            "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1.5, "color": INK},
            "encoding": {"x": x, "y": None, "tooltip": {"field": "text", "title": "no policy can pass"}},
        },
        {
            "name": "ink_bound_name",
            "data": {"values": [{"text": text}]},
            "mark": {"type": "text", "baseline": "bottom", "color": INK, "fontSize": 11} | side,
            "encoding": {"x": x, "y": {"value": -4}, "text": {"field": "text"}},
        },
    ]
