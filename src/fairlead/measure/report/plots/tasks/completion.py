"""Bars of completion times, shortest mean first, with intervals and the lower bound; and how the times are spread."""

from __future__ import annotations

from fairlead.measure.report.plots.cumulative_times import Words, within
from fairlead.measure.report.plots.measure_choice import Measures, by_measure
from fairlead.measure.report.plots.plot import (
    NO_INTERVALS,
    ROW_PX,
    SHOWN,
    Plot,
    Style,
    known,
    tooltip,
    with_ends,
)
from fairlead.measure.report.style import INK, POWER_COLOURS, Spec
from fairlead.measure.report.task_document import Powers, TaskPoint
from fairlead.measure.report.task_phrases import BOUND, in_steps, steps, task_verdict

STEPS = Measures(
    {"mean": "completion_steps"} | {q: f"completion_{q}_steps" for q in ("p50", "p90", "p95", "p99")},
    {"title": "completion time, steps"},
    in_steps,
    lambda choice: f"The {choice} of completion times",
    bound="the lower bound on the mean without resizing or pre-emption",
    passing=BOUND,
)
_WORDS_PX = 100
_WITHIN = Words("steps", "completion time, steps (log scale)", "completed within, of all tasks", "completed")


def completion(point: TaskPoint) -> Plot:
    """The mean or a quantile of each policy."""
    drawn = STEPS.have_intervals([point])
    interval = "; thin lines are 95 % intervals." if drawn else f". {NO_INTERVALS}"
    bound = f" The dashed line is {STEPS.bound}." if known(point.bound) else ""
    findings = {choice: _finding(point, choice) for choice in STEPS.figures}
    return Plot(
        "completion",
        "Completion time",
        f"Steps of {point.body['step_s']:g} s from arrival to completion, mean over the seeds{interval} "
        f"Colours show a policy's privileges.{bound}",
        findings["mean"],
        findings,
        spec=_spec(point, drawn),
        room_px=(77 if known(point.bound) else 61) + 15 * len({_group(point.powers(p)) for p in point.ranking}),
    )


def _finding(point: TaskPoint, choice: str) -> str:
    if choice == STEPS.first:
        last = point.ranking[-1]
        return f"{task_verdict(point)} Last is {last} with {in_steps(point.figure(last, point.objective))}."
    return f"The {choice} of completion times is: " + ", ".join(
        f"{policy} {steps(STEPS.of(point, policy, choice))}" for policy in point.ranking
    )


def _group(powers: Powers) -> str:
    """What a bar's colour says."""
    groups = list(POWER_COLOURS)
    return groups[bool(powers.knows) + 2 * powers.touches]


def _row(point: TaskPoint, policy: str) -> Spec:
    best, powers = policy == point.ranking[0], point.powers(policy)
    behind = "best" if best else in_steps(point.behind_best(policy))
    told = {"group": _group(powers), "powers": str(powers) or "none", "behind_text": behind}
    return STEPS.row(point, policy) | told


def _spec(point: TaskPoint, drawn: bool) -> Spec:
    axis = {"title": None, "ticks": False, "domain": False, "labelPadding": 8, "labelColor": INK}
    rows = [_row(point, policy) for policy in point.ranking]
    return {
        "height": ROW_PX * len(point.ranking),
        "data": {"values": rows},
        "params": [{"name": "shown", "value": point.ranking}, STEPS.chosen()],
        "transform": [
            *by_measure(),
            {"calculate": "replace(datum[measure + '_text'], ' steps', '')", "as": "measured_text"},
            {"calculate": "max(datum.measured || 0, datum.measured_high || 0)", "as": "end"},
        ],
        "encoding": {"y": {"field": "policy", "type": "nominal", "sort": point.ranking, "axis": axis}},
        "layer": [_bars(rows), *([_interval()] if drawn else []), *_labels(), *_bound(point)],
    }


def _bars(rows: list[Spec]) -> Spec:
    texts = {"mean_text": "mean", "behind_text": "behind best", **STEPS.texts(), "powers": "privileges"}
    groups = [g for g in POWER_COLOURS if any(row["group"] == g for row in rows)]
    return {
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "x": {
                "field": "measured",
                "type": "quantitative",
                "scale": {"nice": False},
                "axis": STEPS.axis | {"tickCount": 5},
            },
            "color": {
                "field": "group",
                "type": "nominal",
                "scale": {"domain": groups, "range": [POWER_COLOURS[g] for g in groups]},
                "legend": {"title": None, "orient": "bottom", "symbolType": "square", "columns": 1},
            },
            "opacity": {"condition": {"test": SHOWN, "value": 1}, "value": 0.45},
            "tooltip": tooltip("policy", texts),
        },
    }


def _interval() -> Spec:
    return {
        "name": "ink_interval",
        "transform": [with_ends("measured")],
        "mark": {"type": "rule", "strokeWidth": 2, "color": INK},
        "encoding": {"x": {"field": "measured_low", "type": "quantitative"}, "x2": {"field": "measured_high"}},
    }


def _labels() -> list[Spec]:
    """The number beside its bar, with a halo where the bound's line passes."""
    text: Spec = {"type": "text", "align": "left", "fontSize": 11, "dx": 6}
    words: Spec = {"text": {"field": "measured_text"}, "x": {"field": "end", "type": "quantitative"}}
    halo = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round", "color": "white"}
    return [
        {"name": "halo_beside", "mark": text | halo, "encoding": words},
        {"name": "ink_beside", "mark": text | {"color": INK}, "encoding": words},
        {  # unseen, but the axis reaches so far that the longest bar leaves room for its number
            "transform": [{"calculate": f"datum.end * width / max(1, width - {_WORDS_PX})", "as": "room"}],
            "mark": {"type": "point", "opacity": 0},
            "encoding": {"x": {"field": "room", "type": "quantitative"}},
        },
    ]


def _bound(point: TaskPoint) -> list[Spec]:
    """The lower bound as a dashed line over all bars, named above them; it is of the mean."""
    if not known(point.bound):
        return []
    x: Spec = {"field": "bound", "type": "quantitative"}
    text = f"lower bound {in_steps(point.bound)}"
    here: Spec = {"data": {"values": [{"bound": point.bound.mean, "text": text}]}, "transform": [STEPS.only_first()]}
    name = {"type": "text", "baseline": "bottom", "color": INK, "fontSize": 11, "align": "left", "dx": -4}
    return [
        here
        | {
            "name": "ink_bound",
            "mark": {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1.5, "color": INK},
            "encoding": {"x": x, "y": None, "tooltip": {"field": "text", "title": BOUND}},
        },
        here
        | {
            "name": "ink_bound_name",
            "mark": name,
            "encoding": {"x": x, "y": {"value": -4}, "text": {"field": "text"}},
        },
    ]


def distribution(point: TaskPoint, style: Style) -> Plot:
    """The share of tasks that are completed within a time."""
    edges = [float(e) for e in point.body["completion_steps"]]
    best = point.ranking[0]
    quantiles = [f"{q} {in_steps(STEPS.of(point, best, q))}" for q in ("p50", "p90", "p99")]
    return Plot(
        "distribution",
        "How completion times are spread",
        "Share of all tasks completed within a time, all finished seeds together.",
        f"Completion times under {best}: {', '.join(quantiles)}.",
        spec=within(edges, {p: point.within(p) for p in point.ranking}, style, _WITHIN, "step-after"),
    )
