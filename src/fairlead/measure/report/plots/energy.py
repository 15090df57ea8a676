"""Energy per success against how much requests slow each other down: one point a policy, with intervals.

Over a sweep, one line a policy, through the swept values in their order.
"""

from __future__ import annotations

from fairlead.measure.report.document import Document, Point, highlighted, points, sweep
from fairlead.measure.report.phrases import percent, plus_minus
from fairlead.measure.report.plots.plot import NO_INTERVALS, SHOWN, Plot, Style, ends, known, tooltip, with_ends
from fairlead.measure.report.style import MUTED, Spec, by_look

_TITLE = "Energy and slow-down"
_TEXTS = {"energy_text": "energy per success", "degradation_text": "slow-down", "success_text": "success"}


def energy(point: Point, style: Style) -> Plot:
    """The plot, or why there is none."""
    rows = [row for policy in point.ranking if (row := _row(point, policy))]
    if not rows:
        return Plot("energy", _TITLE, "Nothing to draw: the document has no energy per success or no slow-down.")
    if not _degrades(rows):
        why = "on these nodes requests wait in queues and never slow each other down."
        return Plot(
            "energy", _TITLE, f"The slow-down is 1 for every policy: {why} Energy per success is in the tables."
        )
    drawn = any("energy_low" in row or "degradation_low" in row for row in rows)
    least, calm = min(rows, key=lambda r: r["energy"]), min(rows, key=lambda r: r["degradation"])
    return Plot(
        "energy",
        _TITLE,
        f"One point a policy{', with 95 % intervals' if drawn else ''}; lower and further left is better. "
        f"{'The dashed line joins the policies that no other policy beats in both. ' if len(_front(rows)) > 1 else ''}"
        f"Energy includes idle power.{'' if drawn else f' {NO_INTERVALS}'}",
        f"{least['policy']} needs the least energy, {least['energy_text']} per success; under {calm['policy']} "
        f"requests slow each other down the least, {calm['degradation_text']} times their time alone.",
        spec=_spec(rows, style),
    )


def energy_over_values(document: Document, legend: bool) -> Plot | None:
    """The plot; None for a comparison, and where nothing degrades."""
    swept = sweep(document)
    if swept is None:
        return None
    found = [(v, p) for v, p in zip(swept[1], points(document), strict=True) if p.ranking]
    rows = [
        row | {"order": i, "label": point.label, "value": str(value)}
        for i, (value, point) in enumerate(found)
        for policy in point.ranking
        if (row := _row(point, policy))
    ]
    if not rows or not _degrades(rows):
        return None
    style = Style(by_look(document), highlighted(document, found[0][1]), legend)
    x, y = _axes()
    texts = {"label": "at", **_TEXTS}
    shared: Spec = {"x": x, "y": y}
    return Plot(
        "energy-sweep",
        f"{_TITLE} against {swept[0]}",
        f"Each policy has a line through the values of {swept[0]} in their order, which begins at the ring; lower and "
        "further left is better. Energy includes idle power. Intervals are in the tables.",
        f"From {found[0][1].label} to {found[-1][1].label}: {'; '.join(_ends(rows, p) for p in style.highlighted)}.",
        spec={
            "height": 320,
            "data": {"values": rows},
            "params": [{"name": "shown", "value": style.highlighted}],
            "transform": [{"filter": SHOWN}],
            "layer": [
                {
                    "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
                    "encoding": shared | {"order": {"field": "order"}} | style.lines("color", "strokeDash"),
                },
                {
                    "transform": [{"filter": "datum.order == 0"}],
                    "mark": {"type": "point", "size": 160, "strokeWidth": 1.5},
                    "encoding": shared | style.lines("color"),
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
                    "encoding": shared | {"tooltip": tooltip("policy", texts)} | style.lines("color"),
                },
            ],
        },
    )


def _ends(rows: list[Spec], policy: str) -> str:
    """Where a policy's line begins and ends, in words."""
    own = [row for row in rows if row["policy"] == policy]
    if not own:
        return f"{policy} has no figures"
    first, last = (f"{row['energy_text']} at a slow-down of {row['degradation_text']}" for row in (own[0], own[-1]))
    return f"{policy} from {first} to {last}"


def _degrades(rows: list[Spec]) -> bool:
    return any(abs(row["degradation"] - 1) >= 1e-9 for row in rows)


def _front(rows: list[Spec]) -> list[Spec]:
    """Those than which no other has both less energy and less degradation, by degradation."""
    front: list[Spec] = []
    for row in sorted(rows, key=lambda r: (r["degradation"], r["energy"])):
        if not front or row["energy"] < front[-1]["energy"]:
            front.append({"degradation": row["degradation"], "energy": row["energy"]})
    return front


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


def _axes() -> tuple[Spec, Spec]:
    free: Spec = {"type": "quantitative", "scale": {"zero": False, "padding": 12}, "axis": {"tickCount": 6}}
    x = free | {"field": "degradation", "title": "slow-down (service time / time alone)"}
    return x, free | {"field": "energy", "title": "energy per success, mJ"}


def _spec(rows: list[Spec], style: Style) -> Spec:
    x, y = _axes()
    across = {"x": x | {"field": "degradation_low"}, "x2": {"field": "degradation_high"}, "y": y}
    upright = {"y": y | {"field": "energy_low"}, "y2": {"field": "energy_high"}, "x": x}
    rule: Spec = {"type": "rule", "strokeWidth": 1.5}
    point_mark: Spec = {"type": "point", "filled": True, "size": 90, "opacity": 1}
    return {
        "height": 320,
        "data": {"values": rows},
        "params": [{"name": "shown", "value": style.policies}],
        "encoding": {"opacity": {"condition": {"test": SHOWN, "value": 1}, "value": 0.5}},
        "layer": [
            {
                "name": "ink_front",
                "data": {"values": _front(rows)},
                "mark": {"type": "line", "strokeDash": [2, 3], "strokeWidth": 1, "color": MUTED},
                "encoding": {"x": x, "y": y, "opacity": {"value": 1}},
            },
            *(
                {"transform": [with_ends(name)], "mark": rule, "encoding": encoding | style.dots("color")}
                for name, encoding in (("degradation", across), ("energy", upright))
                if any(f"{name}_low" in row for row in rows)
            ),
            {
                "mark": point_mark,
                "encoding": {"x": x, "y": y, "tooltip": tooltip("policy", _TEXTS)} | style.dots("color", "shape"),
            },
        ],
    }
