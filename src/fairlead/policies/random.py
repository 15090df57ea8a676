"""Random: any feasible candidate, all alike.

The sixth action of the ASET agent is called Random in the slides; which one is not said: uniform (assumption).
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy
from fairlead.policies.pick import count_feasible, nth_feasible


def _probability(candidates: Any, excluded: Any, choice: int) -> float:
    return 1.0 / float((excluded == 0).sum())


@policy("random", source="ASET", probability=_probability)
def random(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    n = count_feasible(excluded)
    return nth_feasible(excluded, int(u * n)) if n else -1
