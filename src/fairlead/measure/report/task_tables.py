"""The tables of a result of tasks: times in steps. As `tables`, for the page and for terminals alike."""

from __future__ import annotations

import math

from fairlead.measure.report.document import number
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Columns, Table, figure_columns, share_columns, with_bound
from fairlead.measure.report.task_document import Spread, TaskPoint
from fairlead.measure.report.task_phrases import steps

MEAN_HEADING = "mean completion, steps"


def task_tables(point: TaskPoint) -> list[Table]:
    """The tables of one label; none when no seed of it is finished."""
    if not point.ranking:
        return []
    of_types = {
        f"mean completion of {name}, steps": f"completion_steps_{name}" for name in point.types if _arrives(point, name)
    }
    return [
        Table("Completion time from arrival", _completion(point), compares=True),
        Table("Mean completion time of each type", figure_columns(point, of_types, 1, "{:.3f}"), compares=True),
        Table(
            "Amounts that tasks of each type had when they ended: mean (10th, 90th percentile)",
            _given(point),
        ),
        Table("Resources in use over the whole run, % of what the clusters have", _used(point), compares=True),
        *(
            Table(f"Steps that a task of type {name} takes by its allocation, without noise", _speed(point, name))
            for name in point.types
        ),
    ]


def _completion(point: TaskPoint) -> Columns:
    columns = figure_columns(point, {MEAN_HEADING: point.objective}, 1, "{:.3f}")
    columns["behind best, steps"] = ["best", *(steps(point.behind_best(p)) for p in point.ranking[1:])]
    columns["privileges"] = [str(point.powers(p)) for p in point.ranking]
    quantiles = {f"p{q} completion, steps": f"completion_p{q}_steps" for q in (50, 90, 95, 99)}
    columns |= figure_columns(point, quantiles | {"waiting, steps": "waiting_steps"}, 1, "{:.2f}")
    if any(point.figure(p, "unfinished").mean > 0 for p in point.ranking):
        columns |= share_columns(point, {"unfinished, %": "unfinished"})
    bound = {"policy": "lower bound", MEAN_HEADING: steps(point.bound), "privileges": "no resizing, no pre-emption"}
    return with_bound(point, columns, bound)


def _arrives(point: TaskPoint, name: str) -> bool:
    return not math.isnan(point.figure(point.ranking[0], f"completion_steps_{name}").mean)


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
    names = {f"{resource} in use, %": f"used_{resource}" for resource in point.resources}
    return share_columns(point, names)


def _speed(point: TaskPoint, name: str) -> Columns:
    speed = point.body["speeds"][name]
    down, *across = speed["amounts"].items()
    heads = [f"{across[0][0]} {amount}" for amount in across[0][1]] if across else ["steps"]
    columns = {down[0]: [str(amount) for amount in down[1]]}
    return columns | {h: [_number(row[i]) for row in speed["steps"]] for i, h in enumerate(heads)}


def _number(value: object) -> str:
    steps_ = number(value)
    return "∞" if math.isinf(steps_) else f"{steps_:g}"
