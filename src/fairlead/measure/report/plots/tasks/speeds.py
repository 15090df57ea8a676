"""How long a task of each type takes by what it is given, after TapFinger's figure 2.

A heat map where two resources count, a line where one does, a sentence where none does.
"""

from __future__ import annotations

import math

from fairlead.measure.report.document import Document, number
from fairlead.measure.report.phrases import listed
from fairlead.measure.report.plots.plot import Plot
from fairlead.measure.report.style import BUSY_COLOURS, HUES, INK, Spec
from fairlead.measure.report.task_document import TaskPoint
from fairlead.measure.write_files import safe_names

_CELL_PX = 22
Axis = tuple[str, list[int]]  # a resource, and amounts of it


def speeds(point: TaskPoint) -> list[Plot]:
    """A plot for each type, or why there is none."""
    names = safe_names(point.types)
    return [
        _speed(task_type, name, point.body["speeds"][task_type])
        for task_type, name in zip(point.types, names, strict=True)
    ]


def _speed(task_type: str, name: str, speed: Document) -> Plot:
    axes, steps = _that_count(list(speed["amounts"].items()), [[number(s) for s in row] for row in speed["steps"]])
    title, others = f"How long tasks of type {task_type} run", [r for r in speed["amounts"] if r not in dict(axes)]
    whatever = f", whatever its allocation of {listed(others)}" if others else ""
    finite = [s for row in steps for s in row if math.isfinite(s)]
    if not axes or not finite:
        how = f"a task takes {finite[0]:g} steps" if finite else "a task never ends"
        return Plot(f"speed-{name}", title, f"Nothing to draw: {how}{whatever}.")
    grey = " Grey: the task never ends." if len(finite) < sum(map(len, steps)) and len(axes) == 2 else ""
    return Plot(
        f"speed-{name}",
        title,
        f"Steps that a task takes by its allocation of {listed([r for r, _ in axes])}{whatever}; without waiting, "
        f"noise and changes of the allocation.{grey}",
        f"A task of type {task_type} takes {max(finite):g} steps at its slowest and {min(finite):g} at its fastest.",
        spec=_map(axes[0], axes[1], steps) if len(axes) == 2 else _line(axes[0], [s for row in steps for s in row]),
        room_px=54,
    )


def _that_count(axes: list[Axis], steps: list[list[float]]) -> tuple[list[Axis], list[list[float]]]:
    """Leave out a resource that changes nothing. Rows are of the first."""
    if len(axes) == 2 and all(len(set(row)) == 1 for row in steps):
        axes, steps = axes[:1], [row[:1] for row in steps]
    if all(row == steps[0] for row in steps):
        axes, steps = axes[1:], steps[:1]
    return axes, steps


def _map(down: Axis, across: Axis, steps: list[list[float]]) -> Spec:
    """Cells with a number in each, where there is room."""
    finite = [s for row in steps for s in row if math.isfinite(s)]
    low, high = min(finite), max(finite)
    rows = [
        {"down": a, "steps": [s if math.isfinite(s) else None for s in row]}
        for a, row in zip(down[1], steps, strict=True)
    ]
    axis = {"ticks": False, "domain": False, "labelAngle": 0, "labelPadding": 6, "labelOverlap": True}
    fits = f"width / {len(across[1])} > 24"
    dark = f"datum.steps > {low + 0.8 * (high - low)}"
    cell: Spec = {"type": "rect", "height": {"band": 0.94}, "width": {"band": 0.97}}
    text: Spec = {"type": "text", "fontSize": 11}
    number_of: Spec = {"text": {"field": "steps", "format": "~r"}}
    hint = {"down": down[0], "across": across[0], "steps": "steps"}
    colour: Spec = {
        "field": "steps",
        "type": "quantitative",
        "scale": {"domain": [low, high], "range": list(BUSY_COLOURS)},
        "legend": None,
    }
    return {
        "height": _CELL_PX * len(down[1]),
        "data": {"values": rows},
        "params": [{"name": "amounts", "value": across[1]}],
        "transform": [
            {"calculate": "sequence(length(datum.steps))", "as": "place"},
            {"flatten": ["place", "steps"]},
            {"calculate": "amounts[datum.place]", "as": "across"},
        ],
        "encoding": {
            "x": {"field": "across", "type": "ordinal", "axis": {"title": across[0], **axis}},
            "y": {"field": "down", "type": "ordinal", "sort": "descending", "axis": {"title": down[0], **axis}},
            "tooltip": [{"field": f, "title": title} for f, title in hint.items()],
        },
        "layer": [
            {"transform": [{"filter": "isNumber(datum.steps)"}], "mark": cell, "encoding": {"color": colour}},
            {"transform": [{"filter": "!isNumber(datum.steps)"}], "mark": cell | {"color": "rgba(128,136,145,0.28)"}},
            {
                "name": "on_cell",
                "transform": [{"filter": f"{fits} && {dark}"}],
                "mark": text | {"color": "white"},
                "encoding": number_of,
            },
            {
                "name": "ink_cell",
                "transform": [{"filter": f"{fits} && isNumber(datum.steps) && !({dark})"}],
                "mark": text | {"color": INK},
                "encoding": number_of,
            },
        ],
    }


def _line(axis: Axis, steps: list[float]) -> Spec:
    rows = [{"amount": a, "steps": s} for a, s in zip(axis[1], steps, strict=True) if math.isfinite(s)]
    few = len(rows) <= 8
    whole: Spec = {"format": "d", "tickCount": 8} | ({"values": [row["amount"] for row in rows]} if few else {})
    return {
        "height": 200,
        "data": {"values": rows},
        "params": [],
        "mark": {"type": "line", "strokeWidth": 2, "color": HUES[0], "point": {"size": 40, "color": HUES[0]}},
        "encoding": {
            "x": {
                "field": "amount",
                "type": "quantitative",
                "scale": {"zero": False, "nice": False, "padding": 12},
                "axis": {"title": f"{axis[0]} of a task", **whole},
            },
            "y": {"field": "steps", "type": "quantitative", "axis": {"title": "steps", "tickCount": 5}},
            "tooltip": [{"field": "amount", "title": axis[0]}, {"field": "steps", "title": "steps"}],
        },
    }
