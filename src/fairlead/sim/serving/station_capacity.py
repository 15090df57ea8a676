"""How much work a station can do at once: its servers, or what a shared node gets done at its best mix.

Called by the upper bound and by the detail of runs, both in experiments. A function of the plan alone.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from fairlead.sim.serving.world_arrays import Plan


def capacities(plan: Plan) -> tuple[Any, Any]:
    """Per station: work (ms of time alone) that it can do in a ms, and whether it serves a request without a break."""
    servers, whole = np.zeros(len(plan.stations)), np.zeros(len(plan.stations), np.bool_)
    for q, station in enumerate(plan.stations):
        if station["deployment"] >= 0:
            deployment = plan.deployments[station["deployment"]]
            servers[q], whole[q] = deployment["servers"], deployment["batch"] == 1
        else:
            servers[q] = _shared(plan, station)
    return servers, whole


def _shared(plan: Plan, station: Any) -> float:
    first = plan.node_first[station["node"]]
    here = plan.deployments[plan.node_deployments[first : first + station["kinds"]]]
    most = float(here["queue_limit"].max())  # how many can be there at once
    if (here["run_mb"] > 0).all():
        most = min(most, float(np.floor(station["free_mb"] / here["run_mb"].min())))
    table = plan.degradation[station["table"] :]
    return _linear(float(table[0]), most) if station["linear"] else _tabled(table, len(here), most)


def _linear(rho: float, most: float) -> float:
    """Of n jobs, i runs at the speed S_i / ((1 - rho) S_i + rho sum S).

    For rho <= 1 that is concave in S_i / sum S, so that equal jobs do the most: n / (1 + rho (n - 1)) together.
    For rho >= 1 one alone does.
    """
    if rho >= 1.0:
        return 1.0
    if np.isinf(most):
        return 1.0 / rho if rho > 0.0 else np.inf
    return most / (1.0 + rho * (most - 1.0))


def _tabled(table: Any, kinds: int, most: float) -> float:
    """The best cell of a degradation table, laid out as in `snapshot.candidates`: jobs there / their slowdown."""
    axes = int(table[0])
    sizes = table[1 : 1 + axes].astype(int)
    axis_of = table[1 + axes : 1 + axes + kinds].astype(int)
    blocks = table[1 + axes + kinds :][: kinds * int(sizes.prod())].reshape(kinds, *sizes)
    best = 0.0
    for counts in product(*(range(size + 1) for size in sizes)):
        if sum(counts) > most:
            continue
        uncounted = most - sum(counts)  # room for kinds that no axis counts
        speeds = [0.0] * (axes + 1)  # of the fastest kind on each axis; the last: on none
        for kind, axis in enumerate(axis_of):
            others = tuple(c - (a == axis) for a, c in enumerate(counts))
            if min(others) >= 0 and all(o < size for o, size in zip(others, sizes, strict=True)):
                speeds[axis] = max(speeds[axis], 1.0 / blocks[(kind, *others)])
        together = sum(c * speed for c, speed in zip(counts, speeds, strict=False))
        best = max(best, together + (uncounted * speeds[-1] if speeds[-1] > 0.0 else 0.0))
    return best
