"""Energy for a success against how much requests slow each other down: one point a policy, with intervals."""

from __future__ import annotations

from fairlead.measure.report.document import Point
from fairlead.measure.report.plots.common import SHOWN, Plot, Style, ends, known, tooltip
from fairlead.measure.report.style import Spec
from fairlead.measure.report.words import percent, plus_minus

_TITLE = "Energy and degradation"


def energy(point: Point, style: Style) -> Plot:
    """The plot, or why there is none."""
    rows = [row for policy in point.ranking if (row := _row(point, policy))]
    if not rows:
        return Plot("energy", _TITLE, "Nothing to draw: the document has no energy per success or no degradation.")
    if all(abs(row["degradation"] - 1) < 1e-9 for row in rows):
        why = (
            "Degradation is 1 for every policy: on these nodes requests wait in queues and never slow each other down."
        )
        return Plot("energy", _TITLE, f"{why} Energy per success is in the tables.")
    least, calm = min(rows, key=lambda r: r["energy"]), min(rows, key=lambda r: r["degradation"])
    return Plot(
        "energy",
        _TITLE,
        "One point a policy, with 95 % intervals; lower and further left is better. Energy includes idle power.",
        f"{least['policy']} needs the least energy, {least['energy_text']} a success; under {calm['policy']} "
        f"requests slow each other down the least, {calm['degradation_text']} times their time alone.",
        spec=_spec(rows, style),
    )


def _row(point: Point, policy: str) -> Spec | None:
    mj, degradation = point.figure(policy, "energy_per_success_mj"), point.figure(policy, "degradation")
    if not (known(mj) and known(degradation)):
        return None
    row: Spec = {"policy": policy, "energy": mj.mean, "degradation": degradation.mean}
    row["energy_low"], row["energy_high"] = ends(mj)
    row["degradation_low"], row["degradation_high"] = ends(degradation)
    return row | {
        "energy_text": f"{plus_minus(mj, '{:,.0f}')} mJ",
        "degradation_text": plus_minus(degradation, "{:.3f}"),
        "success_text": f"{percent(point.figure(policy, 'success'))} %",
    }


def _spec(rows: list[Spec], style: Style) -> Spec:
    free: Spec = {"type": "quantitative", "scale": {"zero": False, "padding": 12}, "axis": {"tickCount": 6}}
    x = free | {"field": "degradation", "title": "degradation (service time / time alone)"}
    y = free | {"field": "energy", "title": "energy per success, mJ"}
    across = {"x": x | {"field": "degradation_low"}, "x2": {"field": "degradation_high"}, "y": y}
    upright = {"y": y | {"field": "energy_low"}, "y2": {"field": "energy_high"}, "x": x}
    texts = {"energy_text": "energy per success", "degradation_text": "degradation", "success_text": "success"}
    rule: Spec = {"type": "rule", "strokeWidth": 1.5}
    point_mark: Spec = {"type": "point", "filled": True, "size": 90, "opacity": 1}
    return {
        "height": 320,
        "data": {"values": rows},
        "params": [{"name": "shown", "value": style.policies}],
        "encoding": {"opacity": {"condition": {"test": SHOWN, "value": 1}, "value": 0.5}},
        "layer": [
            {"mark": rule, "encoding": across | style.dots("color")},
            {"mark": rule, "encoding": upright | style.dots("color")},
            {
                "mark": point_mark,
                "encoding": {"x": x, "y": y, "tooltip": tooltip("policy", texts)} | style.dots("color", "shape"),
            },
        ],
    }
