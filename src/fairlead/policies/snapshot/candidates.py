"""Keeps the candidate records true: what each deployment has promised, how full it is, how it would slow a newcomer.

Candidates live in one array that is updated when something changes, never rebuilt for a decision; only what depends on
the request (its link row, its size) is filled in, and only when it differs from the last one. These kernels are the
one place with these formulas: the simulator's engine calls them on its plan and world, `builder` on a fleet and its
state. They know no clock, no queue and no network.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Reason
from fairlead.policies.feasibility import any_feasible, nominal_misses, overbooked
from fairlead.policies.jit import inlined, kernel
from fairlead.policies.snapshot.fleet_arrays import PROMISED
from fairlead.policies.snapshot.foresight import foresee
from fairlead.policies.snapshot.interference import degradation, slowdown

_NO_CAPACITY: Final = np.uint16(Reason.NO_CAPACITY)
_NO_MEMORY: Final = np.uint16(Reason.NO_MEMORY)
_UNREACHABLE: Final = np.uint16(Reason.UNREACHABLE)


@kernel
def refresh_shared(fleet: Any, state: Any, station_id: int) -> None:
    """Bring the candidates of a shared node up to date with what it has promised."""
    station = fleet.stations[station_id]
    residents = station.residents
    counts = state.counts[PROMISED, station.first : station.first + residents]
    first = fleet.node_first[station.node]
    here, work_s, used_mb = 0, 0.0, 0.0
    for resident in range(residents):
        d = fleet.node_deployments[first + resident]
        here += counts[resident]
        work_s += counts[resident] * fleet.deployments[d].typical_ms * 1e-3
        used_mb += counts[resident] * fleet.deployments[d].run_mb
    for resident in range(residents):
        d = fleet.node_deployments[first + resident]
        deployment, candidate = fleet.deployments[d], state.candidates[d]
        candidate.in_flight, candidate.others_in_flight = here, here - counts[resident]
        if not fleet.rules[0].bind_streams:
            candidate.load = work_s
        candidate.free_mb = station.free_mb - used_mb
        candidate.suffered = degradation(fleet, station, counts, resident)
        candidate.caused = 0.0
        for other in range(residents):
            there = counts[other]
            if there > 0:
                before = slowdown(fleet, station, counts, other)
                counts[resident] += 1
                after = slowdown(fleet, station, counts, other)
                counts[resident] -= 1
                candidate.caused += np.inf if np.isinf(after) else there * (after - before)
        bits = np.uint16(0)
        if here >= deployment.queue_limit:
            bits |= _NO_CAPACITY
        if candidate.free_mb < deployment.run_mb or np.isinf(candidate.suffered) or np.isinf(candidate.caused):
            bits |= _NO_MEMORY
        _set_bits(state, d, deployment.model, bits)


@inlined
def _set_bits(state: Any, d: int, model: int, bits: np.uint16) -> None:
    if state.hard[d] != bits:
        state.hard[d] = bits
        state.filled[model].excluded = False


@inlined
def refresh_queue(fleet: Any, state: Any, d: int) -> None:
    """Bring the candidate of a queue up to date with its in-flight count."""
    deployment, candidate = fleet.deployments[d], state.candidates[d]
    in_flight = candidate.in_flight
    ahead = max(0.0, in_flight - deployment.servers * deployment.batch + deployment.batch)
    batch_ms = deployment.typical_ms
    if deployment.batch > 1:
        ahead = np.floor(ahead / deployment.batch)
        batch_ms *= deployment.batch_fixed + (1.0 - deployment.batch_fixed) * deployment.batch
    candidate.queue_ms = ahead * batch_ms / deployment.servers
    if not fleet.rules[0].bind_streams:
        candidate.load = in_flight / candidate.service_rate
    _set_bits(state, d, deployment.model, _NO_CAPACITY if in_flight >= deployment.queue_limit else np.uint16(0))


@inlined
def book(fleet: Any, state: Any, d: int, change: int) -> None:
    """One request more (change 1) or less (-1) is promised to deployment `d`."""
    deployment = fleet.deployments[d]
    station = fleet.stations[deployment.station]
    if station.deployment >= 0:
        state.candidates[d].in_flight += change
        refresh_queue(fleet, state, d)
    else:
        state.counts[PROMISED, station.first + deployment.resident] += change
        refresh_shared(fleet, state, deployment.station)


@inlined
def bound_load(candidate: Any, rate_qps: float) -> float:
    """The part of a deployment's capacity that a stream of this rate takes.

    Loads are multiples of 2**-40, so that sums are exact, whatever the order, and an empty node's load is 0.
    """
    return np.round(rate_qps / candidate.service_rate * 1099511627776.0) / 1099511627776.0


@kernel
def add_load(fleet: Any, state: Any, d: int, load: float) -> None:
    """Count a stream's load at deployment `d`, or take it off again; on a shared node at all of its deployments."""
    deployment = fleet.deployments[d]
    if fleet.stations[deployment.station].deployment >= 0:
        state.candidates[d].load += load
        return
    for i in range(fleet.node_first[deployment.node], fleet.node_first[deployment.node + 1]):
        state.candidates[fleet.node_deployments[i]].load += load


@kernel
def set_link(fleet: Any, state: Any, row: int, node: int, link: Any) -> None:
    """The link from a row of `links` to a node has changed: delay, bandwidth, or whether it is up."""
    state.links[row, node] = link
    bit = _UNREACHABLE if link.up_at_ms > 0.0 else np.uint16(0)
    for i in range(fleet.node_first[node], fleet.node_first[node + 1]):
        state.down[row, fleet.node_deployments[i]] = bit
    for m in range(len(state.filled)):
        state.filled[m].row = -1
    _set_nearest(fleet, state, node)


@kernel
def _set_nearest(fleet: Any, state: Any, node: int) -> None:
    nearest_ms = np.inf
    for site in range(fleet.rules[0].sites):
        if state.links[site, node].up_at_ms == 0.0:
            nearest_ms = min(nearest_ms, state.links[site, node].net_ms)
    for i in range(fleet.node_first[node], fleet.node_first[node + 1]):
        state.candidates[fleet.node_deployments[i]].nearest_ms = nearest_ms


@kernel
def fill_network(fleet: Any, state: Any, model: int, row: int, size_kb: float) -> None:
    """Fill in what depends on where the request comes from."""
    for d in range(fleet.models[model].first, fleet.models[model].last):
        link, candidate = state.links[row, fleet.deployments[d].node], state.candidates[d]
        candidate.net_ms = link.net_ms
        candidate.net_sd_ms = link.net_sd_ms
        candidate.transfer_ms = size_kb * link.ms_per_kb
    state.filled[model].row = row
    state.filled[model].excluded = False


@kernel
def fill_processing(fleet: Any, state: Any, model: int, size_kb: float) -> None:
    """Fill in what depends on the input size."""
    for d in range(fleet.models[model].first, fleet.models[model].last):
        deployment, candidate = fleet.deployments[d], state.candidates[d]
        proc_ms = deployment.base_ms + deployment.per_kb_ms * size_kb
        candidate.proc_ms = proc_ms
        candidate.proc_sd_ms = deployment.work_sd * proc_ms
        candidate.service_rate = deployment.servers * 1000.0 / (proc_ms * deployment.batch_share)
        candidate.energy_mj = deployment.power_w * proc_ms
        candidate.price = deployment.price_per_ms * proc_ms
        if not fleet.rules[0].bind_streams and fleet.stations[deployment.station].deployment >= 0:
            candidate.load = candidate.in_flight / candidate.service_rate
    state.filled[model].size_kb = size_kb


@kernel
def fill_nodes(fleet: Any, state: Any, model: int) -> None:
    """Fill in what is in flight in the other queues of nodes: less work than to tell all of them of each request."""
    for d in range(fleet.models[model].first, fleet.models[model].last):
        node = fleet.deployments[d].node
        if fleet.stations[fleet.deployments[d].station].deployment >= 0:
            here = 0.0
            for i in range(fleet.node_first[node], fleet.node_first[node + 1]):
                here += state.candidates[fleet.node_deployments[i]].in_flight
            state.candidates[d].others_in_flight = here - state.candidates[d].in_flight


@inlined
def fill(fleet: Any, state: Any, model: int, row: int, size_kb: float) -> None:
    """Fill in the candidates of `model` for a request of `size_kb` sent from link row `row`."""
    new_size = state.filled[model].size_kb != size_kb
    if new_size or state.filled[model].row != row:
        fill_network(fleet, state, model, row, size_kb)
    if new_size:
        fill_processing(fleet, state, model, size_kb)


@inlined
def exclude(fleet: Any, state: Any, request: Any, first: int, last: int) -> bool:
    """Fill in the candidates first..last of a request and their reason bits. True when something is feasible."""
    fill(fleet, state, request.model, request.site, request.size_kb)
    filled = state.filled[request.model]
    if filled.crowded:
        fill_nodes(fleet, state, request.model)
    if not filled.excluded or filled.source != request.source:
        filled.feasible = _set_excluded(fleet, state, request, first, last)
        filled.source = request.source
        rules = fleet.rules[0]
        filled.excluded = not (rules.bind_streams or rules.admit_deadline or rules.admit_accuracy)
    if len(state.kept) > 0:
        foresee(fleet, state, request, first, last)
    return filled.feasible


@inlined
def hard_bits(fleet: Any, state: Any, row: int, source: int, d: int) -> Any:
    """Why deployment `d` can't take a source's request sent from a link row, whatever the request asks for."""
    return state.hard[d] | state.down[row, d] | fleet.denied[source, d]


@kernel
def _set_excluded(fleet: Any, state: Any, request: Any, first: int, last: int) -> bool:
    rules, site, source = fleet.rules[0], request.site, request.source
    for d in range(first, last):
        state.excluded[d] = hard_bits(fleet, state, site, source, d)
    candidates, excluded = state.candidates[first:last], state.excluded[first:last]
    if rules.bind_streams:
        overbooked(request, candidates, excluded)
    if rules.admit_deadline or rules.admit_accuracy:
        nominal_misses(request, candidates, excluded, rules.admit_deadline, rules.admit_accuracy)
    return any_feasible(excluded)


@kernel
def begin(fleet: Any, state: Any) -> None:
    """Bring a state that is all zeros to where nothing is under way."""
    for i in range(fleet.links.shape[0]):
        for j in range(fleet.links.shape[1]):
            state.links[i, j] = fleet.links[i, j]
    for d in range(len(fleet.deployments)):
        candidate, deployment = state.candidates[d], fleet.deployments[d]
        candidate.node, candidate.variant = deployment.node, deployment.variant
        candidate.accuracy, candidate.suffered = deployment.accuracy, 1.0
        candidate.wait_ms = candidate.wait_sd_ms = candidate.makes_late = candidate.busy = np.nan
    for node in range(fleet.links.shape[1]):
        _set_nearest(fleet, state, node)
    for model in range(len(fleet.models)):
        fill_processing(fleet, state, model, 1.0)
        state.filled[model].row, state.filled[model].size_kb = -1, np.nan
        for d in range(fleet.models[model].first, fleet.models[model].last):
            station = fleet.stations[fleet.deployments[d].station]
            several = fleet.node_first[station.node + 1] - fleet.node_first[station.node] > 1
            state.filled[model].crowded |= station.deployment >= 0 and several
    for station_id in range(len(fleet.stations)):
        station = fleet.stations[station_id]
        if station.deployment >= 0:
            state.candidates[station.deployment].free_mb = station.free_mb
            refresh_queue(fleet, state, station.deployment)
        else:
            refresh_shared(fleet, state, station_id)
