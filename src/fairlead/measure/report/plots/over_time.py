"""Lines of an outcome's share over time, by arrival and averaged so far, with the changes of the workload marked."""

from __future__ import annotations

from fairlead.measure.report.document import OUTCOMES, Point
from fairlead.measure.report.plots.plot import SHOWN, UNSEEN, Plot, Style, change_rules, time_axis, tooltip, when_text
from fairlead.measure.report.style import Spec


def over_time(point: Point, style: Style) -> Plot:
    """The share among the requests that arrive in each span of time."""
    findings = {name: _finding(point, name) for name in OUTCOMES}
    return Plot(
        "over-time",
        "Over time",
        f"Share among the requests that arrive at a time, all finished seeds together; the axis need not start at 0."
        f"{_about_changes(point)}",
        findings["success"],
        findings,
        tuple(f"at {at_s:g} s: {words}" for at_s, words in point.changes()),
        _spec(point, style, 280, []),
        room_px=62,
    )


def time_average(point: Point, style: Style) -> Plot:
    """The share among all requests that have arrived so far."""
    so_far = [{"op": "sum", "field": o, "as": o} for o in OUTCOMES]
    findings = {name: _average_finding(point, name) for name in OUTCOMES}
    return Plot(
        "time-average",
        "Time average",
        f"Share among all requests that have arrived up to a time, all finished seeds together; the axis need not "
        f"start at 0."
        f"{_about_changes(point)}",
        findings["success"],
        findings,
        spec=_spec(point, style, 220, [{"window": so_far, "groupby": ["policy"], "sort": [{"field": "bin"}]}]),
        room_px=62,
    )


def _about_changes(point: Point) -> str:
    return " Dotted lines are changes of the workload or the links." if point.changes() else ""


def _spec(point: Point, style: Style, height: int, sums: list[Spec]) -> Spec:
    return {
        "height": height,
        "params": [
            {"name": "shown", "value": style.highlighted},
            {"name": "measure", "value": "success"},
            {"name": "edges_s", "value": point.body["time_s"]},
        ],
        "layer": [*change_rules(point.changes()), _lines(point, style, sums)],
    }


def _lines(point: Point, style: Style, sums: list[Spec]) -> Spec:
    """`sums` turn the counts of bins into counts so far; a point then stands at the end of its bin."""
    rows = [{"policy": p} | {o: point.detail(p)["outcomes"][o] for o in OUTCOMES} for p in point.ranking]
    texts = {"when": "arrived", "share_text": "share", "requests_text": "requests"}
    at_s = "edges_s[datum.bin + 1]" if sums else "(edges_s[datum.bin] + edges_s[datum.bin + 1]) / 2"
    when = "'up to ' + format(edges_s[datum.bin + 1], '~r') + ' s'" if sums else when_text()
    return {
        "data": {"values": rows},
        "transform": [
            {"filter": SHOWN},
            {"calculate": "sequence(length(datum.success))", "as": "bin"},
            {"flatten": ["bin", *OUTCOMES]},
            *sums,
            {"calculate": " + ".join(f"datum.{o}" for o in OUTCOMES), "as": "requests"},
            {"filter": "datum.requests > 0"},
            {"calculate": "datum[measure] / datum.requests", "as": "share"},
            {"calculate": at_s, "as": "at_s"},
            {"calculate": when, "as": "when"},
            {"calculate": "format(datum.share, '.1%') + ' ' + measure", "as": "share_text"},
            {"calculate": "format(datum.requests, ',')", "as": "requests_text"},
        ],
        "encoding": {
            "x": time_axis(point.body["time_s"], "at_s"),
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


def _average_finding(point: Point, outcome: str) -> str:
    """The averages of the whole run, as the lines end."""
    shares = []
    for policy in point.ranking:
        counts = point.detail(policy)["outcomes"]
        requests = sum(sum(counts[o]) for o in OUTCOMES)
        if requests:
            shares.append(f"{policy} {sum(counts[outcome]) / requests:.1%}")
    return (
        f"At the end of the run the time average of {outcome} is: {', '.join(shares)}."
        if shares
        else "No request arrived."
    )
