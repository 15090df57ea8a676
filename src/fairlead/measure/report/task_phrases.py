"""Findings about tasks in words: times in steps, and the verdict on a label. Plain text, as in `phrases`."""

from __future__ import annotations

import math

from fairlead.measure.report.phrases import behind, fell_back, is_nothing, lead, leader, listed, percent, plus_minus
from fairlead.measure.report.task_document import TaskPoint
from fairlead.measure.statistics import Estimate

BOUND = "lower bound without resizing or pre-emption"


def steps(e: Estimate) -> str:
    """A time as '3.681 ± 0.136'."""
    return plus_minus(e, "{:.3f}")


def in_steps(e: Estimate) -> str:
    """The same with its unit."""
    return f"{steps(e)} steps"


def task_verdict(point: TaskPoint) -> str:
    """The best policy, its lead, its gap to the bound, and what it knows that others don't."""
    if not point.ranking:
        return "No seed is finished, so there is nothing to say yet."
    mean = in_steps(point.figure(point.ranking[0], point.objective))
    text = f"{leader(point, in_steps)}: {mean} from arrival to completion on average"
    text = f"{text}{lead(point, in_steps)}{_gap(point)}."
    return f"{text}{_powers(point)}{_unfinished(point)}{fell_back(point)}"


def _gap(point: TaskPoint) -> str:
    if math.isnan(point.bound.mean):
        return ""
    best = point.ranking[0]
    missing = point.from_bound(best)
    gap = f", which {best} reaches" if is_nothing(missing, steps) else f", {steps(missing)} less"
    gap = "" if point.powers(best).touches else gap
    return f"; {BOUND}: {in_steps(point.bound)}{gap}"


def _powers(point: TaskPoint) -> str:
    """If the best has privileges: these, and the best policy without them."""
    best, plain = point.ranking[0], [p for p in point.ranking if not str(point.powers(p))]
    if best in plain:
        return ""
    powers = point.powers(best)
    does = [f"knows {listed([f'the {what}' for what in powers.knows])} of tasks"] if powers.knows else []
    does += ["pre-empts"] * powers.preempts + ["resizes"] * powers.resizes
    text = f" {best} {listed(does)}"
    return (
        f"{text}; the best policy without such privileges is {plain[0]}, {in_steps(behind(point, plain[0]))} behind."
        if plain
        else f"{text}."
    )


def _unfinished(point: TaskPoint) -> str:
    """The policies whose runs were cut."""
    shares = {policy: point.figure(policy, "unfinished") for policy in point.ranking}
    cut = [f"{policy} {percent(share)} %" for policy, share in shares.items() if share.mean > 0]
    return f" Unfinished at the end of the run, and counted as finished then: {listed(cut)} of tasks." if cut else ""
