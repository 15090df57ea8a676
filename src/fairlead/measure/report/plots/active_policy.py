"""Which policy a selector had active, over time: a strip for each selector, the share of time of each action."""

from __future__ import annotations

from collections import Counter

from fairlead.measure.report.document import Point
from fairlead.measure.report.phrases import listed
from fairlead.measure.report.plots.plot import Plot, Style, change_rules, time_axis, tooltip, when_text
from fairlead.measure.report.style import INK, Spec, fill_of, free_fill

_STRIP_PX, _GAP = 84, 0.06
_LEGEND_COLUMNS, _LEGEND_ROW_PX = 3, 16


def active(point: Point, style: Style) -> Plot | None:
    """The plot; None when no policy is a selector."""
    selectors = [p for p in point.ranking if _shares(point, p)]
    if not selectors:
        return None
    colours = _colours(point, selectors, style)
    spec: Spec = {
        "height": _STRIP_PX * len(selectors),
        "params": [{"name": "edges_s", "value": point.body["time_s"]}, {"name": "names", "value": selectors}],
        "layer": [_strips(point, selectors, colours), *change_rules(point.changes())],
    }
    return Plot(
        "active",
        "The policy that was active",
        "Share of the time in which each policy decided for the selector, mean of all finished seeds.",
        " ".join(_finding(point, s) for s in selectors),
        spec=spec,
        room_px=76 + _LEGEND_ROW_PX * -(-len(colours) // _LEGEND_COLUMNS),
    )


def _shares(point: Point, policy: str) -> dict[str, list[float]]:
    """Of each action, the share of each bin that it was active in; empty when the policy is no selector."""
    shares: dict[str, list[float]] = (point.detail(policy).get("learned") or {}).get("active") or {}
    return shares


def _totals(point: Point, selector: str) -> dict[str, float]:
    """The share of all time of each action."""
    return {action: sum(shares) / max(1, len(shares)) for action, shares in _shares(point, selector).items()}


def _colours(point: Point, selectors: list[str], style: Style) -> dict[str, str]:
    """Colours of the actions that were ever active, most active first: each its line's hue while that is free."""
    time = Counter[str]()
    for selector in selectors:
        time.update(_totals(point, selector))
    actions = [action for action, share in time.most_common() if share]
    places: dict[str, int] = {}
    for action in sorted(actions, key=lambda a: a not in style.policies):  # those with a line choose first
        wanted = style.policies.index(action) if action in style.policies else len(style.policies)
        places[action] = free_fill(wanted, list(places.values()))
    return {action: fill_of(places[action]) for action in actions}


def _strips(point: Point, selectors: list[str], colours: dict[str, str]) -> Spec:
    rows = [row for i, s in enumerate(selectors) for row in _rows(point, s, i, list(colours))]
    return {
        "data": {"values": rows},
        "transform": [
            {"calculate": "sequence(length(datum.share))", "as": "bin"},
            {"flatten": ["bin", "share", "low", "high"]},
            {"filter": "datum.share > 0"},
            {"calculate": "edges_s[datum.bin]", "as": "from_s"},
            {"calculate": "edges_s[datum.bin + 1]", "as": "to_s"},
            {"calculate": when_text(), "as": "when"},
            {"calculate": "format(datum.share, '.0%') + ' of the time'", "as": "share_text"},
        ],
        "mark": {"type": "rect"},
        "encoding": {
            "x": time_axis(point.body["time_s"], "from_s", grid=False, title="time, s"),
            "x2": {"field": "to_s"},
            "y": {
                "field": "low",
                "type": "quantitative",
                "scale": {"domain": [len(selectors), 0], "nice": False},
                "axis": {
                    "title": None,
                    "values": [i + 0.5 for i in range(len(selectors))],
                    "labelExpr": "names[floor(datum.value)]",
                    "grid": False,
                    "ticks": False,
                    "domain": False,
                    "labelPadding": 8,
                    "labelColor": INK,
                },
            },
            "y2": {"field": "high"},
            "color": {
                "field": "action",
                "type": "nominal",
                "scale": {"domain": list(colours), "range": list(colours.values())},
                "legend": {"title": None, "orient": "bottom", "symbolType": "square", "columns": _LEGEND_COLUMNS},
            },
            "tooltip": tooltip("action", {"when": "time", "share_text": "active"}),
        },
    }


def _rows(point: Point, selector: str, place: int, order: list[str]) -> list[Spec]:
    """A row for each action with its shares by bin, and where these lie in the strip."""
    found = _shares(point, selector)
    below, rows = [0.0] * (len(point.body["time_s"]) - 1), []
    for action in (a for a in order if a in found):
        share = found[action]
        above = [x + y for x, y in zip(below, share, strict=True)]
        ends = {"low": [_at(place, x) for x in below], "high": [_at(place, x) for x in above]}
        rows.append({"action": action, "share": [round(x, 4) for x in share]} | ends)
        below = above
    return rows


def _at(place: int, share: float) -> float:
    return round(place + _GAP + (1 - 2 * _GAP) * share, 4)


def _finding(point: Point, selector: str) -> str:
    totals = _totals(point, selector)
    most = sorted((a for a in totals if totals[a]), key=lambda a: -totals[a])
    shares = listed([f"{a} {totals[a]:.0%}" for a in most])
    return f"Under {selector} the active policy is {shares} of the time."
