"""Feasibility, computed once and outside the policies: reason bits per candidate, 0 = feasible.

Called by every host (simulator, gateway, controller) before it asks a policy. `Reason` says what the bits mean.
Hard bits (capacity, memory, reachability, permission) always exclude; nominal deadline and accuracy misses exclude
only where the scenario admits by them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Reason
from fairlead.policies.expected_times import end_to_end_ms, in_time
from fairlead.policies.jit import inlined, kernel

_TOO_LATE: Final = np.uint16(Reason.TOO_LATE)
_TOO_INACCURATE: Final = np.uint16(Reason.TOO_INACCURATE)
_NO_CAPACITY: Final = np.uint16(Reason.NO_CAPACITY)


@kernel
def nominal_misses(request: Any, candidates: Any, excluded: Any, by_deadline: bool, by_accuracy: bool) -> None:
    """Add the bits of candidates that would nominally be late or too inaccurate."""
    for c in range(len(candidates)):
        if by_deadline and not in_time(end_to_end_ms(candidates[c]), request.deadline_ms):
            excluded[c] |= _TOO_LATE
        if by_accuracy and candidates[c].accuracy < request.min_accuracy:
            excluded[c] |= _TOO_INACCURATE


@kernel
def overbooked(request: Any, candidates: Any, excluded: Any) -> None:
    """Add the bit of candidates whose bound load would pass 1 with this stream (stream binding)."""
    for c in range(len(candidates)):
        if candidates[c].load + request.rate_qps / candidates[c].service_rate > 1.0 + 1e-12:
            excluded[c] |= _NO_CAPACITY


@inlined
def any_feasible(excluded: Any) -> bool:
    """Whether some candidate has no bit set."""
    n = 0
    while n < len(excluded) and excluded[n] != 0:
        n += 1
    return n < len(excluded)


@kernel
def rejection_reason(excluded: Any) -> int:
    """Why nothing was feasible: each candidate's hardest obstacle, and of these the easiest to lift."""
    easiest = 1 << 15
    for c in range(len(excluded)):
        hardest = 1
        while hardest * 2 <= excluded[c]:
            hardest *= 2
        easiest = min(easiest, hardest)
    return easiest
