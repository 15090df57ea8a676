"""Best fit: the place that is most likely in time, or none; a short wait and a near place are worth a little.

    wait   = queue (1 - 1 / (2 ahead)) - net - transfer, at least 0     ahead = in flight - servers + 1
    P      = P(2 net + transfer + wait + proc * suffered <= deadline), of a normal law with the variance
             2 net_sd^2 + (0.15 proc * suffered)^2 + ahead (0.15 turn)^2 + turn^2 / 12    turn = queue / ahead
    key    = P - 0.0015 wait + 0.006 net                                                 times in ms

Of the places that are accurate and have P >= 0.6 the one with the highest key; if there are none, the request is
rejected: it would only delay others. The wait is less than the queue, since part of it goes by while the request is on
its way, and of the service under way half is over in the mean. The rule has no memory; `best-fit-foreseen` knows what
was sent, and when. Where streams are bound it sees the present queue only, which the binding outlives.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.policies.chance_in_time import WORK_SD
from fairlead.policies.interface import policy
from fairlead.policies.normal_law import chance_of

WAIT: Final = 0.0015  # a ms of waiting costs so much chance
FAR: Final = 0.006  # a ms of distance is worth so much: it leaves near places to those who need them
LEAST: Final = 0.6  # a lower chance is not worth a place


@policy("best-fit", source="Fairlead", weights=("wait", "far", "least"))
def best_fit(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, -np.inf
    for c in range(len(candidates)):
        candidate = candidates[c]
        if excluded[c] or candidate.accuracy < request.min_accuracy:
            continue
        serve_ms = candidate.proc_ms * candidate.suffered
        variance = 2.0 * candidate.net_sd_ms**2 + (WORK_SD * serve_ms) ** 2
        wait_ms = 0.0
        if candidate.queue_ms > 0.0:
            servers = max(1.0, np.round(candidate.service_rate * candidate.proc_ms * 1e-3))
            ahead = max(1.0, candidate.in_flight - servers + 1.0)
            turn_ms = candidate.queue_ms / ahead
            wait_ms = max(0.0, candidate.queue_ms - 0.5 * turn_ms - candidate.net_ms - candidate.transfer_ms)
            variance += ahead * (WORK_SD * turn_ms) ** 2 + turn_ms**2 / 12.0
        slack_ms = request.deadline_ms - 2.0 * candidate.net_ms - candidate.transfer_ms - wait_ms - serve_ms
        chance = chance_of(slack_ms, variance)
        key = chance - WAIT * wait_ms + FAR * candidate.net_ms
        if chance >= LEAST and key > best_key:
            best, best_key = c, key
    return best
