"""Who is under way to each station, as the sender knows it: when each should arrive, how much work it brings.

Kept only where a policy asks what a newcomer will meet (`foresight`): `state.kept` is empty otherwise. A *line* is what
was sent to a station and has not finished, by expected arrival. Its sender knows what it sent and when, what a link and
a model take in the mean, and what has finished. When a service begins stays hidden; it is presumed. Called by the
simulator's engine and by `builder` when something is sent or finishes.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairlead.policies.addresses import in_block, new_block, tuple_inside
from fairlead.policies.jit import index, inlined, kernel
from fairlead.policies.snapshot.fleet_arrays import KEPT_ARRAYS, Kept
from fairlead.policies.snapshot.interference import slowdown
from fairlead.policies.snapshot.travel import travel_ms

_MEMORY_MS: Final = 1000.0  # `busy` forgets at this rate

kept_in: Any = tuple_inside(Kept, KEPT_ARRAYS)  #: Inside compiled code: the `Kept` of a block.


def new_kept(fleet: Any, numbers: int) -> Any:
    """A block for the lines of a fleet in which nothing is under way, with room for so many flights."""
    servers, residents = int(fleet.deployments["servers"].sum()), int(fleet.stations["residents"].sum())
    block = new_block(KEPT_ARRAYS, ((numbers,), (len(fleet.stations),), (3, servers), (residents,)))
    clear(block)
    return block


def clear(block: Any) -> None:
    """Nothing is under way, and nothing was."""
    lines = unpacked(block).lines
    lines[...] = 0
    lines["head"] = lines["tail"] = lines["waiting"] = -1


def unpacked(block: Any) -> Kept:
    """Views of what a block holds."""
    kept: Kept = in_block(Kept, KEPT_ARRAYS, block)
    return kept


@kernel
def depart(fleet: Any, state: Any, number: int, d: int, request: Any, now_ms: float, answered: int) -> None:
    """A request, numbered so in `flights`, is sent to deployment `d`; by the one that answered it first, if >= 0."""
    kept = kept_in(state.kept)
    deployment, flight = fleet.deployments[d], kept.flights[index(number)]
    line = kept.lines[deployment.station]
    link = state.links[request.site, deployment.node]
    look(fleet, kept, deployment.station, now_ms)
    flight.deployment = d
    flight.arrives_ms = now_ms + travel_ms(fleet, state, request, d, now_ms, answered)
    flight.work_ms = (deployment.base_ms + deployment.per_kb_ms * request.size_kb) * deployment.batch_share
    flight.work_sd_ms = deployment.work_sd * flight.work_ms
    flight.due_ms = request.now_ms + request.deadline_ms - link.net_ms
    flight.net_sd_ms = link.net_sd_ms
    flight.started_ms, flight.done_ms = np.inf, 0.0
    _insert(kept, line, number)
    look(fleet, kept, deployment.station, now_ms)


@inlined
def _insert(kept: Any, line: Any, number: int) -> None:
    """Put a flight into its line, behind those that should arrive before it or with it."""
    flight = kept.flights[index(number)]
    before = line.tail
    while before >= 0 and kept.flights[index(before)].arrives_ms > flight.arrives_ms:
        before = kept.flights[index(before)].before
    after = kept.flights[index(before)].next if before >= 0 else line.head
    flight.before, flight.next = before, after
    if before >= 0:
        kept.flights[index(before)].next = number
    else:
        line.head = number
    if after >= 0:
        kept.flights[index(after)].before = number
    else:
        line.tail = number
    if line.waiting == after:  # all that have started arrived before now
        line.waiting = number
    line.jobs += 1


@kernel
def leave(fleet: Any, state: Any, number: int, now_ms: float) -> None:
    """A flight has finished."""
    kept = kept_in(state.kept)
    flight = kept.flights[index(number)]
    station_id = fleet.deployments[flight.deployment].station
    line = kept.lines[station_id]
    look(fleet, kept, station_id, now_ms)
    if flight.started_ms < np.inf:
        line.serving -= 1
    else:
        if line.waiting == number:
            line.waiting = flight.next
        if line.serving > 0 and line.serving == _servers(fleet, station_id):  # it was served in the place of another
            last = line.tail if line.waiting < 0 else kept.flights[index(line.waiting)].before
            while kept.flights[index(last)].started_ms == np.inf:
                last = kept.flights[index(last)].before
            kept.flights[index(last)].started_ms = now_ms
    if flight.before >= 0:
        kept.flights[index(flight.before)].next = flight.next
    else:
        line.head = flight.next
    if flight.next >= 0:
        kept.flights[index(flight.next)].before = flight.before
    else:
        line.tail = flight.before
    line.jobs -= 1
    if line.waiting >= 0 and fleet.stations[station_id].deployment >= 0:
        first = kept.flights[index(line.waiting)]
        if first.arrives_ms <= now_ms and line.serving < _servers(fleet, station_id):
            _start(line, first, now_ms)


@inlined
def _servers(fleet: Any, station_id: int) -> int:
    return fleet.deployments[fleet.stations[station_id].deployment].servers


@inlined
def _start(line: Any, flight: Any, at_ms: float) -> None:
    flight.started_ms = at_ms
    line.waiting = flight.next
    line.serving += 1


@inlined
def look(fleet: Any, kept: Any, station_id: int, now_ms: float) -> None:
    """Bring a line up to now: what should have arrived since the last look, and what work should be done."""
    if fleet.stations[station_id].deployment < 0:
        progress(fleet, kept, station_id, now_ms)
        return
    line, servers = kept.lines[station_id], _servers(fleet, station_id)
    _remember(line, line.serving / servers, now_ms)
    while line.waiting >= 0 and line.serving < servers:
        first = kept.flights[index(line.waiting)]
        if first.arrives_ms > now_ms:
            break
        _start(line, first, first.arrives_ms)


@inlined
def _remember(line: Any, share: float, until_ms: float) -> None:
    """So large a share of the servers was busy since the last look."""
    if until_ms > line.changed_ms:
        line.busy = share + (line.busy - share) * math.exp((line.changed_ms - until_ms) / _MEMORY_MS)
        line.changed_ms = until_ms


@inlined
def count_present(fleet: Any, kept: Any, station_id: int, at_ms: float) -> float:
    """Count those that should be at a shared node; returns when the next one should arrive."""
    station = fleet.stations[station_id]
    counts = kept.present[station.first : station.first + station.residents]
    for resident in range(station.residents):
        counts[resident] = 0
    job = kept.lines[station_id].head
    while job >= 0 and kept.flights[index(job)].arrives_ms <= at_ms:
        counts[fleet.deployments[kept.flights[index(job)].deployment].resident] += 1
        job = kept.flights[index(job)].next
    return kept.flights[index(job)].arrives_ms if job >= 0 else np.inf


@kernel
def progress(fleet: Any, kept: Any, station_id: int, now_ms: float) -> None:
    """Count the work that those at a shared node should have done since the last look."""
    station, line = fleet.stations[station_id], kept.lines[station_id]
    counts = kept.present[station.first : station.first + station.residents]
    while line.changed_ms < now_ms:
        at_ms = line.changed_ms
        until_ms = min(now_ms, count_present(fleet, kept, station_id, at_ms))
        job = line.head
        while job >= 0 and kept.flights[index(job)].arrives_ms <= at_ms:
            flight = kept.flights[index(job)]
            resident = fleet.deployments[flight.deployment].resident
            flight.done_ms += (until_ms - at_ms) / slowdown(fleet, station, counts, resident)
            job = flight.next
        _remember(line, 0.0 if job == line.head else 1.0, until_ms)
