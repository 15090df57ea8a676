"""Lines of the share of all (requests, tasks) that are done within a time, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.measure.report.plots.plot import SHOWN, UNSEEN, Style, tooltip
from fairlead.measure.report.style import Spec

_ENOUGH = 0.001  # the axis starts and ends where the lines are this near to their ends


@dataclass(frozen=True)
class Words:
    """What a plot is of."""

    unit: str
    x: str
    y: str
    done: str  # to be answered, to be completed


def within(
    edges: Sequence[float], shares: Mapping[str, Sequence[float]], style: Style, words: Words, line: str
) -> Spec:
    """The plot of each policy's share within each edge; `line` is how points are joined."""
    kept = _informative(edges, list(shares.values()))
    rows = [{"policy": p, "share": [round(share[i], 5) for i in kept]} for p, share in shares.items()]
    shown = [edges[i] for i in kept]
    return {
        "height": 280,
        "data": {"values": rows},
        "params": [{"name": "shown", "value": style.highlighted}, {"name": "edges", "value": shown}],
        "transform": [
            {"filter": SHOWN},
            {"calculate": "sequence(length(datum.share))", "as": "bin"},
            {"flatten": ["bin", "share"]},
            {"calculate": "edges[datum.bin]", "as": "within"},
            {"calculate": f"format(datum.within, '.3~r') + ' {words.unit}'", "as": "within_text"},
            {"calculate": "format(datum.share, '.1%')", "as": "share_text"},
        ],
        "encoding": {
            "x": {
                "field": "within",
                "type": "quantitative",
                "scale": {"type": "log", "domain": [shown[0], shown[-1]], "nice": False},
                "axis": {"title": words.x, "values": _ticks(shown), "format": "~r"},
            },
            "y": {
                "field": "share",
                "type": "quantitative",
                "scale": {"domain": [0, 1]},
                "axis": {"format": "%", "title": words.y, "tickCount": 5},
            },
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2, "interpolate": line},
                "encoding": style.lines("color", "strokeDash"),
            },
            {
                "mark": UNSEEN,
                "encoding": {"tooltip": tooltip("policy", {"within_text": "within", "share_text": words.done})},
            },
        ],
    }


def _informative(edges: Sequence[float], shares: list[Sequence[float]]) -> range:
    """The edges between which anything happens; at least two, all above 0 (the axis is logarithmic)."""
    places = [i for i, edge in enumerate(edges) if edge > 0]
    first = next((i for i in places if any(s[i] > _ENOUGH for s in shares)), places[0])
    last = next((i for i in places if all(s[-1] - s[i] <= _ENOUGH for s in shares)), places[-1])
    first = max(places[0], min(first - 1, len(edges) - 2))
    return range(first, max(last, first + 1) + 1)


def _ticks(edges: Sequence[float]) -> list[float]:
    """1, 2, 5, 10, ... within the axis."""
    steps = [digit * 10.0**power for power in range(-3, 8) for digit in (1, 2, 5)]
    return [s for s in steps if edges[0] <= s <= edges[-1]]
