"""What the TapFinger agent sees of a snapshot: the nodes and edges of its graph, as padded arrays.

"tasks-1": of every cluster what is free and what it has of each resource, tasks that it sees and that queue behind; of
every pending task its minimum, type, how long it has waited and whether it has run; of every running task its amounts,
type, how long it has run and lived. Amounts are in units of the most that a task can get, what a cluster has in units
of the mean of clusters (twice as large ones then look familiar), counts of ten, times of four steps. Pending tasks are
listed once; `slots` has for each cluster the rows of those that it sees. Called by training, the gym and what runs a
trained network.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fairlead.domain.task_records import UNSEEN, Snapshot
from fairlead.policies.jit import inlined

VERSION: Final = "tasks-1"
TEN: Final = 10.0  #: Tasks that are a count of 1.
FOUR: Final = 4.0  #: Steps that are a time of 1.
LONGEST: Final = 10.0  #: Times and the count of those that wait behind are cut there.
_TEN: Final = np.float32(1 / TEN)
_FOUR: Final = np.float32(1 / FOUR)
_LONGEST: Final = np.float32(LONGEST)


class Observations(NamedTuple):
    """Of B worlds with N clusters, U pending and R running tasks at most, P slots a cluster, K resources, J types.

    Resources are those that tasks need.
    """

    cluster: Any  # float32 (B, N, 2 K + 2)
    free: Any  # float32 (B, N, K): in units, for masks
    pending: Any  # float32 (B, U, K + J + 2); zeros where there is none
    running: Any  # float32 (B, R, K + J + 2)
    slots: Any  # int64 (B, N, P): rows of pending; -1: none
    fits: Any  # float32 (B, N, P): 1 where the task's minimum is free
    seen: Any  # float32 (B, U, N): 1 where a cluster sees the task
    runs_on: Any  # float32 (B, R, N): 1 where the task runs


#: Parts whose columns must lie in the ranges of training.
RANGED: Final = ("cluster", "pending", "running")


def widths(resources: int, types: int) -> tuple[int, int, int]:
    """How many columns the RANGED parts have."""
    return 2 * resources + 2, resources + types + 2, resources + types + 2


def new_observations(worlds: int, clusters: int, slots: int, runs: int, resources: int, types: int) -> Observations:
    """Room for the observations of so many worlds."""
    rows, width = clusters * slots, resources + types + 2
    single = np.float32
    return Observations(
        np.zeros((worlds, clusters, 2 * resources + 2), single),
        np.zeros((worlds, clusters, resources), single),
        np.zeros((worlds, rows, width), single),
        np.zeros((worlds, runs, width), single),
        np.full((worlds, clusters, slots), -1, np.int64),
        np.zeros((worlds, clusters, slots), single),
        np.zeros((worlds, rows, clusters), single),
        np.zeros((worlds, runs, clusters), single),
    )


@inlined
def observe(snapshot: Snapshot, out: Observations, b: int) -> None:
    """Fill the observations of world `b`."""
    clusters, resources = out.free.shape[1:]
    types, slots = len(snapshot.minimum), out.slots.shape[2]
    for n in range(clusters):
        used = 0
        for p in range(len(snapshot.pending)):
            if not snapshot.excluded[p, n] & UNSEEN and used < slots:
                out.slots[b, n, used] = p
                out.fits[b, n, used] = snapshot.excluded[p, n] == 0
                used += 1
        for k in range(resources):
            whole = 0
            for m in range(clusters):
                whole += snapshot.capacity[m, k]
            out.free[b, n, k] = snapshot.free[n, k]
            out.cluster[b, n, k] = snapshot.free[n, k] / max(1, snapshot.most[k])
            out.cluster[b, n, resources + k] = snapshot.capacity[n, k] * clusters / max(1, whole)
        out.cluster[b, n, 2 * resources] = used * _TEN
        out.cluster[b, n, 2 * resources + 1] = min(snapshot.queued[n] * _TEN, _LONGEST)
        for s in range(used, slots):
            out.slots[b, n, s] = -1
            out.fits[b, n, s] = 0.0
    out.pending[b, :, :] = 0.0
    out.seen[b, :, :] = 0.0
    for p in range(len(snapshot.pending)):
        task = snapshot.pending[p]
        for k in range(resources):
            out.pending[b, p, k] = snapshot.minimum[task.type, k] / max(1, snapshot.most[k])
        out.pending[b, p, resources + task.type] = 1.0
        out.pending[b, p, resources + types] = min(task.waited * _FOUR, _LONGEST)
        out.pending[b, p, resources + types + 1] = task.executed > 0
        for n in range(clusters):
            out.seen[b, p, n] = not snapshot.excluded[p, n] & UNSEEN
    out.running[b, :, :] = 0.0
    out.runs_on[b, :, :] = 0.0
    for r in range(len(snapshot.running)):
        runs = snapshot.running[r]
        for k in range(resources):
            out.running[b, r, k] = snapshot.amounts[r, k] / max(1, snapshot.most[k])
        out.running[b, r, resources + runs.type] = 1.0
        out.running[b, r, resources + types] = min(runs.executed * _FOUR, _LONGEST)
        out.running[b, r, resources + types + 1] = min(runs.alive * _FOUR, _LONGEST)
        out.runs_on[b, r, runs.cluster] = 1.0
