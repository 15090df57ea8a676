"""Chances by the normal law, for rules and for what is foreseen."""

from __future__ import annotations

import math
from typing import Final

from fairlead.policies.expected_times import in_time
from fairlead.policies.jit import kernel

FAR: Final = 5.0  #: Deviations beyond which a normal law counts as certain.


@kernel
def density(z: float) -> float:
    """Of a standard normal number at z."""
    return math.exp(-0.5 * z * z) * 0.3989422804014327


@kernel
def share_above(z: float) -> float:
    """The chance that a standard normal number is above z."""
    return 0.5 * math.erfc(z * 0.7071067811865476)


@kernel
def chance_of(slack_ms: float, variance: float) -> float:
    """The chance to be in time where so much time is left in the mean, with this variance."""
    if slack_ms * slack_ms >= FAR * FAR * variance:
        return 1.0 if in_time(0.0, slack_ms) else 0.0
    return share_above(-slack_ms / math.sqrt(variance))
