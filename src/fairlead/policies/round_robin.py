"""Round robin: the feasible candidates in turn.

The counter is the request's sequence number, held by the host: so the rule itself has no state.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy
from fairlead.policies.pick import count_feasible, nth_feasible


@policy("round-robin", source="common practice")
def round_robin(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    n = count_feasible(excluded)
    return nth_feasible(excluded, request.seq % n) if n else -1
