"""How likely a place answers in time, and the slowest where that is likely: shared by `slack` and `slack-decline`.

    L = load that the stream would make there    c = servers = service_rate * proc / 1000, at least 1
    slack = deadline - expected completion - 1.4 sd - 0.15 proc
    P(in time) = 1 - L^c exp(-4 c (1 - L) slack / proc)

The slack is what remains for waiting, all in ms: 1.4 sd is one standard deviation of the round trip (sqrt 2 * sd for
its two legs), 0.15 proc one of the work. L^c stands for the share of requests that wait, the exponential for the share
of these that wait longer than the slack: the tail of M/M/c with 4 in the place of 1, since a stream's requests come at
even intervals and take nearly equal times, and so wait less than random ones.

Where every request is decided on its own, `load` is work in seconds instead of a share. P then says little, and the
present queue, which the expected completion contains, decides. With batches, c is the number of servers that would do
the same work one by one.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairlead.policies.expected_times import completion_ms, end_to_end_ms
from fairlead.policies.jit import kernel

# Tuned on the ASET topologies, seeds 500000 to 500035; validated on 600000 to 600005. Neighbours (margins of 0 or twice
# as much, REGULAR 2.5 to 6, LIKELY 0.8 to 0.95, CROWD_MS 0 to 80) are within half a point of success, in the mean.
ROUND_TRIP_SD: Final = 1.4
WORK_SD: Final = 0.15
REGULAR: Final = 4.0  # how much faster the tail falls than that of random arrivals
LIKELY: Final = 0.85  # a place where at least this share should be in time is good enough
CROWD_MS: Final = 20.0  # a full place counts as this much faster than an empty one, so that equals share the load


@kernel
def _load(request: Any, candidate: Any) -> float:
    return candidate.load + request.rate_qps / candidate.service_rate


@kernel
def chance_in_time(request: Any, candidate: Any) -> float:
    """P(in time and accurate enough); at most 0 where there is no chance, the less the farther from one."""
    margin_ms = ROUND_TRIP_SD * candidate.net_sd_ms + WORK_SD * candidate.proc_ms
    slack_ms = request.deadline_ms - completion_ms(candidate) - margin_ms
    if candidate.accuracy < request.min_accuracy:
        slack_ms -= request.deadline_ms
    if slack_ms <= 0.0:
        return slack_ms
    load = _load(request, candidate)
    if load >= 1.0:
        return 1.0 - load
    servers = max(1.0, np.round(candidate.service_rate * candidate.proc_ms * 1e-3))
    return 1.0 - load**servers * math.exp(-REGULAR * servers * (1.0 - load) * slack_ms / candidate.proc_ms)


@kernel
def slowest_in_time(request: Any, candidates: Any, excluded: Any) -> tuple[int, float]:
    """The slowest place that is likely in time, else the likeliest, and its P. (-1, -inf) if nothing is feasible."""
    slowest, slowest_ms, its_chance = -1, -np.inf, 0.0
    likeliest, best_chance = -1, -np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        chance = chance_in_time(request, candidates[c])
        if chance > best_chance:
            likeliest, best_chance = c, chance
        slow_ms = end_to_end_ms(candidates[c]) - CROWD_MS * min(1.0, _load(request, candidates[c]))
        if chance >= LIKELY and slow_ms > slowest_ms:
            slowest, slowest_ms, its_chance = c, slow_ms, chance
    return (slowest, its_chance) if slowest >= 0 else (likeliest, best_chance)
