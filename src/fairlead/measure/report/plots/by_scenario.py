"""The objective, or another measure, of each policy in each scenario of a comparison, with intervals and the bound."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.measure.report.document import Document, Point, highlighted, sweep
from fairlead.measure.report.plots.grouped_points import GROUP_PX, groups_axis, side_by_side, values_axis
from fairlead.measure.report.plots.measure_choice import Measures, by_measure
from fairlead.measure.report.plots.plot import NO_INTERVALS, Plot, Style, known
from fairlead.measure.report.style import INK, Spec, by_look


def across(document: Document, points: Sequence[Point], measures: Measures, legend: bool) -> Plot | None:
    """The plot; None for a sweep, or when there are no two scenarios to set side by side."""
    found = [p for p in points if p.ranking]
    if sweep(document) is not None or len(found) < 2:
        return None
    style = Style(by_look(document), _all_highlighted(document, found), legend)
    drawn = measures.have_intervals(found)
    bound = f" The upright stroke is {measures.bound}." if any(known(p.bound) for p in found) else ""
    findings = measures.findings(found, "scenario")
    return Plot(
        "across",
        "Across the scenarios",
        f"Mean over the seeds{' with 95 % intervals of each policy alone' if drawn else f'. {NO_INTERVALS}'}; "
        f"the axis need not start at 0.{bound}",
        findings[measures.first],
        findings,
        spec=_spec(found, measures, style),
    )


def _all_highlighted(document: Document, found: list[Point]) -> list[str]:
    """The policies that stand out in one of the scenarios."""
    names = {name for point in found for name in highlighted(document, point)}
    return [name for name in by_look(document) if name in names]


def _spec(found: list[Point], measures: Measures, style: Style) -> Spec:
    labels, x = [p.label for p in found], values_axis(measures.axis)
    rows = [measures.row(point, policy) for point in found for policy in point.ranking]
    texts = {"label": "in", **measures.texts()}
    return {
        "height": GROUP_PX * len(found),
        "params": [{"name": "shown", "value": style.highlighted}, measures.chosen()],
        "layer": [
            side_by_side(rows, labels, x, style, texts, by_measure()),
            *_bounds(found, measures, x, labels),
        ],
    }


def _bounds(found: list[Point], measures: Measures, x: Spec, labels: list[str]) -> list[Spec]:
    rows = [{"label": p.label, "bound": p.bound.mean, "text": measures.text(p.bound)} for p in found if known(p.bound)]
    if not rows:
        return []
    return [
        {
            "name": "ink_bound",
            "data": {"values": rows},
            "transform": [measures.only_first()],
            "mark": {"type": "tick", "thickness": 1.5, "color": INK, "size": 0.7 * GROUP_PX},
            "encoding": {
                "x": x | {"field": "bound"},
                "y": groups_axis(labels),
                "tooltip": [{"field": "label", "title": "in"}, {"field": "text", "title": measures.passing}],
            },
        }
    ]
