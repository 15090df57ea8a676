"""Shortest first: the task that needs least goes first, with the amounts that make it cheapest.

Of each type the cheapest allocation is the one of least steps x (largest share of all clusters' amounts that it takes),
of equals the fastest; what it costs times what is left orders the tasks. A task starts on the cluster with the most
room for its type, with that allocation, or waits: it never pre-empts or resizes. An oracle: speeds and progress are not
known to real schedulers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_records import START, UNSEEN, Placements, Snapshot
from fairlead.policies.jit import jit
from fairlead.policies.tasks.allocations import amounts_of
from fairlead.policies.tasks.interface import task_policy


@jit
def _cheapest(snapshot: Snapshot, task_type: int, amounts: Any) -> float:
    """Fill in a type's cheapest allocation; what it costs: steps x share of what all clusters have."""
    least, fastest, tried = np.inf, np.inf, np.empty_like(amounts)
    amounts[:] = snapshot.minimum[task_type]  # of a type that never ends, whatever it gets
    for a in range(snapshot.steps.shape[1]):
        steps = snapshot.steps[task_type, a]
        if not np.isfinite(steps):
            continue
        amounts_of(a, snapshot.minimum, snapshot.most, snapshot.elastic, task_type, tried)
        share = 0.0
        for k in range(len(tried)):
            share = max(share, tried[k] / max(1, snapshot.capacity[:, k].sum()))
        cost = steps * share
        if cost < least - 1e-12 or (cost < least + 1e-12 and steps < fastest):
            least, fastest = cost, steps
            amounts[:] = tried
    return least


@task_policy("shortest-first", source="oracle", knows=("progress", "speed"))
def shortest_first(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    clusters, resources = snapshot.free.shape
    cheapest, cost = np.zeros((len(snapshot.minimum), resources), np.int64), np.zeros(len(snapshot.minimum))
    for j in range(len(cost)):
        cost[j] = _cheapest(snapshot, j, cheapest[j])
    work = np.empty(len(snapshot.pending))
    for p in range(len(work)):
        work[p] = cost[snapshot.pending[p].type] * snapshot.pending[p].left
    free, taken = snapshot.free.copy(), np.zeros(clusters, np.bool_)
    placed = 0
    for p in np.argsort(work, kind="mergesort"):
        task_type = snapshot.pending[p].type
        best, room = -1, 0.0
        for n in range(clusters):
            copies, fits = np.inf, not snapshot.excluded[p, n] & UNSEEN and not taken[n]
            for k in range(resources):
                need = min(cheapest[task_type, k], snapshot.capacity[n, k])
                fits &= free[n, k] >= need
                if need > 0:
                    copies = min(copies, free[n, k] / need)
            if fits and copies > room:
                best, room = n, copies
        if best >= 0:
            row = out.rows[placed]
            row.task, row.cluster, row.what = snapshot.pending[p].task, best, START
            for k in range(resources):
                out.amounts[placed, k] = min(cheapest[task_type, k], snapshot.capacity[best, k])
                free[best, k] -= out.amounts[placed, k]
            taken[best] = snapshot.single
            placed += 1
    return placed
