"""Slack or decline: as `slack`, but a stream that is nowhere in time with P >= 0.3 is rejected.

Such a stream wins little and lengthens the queue of all others: turning it away is what keeps an overload from making
everything late. A stream that was turned away asks again with its next request. 0.3 was tuned on the ASET topologies,
seeds 500000 to 500035: 0.2 is better for few latency-sensitive streams, 0.4 in a deep overload.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead.policies.chance_in_time import slowest_in_time
from fairlead.policies.interface import policy

WORTH_IT: Final = 0.3


@policy("slack-decline", source="Fairlead")
def slack_decline(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    place, chance = slowest_in_time(request, candidates, excluded)
    return place if chance >= WORTH_IT else -1
