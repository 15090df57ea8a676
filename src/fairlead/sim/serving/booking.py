"""Keeps the candidate records true: what each deployment has promised, how full it is, how it would slow a newcomer.

Candidates live in one array that is updated when something changes, never rebuilt for a decision; only what depends on
the request (its link row, its size) is filled in, and only when it differs from the last one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Reason
from fairlead.policies.jit import inlined, kernel

_NO_CAPACITY: Final = np.uint16(Reason.NO_CAPACITY)
_NO_MEMORY: Final = np.uint16(Reason.NO_MEMORY)

PROMISED: Final = 0  # on their way or running
RUNNING: Final = 1


@kernel
def degradation(plan: Any, station: Any, counts: Any, kind: int) -> float:
    """Time among others / time alone for one more of `kind` beside `counts` (K,).

    Linear: 1 + sum_u slope[kind, u] counts[u]. Otherwise the table is: number of axes A, A sizes, K axes (on which
    axis a kind is counted), then K blocks of cells; past the edge it is infinite.
    """
    table = plan.degradation
    at, kinds = station.table, station.kinds
    if station.linear:
        value = 1.0
        for other in range(kinds):
            value += table[at + kind * kinds + other] * counts[other]
        return value
    axes = int(table[at])
    cell, block = 0, 1
    for axis in range(axes):
        size = int(table[at + 1 + axis])
        here = 0
        for other in range(kinds):
            if table[at + 1 + axes + other] == axis:
                here += counts[other]
        if here >= size:
            return np.inf
        cell = cell * size + here
        block *= size
    return table[at + 1 + axes + kinds + kind * block + cell]


@kernel
def slowdown(plan: Any, station: Any, counts: Any, kind: int) -> float:
    """Degradation of one of `kind` that is itself among `counts`."""
    counts[kind] -= 1
    value = degradation(plan, station, counts, kind)
    counts[kind] += 1
    return value


@kernel
def refresh_shared(plan: Any, world: Any, station_id: int) -> None:
    """Bring the candidates of a shared node up to date with what it has promised."""
    station = plan.stations[station_id]
    kinds = station.kinds
    counts = world.counts[PROMISED, station.first : station.first + kinds]
    first = plan.node_first[station.node]
    here, work_s, used_mb = 0, 0.0, 0.0
    for kind in range(kinds):
        d = plan.node_deployments[first + kind]
        here += counts[kind]
        work_s += counts[kind] * plan.deployments[d].typical_ms * 1e-3
        used_mb += counts[kind] * plan.deployments[d].run_mb
    for kind in range(kinds):
        d = plan.node_deployments[first + kind]
        deployment, candidate = plan.deployments[d], world.candidates[d]
        candidate.in_flight, candidate.others_in_flight = here, here - counts[kind]
        if not plan.rules[0].bind_streams:
            candidate.load = work_s
        candidate.free_mb = station.free_mb - used_mb
        candidate.suffered = degradation(plan, station, counts, kind)
        candidate.caused = 0.0
        for other in range(kinds):
            there = counts[other]
            if there > 0:
                before = slowdown(plan, station, counts, other)
                counts[kind] += 1
                after = slowdown(plan, station, counts, other)
                counts[kind] -= 1
                candidate.caused += np.inf if np.isinf(after) else there * (after - before)
        bits = np.uint16(0)
        if here >= deployment.queue_limit:
            bits |= _NO_CAPACITY
        if candidate.free_mb < deployment.run_mb or np.isinf(candidate.suffered) or np.isinf(candidate.caused):
            bits |= _NO_MEMORY
        _set_bits(world, d, deployment.model, bits)


@inlined
def _set_bits(world: Any, d: int, model: int, bits: np.uint16) -> None:
    if world.hard[d] != bits:
        world.hard[d] = bits
        world.filled[model].excluded = False


@inlined
def refresh_queue(plan: Any, world: Any, d: int) -> None:
    """Bring the candidate of a queue up to date with its in-flight count."""
    deployment, candidate = plan.deployments[d], world.candidates[d]
    in_flight = candidate.in_flight
    ahead = max(0.0, in_flight - deployment.servers * deployment.batch + deployment.batch)
    batch_ms = deployment.typical_ms
    if deployment.batch > 1:
        ahead = np.floor(ahead / deployment.batch)
        batch_ms *= deployment.batch_fixed + (1.0 - deployment.batch_fixed) * deployment.batch
    candidate.queue_ms = ahead * batch_ms / deployment.servers
    if not plan.rules[0].bind_streams:
        candidate.load = in_flight / candidate.service_rate
    _set_bits(world, d, deployment.model, _NO_CAPACITY if in_flight >= deployment.queue_limit else np.uint16(0))


@inlined
def book(plan: Any, world: Any, d: int, change: int) -> None:
    """One request more (change 1) or less (-1) is promised to deployment `d`."""
    deployment = plan.deployments[d]
    station = plan.stations[deployment.station]
    if station.deployment >= 0:
        world.candidates[d].in_flight += change
        refresh_queue(plan, world, d)
    else:
        world.counts[PROMISED, station.first + deployment.kind] += change
        refresh_shared(plan, world, deployment.station)


@kernel
def bind(plan: Any, world: Any, stream: int, d: int, rate_qps: float) -> None:
    """Bind the stream to deployment `d`: its work counts as load until it ends.

    Loads are multiples of 2**-40, so that sums are exact, whatever the order, and an empty node's load is 0.
    """
    load = np.round(rate_qps / world.candidates[d].service_rate * 1099511627776.0) / 1099511627776.0
    world.streams[stream].bound = d
    world.streams[stream].load = load
    _add_load(plan, world, d, load)


@kernel
def unbind(plan: Any, world: Any, stream: int) -> None:
    """Free what the stream is bound to, if anything."""
    d = world.streams[stream].bound
    if d >= 0:
        _add_load(plan, world, d, -world.streams[stream].load)
        world.streams[stream].bound = -1


@kernel
def _add_load(plan: Any, world: Any, d: int, load: float) -> None:
    deployment = plan.deployments[d]
    if plan.stations[deployment.station].deployment >= 0:
        world.candidates[d].load += load
        return
    for i in range(plan.node_first[deployment.node], plan.node_first[deployment.node + 1]):
        world.candidates[plan.node_deployments[i]].load += load


@kernel
def fill_network(plan: Any, world: Any, model: int, row: int, size_kb: float) -> None:
    """Fill in what depends on where the request comes from."""
    for d in range(plan.models[model].first, plan.models[model].last):
        link, candidate = world.links[row, plan.deployments[d].node], world.candidates[d]
        candidate.net_ms = link.net_ms
        candidate.net_sd_ms = link.net_sd_ms
        candidate.transfer_ms = size_kb * link.ms_per_kb
    world.filled[model].row = row
    world.filled[model].excluded = False


@kernel
def fill_processing(plan: Any, world: Any, model: int, size_kb: float) -> None:
    """Fill in what depends on the input size."""
    for d in range(plan.models[model].first, plan.models[model].last):
        deployment, candidate = plan.deployments[d], world.candidates[d]
        proc_ms = deployment.base_ms + deployment.per_kb_ms * size_kb
        candidate.proc_ms = proc_ms
        candidate.service_rate = deployment.servers * 1000.0 / (proc_ms * deployment.batch_share)
        candidate.energy_mj = deployment.power_w * proc_ms
        candidate.price = deployment.price_per_ms * proc_ms
        if not plan.rules[0].bind_streams and plan.stations[deployment.station].deployment >= 0:
            candidate.load = candidate.in_flight / candidate.service_rate
    world.filled[model].size_kb = size_kb


@kernel
def fill_nodes(plan: Any, world: Any, model: int) -> None:
    """Fill in what is in flight in the other queues of nodes: less work than to tell all of them of each request."""
    for d in range(plan.models[model].first, plan.models[model].last):
        node = plan.deployments[d].node
        if plan.stations[plan.deployments[d].station].deployment >= 0:
            here = 0.0
            for i in range(plan.node_first[node], plan.node_first[node + 1]):
                here += world.candidates[plan.node_deployments[i]].in_flight
            world.candidates[d].others_in_flight = here - world.candidates[d].in_flight


@inlined
def fill(plan: Any, world: Any, model: int, row: int, size_kb: float) -> None:
    """Fill in the candidates of `model` for a request of `size_kb` sent from link row `row`."""
    new_size = world.filled[model].size_kb != size_kb
    if new_size or world.filled[model].row != row:
        fill_network(plan, world, model, row, size_kb)
    if new_size:
        fill_processing(plan, world, model, size_kb)
