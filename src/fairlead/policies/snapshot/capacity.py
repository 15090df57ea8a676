"""How much a fleet can do: requests of each node in a second, and work that a station can do at once.

The first is the unit of what selectors see, the second is for decision logs and the upper bound. Functions of the fleet
alone, which may be a simulator's plan.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np


def capacity_qps(fleet: Any) -> Any:
    """What each node can serve of typical requests, in requests a second; 1 where nothing is deployed."""
    deployments = fleet.deployments
    per_request_ms = deployments["typical_ms"] * deployments["batch_share"]
    n = fleet.links.shape[1]
    queues = np.bincount(deployments["node"], deployments["servers"] * 1000.0 / per_request_ms, n)
    number, sum_ms = np.bincount(deployments["node"], minlength=n), np.bincount(deployments["node"], per_request_ms, n)
    shared = np.zeros(n, np.bool_)
    shared[fleet.stations["node"][fleet.stations["deployment"] < 0]] = True
    return np.where(number == 0, 1.0, np.where(shared, 1000.0 * number / np.maximum(sum_ms, 1e-300), queues))


def capacities(fleet: Any) -> tuple[Any, Any]:
    """Per station: work (ms of time alone) that it can do in a ms, and whether it serves a request without a break."""
    servers, whole = np.zeros(len(fleet.stations)), np.zeros(len(fleet.stations), np.bool_)
    for q, station in enumerate(fleet.stations):
        if station["deployment"] >= 0:
            deployment = fleet.deployments[station["deployment"]]
            servers[q], whole[q] = deployment["servers"], deployment["batch"] == 1
        else:
            servers[q] = _shared(fleet, station)
    return servers, whole


def _shared(fleet: Any, station: Any) -> float:
    first = fleet.node_first[station["node"]]
    here = fleet.deployments[fleet.node_deployments[first : first + station["residents"]]]
    most = float(here["queue_limit"].max())  # how many can be there at once
    if (here["run_mb"] > 0).all():
        most = min(most, float(np.floor(station["free_mb"] / here["run_mb"].min())))
    table = fleet.degradation[station["table"] :]
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


def _tabled(table: Any, residents: int, most: float) -> float:
    """The best cell of a degradation table (laid out as in `candidates.degradation`): jobs there / their slowdown."""
    axes = int(table[0])
    sizes = table[1 : 1 + axes].astype(int)
    axis_of = table[1 + axes : 1 + axes + residents].astype(int)
    blocks = table[1 + axes + residents :][: residents * int(sizes.prod())].reshape(residents, *sizes)
    best = 0.0
    for counts in product(*(range(size + 1) for size in sizes)):
        if sum(counts) > most:
            continue
        uncounted = most - sum(counts)  # room for residents that no axis counts
        speeds = [0.0] * (axes + 1)  # of the fastest resident on each axis; the last: on none
        for resident, axis in enumerate(axis_of):
            others = tuple(c - (a == axis) for a, c in enumerate(counts))
            if min(others) >= 0 and all(o < size for o, size in zip(others, sizes, strict=True)):
                speeds[axis] = max(speeds[axis], 1.0 / blocks[(resident, *others)])
        together = sum(c * speed for c, speed in zip(counts, speeds, strict=False))
        best = max(best, together + (uncounted * speeds[-1] if speeds[-1] > 0.0 else 0.0))
    return best
