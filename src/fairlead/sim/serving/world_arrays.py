"""The arrays of the serving world: a `Plan` (what never changes, shared) and a `World` (what does, one per run).

Both are named tuples of structured arrays, so that compiled code takes them as they are and many worlds can share one
plan. Built by `plan` and `world`; read and written by the kernels. Both have the fields of the fleet and its state
(`fairlead.policies.snapshot`), which make the candidate records, and those that the simulation adds.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fairlead.policies.snapshot.fleet_arrays import LINK

# Stops of the engine.
DONE: Final = 0  # nothing left to happen
DECIDE: Final = 1  # a request waits for a choice: clock.request, clock.first..clock.last
WINDOW: Final = 2  # a window of time has ended
FAULT: Final = 3  # the choice was not a feasible candidate: clock.request, clock.choice

# Which stops the caller wants; the engine always stops at DONE and FAULT.
AT_DECIDE: Final = 1
AT_WINDOW: Final = 2
INTO_DRAIN: Final = 4  # the edge behind which nothing more arrives is no stop

LINK_CHANGE: Final = np.dtype(
    [("at_ms", np.float64), ("row", np.uint32), ("node", np.uint32), ("link", LINK)], align=True
)

#: What a request brings along: its work, and standard normal numbers for its answer's quality and its network delays.
DRAWS: Final = np.dtype(
    [("work", np.float64), ("quality", np.float64), ("up", np.float64), ("down", np.float64)], align=True
)

STREAM: Final = np.dtype(
    [
        ("end_ms", np.float64),
        ("bound", np.int32),
        ("early", np.bool_),  # its client is there before the start; one that joins is known by its first request
        ("load", np.float64),
    ],
    align=True,
)

JOB: Final = np.dtype(
    [
        ("next", np.int64),  # the job behind it in its queue, batch or shared node; -1 at the end
        ("deployment", np.uint32),
        ("second", np.bool_),  # on its second inference
        ("joined_ms", np.float64),
        ("service_ms", np.float64),  # alone, its work counted
        ("alone_ms", np.float64),  # the same, summed over its inferences
        ("left_ms", np.float64),  # shared: what remains of service_ms
    ],
    align=True,
)

SERVER: Final = np.dtype(
    [("finish_ms", np.float64), ("started_ms", np.float64), ("job", np.int64), ("jobs", np.int32)], align=True
)

STATION_STATE: Final = np.dtype(
    [
        ("head", np.int64),  # first job: waiting (queue) or running (shared)
        ("tail", np.int64),
        ("jobs", np.int64),  # how many of those
        ("busy", np.int64),  # queue: busy servers
        ("changed_ms", np.float64),  # shared: up to when progress was counted
    ],
    align=True,
)

NODE_STATE: Final = np.dtype([("busy_ms", np.float64), ("energy_mj", np.float64)], align=True)

EVENT: Final = np.dtype([("at_ms", np.float64), ("job", np.uint32)], align=True)

CLOCK: Final = np.dtype(
    [
        ("seed", np.int64),
        ("now_ms", np.float64),
        ("scheduled_ms", np.float64),  # next link change, stream end or window edge
        ("next_request", np.int64),
        ("next_change", np.int64),
        ("next_end", np.int64),
        ("window", np.int64),  # the one under way
        ("joining", np.int64),  # size of the heap: requests on their way to a node
        ("decisions", np.int64),
        ("open_streams", np.int64),
        ("early_streams", np.int64),  # those of clients that were there before the start
        ("arrived", np.int64),
        ("finished", np.int64),
        ("rejected", np.int64),
        ("succeeded", np.int64),
        ("energy_mj", np.float64),  # of what is finished, above idle
        ("degradation", np.float64),  # of what is finished: time in service / time alone - 1, summed
        ("last_ms", np.float64),  # when the last request was served
        ("waiting", np.bool_),  # stopped at DECIDE
        ("request", np.int64),
        ("first", np.int64),  # candidates of the request: first..last
        ("last", np.int64),
        ("choice", np.int64),  # the caller's answer, relative to first
    ],
    align=True,
)


class Plan(NamedTuple):
    """What a scenario fixes."""

    rules: Any  # RULES (1,)
    deployments: Any  # DEPLOYMENT (D,), those of one model side by side
    stations: Any  # STATION (Q,)
    node_first: Any  # int32 (N + 1,): a node's deployments are node_deployments[node_first[n] : node_first[n + 1]]
    node_deployments: Any  # int32 (D,)
    models: Any  # MODEL (M,)
    degradation: Any  # float64: slopes or cells, see snapshot.candidates.degradation
    denied: Any  # uint16 (sources, D): region and certificates
    links: Any  # LINK (sites + N, N) at the start
    changes: Any  # LINK_CHANGE (E,), by time


class World(NamedTuple):
    """One run of a plan: its workload, its state, its results."""

    clock: Any  # CLOCK (1,)
    requests: Any  # REQUEST (R,), by time
    draws: Any  # DRAWS (R,)
    rows: Any  # DECISION (R,): the results, without what `log` adds
    exclusions: Any  # uint16 (R, C): reason bits of each candidate when it was decided; (0, C) when none are kept
    jobs: Any  # JOB (R,)
    streams: Any  # STREAM (S,)
    ends: Any  # int64 (S,): streams by end
    candidates: Any  # CANDIDATE (D,), always up to date but for row and size
    filled: Any  # FILLED (M,)
    hard: Any  # uint16 (D,): capacity and memory bits
    excluded: Any  # uint16 (D,): of the request being decided
    links: Any  # LINK (sites + N, N) now
    down: Any  # uint16 (sites + N, D): reachability bits now
    stations: Any  # STATION_STATE (Q,)
    servers: Any  # SERVER
    counts: Any  # int64 (2, residents): of each resident of each shared node, promised and running
    kept: Any  # int64: a block with a `Kept`; (0,) when nobody asks what is foreseen
    heap: Any  # EVENT (R,)
    times: Any  # float64 (P,): next event of each station, P a power of two
    tree: Any  # uint32 (2 P,): winner tree over times
    nodes: Any  # NODE_STATE (N,)
    windows: Any  # WINDOW (W,)
    dispatched: Any  # int64 (W, N)
