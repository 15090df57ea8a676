"""Lines of the share of all requests that are answered within a latency, from the counts in the document."""

from __future__ import annotations

from itertools import accumulate

from fairlead.measure.report.document import Point
from fairlead.measure.report.plots.common import SHOWN, UNSEEN, Plot, Style, tooltip
from fairlead.measure.report.style import Spec
from fairlead.measure.report.words import plus_minus

_ENOUGH = 0.001  # the axis starts and ends where the lines are this near to their ends


def latency(point: Point, style: Style) -> Plot:
    """The plot."""
    edges_ms = [float(e) for e in point.body["latency_ms"]]
    shares = {p: _within(point, p) for p in point.ranking}
    kept = _informative(edges_ms, list(shares.values()))
    rows = [{"policy": p, "share": [round(share[i], 5) for i in kept]} for p, share in shares.items()]
    best = point.ranking[0]
    return Plot(
        "latency",
        "Latency",
        "Share of all requests answered within a time. Rejected ones never are, so a line may end below 100 %.",
        f"{best} answers {shares[best][-1]:.1%} of all requests within {edges_ms[-1]:g} ms; of the answered ones "
        f"half within {plus_minus(point.figure(best, 'latency_p50_ms'), '{:.1f}')} ms "
        f"and 99 % within {plus_minus(point.figure(best, 'latency_p99_ms'), '{:.1f}')} ms.",
        spec=_spec(rows, [edges_ms[i] for i in kept], style),
    )


def _spec(rows: list[Spec], edges_ms: list[float], style: Style) -> Spec:
    return {
        "height": 280,
        "data": {"values": rows},
        "params": [{"name": "shown", "value": style.highlighted}, {"name": "edges_ms", "value": edges_ms}],
        "transform": [
            {"filter": SHOWN},
            {"calculate": "sequence(length(datum.share))", "as": "bin"},
            {"flatten": ["bin", "share"]},
            {"calculate": "edges_ms[datum.bin]", "as": "within_ms"},
            {"calculate": "format(datum.within_ms, '.3~r') + ' ms'", "as": "within_text"},
            {"calculate": "format(datum.share, '.1%')", "as": "share_text"},
        ],
        "encoding": {
            "x": {
                "field": "within_ms",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [edges_ms[0], edges_ms[-1]], "nice": False},
                "axis": {"title": "latency, ms (log scale)", "values": _ticks(edges_ms), "format": "~r"},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1]},
                "axis": {"format": "%", "title": "answered within, of all requests", "tickCount": 5},
            },
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": style.lines("color", "strokeDash"),
            },
            {
                "mark": UNSEEN,
                "encoding": {"tooltip": tooltip("policy", {"within_text": "within", "share_text": "answered"})},
            },
        ],
    }


def _within(point: Point, policy: str) -> list[float]:
    """The share of all requests answered within each edge."""
    detail = point.detail(policy)
    requests = sum(sum(counts) for counts in detail["outcomes"].values())
    answered = list(accumulate(detail["latency"]))[:-1]  # those above the last edge are within none
    return [a / requests if requests else 0.0 for a in answered]


def _informative(edges_ms: list[float], shares: list[list[float]]) -> range:
    """The edges between which anything happens; at least two, all above 0 (the axis is logarithmic)."""
    places = [i for i, edge in enumerate(edges_ms) if edge > 0]
    first = next((i for i in places if any(s[i] > _ENOUGH for s in shares)), places[0])
    last = next((i for i in places if all(s[-1] - s[i] <= _ENOUGH for s in shares)), places[-1])
    first = max(places[0], min(first - 1, len(edges_ms) - 2))
    return range(first, max(last, first + 1) + 1)


def _ticks(edges_ms: list[float]) -> list[float]:
    """1, 2, 5, 10, ... within the axis."""
    steps = [digit * 10.0**power for power in range(-3, 8) for digit in (1, 2, 5)]
    return [s for s in steps if edges_ms[0] <= s <= edges_ms[-1]]
