"""Random-proportional load: a random pair, in proportion to capacity.

ASET (slides, 2025): over many streams, bindings are proportional to the capacity of each variant: P ~ mu_vn.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy


def _probability(candidates: Any, excluded: Any, choice: int) -> float:
    weights = candidates["service_rate"] * (excluded == 0)
    return float(weights[choice] / weights.sum())


@policy("random-proportional-load", source="ASET", probability=_probability)
def random_proportional_load(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    total = 0.0
    for c in range(len(candidates)):
        if not excluded[c]:
            total += candidates[c].service_rate
    left, last = u * total, -1
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        last = c
        left -= candidates[c].service_rate
        if left < 0.0:
            break
    return last
