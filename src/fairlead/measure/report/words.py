"""Findings in words: numbers with their intervals, and the verdict on a label.

Called by the page, the tables and the plots' text alternatives. Plain text: whoever puts it into HTML escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairlead.measure.report.document import Point
from fairlead.measure.statistics import Estimate

NOTHING = "\N{EN DASH}"
_BETWEEN = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
_NARROW = 0.1  # points: intervals narrower than this get a second decimal
_NAMED = 4  # so many that are not told apart from the best are named


def plus_minus(e: Estimate, form: str) -> str:
    """Mean and interval; a dash when there is no mean."""
    if math.isnan(e.mean):
        return NOTHING
    return form.format(e.mean) + ("" if math.isnan(e.ci95) else _BETWEEN + form.format(e.ci95))


def times(factor: float, e: Estimate) -> Estimate:
    """The estimate in another unit."""
    return Estimate(factor * e.mean, abs(factor) * e.ci95, e.n)


def percent(e: Estimate) -> str:
    """A share as '82.3 ± 1.2', in %; the sign is the caller's."""
    digits = 2 if e.ci95 < _NARROW / 100 else 1
    return plus_minus(times(100, e), f"{{:.{digits}f}}")


def listed(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def told_apart(difference: Estimate) -> bool:
    """Whether the interval of a difference leaves out 0; never so without an interval."""
    return abs(difference.mean) > difference.ci95


def verdict(point: Point) -> str:
    """One sentence: who is best, how far ahead of whom, how far from what is possible."""
    if not point.ranking:
        return "No seed is finished, so there is nothing to say yet."
    best = point.ranking[0]
    level = [p for p in point.ranking[1:] if not told_apart(point.behind_best(p))]
    text = f"{best} {'leads' if level else 'is best'}: {percent(point.figure(best, 'success'))} % of requests"
    return f"{text} in time and accurate{_lead(point, level)}{_gap(point)}.{_fell_back(point)}"


def _fell_back(point: Point) -> str:
    """Who did not decide everything itself."""
    shares = {policy: point.figure(policy, "fallback_share").mean for policy in point.ranking}
    fallen = {policy: share for policy, share in shares.items() if share > 0}
    return "".join(
        f" {policy} fell back to its rule in {share:.2%} of its decisions." for policy, share in fallen.items()
    )


def _lead(point: Point, level: list[str]) -> str:
    """How far ahead of the second the best is; `level` are those that it is not told apart from."""
    if len(point.ranking) == 1:
        return " (the only policy)"
    second = point.ranking[1]
    ahead = times(-1, point.behind_best(second))
    if ahead.n < 2:
        return f", {percent(ahead)} points ahead of {second} (one seed, so no interval)"
    text = "" if second in level else f", {percent(ahead)} points ahead of {second}"
    return f"{text}, but not told apart from {_level(point, level)}" if level else text


def _level(point: Point, level: list[str]) -> str:
    behind = f"{level[0]} ({percent(times(-1, point.behind_best(level[0])))} points behind)"
    more = [f"{len(level) - _NAMED} more"] if len(level) > _NAMED else []
    return listed([behind, *level[1:_NAMED], *more])


def _gap(point: Point) -> str:
    if math.isnan(point.bound.mean):
        return ""
    gap = point.below_bound(point.ranking[0])
    return f"; no policy can pass {percent(point.bound)} %, {percent(gap)} points more"
