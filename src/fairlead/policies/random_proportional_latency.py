"""Random-proportional latency: a random pair, the nearer the likelier.

ASET (slides, 2025) binds in proportion to end-to-end delays. We read it as P ~ 1 / (2 (d + 2 sigma) + D): the faster,
the more (assumption). `transfer_ms` is added to that time, as by least-impedance.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.expected_times import end_to_end_ms
from fairlead.policies.interface import policy


def _probability(candidates: Any, excluded: Any, choice: int) -> float:
    weights = [0.0 if out else 1.0 / end_to_end_ms(c) for c, out in zip(candidates, excluded, strict=True)]
    return weights[choice] / sum(weights)


@policy("random-proportional-latency", source="ASET", probability=_probability)
def random_proportional_latency(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    total = 0.0
    for c in range(len(candidates)):
        if not excluded[c]:
            total += 1.0 / end_to_end_ms(candidates[c])
    left, last = u * total, -1
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        last = c
        left -= 1.0 / end_to_end_ms(candidates[c])
        if left < 0.0:
            break
    return last
