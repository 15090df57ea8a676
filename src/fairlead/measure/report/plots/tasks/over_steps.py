"""Lines over time: tasks in the system (the paper's task accumulation), and each resource's share in use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from fairlead.measure.report.phrases import listed, plus_minus, times
from fairlead.measure.report.plots.plot import (
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
from fairlead.measure.statistics import Estimate
from fairlead.measure.write_files import safe_names

_DIGITS = 4
Lines = Mapping[str, Sequence[Estimate]]  # policy -> a value in each bin


def alive(point: TaskPoint, style: Style) -> Plot:
    """Tasks that have arrived and are not done."""
    lines = {p: point.alive(p) for p in point.ranking}
    banded = any(has_interval(e) for found in lines.values() for e in found)
    ends = list(dict.fromkeys((point.ranking[0], point.ranking[-1])))
    return Plot(
        "alive",
        "Tasks in the system",
        f"Tasks that have arrived and are not finished, mean over the seeds"
        f"{'; bands are 95 % intervals of each policy alone' if banded else ''}.{_reading(point)}{_left(point)}",
        f"Most tasks in the system: {listed([_peak(point, p, lines[p], 1, '') for p in ends])}.",
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
        f"Share of all {resource} that is allocated to tasks, mean over the seeds.{_reading(point)}",
        f"Most {resource} in use: {_peak(point, best, lines[best], 100, ' %')}.",
        notes=_notes(point),
        spec=_spec(point, lines, style, {"title": f"{resource} in use", "format": "%", "tickCount": 5}, ".1%"),
        room_px=62 if point.changes() else 54,
    )


def _reading(point: TaskPoint) -> str:
    bins = f" A point is the mean of {point.widths[0]:g} steps." if point.widths[0] > 1 else ""
    return f"{bins} Dotted lines are changes of links." if _changes(point) else bins


def _left(point: TaskPoint) -> str:
    """The policies whose lines end before the tasks do."""
    late = [p for p in point.ranking if point.detail(p)["alive"][-1]]
    return (
        f" Lines end at step {point.body['time_steps'][-1]:g}; under {listed(late)} some tasks are unfinished then."
        if late
        else ""
    )


def _notes(point: TaskPoint) -> tuple[str, ...]:
    return tuple(f"at step {at:g}: {words}" for at, words in _changes(point))


def _changes(point: TaskPoint) -> list[tuple[float, str]]:
    """Those while there is work, under any policy."""
    last = max(point.body["time_steps"][_lasts(point, p)] for p in point.ranking)
    return [(at, words) for at, words in point.changes() if at <= last]


def _peak(point: TaskPoint, policy: str, line: Sequence[Estimate], factor: float, unit: str) -> str:
    most = max(range(len(line)), key=lambda i: line[i].mean)
    value = plus_minus(times(factor, line[most]), "{:.1f}")
    return f"{value}{unit} under {policy} from step {point.body['time_steps'][most]:g} on"


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
