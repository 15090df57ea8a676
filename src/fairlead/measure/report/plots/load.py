"""A heat map of nodes by time, for one policy: how much of what a node can do was sent to it."""

from __future__ import annotations

import math
from typing import Any

from fairlead.measure.report.document import Point, number
from fairlead.measure.report.plots.plot import ROW_PX, Plot, change_rules, time_axis, tooltip, when_text
from fairlead.measure.report.style import INK, LOAD_COLOURS, Spec


def load(point: Point) -> Plot:
    """The plot."""
    nodes = list(dict.fromkeys(node for p in point.ranking for node in point.detail(p)["load"]))
    spec: Spec = {
        "height": ROW_PX * len(nodes),
        "params": [{"name": "chosen", "value": point.ranking[0]}, {"name": "edges_s", "value": point.body["time_s"]}],
        "layer": [_cells(point, nodes), *change_rules(point.changes())],
    }
    findings = {policy: _finding(point, policy) for policy in point.ranking}
    return Plot(
        "load",
        "Load of the nodes",
        "Work sent to a node in a span of time, as a share of its capacity; orange is more than its capacity.",
        findings[point.ranking[0]],
        findings,
        spec=spec,
        room_px=110,
    )


def _cells(point: Point, nodes: list[str]) -> Spec:
    rows = [
        {"policy": p, "node": node, "load": [_cell(v) for v in values]}
        for p in point.ranking
        for node, values in point.detail(p)["load"].items()
    ]
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK}
    return {
        "data": {"values": rows},
        "transform": [
            {"filter": "datum.policy == chosen"},
            {"calculate": "sequence(length(datum.load))", "as": "bin"},
            {"flatten": ["bin", "load"]},
            {"filter": "isNumber(datum.load)"},
            {"calculate": "edges_s[datum.bin]", "as": "from_s"},
            {"calculate": "edges_s[datum.bin + 1]", "as": "to_s"},
            {"calculate": when_text(), "as": "when"},
            {"calculate": "format(datum.load, '.0%')", "as": "load_text"},
        ],
        "mark": {"type": "rect", "height": {"band": 0.92}},
        "encoding": {
            "x": time_axis(point.body["time_s"], "from_s", grid=False),
            "x2": {"field": "to_s"},
            "y": {"field": "node", "type": "nominal", "sort": nodes, "scale": {"domain": nodes}, "axis": axis},
            "color": {
                "field": "load",
                "type": "quantitative",
                "scale": {"domain": [0, 1, 1.001, 2], "range": list(LOAD_COLOURS), "clamp": True},
                "legend": {
                    "title": "load",
                    "titleOrient": "left",
                    "labelExpr": "datum.value < 2 ? format(datum.value, '.0%') : '200 % or more'",  # it is clamped
                    "orient": "bottom",
                    "gradientLength": 240,
                    "values": [0, 0.5, 1, 2],
                },
            },
            "tooltip": tooltip("node", {"when": "arrived", "load_text": "load"}),
        },
    }


def _cell(value: Any) -> float | None:
    """A load as it is drawn; none where there was nothing to divide by."""
    load = number(value)
    return round(load, 3) if math.isfinite(load) else None


def _finding(point: Point, policy: str) -> str:
    given = point.detail(policy)["load"]
    loads = {node: [c for v in values if (c := _cell(v)) is not None] for node, values in given.items()}
    means = {node: sum(values) / len(values) for node, values in loads.items() if values}
    if not means:
        return "The document has no load of nodes."
    most = max(means, key=lambda node: means[node])
    over = sum(max(values) > 1 for values in loads.values() if values)
    return (
        f"Under {policy} the most loaded node is {most}, {means[most]:.0%} on average; "
        f"at times, {over} of {len(means)} nodes get more work than they can do."
    )
