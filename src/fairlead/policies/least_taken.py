"""Least taken: of the places that should be accurate and in time, the one that costs the edge the least time.

    key = proc (suffered + caused) + queue + max(0, completion + 2.8 sd - deadline)    all in ms; least is best

proc * suffered is the time that the node gives to this request, proc * caused about what the requests there lose by it,
queue the wait. 2.8 sd is two standard deviations of the round trip (sqrt 2 * sd for its two legs): where a slow network
would make the answer late, the milliseconds count. If no place is accurate and in time, the request is rejected. Where
streams are bound it sees the present queue only, which the binding outlives. On `ecsrl`, where models share a device,
it passes every rule that looks at the newcomer alone (docs/results/ecsrl.md).

The formula is ours; its parts have no weights. Other weights (0.5 to 2) and margins were tried on `ecsrl` and the ASET
topologies with seeds 500010 to 500052: none was better everywhere. Validated on seeds 600000 to 600005.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.policies.expected_times import completion_ms, in_time
from fairlead.policies.interface import policy

SPREAD: Final = 2.8  # standard deviations of one leg


@policy("least-taken", source="Fairlead")
def least_taken(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, np.inf
    for c in range(len(candidates)):
        expected_ms, deadline_ms = completion_ms(candidates[c]), request.deadline_ms
        if excluded[c] or candidates[c].accuracy < request.min_accuracy or not in_time(expected_ms, deadline_ms):
            continue
        taken_ms = candidates[c].proc_ms * (candidates[c].suffered + candidates[c].caused) + candidates[c].queue_ms
        key = taken_ms + max(0.0, expected_ms - deadline_ms + SPREAD * candidates[c].net_sd_ms)
        if key < best_key:
            best, best_key = c, key
    return best
