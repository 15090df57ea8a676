"""Slack: the slowest place that is still likely in time, which leaves the fast ones to those who need them.

What `cheaper` does, with the wait foreseen: P(in time) is that of `on_time`, from the load which the stream would make
and what its deadline leaves for waiting. Of the places with P >= 0.85 the slowest, end to end, less 20 ms * load; if
there are none, the one with the highest P.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy
from fairlead.policies.on_time import slowest_in_time


@policy("slack", source="Fairlead")
def slack(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    place, _ = slowest_in_time(request, candidates, excluded)
    return place
