"""Lines over time: tasks in the system (the paper's task accumulation), and each resource's share in use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from fairlead.measure.files import safe_names
from fairlead.measure.report.plots.common import (
    SHOWN,
    UNSEEN,
    Plot,
    Style,
    change_rules,
    has_interval,
    time_axis,
    tooltip,
)
from fairlead.measure.report.style import Spec
from fairlead.measure.report.task_document import TaskPoint
from fairlead.measure.report.words import plus_minus
from fairlead.measure.statistics import Estimate

_DIGITS = 4
Lines = Mapping[str, Sequence[Estimate]]  # policy -> a value in each bin


def alive(point: TaskPoint, style: Style) -> Plot:
    """Tasks that have arrived and are not done."""
    lines = {p: point.alive(p) for p in point.ranking}
    banded = any(has_interval(e) for found in lines.values() for e in found)
    best, edges = point.ranking[0], point.body["time_steps"]
    return Plot(
        "alive",
        "Tasks in the system",
        f"Tasks that have arrived and are not done, mean over the seeds"
        f"{'; bands are 95 % intervals of each policy alone' if banded else ''}.{_bins(point)}",
        "; ".join(_peak(p, lines[p], edges) for p in dict.fromkeys((best, point.ranking[-1]))) + ".",
        notes=_notes(point),
        spec=_spec(point, lines, style, {"title": "tasks in the system", "tickCount": 6}, ".1f"),
        room_px=62 if point.changes() else 54,
    )


def used_over_time(point: TaskPoint, style: Style) -> list[Plot]:
    """The share of each resource that tasks have; one plot each."""
    names = safe_names(point.resources)
    return [_used(point, resource, name, style) for resource, name in zip(point.resources, names, strict=True)]


def _used(point: TaskPoint, resource: str, name: str, style: Style) -> Plot:
    lines = {p: [Estimate(share, math.nan, 0) for share in point.used(p, resource)] for p in point.ranking}
    best = point.ranking[0]
    return Plot(
        f"used-{name}",
        f"{resource} in use over time",
        f"Share of all {resource} that tasks have, mean over the seeds.{_bins(point)}",
        f"Of {resource} most is in use under {_peak(best, lines[best], point.body['time_steps'], 100, ' %')}.",
        notes=_notes(point),
        spec=_spec(point, lines, style, {"title": f"{resource} in use", "format": "%", "tickCount": 5}, ".1%"),
        room_px=62 if point.changes() else 54,
    )


def _bins(point: TaskPoint) -> str:
    width = point.widths[0]
    return f" A point is the mean of {width:g} steps." if width > 1 else ""


def _notes(point: TaskPoint) -> tuple[str, ...]:
    return tuple(f"at step {at:g}: {words}" for at, words in _changes(point))


def _changes(point: TaskPoint) -> list[tuple[float, str]]:
    """Those while there is work, under any policy."""
    last = max(point.body["time_steps"][_lasts(point, p)] for p in point.ranking)
    return [(at, words) for at, words in point.changes() if at <= last]


def _peak(policy: str, line: Sequence[Estimate], edges: Sequence[float], factor: float = 1.0, unit: str = "") -> str:
    most = max(range(len(line)), key=lambda i: line[i].mean)
    value = Estimate(factor * line[most].mean, factor * line[most].ci95, line[most].n)
    return f"{policy} {plus_minus(value, '{:.1f}')}{unit} at its highest, from step {edges[most]:g}"


def _lasts(point: TaskPoint, policy: str) -> int:
    """How many bins a policy has work in, and one more."""
    filled = [i for i, n in enumerate(point.detail(policy)["alive"]) if n]
    return min(max(filled, default=0) + 2, len(point.widths))


def _spec(point: TaskPoint, lines: Lines, style: Style, axis: Spec, form: str) -> Spec:
    bins, edges = {p: _lasts(point, p) for p in lines}, point.body["time_steps"]
    rows = [{"policy": p} | _columns(found[: bins[p]]) for p, found in lines.items()]
    banded = all("low" in row for row in rows)
    x, y = time_axis(edges, "at", title="time, steps"), {"type": "quantitative", "axis": axis}
    x["scale"] = {"domainMin": edges[0], "nice": False}  # and as far as those that are drawn have work
    band: Spec = {
        "mark": {"type": "area", "opacity": 0.12},
        "encoding": {"y": y | {"field": "low"}, "y2": {"field": "high"}} | style.lines("color"),
    }
    text = f"format(datum.mean, '{form}')"
    spread = f" + ' ± ' + format(datum.high - datum.mean, '{form}')" if banded else ""
    return {
        "height": 280,
        "params": [
            {"name": "shown", "value": style.highlighted},
            {"name": "middles", "value": [(a + b) / 2 for a, b in pairwise(edges)]},
        ],
        "layer": [
            *change_rules(_changes(point), "step"),
            {
                "data": {"values": rows},
                "transform": [
                    {"filter": SHOWN},
                    {"calculate": "sequence(length(datum.mean))", "as": "bin"},
                    {"flatten": ["bin", *(["mean", "low", "high"] if banded else ["mean"])]},
                    {"calculate": "middles[datum.bin]", "as": "at"},
                    {"calculate": "'step ' + format(datum.at, '~r')", "as": "when"},
                    {"calculate": f"{text}{spread}", "as": "text"},
                ],
                "encoding": {"x": x},
                "layer": [
                    *([band] if banded else []),
                    {
                        "mark": {"type": "line", "strokeWidth": 2, "strokeJoin": "round"},
                        "encoding": {"y": y | {"field": "mean"}} | style.lines("color", "strokeDash"),
                    },
                    {
                        "mark": UNSEEN,
                        "encoding": {
                            "y": y | {"field": "mean"},
                            "tooltip": tooltip("policy", {"when": "around", "text": "mean"}),
                        },
                    },
                ],
            },
        ],
    }


def _columns(line: Sequence[Estimate]) -> Spec:
    made: Spec = {"mean": [round(e.mean, _DIGITS) for e in line]}
    if all(has_interval(e) for e in line):
        made |= {
            "low": [round(max(0.0, e.low), _DIGITS) for e in line],
            "high": [round(e.high, _DIGITS) for e in line],
        }
    return made
