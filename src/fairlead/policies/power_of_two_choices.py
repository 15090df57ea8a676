"""Power of two choices: of two random feasible candidates, the one with fewer requests in flight.

Mitzenmacher (2001): nearly as good as looking at all, at the price of two looks. Both picks come from the one uniform
number: its first digits give the first, the rest the second.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy
from fairlead.policies.pick import count_feasible, nth_feasible


def _probability(candidates: Any, excluded: Any, choice: int) -> float:
    there = candidates["in_flight"][excluded == 0]
    n, mine = len(there), candidates["in_flight"][choice]
    # As the first it stays unless the second has fewer; as the second it needs fewer than the first.
    wins = (there >= mine).sum() - 1 + (there > mine).sum()
    return 1.0 if n == 1 else float(wins) / (n * (n - 1))


@policy("power-of-two-choices", source="Mitzenmacher 2001", probability=_probability)
def power_of_two_choices(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    n = count_feasible(excluded)
    if n == 0:
        return -1
    i = int(u * n)
    first = nth_feasible(excluded, i)
    if n == 1:
        return first
    j = int((u * n - i) * (n - 1))
    second = nth_feasible(excluded, j + 1 if j >= i else j)
    return second if candidates[second].in_flight < candidates[first].in_flight else first
