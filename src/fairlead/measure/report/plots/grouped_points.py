"""Points of policies in groups (scenarios, types of tasks), each with a line for its interval or spread."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.measure.report.plots.plot import SHOWN, Style, tooltip, with_ends
from fairlead.measure.report.style import INK, Spec

GROUP_PX = 84


def groups_axis(groups: Sequence[str]) -> Spec:
    """The y channel: `label` is the group."""
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK, "labelLimit": 120}
    return {"field": "label", "type": "nominal", "sort": list(groups), "axis": axis | {"grid": True}}


def values_axis(axis: Spec, zero: bool = False) -> Spec:
    """The x channel, which a layer gives its field; with 0 or not."""
    return {"type": "quantitative", "scale": {"zero": zero}, "axis": axis | {"tickCount": 6}}


def side_by_side(
    rows: list[Spec], groups: Sequence[str], x: Spec, style: Style, texts: Spec, transforms: Sequence[Spec] = ()
) -> Spec:
    """The layer. Rows have `policy`, `label` and, behind the transforms, `measured` with `_low` and `_high`."""
    lined = any(name.endswith("_low") for row in rows for name in row)
    rule: Spec = {
        "transform": [with_ends("measured")],
        "mark": {"type": "rule", "strokeWidth": 1.5},
        "encoding": {"x": x | {"field": "measured_low"}, "x2": {"field": "measured_high"}} | style.lit("color"),
    }
    by_policy = {"field": "policy", "type": "nominal", "sort": style.policies}
    return {
        "data": {"values": rows},
        "transform": [{"filter": SHOWN}, *transforms],
        "encoding": {"y": groups_axis(groups), "yOffset": by_policy},
        "layer": [
            *([rule] if lined else []),
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {"x": x | {"field": "measured"}, "tooltip": tooltip("policy", texts)}
                | style.lit("color", "shape"),
            },
        ],
    }
