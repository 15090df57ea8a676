"""The engine: one resumable, event-driven, exact loop over a world.

`advance` runs until the world needs its caller (DECIDE, WINDOW), is done, or was given an impossible choice (FAULT).
With a compiled policy it never leaves compiled code; `handle` is its entry from Python. Events at the same instant
happen in this order: station events, link changes, stream ends, window edges, requests that reach a node, new requests.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Outcome, Reason
from fairlead.policies.expected_times import completion_ms
from fairlead.policies.feasibility import rejection_reason
from fairlead.policies.jit import index, inlined, kernel
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.snapshot.candidates import add_load, book, bound_load, exclude, hard_bits, set_link
from fairlead.policies.snapshot.under_way import depart
from fairlead.sim.serving.calendar import pop, push
from fairlead.sim.serving.delivery import delay_ms
from fairlead.sim.serving.stations import join, station_event
from fairlead.sim.serving.world_arrays import AT_DECIDE, AT_WINDOW, DECIDE, DONE, FAULT, WINDOW

_REJECTED: Final = np.uint8(Outcome.REJECTED)
_DECLINED: Final = int(Reason.DECLINED)


@inlined
def _send(plan: Any, world: Any, request_id: int, d: int) -> None:
    """Send the request on its way to deployment `d`."""
    request, row, clock = world.requests[request_id], world.rows[request_id], world.clock[0]
    deployment = plan.deployments[d]
    row.choice, row.node, row.variant = d, deployment.node, deployment.variant
    link = world.links[request.site, deployment.node]
    travel_ms = delay_ms(link, world.draws[request_id].up) + request.size_kb * link.ms_per_kb
    row.net_ms = travel_ms
    world.jobs[request_id].deployment = d
    world.jobs[request_id].second = False
    book(plan, world, d, 1)
    if len(world.kept) > 0:
        depart(plan, world, request_id, d, request, request.now_ms, -1)
    push(world.heap, clock.joining, request.now_ms + travel_ms, request_id)
    clock.joining += 1
    world.dispatched[clock.window, deployment.node] += 1


@inlined
def _reject(world: Any, request_id: int, reason: int) -> None:
    row = world.rows[request_id]
    row.outcome, row.reason = _REJECTED, reason
    row.latency_ms = row.accuracy = np.nan
    world.clock[0].rejected += 1
    world.windows[world.clock[0].window].rejected += 1


@inlined
def _settle(plan: Any, world: Any, request_id: int, choice: int) -> bool:
    """Carry out a choice. False when it is no feasible candidate."""
    clock = world.clock[0]
    if choice == -1:
        _reject(world, request_id, _DECLINED)
        return True
    if choice < 0 or choice >= clock.last - clock.first or world.excluded[clock.first + choice] != 0:
        return False
    d = index(clock.first + choice)
    request = world.requests[request_id]
    predicted_ms = completion_ms(world.candidates[d])
    if plan.rules[0].bind_streams and request.stream >= 0:
        _bind(plan, world, request.stream, d, request.rate_qps)
    _send(plan, world, request_id, d)
    world.rows[request_id].predicted_ms = predicted_ms  # last, since its row is in the cache now
    return True


@kernel
def _bind(plan: Any, world: Any, stream: int, d: int, rate_qps: float) -> None:
    """Bind the stream to deployment `d`: its work counts as load until it ends."""
    load = bound_load(world.candidates[d], rate_qps)
    world.streams[stream].bound = d
    world.streams[stream].load = load
    add_load(plan, world, d, load)


@kernel
def _unbind(plan: Any, world: Any, stream: int) -> None:
    """Free what the stream is bound to, if anything."""
    d = world.streams[stream].bound
    if d >= 0:
        add_load(plan, world, d, -world.streams[stream].load)
        world.streams[stream].bound = -1


@kernel
def _log_exclusions(world: Any, request_id: int, first: int, last: int) -> None:
    for d in range(first, last):
        world.exclusions[request_id, d - first] = world.excluded[d]


@kernel
def _follow_binding(plan: Any, world: Any, request_id: int) -> bool:
    """Send the request where its stream is bound. False when it is not bound, or what it is bound to can't take it."""
    request = world.requests[request_id]
    if request.stream < 0:
        return False
    stream = world.streams[request.stream]
    if stream.bound == -2:  # its first request
        stream.bound = -1
        world.clock[0].open_streams += 1
    if stream.bound < 0 or not plan.rules[0].bind_streams:
        return False
    if hard_bits(plan, world, request.site, request.source, index(stream.bound)):
        _unbind(plan, world, request.stream)
        return False
    world.rows[request_id].bound = 1
    _send(plan, world, request_id, index(stream.bound))
    return True


@kernel
def _scheduled(plan: Any, world: Any) -> int:
    """The link change, stream end or window edge that is due. WINDOW when it was an edge, else DONE."""
    clock = world.clock[0]
    now_ms = clock.now_ms
    if clock.next_change < len(plan.changes) and plan.changes[clock.next_change].at_ms <= now_ms:
        change = plan.changes[clock.next_change]
        set_link(plan, world, change.row, change.node, change.link)
        clock.next_change += 1
        return DONE
    if clock.next_end < len(world.ends) and world.streams[world.ends[clock.next_end]].end_ms <= now_ms:
        stream = world.ends[clock.next_end]
        clock.next_end += 1
        if world.streams[stream].bound != -2:
            _unbind(plan, world, stream)
            clock.open_streams -= 1
        return DONE
    world.windows[clock.window].clients = clock.open_streams
    clock.window += 1
    return WINDOW


@kernel
def next_scheduled(plan: Any, world: Any) -> float:
    """When the next link change, stream end or window edge is due. The last window has no edge: it takes the drain."""
    clock = world.clock[0]
    at_ms = np.inf
    if clock.window < len(world.windows) - 1:
        at_ms = (clock.window + 1) * plan.rules[0].window_ms
    if clock.next_change < len(plan.changes):
        at_ms = min(at_ms, plan.changes[clock.next_change].at_ms)
    if clock.next_end < len(world.ends):
        at_ms = min(at_ms, world.streams[world.ends[clock.next_end]].end_ms)
    return at_ms


@inlined
def advance(plan: Any, world: Any, decide: Any, stops: int) -> int:
    """Run the world on; see the module. `decide` is a compiled policy, unused when `stops` has AT_DECIDE."""
    clock, requests = world.clock[0], world.requests
    if clock.waiting:
        clock.waiting = False
        if not _settle(plan, world, index(clock.request), clock.choice):
            return FAULT
    while True:
        arrival_ms = requests[clock.next_request].now_ms if clock.next_request < len(requests) else np.inf
        join_ms = world.heap[0].at_ms if clock.joining > 0 else np.inf
        station_ms = world.times[world.tree[1]]
        next_ms = min(min(arrival_ms, join_ms), station_ms)
        if next_ms == np.inf and (clock.now_ms >= plan.rules[0].duration_ms or clock.scheduled_ms == np.inf):
            return DONE
        if station_ms <= next_ms and station_ms <= clock.scheduled_ms:
            clock.now_ms = station_ms
            station_event(plan, world, world.tree[1], station_ms)
        elif clock.scheduled_ms <= next_ms:
            clock.now_ms = clock.scheduled_ms
            what = _scheduled(plan, world)
            clock.scheduled_ms = next_scheduled(plan, world)
            if what == WINDOW and stops & AT_WINDOW:
                return WINDOW
        elif join_ms <= next_ms:
            clock.now_ms = join_ms
            job = pop(world.heap, clock.joining)
            clock.joining -= 1
            join(plan, world, job, join_ms)
        else:
            clock.now_ms = arrival_ms
            i = index(clock.next_request)
            clock.next_request += 1
            request = requests[i]
            clock.arrived += 1
            world.windows[clock.window].arrived += 1
            if request.stream >= 0 and _follow_binding(plan, world, i):
                continue
            first, last = plan.models[request.model].first, plan.models[request.model].last
            feasible = exclude(plan, world, request, first, last)
            if len(world.exclusions) > 0:
                _log_exclusions(world, i, first, last)
            if not feasible:
                _reject(world, i, rejection_reason(world.excluded[first:last]))
                continue
            request.seq = clock.decisions
            clock.decisions += 1
            clock.request, clock.first, clock.last = i, first, last
            if stops & AT_DECIDE:
                clock.waiting = True
                return DECIDE
            u = uniform(clock.seed, POLICY, i, 0)
            clock.choice = decide(request, world.candidates[first:last], world.excluded[first:last], u)
            if not _settle(plan, world, i, clock.choice):
                return FAULT
