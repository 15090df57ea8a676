"""Best fit, foreseen: where the most requests will be in time, this one and those that it delays.

    P      = P(2 net + transfer + wait + proc <= deadline), of a normal law with the variance
             2 net_sd^2 + proc_sd^2 + wait_sd^2
    gain   = P - makes_late                                  by how much the number of requests in time should grow
    key    = gain - 0.004 wait - 0.1 busy + 0.006 nearest    times in ms

Of the places that are accurate and have a gain of at least 0.6 the one with the highest key; if there are none, the
request is rejected. `wait`, `makes_late` and `busy` are foreseen from what was sent there (guide "The serving world"),
`nearest` is the delay from the nearest site. The last three terms stand for requests that are still to come: a place
where others wait, that has been busy, or that few can reach in time is left to them, if another does as well.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.policies.interface import policy
from fairlead.policies.normal_law import chance_of

WAIT: Final = 0.004  # a ms of waiting costs so much gain
BUSY: Final = 0.1  # so does a place that was busy all the time
NEAREST: Final = 0.006  # a ms of distance from the nearest site is worth so much
LEAST: Final = 0.6  # a smaller gain is not worth a place


@policy("best-fit-foreseen", source="Fairlead", weights=("wait", "busy", "nearest", "least"))
def best_fit_foreseen(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, -np.inf
    for c in range(len(candidates)):
        candidate = candidates[c]
        if excluded[c] or candidate.accuracy < request.min_accuracy:
            continue
        variance = 2.0 * candidate.net_sd_ms**2 + candidate.proc_sd_ms**2 + candidate.wait_sd_ms**2
        taken_ms = 2.0 * candidate.net_ms + candidate.transfer_ms + candidate.wait_ms + candidate.proc_ms
        gain = chance_of(request.deadline_ms - taken_ms, variance) - candidate.makes_late
        key = gain - WAIT * candidate.wait_ms - BUSY * candidate.busy + NEAREST * candidate.nearest_ms
        if gain >= LEAST and key > best_key:
            best, best_key = c, key
    return best
