"""Slack: the slowest place that is still likely in time, which leaves the fast ones to those who need them.

What `cheaper` does, with the wait foreseen: P(in time), as `chance_in_time` has it, goes by the load which the stream
would make and by what its deadline leaves for waiting. Of the places with P >= 0.85 the slowest, end to end, less
20 ms * load; if there are none, the one with the highest P.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.chance_in_time import slowest_in_time
from fairlead.policies.interface import policy


@policy("slack", source="Fairlead")
def slack(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    place, _ = slowest_in_time(request, candidates, excluded)
    return place
