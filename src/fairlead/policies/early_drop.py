"""Early drop: the least expected completion, or no place at all when even that would be too late.

A request that should miss its deadline is rejected at once: its place is worth more to one that can still be in time.
Where everything is accepted, an overload makes everything late. Serving systems call this early drop or shedding.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.expected_times import completion_ms, in_time
from fairlead.policies.interface import policy
from fairlead.policies.pick import soonest


@policy("early-drop", source="common practice")
def early_drop(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best = soonest(request, candidates, excluded)
    return best if best >= 0 and in_time(completion_ms(candidates[best]), request.deadline_ms) else -1
