"""Findings in words: numbers with their intervals, and the verdict on a label; `task_phrases` has that on tasks.

Called by the page, the tables, the commands and the plots' text alternatives. Plain text, which HTML pages escape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fairlead.measure.report.document import Point
from fairlead.measure.statistics import Estimate

NOTHING = "\N{EN DASH}"
_BETWEEN = "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}"
_NARROW = 0.1  # points: intervals narrower than this get a second decimal
_ENERGY = "energy_per_success_mj"
_WORTH_SAYING = 0.01  # a smaller share of energy is no finding
_NAMED = 4  # of the policies that may be as good as the best, so many are named, and of those that tie


def plus_minus(e: Estimate, form: str) -> str:
    """Mean and interval; a dash when there is no mean."""
    if math.isnan(e.mean):
        return NOTHING
    form = form.replace("{:", "{:z")  # no -0.00
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
    """The best policy, its lead, its gap to the bound; on a tie, which policy needs less energy."""
    if not point.ranking:
        return "No seed is finished, so there is nothing to say yet."
    if math.isnan(point.figure(point.ranking[0], "success").mean):
        return "No request arrives, so there is nothing to say: a longer duration_s or a higher rate is needed."
    text = f"{leader(point, percent)}: {percent(point.figure(point.ranking[0], 'success'))} %"
    text = f"{text} of requests in time and accurate{lead(point, lambda e: f'{percent(e)} points')}{_gap(point)}."
    return f"{text}{_energy(point)}{_empty(point)}{fell_back(point)}"


def leader(point: Point, say: Callable[[Estimate], str]) -> str:
    """The best policy, or the one that only leads, or those that tie; `say` writes a difference."""
    if tied := _tied(point, say):
        return f"{_some([point.ranking[0], *tied])} tie"
    return f"{point.ranking[0]} {'leads' if _level(point) else 'is best'}"


def _level(point: Point) -> list[str]:
    """The policies that may be as good as the best."""
    return [p for p in point.ranking[1:] if not told_apart(point.behind_best(p))]


def _tied(point: Point, say: Callable[[Estimate], str]) -> list[str]:
    """The policies whose difference to the best is written as 0, with its interval."""
    return [p for p in point.ranking[1:] if is_nothing(behind(point, p), say)]


def is_nothing(difference: Estimate, say: Callable[[Estimate], str]) -> bool:
    """Whether a difference and its interval are written as 0."""
    return not math.isnan(difference.mean) and not any(digit in say(difference) for digit in "123456789")


def _some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return listed([*names[:_NAMED], *more])


def behind(point: Point, policy: str) -> Estimate:
    """How much worse than the best a policy is, above 0 whether more or less is better."""
    return times(-point.sign, point.behind_best(policy))


def fell_back(point: Point) -> str:
    """The learned policies for which a rule decided at times."""
    shares = {policy: point.figure(policy, "fallback_share").mean for policy in point.ranking}
    fallen = {policy: share for policy, share in shares.items() if share > 0}
    return "".join(
        f" {policy} fell back to its rule in {share:.2%} of its decisions." for policy, share in fallen.items()
    )


def lead(point: Point, say: Callable[[Estimate], str]) -> str:
    """The lead of the best over the second, and which policies may be as good; `say` writes a difference."""
    if len(point.ranking) == 1:
        return " (the only policy)"
    tied = _tied(point, say)
    others = [p for p in point.ranking[1:] if p not in tied]
    level = [p for p in _level(point) if p not in tied]
    one_seed = "(one seed, so no interval)" if behind(point, point.ranking[1]).n < 2 else ""
    if not others:
        return f" {one_seed}" if one_seed else ""
    ahead = f", {say(behind(point, others[0]))} ahead of {others[0]}"
    if one_seed:
        return f"{ahead} {one_seed}"
    text = "" if others[0] in level else ahead
    if not level:
        return text
    over = _some([f"{level[0]} ({say(behind(point, level[0]))})", *level[1:]])
    return f"{text}, but {'their' if tied else 'its'} lead over {over} is within the margin of error"


def _gap(point: Point) -> str:
    if math.isnan(point.bound.mean):
        return ""
    best = point.ranking[0]
    gap = point.from_bound(best)
    where = f"which {best} reaches" if is_nothing(gap, percent) else f"{percent(gap)} points above {best}"
    return f"; the upper bound for any policy is {percent(point.bound)} %, {where}"


def _energy(point: Point) -> str:
    """Of the best and those that may be as good: which needs the least energy, if the intervals show it."""
    best, level = point.ranking[0], _level(point)
    spent = {p: e.mean for p in (best, *level) if (e := point.figure(p, _ENERGY)).mean > 0}
    if len(spent) < 2 or best not in spent:
        return ""
    least = min(spent, key=lambda p: spent[p])
    other = best if least != best else next(p for p in spent if p != best)
    saved = point.difference(other, least, _ENERGY)
    if saved.n < 2 or abs(saved.mean) < _WORTH_SAYING * spent[other]:
        return ""
    if not told_apart(saved):
        return " Their difference in energy per success is within the margin of error, too."
    return f" {least} uses {100 * saved.mean / spent[other]:.2g} % less energy per success than {other}."


def _empty(point: Point) -> str:
    """Seeds that say nothing."""
    empty = point.empty_seeds
    if not empty:
        return ""
    which = f"seed{'' if len(empty) == 1 else 's'} {listed([str(seed) for seed in empty])}"
    return f" No request arrives with {which}; shares and times are means over the others."
