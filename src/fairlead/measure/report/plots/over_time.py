"""Lines of an outcome's share by time of arrival, with the changes of the workload marked."""

from __future__ import annotations

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.plots.common import SHOWN, UNSEEN, Plot, Style, change_rules, time_axis, tooltip, when_text
from fairlead.measure.report.style import Spec


def over_time(point: Point, style: Style) -> Plot:
    """The plot."""
    spec: Spec = {
        "height": 280,
        "params": [
            {"name": "shown", "value": style.highlighted},
            {"name": "measure", "value": "success"},
            {"name": "edges_s", "value": point.body["time_s"]},
        ],
        "layer": [*change_rules(point), _lines(point, style)],
    }
    findings = {name: _finding(point, name) for name in OUTCOMES}
    changes = " Dotted lines are changes of the workload or the links." if point.changes() else ""
    return Plot(
        "over-time",
        "Over time",
        f"By the time at which requests arrive, all finished seeds together; the axis need not start at 0.{changes}",
        findings["success"],
        findings,
        tuple(f"at {at_s:g} s: {words}" for at_s, words in point.changes()),
        spec,
    )


def _lines(point: Point, style: Style) -> Spec:
    rows = [{"policy": p} | {o: point.detail(p)["outcomes"][o] for o in OUTCOMES} for p in point.ranking]
    texts = {"when": "arrived", "share_text": "share", "requests_text": "requests"}
    return {
        "data": {"values": rows},
        "transform": [
            {"filter": SHOWN},
            {"calculate": "sequence(length(datum.success))", "as": "bin"},
            {"flatten": ["bin", *OUTCOMES]},
            {"calculate": " + ".join(f"datum.{o}" for o in OUTCOMES), "as": "requests"},
            {"filter": "datum.requests > 0"},
            {"calculate": "datum[measure] / datum.requests", "as": "share"},
            {"calculate": "(edges_s[datum.bin] + edges_s[datum.bin + 1]) / 2", "as": "middle_s"},
            {"calculate": when_text(), "as": "when"},
            {"calculate": "format(datum.share, '.1%') + ' ' + measure", "as": "share_text"},
            {"calculate": "format(datum.requests, ',')", "as": "requests_text"},
        ],
        "encoding": {
            "x": time_axis(point, "middle_s"),
            "y": {
                "field": "share",
                "type": "quantitative",
                "scale": {"zero": False},
                "axis": {"format": "%", "title": "share of requests", "tickCount": 6},
            },
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
                "encoding": style.lines("color", "strokeDash"),
            },
            {"mark": UNSEEN, "encoding": {"tooltip": tooltip("policy", texts)}},
        ],
    }


def _finding(point: Point, outcome: str) -> str:
    best, edges_s = point.ranking[0], point.body["time_s"]
    counts = point.detail(best)["outcomes"]
    requests = [sum(bins) for bins in zip(*(counts[o] for o in OUTCOMES), strict=True)]
    shares = [(n / all_, i) for i, (n, all_) in enumerate(zip(counts[outcome], requests, strict=True)) if all_]
    if not shares:
        return "No request arrived."
    what = "success" if outcome == "success" else f"{outcome} requests"
    (low, low_bin), (high, high_bin) = min(shares), max(shares)
    return (
        f"Under {best} the share of {what} is lowest, {low:.1%}, {edges_s[low_bin]:g} to {edges_s[low_bin + 1]:g} s "
        f"after the start, and highest, {high:.1%}, after {edges_s[high_bin]:g} to {edges_s[high_bin + 1]:g} s."
    )
