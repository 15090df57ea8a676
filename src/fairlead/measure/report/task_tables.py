"""The tables of a page about tasks: every figure with its interval, one block per label. Returns HTML, as `tables`."""

from __future__ import annotations

import math

from fairlead.measure.report.document import number
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Columns, details, figure_columns
from fairlead.measure.report.task_document import Spread, TaskPoint
from fairlead.measure.report.task_phrases import steps

_ABOUT = """<p><em>Privileges</em>: what a policy knows that others can't see (the progress and speed of tasks), and
whether it resizes or pre-empts running tasks. Compare policies with equal privileges.</p>"""


def task_tables(point: TaskPoint) -> str:
    """The tables behind the plots of one label."""
    if not point.ranking:
        return "<p>No seed is finished.</p>"
    of_types = {name: f"completion_steps_{name}" for name in point.types}
    made = [
        ("Completion time, steps from arrival", _completion(point)),
        ("Mean completion time of each type, steps", figure_columns(point, of_types, 1, "{:.3f}")),
        ("What tasks of each type had when they ended: mean (a tenth had at most, nine tenths at most)", _given(point)),
        ("In use over the whole run, % of what there is", _used(point)),
        *((f"Steps of {name} by what it is given, without noise", _speed(point, name)) for name in point.types),
    ]
    return _ABOUT + "\n".join(details(title, columns, is_open=i == 0) for i, (title, columns) in enumerate(made))


def _completion(point: TaskPoint) -> Columns:
    columns = figure_columns(point, {"mean": point.objective}, 1, "{:.3f}")
    columns["behind best"] = ["best", *(steps(point.behind_best(p)) for p in point.ranking[1:])]
    columns["privileges"] = [str(point.powers(p)) for p in point.ranking]
    quantiles = {f"p{q}": f"completion_p{q}_steps" for q in (50, 90, 95, 99)}
    columns |= figure_columns(point, quantiles | {"waiting": "waiting_steps"}, 1, "{:.2f}")
    if any(point.figure(p, "unfinished").mean > 0 for p in point.ranking):
        columns |= figure_columns(point, {"unfinished, %": "unfinished"}, 100, "{:.1f}")
    if math.isnan(point.bound.mean):
        return columns
    bound = {"policy": "lower bound", "mean": steps(point.bound), "privileges": "no resizing, no pre-emption"}
    return {heading: [bound.get(heading, ""), *cells] for heading, cells in columns.items()}


def _given(point: TaskPoint) -> Columns:
    columns: Columns = {"policy": point.ranking}
    for name in point.types:
        for resource in point.elastic:
            spreads = [point.given(p, name, resource) for p in point.ranking]
            columns[f"{name}, {resource}"] = [_spread(s) for s in spreads]
    return columns


def _spread(spread: Spread | None) -> str:
    return f"{spread.mean:.2f} ({spread.low:g}, {spread.high:g})" if spread else NOTHING


def _used(point: TaskPoint) -> Columns:
    return figure_columns(point, {resource: f"used_{resource}" for resource in point.resources}, 100, "{:.1f}")


def _speed(point: TaskPoint, name: str) -> Columns:
    speed = point.body["speeds"][name]
    down, *across = speed["amounts"].items()
    heads = [f"{across[0][0]} {amount}" for amount in across[0][1]] if across else ["steps"]
    columns = {down[0]: [str(amount) for amount in down[1]]}
    return columns | {h: [_number(row[i]) for row in speed["steps"]] for i, h in enumerate(heads)}


def _number(value: object) -> str:
    steps_ = number(value)
    return "∞" if math.isinf(steps_) else f"{steps_:g}"
