"""A table of cells, policies by nodes or by resources: how busy each was."""

from __future__ import annotations

from fairlead.measure.report.document import Point
from fairlead.measure.report.phrases import percent
from fairlead.measure.report.plots.plot import ROW_PX, SHOWN, Plot, known, tooltip
from fairlead.measure.report.style import BUSY_COLOURS, INK, Spec
from fairlead.measure.statistics import Estimate

_UPRIGHT = 3  # so few names have room side by side
_TITLE = "How busy the nodes are"


def utilisation(point: Point) -> Plot:
    """The plot, or why there is none."""
    nodes = list(dict.fromkeys(node for p in point.ranking for node in point.detail(p)["load"]))
    rows = [_row(point, p, n) for p in point.ranking for n in nodes if known(point.figure(p, f"utilisation_{n}"))]
    if not rows:
        return Plot("utilisation", _TITLE, "Nothing to draw: the document has no utilisation of nodes.")
    best = max((row for row in rows if row["policy"] == rows[0]["policy"]), key=lambda row: float(row["busy"]))
    return Plot(
        "utilisation",
        _TITLE,
        "Busy time / the time of the run, mean over the seeds; a shared node is busy while anything runs on it.",
        f"Under {best['policy']} the busiest node is {best['node']}, {best['text']}.",
        spec=busy_cells(rows, point.ranking, nodes, "node"),
        room_px=busy_room_px(nodes),
    )


def _row(point: Point, policy: str, node: str) -> Spec:
    return {"policy": policy, "node": node} | busy_cell(point.figure(policy, f"utilisation_{node}"))


def busy_room_px(nodes: list[str]) -> int:
    """What the names below the table take."""
    return 96 if len(nodes) > _UPRIGHT else 30


def busy_cell(busy: Estimate) -> Spec:
    """What a cell shows and tells."""
    return {"busy": round(busy.mean, 4), "text": f"{percent(busy)} %"}


def busy_cells(rows: list[Spec], policies: list[str], nodes: list[str], what: str) -> Spec:
    """The table; `what` is the field of rows that has one of `nodes`."""
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK}
    angle = -35 if len(nodes) > _UPRIGHT else 0
    fits = f"width / {len(nodes)} > 34"
    dark = f"{SHOWN} && datum.busy > 0.8"  # others are faded
    text: Spec = {"type": "text", "fontSize": 11}
    words: Spec = {"text": {"field": "busy", "format": ".0%"}}
    return {
        "height": ROW_PX * len(policies),
        "data": {"values": rows},
        "params": [{"name": "shown", "value": policies}],
        "encoding": {
            "x": {
                "field": what,
                "type": "nominal",
                "sort": nodes,
                "axis": axis | {"orient": "bottom", "labelAngle": angle, "labelLimit": 90},
            },
            "y": {"field": "policy", "type": "nominal", "sort": policies, "axis": axis},
            "tooltip": tooltip("policy", {what: what, "text": "busy"}),
            "opacity": {"condition": {"test": SHOWN, "value": 1}, "value": 0.45},
        },
        "layer": [
            {
                "mark": {"type": "rect", "height": {"band": 0.92}, "width": {"band": 0.96}},
                "encoding": {
                    "color": {
                        "field": "busy",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1], "range": list(BUSY_COLOURS), "clamp": True},
                        "legend": None,  # the numbers are in the cells
                    },
                },
            },
            {
                "name": "on_cell",
                "transform": [{"filter": f"{fits} && {dark}"}],
                "mark": text | {"color": "white"},
                "encoding": words,
            },
            {
                "name": "ink_cell",
                "transform": [{"filter": f"{fits} && !({dark})"}],
                "mark": text | {"color": INK},
                "encoding": words,
            },
        ],
    }
