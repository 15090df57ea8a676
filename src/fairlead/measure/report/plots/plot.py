"""What the plots share: the form of a plot, time axes, marks of changes, tooltips.

Data stay as compact as in the document (a row per policy, with arrays); the specs unfold them. What a reader chooses
are top-level params: `shown` (policies), `measure` (an outcome, a quantile), `chosen` (a policy). A spec has no width:
the page gives its container's, a file a fixed one. Pure functions of the document, the same for page and files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fairlead.measure.report.style import INK, MUTED, Spec, policy_channels
from fairlead.measure.statistics import Estimate

ROW_PX = 24  # height of a row of bars or cells
NO_INTERVALS = "One seed, so no intervals."
SHOWN = "indexof(shown, datum.policy) >= 0"
UNSEEN: Spec = {"type": "point", "size": 140, "opacity": 0, "filled": True}  # what the pointer hits for a tooltip


@dataclass(frozen=True)
class Plot:
    """One plot of one label. Without a spec, `caption` says why there is nothing to draw."""

    name: str
    title: str
    caption: str  # how to read it
    finding: str = ""  # its text alternative, as it is drawn at first
    findings: Mapping[str, str] = field(default_factory=dict)  # the same for each choice of the plot's own chooser
    notes: tuple[str, ...] = ()  # numbered, below it
    spec: Spec | None = None
    room_px: int = 54  # what axes, legend and marks of changes take above and below the spec's height, as measured


@dataclass(frozen=True)
class Style:
    """What the plots of a label share: the policies in the order of their colours, those that stand out, a legend."""

    policies: list[str]
    highlighted: list[str]
    legend: bool

    def lines(self, *channels: str) -> Spec:
        """Encodings of lines, of which only the highlighted policies have one."""
        look = {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 2}
        return self._channels(self.highlighted, look, channels)

    def dots(self, *channels: str) -> Spec:
        """Encodings of points, of which every policy has one."""
        return self._channels(self.policies, {"symbolSize": 110}, channels)

    def lit(self, *channels: str) -> Spec:
        """Encodings of points of which only the highlighted policies have one."""
        return self._channels(self.highlighted, {"symbolSize": 110}, channels)

    def _channels(self, names: list[str], look: Spec, channels: tuple[str, ...]) -> Spec:
        # The same legend for every layer of a plot: where one has none, Vega-Lite drops it.
        legend = {"title": None, "values": names, "orient": "bottom", "columns": 4, "symbolOpacity": 1} | look
        return policy_channels(self.policies, legend if self.legend else None, channels)


def of_how_many(plot: Plot, style: Style) -> Plot:
    """A plot of highlighted policies says that there are others: a file can't be asked for them."""
    if not style.legend or len(style.highlighted) == len(style.policies):
        return plot
    return replace(
        plot, caption=f"{plot.caption} {len(style.highlighted)} of {len(style.policies)} policies are drawn."
    )


def known(e: Estimate) -> bool:
    """Whether there is a finite number to draw."""
    return math.isfinite(e.mean)


def has_interval(e: Estimate) -> bool:
    """Whether there is an interval to draw; with one seed there is none."""
    return known(e) and math.isfinite(e.ci95)


def ends(name: str, e: Estimate, least: float = -math.inf, most: float = math.inf) -> Spec:
    """The ends of an interval as NAME_low and NAME_high, cut at the limits of a plot; nothing when there is none."""
    return {f"{name}_low": max(least, e.low), f"{name}_high": min(most, e.high)} if has_interval(e) else {}


def with_ends(name: str) -> Spec:
    """The transform that leaves those of which there is an interval."""
    return {"filter": f"isValid(datum['{name}_low'])"}


def tooltip(heading: str, fields: Spec) -> list[Spec]:
    """A tooltip with a field's value as its heading, and other fields (ready text) below: field -> what it is."""
    return [{"field": heading, "title": "title"}, *({"field": f, "title": title} for f, title in fields.items())]


def when_text() -> str:
    """The expression for a bin of time in words."""
    return "format(edges_s[datum.bin], '~r') + ' to ' + format(edges_s[datum.bin + 1], '~r') + ' s'"


def time_axis(edges: Sequence[float], field: str, grid: bool = True, title: str = "time of arrival, s") -> Spec:
    """The x channel of a plot over time."""
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": [edges[0], edges[-1]], "nice": False},
        "axis": {"title": title, "grid": grid, "tickCount": 8, "labelFlush": False},
    }


def change_rules(changes: Sequence[tuple[float, str]], unit: str = "s") -> list[Spec]:
    """Layers that mark when the workload or the links change, numbered as in the list below the plot."""
    if not changes:
        return []
    rows = [{"at": at, "number": str(i), "what": what} for i, (at, what) in enumerate(changes, start=1)]
    words = [{"field": "at", "title": f"at {unit}"}, {"field": "what", "title": "change"}]
    x: Spec = {"field": "at", "type": "quantitative"}
    return [
        {
            "name": "ink_changes",
            "data": {"values": rows},
            "mark": {"type": "rule", "strokeDash": [2, 3], "color": MUTED, "strokeWidth": 1.2},
            "encoding": {"x": x, "tooltip": words},
        },
        {
            "name": "ink_numbers",
            "data": {"values": rows},
            "mark": {"type": "text", "y": -7, "color": INK, "fontSize": 11, "fontWeight": "bold"},
            "encoding": {"x": x, "text": {"field": "number"}, "tooltip": words},
        },
    ]
