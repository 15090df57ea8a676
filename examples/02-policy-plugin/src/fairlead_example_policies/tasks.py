"""A policy of tasks: those that came first go first, each to the cluster with the most accelerators to spare.

A decision is a pure function of its arguments, as for requests; here it is a list of placements, written to `out`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_records import START, UNSEEN
from fairlead.domain.tasks import ACCELERATOR
from fairlead.policies.tasks.interface import task_policy


@task_policy("first-come", source="example")
def first_come(snapshot: Any, parameters: Any, u: float, out: Any) -> int:
    """Tasks by arrival, with their minimum, to the cluster with the most accelerators to spare."""
    free, taken = snapshot.free.copy(), np.zeros(len(snapshot.free), np.bool_)
    placed = 0
    for p in range(len(snapshot.pending)):
        minimum = snapshot.minimum[snapshot.pending[p].type]
        best, most = -1, -1
        for n in range(len(free)):
            if taken[n] or snapshot.excluded[p, n] & UNSEEN or (free[n] < minimum).any():
                continue
            spare = free[n][snapshot.role == ACCELERATOR].sum()  # by role: resources have no other order
            if spare > most:
                best, most = n, spare
        if best < 0:
            continue
        row = out.rows[placed]
        row.task, row.cluster, row.what = snapshot.pending[p].task, best, START
        out.amounts[placed] = minimum
        free[best] -= minimum
        taken[best] = snapshot.single  # then a cluster starts one task at a time
        placed += 1
    return placed
