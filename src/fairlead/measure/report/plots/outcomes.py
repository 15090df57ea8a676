"""Stacked bars of what became of the requests, best success first, with intervals and the upper bound."""

from __future__ import annotations

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.plots.common import ROW_PX, SHOWN, Plot, known, share_ends, tooltip
from fairlead.measure.report.style import INK, OUTCOME_COLOURS, Spec
from fairlead.measure.report.words import percent, verdict


def outcomes(point: Point) -> Plot:
    """The plot."""
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK}
    spec: Spec = {
        "height": ROW_PX * len(point.ranking),
        "data": {"values": [_row(point, policy) for policy in point.ranking]},
        "params": [{"name": "shown", "value": point.ranking}],
        "encoding": {"y": {"field": "policy", "type": "nominal", "sort": point.ranking, "axis": axis}},
        "layer": [_bars(), *_intervals(), *_bound(point)],
    }
    last = point.ranking[-1]
    bound = " The dashed line is the upper bound, which no policy can pass." if known(point.bound) else ""
    return Plot(
        "outcomes",
        "What became of the requests",
        f"Share of requests by outcome, best success first; the thin line is the 95 % interval of success.{bound}",
        f"{verdict(point)} Last is {last} with {percent(point.figure(last, 'success'))} %.",
        spec=spec,
    )


def _row(point: Point, policy: str) -> Spec:
    shares = {name: point.figure(policy, name) for name in OUTCOMES}
    low, high = share_ends(shares["success"])
    row: Spec = {"policy": policy, "low": low, "high": high, "behind_text": "best"}
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


def _intervals() -> list[Spec]:
    """The interval of success as a line, and in words on the bar, which is dark or faded."""
    text: Spec = {"type": "text", "align": "left", "x": 6, "fontSize": 11}
    words: Spec = {"text": {"field": "success_text"}}
    return [
        {
            "name": "ink_interval",
            "mark": {"type": "rule", "strokeWidth": 2, "color": INK},
            "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
        },
        {"transform": [{"filter": SHOWN}], "mark": text | {"color": "white"}, "encoding": words},
        {
            "name": "ink_faded",
            "transform": [{"filter": f"!({SHOWN})"}],
            "mark": text | {"color": INK},
            "encoding": words,
        },
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
