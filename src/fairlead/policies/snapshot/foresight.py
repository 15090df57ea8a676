"""What a newcomer will meet at each place, and what it will spoil there: from the lines of who is under way.

The laws are normal ones. `docs/guides/serving-world.md` has them in words ("What is foreseen"); the simulator's engine
and `builder` call `foresee` when somebody asks about a request.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairlead.policies.jit import index, inlined, kernel
from fairlead.policies.normal_law import FAR, chance_of, density, share_above
from fairlead.policies.snapshot.interference import slowdown
from fairlead.policies.snapshot.under_way import count_present, kept_in, look

_DONE_MS: Final = 1e-9  # work that is as good as done
_ROUNDING_MS: Final = 1e-6  # a shorter wait is none: two that are alike should be equal
_BEYOND: Final = 1.5  # how far to look, as a multiple of the time to the last deadline


@kernel
def foresee(fleet: Any, state: Any, request: Any, first: int, last: int) -> None:
    """Fill in what candidates first..last of a request are foreseen to do with it, and it with them."""
    kept = kept_in(state.kept)
    for d in range(first, last):
        candidate, deployment = state.candidates[d], fleet.deployments[d]
        line, queue = kept.lines[deployment.station], fleet.stations[deployment.station].deployment >= 0
        look(fleet, kept, deployment.station, request.now_ms)
        candidate.busy = line.busy
        candidate.wait_ms = candidate.wait_sd_ms = candidate.makes_late = 0.0
        if state.down[request.site, d] != 0:
            continue
        arrives_ms = request.now_ms + candidate.net_ms + candidate.transfer_ms
        if queue:
            if line.jobs < deployment.servers:
                continue
            wait_ms, variance, candidate.makes_late = _queue(fleet, state, kept, d, request, arrives_ms)
            variance += candidate.net_sd_ms * candidate.net_sd_ms
            candidate.wait_ms, candidate.wait_sd_ms = _positive_part(wait_ms, variance)
        else:
            candidate.wait_ms, candidate.makes_late = _shared(fleet, state, kept, d, request, arrives_ms)
            candidate.wait_sd_ms = deployment.work_sd * candidate.wait_ms


# ---- normal laws


@inlined
def _remaining(flight: Any, done_ms: float) -> tuple[float, float]:
    """Mean and variance of what is left of a flight's work, of which so much is done."""
    sd = flight.work_sd_ms
    if done_ms <= 0.0 or sd <= 0.0:
        return max(0.0, flight.work_ms - max(0.0, done_ms)), sd * sd
    z = (done_ms - flight.work_ms) / sd
    if z < -FAR:
        return -sd * z, sd * sd
    if z > FAR:
        return sd / z, 0.0
    hazard = density(z) / share_above(z)
    return sd * (hazard - z), sd * sd * max(0.0, 1.0 - hazard * (hazard - z))


@inlined
def _positive_part(mean: float, variance: float) -> tuple[float, float]:
    """Mean and deviation of max(0, x), x of a normal law."""
    if mean * mean >= FAR * FAR * variance:
        return (mean, math.sqrt(variance)) if mean > 0.0 else (0.0, 0.0)
    sd = math.sqrt(variance)
    share, edge = share_above(-mean / sd), sd * density(mean / sd)
    first = mean * share + edge
    return first, math.sqrt(max(0.0, (mean * mean + variance) * share + mean * edge - first * first))


@inlined
def _chance(flight: Any, ends_ms: float, variance: float) -> float:
    """The chance that a flight's answer is in time when its service ends then, give or take."""
    return chance_of(flight.due_ms - ends_ms, variance + flight.net_sd_ms * flight.net_sd_ms)


# ---- a queue

# Rows of `slots`: when each server is free, its variance, and when it is without the newcomer.
_WITH: Final = 0
_VARIANCE: Final = 1
_WITHOUT: Final = 2


@inlined
def _soonest(slots: Any, row: int, first: int, last: int) -> int:
    best = first
    for server in range(first + 1, last):
        if slots[row, server] < slots[row, best]:
            best = server
    return best


@kernel
def _queue(fleet: Any, state: Any, kept: Any, d: int, request: Any, arrives_ms: float) -> tuple[float, float, float]:
    """When a server is free for a newcomer, counted from its arrival, with variance; and how many it makes late."""
    deployment, line, slots = fleet.deployments[d], kept.lines[fleet.deployments[d].station], kept.slots
    now_ms, first = request.now_ms, fleet.stations[deployment.station].first
    last = first + deployment.servers
    job, server = line.head, first
    while job != line.waiting:
        flight = kept.flights[index(job)]
        left_ms, slots[_VARIANCE, server] = _remaining(flight, now_ms - flight.started_ms)
        slots[_WITH, server] = now_ms + left_ms
        job, server = flight.next, server + 1
    for idle in range(server, last):
        slots[_WITH, idle] = slots[_VARIANCE, idle] = 0.0
    while job >= 0 and kept.flights[index(job)].arrives_ms <= arrives_ms:  # who is served before the newcomer
        server = _soonest(slots, _WITH, first, last)
        if slots[_WITH, server] > arrives_ms + request.deadline_ms:
            break
        flight = kept.flights[index(job)]
        if slots[_WITH, server] < flight.arrives_ms:
            slots[_WITH, server], slots[_VARIANCE, server] = flight.arrives_ms, 0.0
        slots[_WITH, server] += flight.work_ms
        slots[_VARIANCE, server] += flight.work_sd_ms * flight.work_sd_ms
        job = flight.next
    server = _soonest(slots, _WITH, first, last)
    wait_ms, variance = slots[_WITH, server] - arrives_ms, slots[_VARIANCE, server]
    if slots[_WITH, server] == 0.0:
        wait_ms = -np.inf
    if job < 0 or kept.flights[index(job)].arrives_ms <= arrives_ms:
        return wait_ms, variance, 0.0
    for other in range(first, last):
        slots[_WITHOUT, other] = slots[_WITH, other]
    work_ms = state.candidates[d].proc_ms * deployment.batch_share
    slots[_WITH, server] = max(arrives_ms, slots[_WITH, server]) + work_ms
    slots[_VARIANCE, server] += (deployment.work_sd * work_ms) ** 2
    makes_late = 0.0
    while job >= 0:  # who is served after it
        flight = kept.flights[index(job)]
        other, server = _soonest(slots, _WITHOUT, first, last), _soonest(slots, _WITH, first, last)
        slots[_WITHOUT, other] = max(flight.arrives_ms, slots[_WITHOUT, other]) + flight.work_ms
        slots[_WITH, server] = max(flight.arrives_ms, slots[_WITH, server]) + flight.work_ms
        slots[_VARIANCE, server] += flight.work_sd_ms * flight.work_sd_ms
        if slots[_WITH, server] <= slots[_WITHOUT, other] + _DONE_MS:
            break  # the queue is as it would be without it
        spread = slots[_VARIANCE, server]
        makes_late += _chance(flight, slots[_WITHOUT, other], spread) - _chance(flight, slots[_WITH, server], spread)
        job = flight.next
    return wait_ms, variance, makes_late


# ---- a shared node


@kernel
def _shared(fleet: Any, state: Any, kept: Any, d: int, request: Any, arrives_ms: float) -> tuple[float, float]:
    """How much longer than alone a newcomer will take on a shared node, and how many others it makes late."""
    deployment, now_ms = fleet.deployments[d], request.now_ms
    head = kept.lines[deployment.station].head
    until_ms = now_ms + request.deadline_ms
    job = head
    while job >= 0:
        until_ms = max(until_ms, kept.flights[index(job)].due_ms)
        job = kept.flights[index(job)].next
    until_ms = now_ms + _BEYOND * (until_ms - now_ms)
    _run_on(fleet, state, kept, d, np.inf, now_ms, until_ms)
    job = head
    while job >= 0:
        kept.flights[index(job)].else_ms = kept.flights[index(job)].ends_ms
        job = kept.flights[index(job)].next
    ends_ms = _run_on(fleet, state, kept, d, arrives_ms, now_ms, until_ms)
    makes_late = 0.0
    job = head
    while job >= 0:
        flight = kept.flights[index(job)]
        if flight.else_ms < np.inf:
            relative = fleet.deployments[flight.deployment].work_sd
            spread = (relative * (flight.else_ms - now_ms)) ** 2
            makes_late += _chance(flight, flight.else_ms, spread) - _chance(flight, flight.ends_ms, spread)
        job = flight.next
    wait_ms = ends_ms - arrives_ms - state.candidates[d].proc_ms
    return (wait_ms if wait_ms > _ROUNDING_MS else 0.0), makes_late


@kernel
def _run_on(fleet: Any, state: Any, kept: Any, d: int, arrives_ms: float, now_ms: float, until_ms: float) -> float:
    """Let a shared node work until then; writes down when each one ends, and returns when a newcomer to `d` does."""
    station_id, own = fleet.deployments[d].station, fleet.deployments[d].resident
    station, head = fleet.stations[station_id], kept.lines[station_id].head
    counts = kept.present[station.first : station.first + station.residents]
    next_ms = count_present(fleet, kept, station_id, now_ms)
    jobs = 0
    job = head
    while job >= 0:
        flight = kept.flights[index(job)]
        flight.left_ms = max(2.0 * _DONE_MS, _remaining(flight, flight.done_ms)[0])
        flight.ends_ms = np.inf
        jobs, job = jobs + 1, flight.next
    at_ms, left_ms, here, pace = now_ms, state.candidates[d].proc_ms, False, 1.0
    coming, ends_ms = arrives_ms < np.inf, np.inf
    while (jobs > 0 or coming or here) and at_ms < until_ms:
        if coming and at_ms >= arrives_ms:
            coming, here = False, True
            counts[own] += 1
        step_ms = min(next_ms, until_ms) - at_ms  # to the first who comes or ends
        if coming:
            step_ms = min(step_ms, arrives_ms - at_ms)
        if here:
            pace = slowdown(fleet, station, counts, own)
            step_ms = min(step_ms, left_ms * pace)
        job = head
        while job >= 0 and kept.flights[index(job)].arrives_ms <= at_ms:
            flight = kept.flights[index(job)]
            if flight.left_ms > 0.0:
                flight.pace = slowdown(fleet, station, counts, fleet.deployments[flight.deployment].resident)
                step_ms = min(step_ms, flight.left_ms * flight.pace)
            job = flight.next
        job = head
        while job >= 0 and kept.flights[index(job)].arrives_ms <= at_ms:
            flight = kept.flights[index(job)]
            if flight.left_ms > 0.0:
                flight.left_ms -= step_ms / flight.pace
                if flight.left_ms <= _DONE_MS:
                    flight.left_ms, flight.ends_ms = 0.0, at_ms + step_ms
                    counts[fleet.deployments[flight.deployment].resident] -= 1
                    jobs -= 1
            job = flight.next
        at_ms += step_ms
        if here:
            left_ms -= step_ms / pace
            if left_ms <= _DONE_MS:
                here, ends_ms = False, at_ms
                counts[own] -= 1
        while job >= 0 and kept.flights[index(job)].arrives_ms <= at_ms:  # who comes now
            counts[fleet.deployments[kept.flights[index(job)].deployment].resident] += 1
            job = kept.flights[index(job)].next
        next_ms = kept.flights[index(job)].arrives_ms if job >= 0 else np.inf
    if here:
        ends_ms = at_ms + left_ms * (pace if pace < np.inf else 1.0)
    return arrives_ms + left_ms if coming else ends_ms
