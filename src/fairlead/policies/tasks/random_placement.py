"""Random and Min: what the two policies that place any task anywhere share. Not a policy itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_records import START, UNSEEN, Placements, Snapshot
from fairlead.policies.jit import jit
from fairlead.policies.randomness import POLICY, uniform


@jit
def place_anything(snapshot: Snapshot, u: float, out: Placements, at_random: bool) -> int:
    """Start pairs of task and cluster drawn from all that fit, until none does; with any amounts, or with the least."""
    tasks, (clusters, resources) = len(snapshot.pending), snapshot.free.shape
    free, gone, taken = snapshot.free.copy(), np.zeros(tasks, np.bool_), np.zeros(clusters, np.bool_)
    seed, placed = int(u * 2.0**52), 0
    while True:
        pairs, chosen, cluster = 0, -1, -1
        for p in range(tasks):
            for n in range(clusters):
                if not gone[p] and not taken[n] and not snapshot.excluded[p, n] & UNSEEN:
                    if _fits(snapshot, free, p, n):
                        pairs += 1
                        if uniform(seed, POLICY, placed * tasks * clusters + p * clusters + n, 0) * pairs < 1.0:
                            chosen, cluster = p, n
        if chosen < 0:
            return placed
        task_type = snapshot.pending[chosen].type
        for k in range(resources):
            low = snapshot.minimum[task_type, k]
            spare = min(snapshot.most[k], free[cluster, k]) - low if at_random and snapshot.elastic[k] else 0
            out.amounts[placed, k] = low + int(uniform(seed, POLICY, placed, 1 + k) * (spare + 1))
            free[cluster, k] -= out.amounts[placed, k]
        row = out.rows[placed]
        row.task, row.cluster, row.what = snapshot.pending[chosen].task, cluster, START
        gone[chosen], taken[cluster] = True, snapshot.single
        placed += 1


@jit
def _fits(snapshot: Snapshot, free: Any, p: int, n: int) -> bool:
    for k in range(free.shape[1]):
        if free[n, k] < snapshot.minimum[snapshot.pending[p].type, k]:
            return False
    return True
