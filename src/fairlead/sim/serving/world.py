"""Allocates worlds, the mutable arrays of one run, and puts them back to time 0.

`reset` works in place, so that many policies or episodes share one allocation; a workload may be
smaller than its world.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.records import CANDIDATE, DECISION, REQUEST, WINDOW
from fairlead.policies.addresses import ROWS_OF_WORDS, WORDS
from fairlead.policies.jit import typed_kernel
from fairlead.policies.snapshot.candidates import begin
from fairlead.policies.snapshot.fleet_arrays import FILLED, LINK
from fairlead.policies.snapshot.under_way import clear, new_kept, unpacked
from fairlead.sim.serving.addresses import plan_at, plan_words, world_at, world_words
from fairlead.sim.serving.calendar import plant
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.engine import next_scheduled
from fairlead.sim.serving.world_arrays import (
    CLOCK,
    DRAWS,
    EVENT,
    JOB,
    NODE_STATE,
    SERVER,
    STATION_STATE,
    STREAM,
    Plan,
    World,
)


def new_world(plan: Plan, workload: DrawnWorkload, room: float = 1.0, exclusions: bool = False) -> World:
    """A world at time 0, with room for workloads `room` times as large; it can keep the exclusions of candidates."""
    world = _allocate(plan, int(room * len(workload.requests)), int(room * len(workload.streams)), exclusions)
    reset(plan, world, workload)
    return world


def _allocate(plan: Plan, requests: int, streams: int, exclusions: bool = False) -> World:
    d, q, n = len(plan.deployments), len(plan.stations), plan.links.shape[1]
    residents = int(plan.stations["residents"].sum())
    servers = int(plan.deployments["servers"][plan.stations["deployment"][plan.stations["deployment"] >= 0]].sum())
    leaves = 1 << max(0, (q - 1).bit_length())
    most_candidates = int(np.max(plan.models["last"] - plan.models["first"], initial=1))
    windows = int(np.ceil(plan.rules["duration_ms"][0] / plan.rules["window_ms"][0])) + 1  # the last takes the rest
    return World(
        clock=np.zeros(1, CLOCK),
        requests=np.empty(requests, REQUEST),
        draws=np.empty(requests, DRAWS),
        rows=np.empty(requests, DECISION),
        exclusions=np.empty((requests if exclusions else 0, most_candidates), np.uint16),
        jobs=np.empty(requests, JOB),
        streams=np.zeros(streams, STREAM),
        ends=np.zeros(streams, np.int64),
        candidates=np.zeros(d, CANDIDATE),
        filled=np.zeros(len(plan.models), FILLED),
        hard=np.zeros(d, np.uint16),
        excluded=np.zeros(d, np.uint16),
        links=np.zeros(plan.links.shape, LINK),
        down=np.zeros((plan.links.shape[0], d), np.uint16),
        stations=np.zeros(q, STATION_STATE),
        servers=np.zeros(servers, SERVER),
        counts=np.zeros((2, residents), np.int64),
        kept=np.zeros(0, np.int64),
        heap=np.empty(requests, EVENT),
        times=np.zeros(leaves, np.float64),
        tree=np.zeros(2 * leaves, np.uint32),
        nodes=np.zeros(n, NODE_STATE),
        windows=np.zeros(windows, WINDOW),
        dispatched=np.zeros((windows, n), np.int64),
    )


def reset(plan: Plan, world: World, workload: DrawnWorkload) -> None:
    """Put the world back to time 0 with this workload, in place."""
    reset_at(plan_words(plan), world_words(world)[None], world, workload)


def reset_at(plan_row: Any, world_row: Any, world: World, workload: DrawnWorkload) -> None:
    """`reset`, given the words of the plan and of the world: (1, n)."""
    r, s = len(workload.requests), len(workload.streams)
    for name, array in zip(world._fields, world, strict=True):
        if name not in ("requests", "draws", "jobs", "heap", "kept"):  # jobs and heap are written before they are read
            _bytes(array)[...] = 0
    if len(world.kept):
        clear(world.kept)
    _bytes(world.requests[:r])[...] = _bytes(workload.requests)
    _bytes(world.draws[:r])[...] = _bytes(workload.draws)
    world.streams[:s] = workload.streams
    world.streams["end_ms"][s:] = np.inf
    world.ends[:] = np.argsort(world.streams["end_ms"], kind="stable")
    _compiled_start()(plan_row, world_row, r, workload.seed)


def foreseeing(plan: Plan, world: World, wanted: bool = True) -> World:
    """The world, at time 0, with the foreseen fields of its candidates kept up from now on, or not."""
    if (len(world.kept) > 0) == wanted:
        return world
    return world._replace(kept=new_kept(plan, len(world.requests)) if wanted else np.zeros(0, np.int64))


def like(world: World, plan: Plan) -> World:
    """Room for the state of such a world, of which nothing is set."""
    return foreseeing(plan, _allocate(plan, len(world.requests), len(world.streams)), len(world.kept) > 0)


def copy_state(source: World, target: World, first: int, last: int) -> None:
    """Bring `target` to where `source` is in the same workload; of rows only `first` to `last` are the same then.

    Requests before `first` must be settled in both; those from `last` on must not have arrived in either.
    """
    arrived, joining = int(source.clock[0]["next_request"]), int(source.clock[0]["joining"])
    parts = {"rows": slice(first, last), "jobs": slice(first, arrived), "heap": slice(joining)}
    for name, ours, its in zip(World._fields, source, target, strict=True):
        if name not in ("requests", "draws", "ends", "kept"):
            part = parts.get(name, slice(None))
            _bytes(its[part])[...] = _bytes(ours[part])
    if len(source.kept):
        for ours, its in zip(unpacked(source.kept), unpacked(target.kept), strict=True):
            part = slice(first, arrived) if len(ours) == len(source.requests) else slice(None)
            its[part] = ours[part]


def _bytes(array: Any) -> Any:
    """The array as bytes: NumPy copies and clears these at once, records field by field."""
    return np.ascontiguousarray(array).view(np.uint8)


def _start(plan_row: Any, world_row: Any, requests: int, seed: int) -> None:
    """Set what does not start as 0 in the first `requests` of the world's requests, the rest being left over."""
    plan, world = plan_at(plan_row), world_at(world_row, 0)
    world.clock[0].seed = seed
    for i in range(requests):
        row = world.rows[i]
        row.request, row.time_ms = world.requests[i].id, world.requests[i].now_ms
        row.choice = row.node = row.variant = row.second = row.decided_by = -1
        row.shadow = -2
        row.probability = row.predicted_ms = np.nan
    if requests < len(world.requests):
        world.requests[requests].now_ms = np.inf  # no more arrivals
    for i in range(len(world.streams)):
        world.streams[i].bound = -2  # not yet open
        world.clock[0].early_streams += world.streams[i].early
    for i in range(len(world.servers)):
        world.servers[i].finish_ms = np.inf
    world.times[:] = np.inf
    plant(world.times, world.tree)
    begin(plan, world)
    world.clock[0].scheduled_ms = next_scheduled(plan, world)


@cache
def _compiled_start() -> Any:
    return typed_kernel(_start, WORDS, ROWS_OF_WORDS, types.int64, types.int64)
