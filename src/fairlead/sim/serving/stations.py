"""What happens at a station: a FIFO queue with servers and batches, or a shared node where all run at once.

A station is told that a request joins or that its next event is due; it then says when it wants to be called again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import index, inlined, kernel
from fairlead.policies.snapshot.fleet_arrays import RUNNING
from fairlead.policies.snapshot.interference import slowdown
from fairlead.sim.serving.calendar import set_time
from fairlead.sim.serving.delivery import answered


@inlined
def join(plan: Any, world: Any, job: int, now_ms: float) -> None:
    """A request has reached its node."""
    deployment = plan.deployments[world.jobs[job].deployment]
    size_kb = world.requests[job].size_kb
    alone_ms = (deployment.base_ms + deployment.per_kb_ms * size_kb) * world.draws[job].work
    world.jobs[job].joined_ms = now_ms
    world.jobs[job].service_ms = alone_ms
    world.jobs[job].alone_ms = world.jobs[job].alone_ms + alone_ms if world.jobs[job].second else alone_ms
    if plan.stations[deployment.station].deployment >= 0:
        _append(world, deployment.station, job)
        if world.stations[deployment.station].busy < deployment.servers:
            _serve_queue(plan, world, deployment.station, now_ms)
    else:
        _progress(plan, world, deployment.station, now_ms)
        world.jobs[job].left_ms = alone_ms
        _append(world, deployment.station, job)
        world.counts[RUNNING, plan.stations[deployment.station].first + deployment.resident] += 1
        _plan_shared(plan, world, deployment.station, now_ms)


@inlined
def station_event(plan: Any, world: Any, station_id: int, now_ms: float) -> None:
    """The event that the station asked for is due: a finish, or a batch that has waited long enough."""
    station = plan.stations[station_id]
    if station.deployment >= 0:
        for i in range(station.first, station.first + plan.deployments[station.deployment].servers):
            if world.servers[i].finish_ms <= now_ms:
                _finish_batch(plan, world, station_id, i, now_ms)
        _serve_queue(plan, world, station_id, now_ms)
    else:
        _progress(plan, world, station_id, now_ms)
        _finish_shared(plan, world, station_id, now_ms)
        _plan_shared(plan, world, station_id, now_ms)


@inlined
def _append(world: Any, station_id: int, job: int) -> None:
    state = world.stations[station_id]
    world.jobs[job].next = -1
    if state.jobs == 0:
        state.head = job
    else:
        world.jobs[state.tail].next = job
    state.tail = job
    state.jobs += 1


@inlined
def _serve_queue(plan: Any, world: Any, station_id: int, now_ms: float) -> None:
    """Start what can start, then set the station's next event."""
    station, state = plan.stations[station_id], world.stations[station_id]
    deployment = plan.deployments[station.deployment]
    while state.busy < deployment.servers and state.jobs > 0:
        ready = state.jobs >= deployment.batch
        if not ready and world.jobs[state.head].joined_ms + deployment.batch_wait_ms > now_ms:
            break
        server = station.first
        while world.servers[server].finish_ms != np.inf:
            server += 1
        _start_batch(world, deployment, state, world.servers[server], now_ms)
    next_ms = np.inf
    for i in range(station.first, station.first + deployment.servers):
        next_ms = min(next_ms, world.servers[i].finish_ms)
    if state.busy < deployment.servers and state.jobs > 0:
        next_ms = min(next_ms, world.jobs[state.head].joined_ms + deployment.batch_wait_ms)
    set_time(world.times, world.tree, station_id, next_ms)


@inlined
def _start_batch(world: Any, deployment: Any, state: Any, server: Any, now_ms: float) -> None:
    """Take the first jobs of the queue, up to a full batch, and start them on the server."""
    taken, longest_ms, sum_ms, job, last = 0, 0.0, 0.0, state.head, state.head
    while taken < deployment.batch and taken < state.jobs:
        waiting = world.jobs[index(job)]
        world.rows[index(job)].queue_ms += now_ms - waiting.joined_ms
        longest_ms = max(longest_ms, waiting.service_ms)
        sum_ms += waiting.service_ms
        last, job = job, waiting.next
        taken += 1
    server.job, server.jobs, server.started_ms = state.head, taken, now_ms
    world.jobs[last].next = -1
    state.head = job
    state.jobs -= taken
    state.busy += 1
    batch_ms = sum_ms
    if taken > 1:
        batch_ms = deployment.batch_fixed * longest_ms + (1.0 - deployment.batch_fixed) * sum_ms
    server.finish_ms = now_ms + batch_ms


@inlined
def _finish_batch(plan: Any, world: Any, station_id: int, server_id: int, now_ms: float) -> None:
    server = world.servers[server_id]
    deployment = plan.deployments[plan.stations[station_id].deployment]
    spent_ms = now_ms - server.started_ms
    energy_mj = deployment.power_w * spent_ms
    world.nodes[deployment.node].busy_ms += deployment.weight * spent_ms
    world.nodes[deployment.node].energy_mj += energy_mj
    world.stations[station_id].busy -= 1
    job, jobs = server.job, server.jobs
    server.finish_ms = np.inf
    while job >= 0:
        done = index(job)
        job = world.jobs[done].next
        row = world.rows[done]
        row.service_ms += spent_ms
        row.energy_mj += energy_mj / jobs
        row.price += deployment.price_per_ms * spent_ms / jobs
        answered(plan, world, done, now_ms)


@kernel
def _progress(plan: Any, world: Any, station_id: int, now_ms: float) -> None:
    """Count what the running jobs have done since the last change; they share the device's energy and price alike."""
    station, state = plan.stations[station_id], world.stations[station_id]
    spent_ms = now_ms - state.changed_ms
    state.changed_ms = now_ms
    if state.jobs == 0 or spent_ms <= 0.0:
        return
    counts = world.counts[RUNNING, station.first : station.first + station.residents]
    job = state.head
    while job >= 0:
        deployment, row = plan.deployments[world.jobs[job].deployment], world.rows[job]
        world.jobs[job].left_ms -= spent_ms / slowdown(plan, station, counts, deployment.resident)
        row.energy_mj += deployment.power_w * spent_ms / state.jobs
        row.price += deployment.price_per_ms * spent_ms / state.jobs
        job = world.jobs[job].next
    node = world.nodes[station.node]
    node.busy_ms += spent_ms
    node.energy_mj += plan.deployments[plan.node_deployments[plan.node_first[station.node]]].power_w * spent_ms


@kernel
def _first_to_finish(plan: Any, world: Any, station_id: int) -> tuple[Any, Any, float]:
    """The running job that will be done first, the one before it in the list (-1: none), and in how many ms."""
    station, state = plan.stations[station_id], world.stations[station_id]
    counts = world.counts[RUNNING, station.first : station.first + station.residents]
    best, before_best, best_ms = np.int64(-1), np.int64(-1), np.inf
    before, job = np.int64(-1), state.head
    while job >= 0 and state.jobs > 0:
        resident = plan.deployments[world.jobs[job].deployment].resident
        left_ms = max(0.0, world.jobs[job].left_ms)
        if left_ms > 0.0:
            left_ms *= slowdown(plan, station, counts, resident)
        if left_ms < best_ms:
            best, before_best, best_ms = job, before, left_ms
        before, job = job, world.jobs[job].next
    return best, before_best, best_ms


@kernel
def _finish_shared(plan: Any, world: Any, station_id: int, now_ms: float) -> None:
    """Take the job that is due off the shared node."""
    station, state = plan.stations[station_id], world.stations[station_id]
    job, before, _ = _first_to_finish(plan, world, station_id)
    following = world.jobs[job].next
    if before >= 0:
        world.jobs[before].next = following
    else:
        state.head = following
    if following < 0:
        state.tail = before
    state.jobs -= 1
    world.counts[RUNNING, station.first + plan.deployments[world.jobs[job].deployment].resident] -= 1
    world.rows[job].service_ms += now_ms - world.jobs[job].joined_ms
    answered(plan, world, index(job), now_ms)


@kernel
def _plan_shared(plan: Any, world: Any, station_id: int, now_ms: float) -> None:
    job, _, left_ms = _first_to_finish(plan, world, station_id)
    set_time(world.times, world.tree, station_id, now_ms + left_ms if job >= 0 else np.inf)
