"""The arrays that candidate records are made from: a `Fleet` (what stands) and a `FleetState` (what is under way).

A simulator's plan and world have the same fields under the same names, among others, so that the kernels of
`candidates` read both. Built from a scenario by `fleet`. What is only ever an index is unsigned, which spares Numba the
care for negative ones (docs/decisions/0003). The deployments on a shared node are its residents, numbered from 0 in the
order of `node_deployments`: they slow each other down.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fairlead.domain.records import CANDIDATE

# Rows of `counts`.
PROMISED: Final = 0  # on their way or running
RUNNING: Final = 1

RULES: Final = np.dtype(
    [
        ("bind_streams", np.bool_),
        ("admit_deadline", np.bool_),
        ("admit_accuracy", np.bool_),
        ("second_inference", np.bool_),
        ("offload_from_node", np.bool_),
        ("window_ms", np.float64),
        ("duration_ms", np.float64),
        ("sites", np.int64),
    ],
    align=True,
)

DEPLOYMENT: Final = np.dtype(
    [
        ("node", np.uint32),
        ("variant", np.uint32),
        ("model", np.uint32),
        ("station", np.uint32),
        ("resident", np.uint32),  # which of the residents of its shared node: its row in the node's degradation table
        ("cloud", np.bool_),
        ("base_ms", np.float64),  # time alone: base + per_kb * size, at this deployment's share
        ("per_kb_ms", np.float64),
        ("typical_ms", np.float64),  # time alone at the typical input size: what waits are estimated with
        ("accuracy", np.float64),
        ("accuracy_sd", np.float64),
        ("weight", np.float64),  # part of its node that one of its servers is
        ("power_w", np.float64),  # above idle while one of its servers is busy (shared: the whole device)
        ("price_per_ms", np.float64),  # while one of its servers is busy (shared: the whole device)
        ("run_mb", np.float64),
        ("servers", np.int32),
        ("batch", np.int32),
        ("queue_limit", np.float64),
        ("batch_wait_ms", np.float64),
        ("batch_fixed", np.float64),
        ("work_sd", np.float64),  # deviation of the time alone / its mean
        ("batch_share", np.float64),  # time in a full batch / time alone that one request takes; 1 without batches
    ],
    align=True,
)

#: A place with a queue and servers (one deployment on a queue node) or with sharing (a whole shared node).
STATION: Final = np.dtype(
    [
        ("node", np.uint32),
        ("deployment", np.int32),  # -1 for a shared node
        ("first", np.int32),  # queue: its first server; shared: its first count
        ("residents", np.int32),  # shared: how many it has
        ("table", np.int32),  # shared: where its degradation table starts
        ("linear", np.bool_),  # shared: table holds slopes, else cells
        ("free_mb", np.float64),  # of its node, when nothing runs
    ],
    align=True,
)

MODEL: Final = np.dtype([("first", np.int32), ("last", np.int32)], align=True)

LINK: Final = np.dtype(
    [
        ("net_ms", np.float64),
        ("net_sd_ms", np.float64),
        ("ms_per_kb", np.float64),
        ("up_at_ms", np.float64),  # 0: up; else when the outage ends
    ],
    align=True,
)

#: For which link row, input size and source a model's candidates and exclusions are filled in.
FILLED: Final = np.dtype(
    [
        ("row", np.int64),
        ("size_kb", np.float64),
        ("source", np.int64),
        ("excluded", np.bool_),  # the exclusions are those of row and source, and no bit has changed since
        ("feasible", np.bool_),  # some candidate has none
        ("crowded", np.bool_),  # some candidate is one of several queues on its node
    ],
    align=True,
)


#: A request that was sent to a node and has not finished there, as its sender knows it.
FLIGHT: Final = np.dtype(
    [
        ("before", np.int32),  # its neighbours in the line; -1 at the ends
        ("next", np.int32),
        ("deployment", np.uint32),
        ("arrives_ms", np.float64),  # when it should reach the node
        ("work_ms", np.float64),  # mean and deviation of its time alone
        ("work_sd_ms", np.float64),
        ("due_ms", np.float64),  # when its service must have ended for an answer in time
        ("net_sd_ms", np.float64),  # deviation of the way back
        ("started_ms", np.float64),  # queue: when its service is presumed to have begun; infinite: not yet
        ("done_ms", np.float64),  # shared: how much of its work is presumed done
        ("left_ms", np.float64),  # notes of `foresight`: what is left of its work, the time per work now, its end
        ("pace", np.float64),
        ("ends_ms", np.float64),
        ("else_ms", np.float64),  # its end without a newcomer
    ],
    align=True,
)

#: Who is under way to a station, by expected arrival.
LINE: Final = np.dtype(
    [
        ("head", np.int32),  # the flights at its ends; -1 when there are none
        ("tail", np.int32),
        ("waiting", np.int32),  # queue: the first that is presumed to wait or to be on its way; those before it started
        ("serving", np.int32),  # queue: how many have started
        ("jobs", np.int32),
        ("changed_ms", np.float64),  # up to when all this is known
        ("busy", np.float64),  # share of its servers that was busy of late
    ],
    align=True,
)


class Fleet(NamedTuple):
    """What is deployed where, how it is linked, and by which rules requests are admitted."""

    rules: Any  # RULES (1,)
    deployments: Any  # DEPLOYMENT (D,), those of one model side by side
    stations: Any  # STATION (Q,)
    node_first: Any  # int32 (N + 1,): a node's deployments are node_deployments[node_first[n] : node_first[n + 1]]
    node_deployments: Any  # int32 (D,)
    models: Any  # MODEL (M,)
    degradation: Any  # float64: slopes or cells, see `candidates`
    denied: Any  # uint16 (sources, D): region and certificates
    links: Any  # LINK (sites + N, N) at the start


class FleetState(NamedTuple):
    """What is known of a fleet at an instant."""

    candidates: Any  # CANDIDATE (D,), always up to date but for row and size
    filled: Any  # FILLED (M,)
    hard: Any  # uint16 (D,): capacity and memory bits
    excluded: Any  # uint16 (D,): of the request that was asked for last
    links: Any  # LINK (sites + N, N) now
    down: Any  # uint16 (sites + N, D): reachability bits now
    counts: Any  # int64 (2, residents): of each resident of each shared node, promised and running
    kept: Any  # int64: a block with a `Kept`; (0,) when nobody asks what is foreseen


class Kept(NamedTuple):
    """What is kept to foresee what a newcomer will meet. In a block of its own, since few policies ask."""

    flights: Any  # FLIGHT: requests under way, by the numbers that their sender gives them
    lines: Any  # LINE (Q,)
    slots: Any  # float64 (3, servers): notes of `foresight` on the servers of queues
    present: Any  # int64 (residents,): how many of each resident should be at its shared node


#: The type and the number of axes of every array, in the order of the fields.
FLEET_ARRAYS: Final = (
    (RULES, 1), (DEPLOYMENT, 1), (STATION, 1), (np.dtype(np.int32), 1), (np.dtype(np.int32), 1), (MODEL, 1),
    (np.dtype(np.float64), 1), (np.dtype(np.uint16), 2), (LINK, 2),
)  # fmt: skip
STATE_ARRAYS: Final = (
    (CANDIDATE, 1), (FILLED, 1), (np.dtype(np.uint16), 1), (np.dtype(np.uint16), 1), (LINK, 2),
    (np.dtype(np.uint16), 2), (np.dtype(np.int64), 2), (np.dtype(np.int64), 1),
)  # fmt: skip
KEPT_ARRAYS: Final = ((FLIGHT, 1), (LINE, 1), (np.dtype(np.float64), 2), (np.dtype(np.int64), 1))
