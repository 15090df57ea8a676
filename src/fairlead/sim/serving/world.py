"""Allocates worlds: the mutable arrays of one run, or of many at once with a leading axis.

`reset` puts a world back to time 0 in place, so that many policies or episodes share one allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.domain.records import CANDIDATE, DECISION, REQUEST, WINDOW
from fairlead.policies.jit import kernel
from fairlead.sim.serving.booking import fill_processing, refresh_queue, refresh_shared
from fairlead.sim.serving.calendar import plant
from fairlead.sim.serving.engine import next_scheduled
from fairlead.sim.serving.layout import (
    CLOCK,
    DRAWS,
    EVENT,
    FILLED,
    JOB,
    LINK,
    NODE_STATE,
    SERVER,
    STATION_STATE,
    STREAM,
    Plan,
    World,
)
from fairlead.sim.serving.workload import Workload


def new_worlds(plan: Plan, workloads: Sequence[Workload]) -> World:
    """Worlds at time 0, one per workload, as arrays with a leading axis. Shorter workloads are padded."""
    b = len(workloads)
    worlds = _allocate(plan, b, max(len(w.requests) for w in workloads), max(len(w.streams) for w in workloads))
    for i in range(b):
        reset(plan, world_of(worlds, i), workloads[i])
    return worlds


def new_world(plan: Plan, workload: Workload) -> World:
    """One world at time 0."""
    return world_of(new_worlds(plan, [workload]), 0)


def world_of(worlds: World, i: int) -> World:
    """World `i` of a batch, as views of its arrays."""
    return World(*(array[i] for array in worlds))


def _allocate(plan: Plan, b: int, requests: int, streams: int) -> World:
    d, q, n = len(plan.deployments), len(plan.stations), plan.links.shape[1]
    kinds = int(plan.stations["kinds"].sum())
    servers = int(plan.deployments["servers"][plan.stations["deployment"][plan.stations["deployment"] >= 0]].sum())
    leaves = 1 << max(0, (q - 1).bit_length())
    windows = int(np.ceil(plan.rules["duration_ms"][0] / plan.rules["window_ms"][0])) + 1  # the last takes the rest
    return World(
        clock=np.zeros((b, 1), CLOCK),
        requests=np.zeros((b, requests), REQUEST),
        draws=np.zeros((b, requests), DRAWS),
        rows=np.zeros((b, requests), DECISION),
        jobs=np.zeros((b, requests), JOB),
        streams=np.zeros((b, streams), STREAM),
        ends=np.zeros((b, streams), np.int64),
        candidates=np.zeros((b, d), CANDIDATE),
        filled=np.zeros((b, len(plan.models)), FILLED),
        hard=np.zeros((b, d), np.uint16),
        excluded=np.zeros((b, d), np.uint16),
        links=np.zeros((b, *plan.links.shape), LINK),
        down=np.zeros((b, plan.links.shape[0], d), np.uint16),
        stations=np.zeros((b, q), STATION_STATE),
        servers=np.zeros((b, servers), SERVER),
        counts=np.zeros((b, 2, kinds), np.int64),
        heap=np.zeros((b, requests), EVENT),
        times=np.zeros((b, leaves), np.float64),
        tree=np.zeros((b, 2 * leaves), np.uint32),
        nodes=np.zeros((b, n), NODE_STATE),
        windows=np.zeros((b, windows), WINDOW),
        dispatched=np.zeros((b, windows, n), np.int64),
    )


def reset(plan: Plan, world: World, workload: Workload) -> None:
    """Put the world back to time 0 with this workload, in place."""
    for array in (world.clock, world.rows, world.stations, world.counts, world.nodes, world.windows, world.dispatched):
        array.fill(0 if array.dtype == np.int64 else np.zeros((), array.dtype))
    r, s = len(workload.requests), len(workload.streams)
    world.requests[:r] = workload.requests
    world.requests["now_ms"][r:] = np.inf
    world.draws[:r] = workload.draws
    world.rows["request"][:r], world.rows["time_ms"][:r] = workload.requests["id"], workload.requests["now_ms"]
    world.rows["choice"] = world.rows["node"] = world.rows["variant"] = world.rows["second"] = -1
    world.jobs["second"] = False
    world.streams[:s] = workload.streams
    world.streams["end_ms"][s:] = np.inf
    world.streams["bound"] = -2  # not yet open
    world.ends[:] = np.argsort(world.streams["end_ms"], kind="stable")
    world.links[:] = plan.links
    world.down[:] = 0
    world.servers["finish_ms"] = np.inf
    world.times[:] = np.inf
    world.filled["row"] = -1
    world.filled["size_kb"] = np.nan
    candidates: Any = world.candidates
    candidates[:] = np.zeros((), CANDIDATE)
    candidates["node"], candidates["variant"] = plan.deployments["node"], plan.deployments["variant"]
    candidates["accuracy"], candidates["suffered"] = plan.deployments["accuracy"], 1.0
    world.clock["seed"] = workload.seed
    _start(plan, world)


@kernel
def _start(plan: Any, world: Any) -> None:
    plant(world.times, world.tree)
    for model in range(len(plan.models)):
        fill_processing(plan, world, model, 1.0)
        world.filled[model].size_kb = np.nan
    for station_id in range(len(plan.stations)):
        d = plan.stations[station_id].deployment
        if d >= 0:
            world.candidates[d].free_mb = plan.stations[station_id].free_mb
            refresh_queue(plan, world, d)
        else:
            refresh_shared(plan, world, station_id)
    world.clock[0].scheduled_ms = next_scheduled(plan, world)
