"""Energy for a success against how much requests slow each other down: one point a policy, with intervals."""

from __future__ import annotations

from fairlead.measure.report.document import Point
from fairlead.measure.report.plots.common import NO_INTERVALS, SHOWN, Plot, Style, ends, known, tooltip, with_ends
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
    drawn = any("energy_low" in row or "degradation_low" in row for row in rows)
    least, calm = min(rows, key=lambda r: r["energy"]), min(rows, key=lambda r: r["degradation"])
    return Plot(
        "energy",
        _TITLE,
        f"One point a policy{', with 95 % intervals' if drawn else ''}; lower and further left is better. "
        f"Energy includes idle power.{'' if drawn else f' {NO_INTERVALS}'}",
        f"{least['policy']} needs the least energy, {least['energy_text']} a success; under {calm['policy']} "
        f"requests slow each other down the least, {calm['degradation_text']} times their time alone.",
        spec=_spec(rows, style),
    )


def _row(point: Point, policy: str) -> Spec | None:
    mj, degradation = point.figure(policy, "energy_per_success_mj"), point.figure(policy, "degradation")
    if not (known(mj) and known(degradation)):
        return None
    row: Spec = {"policy": policy, "energy": mj.mean, "degradation": degradation.mean}
    row |= ends("energy", mj) | ends("degradation", degradation)
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
            *(
                {"transform": [with_ends(name)], "mark": rule, "encoding": encoding | style.dots("color")}
                for name, encoding in (("degradation", across), ("energy", upright))
                if any(f"{name}_low" in row for row in rows)
            ),
            {
                "mark": point_mark,
                "encoding": {"x": x, "y": y, "tooltip": tooltip("policy", texts)} | style.dots("color", "shape"),
            },
        ],
    }
