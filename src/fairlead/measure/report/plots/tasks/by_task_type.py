"""What becomes of each type of tasks under each policy: completion times, and the amounts that it gets."""

from __future__ import annotations

from fairlead.measure.report.plots.grouped_points import GROUP_PX, side_by_side, values_axis
from fairlead.measure.report.plots.plot import NO_INTERVALS, Plot, Style, ends, has_interval, known
from fairlead.measure.report.style import Spec
from fairlead.measure.report.task_document import TaskPoint
from fairlead.measure.report.task_phrases import in_steps
from fairlead.measure.write_files import safe_names


def by_type(point: TaskPoint, style: Style) -> Plot:
    """Mean completion time of each type."""
    found = {(p, name): point.figure(p, f"completion_steps_{name}") for p in point.ranking for name in point.types}
    rows = [
        {"policy": p, "label": name, "measured": e.mean, "text": in_steps(e)} | ends("measured", e, 0.0)
        for (p, name), e in found.items()
        if known(e)
    ]
    best, texts = point.ranking[0], {"label": "type", "text": "mean"}
    interval = " with 95 % intervals of each policy alone" if any(map(has_interval, found.values())) else ""
    return Plot(
        "by-type",
        "Completion time of each type",
        f"Mean over the seeds{interval or f'. {NO_INTERVALS}'}; the axis need not start at 0.",
        f"Under {best}: {', '.join(f'{name} {in_steps(found[best, name])}' for name in point.types)}.",
        spec=_spec(point, rows, style, values_axis({"title": "completion time, steps"}), texts),
    )


def given(point: TaskPoint, style: Style) -> list[Plot]:
    """The amounts of each elastic resource that tasks of each type get; one plot each."""
    names = safe_names(point.elastic)
    return [_given(point, resource, name, style) for resource, name in zip(point.elastic, names, strict=True)]


def _given(point: TaskPoint, resource: str, name: str, style: Style) -> Plot:
    rows = [
        {
            "policy": p,
            "label": task_type,
            "measured": round(spread.mean, 4),
            "measured_low": spread.low,
            "measured_high": spread.high,
            "text": f"{spread.mean:.2f} {resource}",
            "spread": f"{spread.low:g} to {spread.high:g}",
        }
        for p in point.ranking
        for task_type in point.types
        if (spread := point.given(p, task_type, resource))
    ]
    best = [f"{row['label']} {row['text']}" for row in rows if row["policy"] == point.ranking[0]]
    texts = {"label": "type", "text": "mean", "spread": "80 % of tasks"}
    axis = {"title": f"{resource} of a task", "tickMinStep": 1}
    return Plot(
        f"given-{name}",
        f"How much {resource} each type gets",
        f"Mean amount of {resource} that tasks had when they ended; a policy that resizes may have given them other "
        "amounts before. Lines leave out the tenth of tasks with the least and the tenth with the most.",
        f"Under {point.ranking[0]}: {', '.join(best) or 'no task ended'}.",
        spec=_spec(point, rows, style, values_axis(axis, zero=True), texts),
    )


def _spec(point: TaskPoint, rows: list[Spec], style: Style, x: Spec, texts: Spec) -> Spec:
    return {
        "height": GROUP_PX * len(point.types),
        "params": [{"name": "shown", "value": style.highlighted}],
        "layer": [side_by_side(rows, point.types, x, style, texts)],
    }
