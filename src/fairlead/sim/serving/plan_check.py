"""Whether a plan and a workload that came out of a file can be run: every index leads somewhere, every number is one.

What compiled code relies on is checked here, since it looks at no bounds itself. Raises ValueError. Called by
`gym.world_file`; what is built from a scenario needs no check.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.inputs.arrays import require, within
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.world_arrays import Plan

_MOST: Final = 1e30  # of milliseconds and the like: far from where sums overflow
_MOST_WINDOWS: Final = 2e7  # times the nodes
_MOST_SERVERS: Final = 1_000_000
_NUMBERS = (
    "base_ms", "per_kb_ms", "typical_ms", "accuracy_sd", "weight", "power_w", "price_per_ms", "run_mb", "batch_wait_ms",
)  # fmt: skip


def check_plan(plan: Plan, models: int, nodes: int) -> None:
    """Refuse what the engine could not run. The arrays have the types of a plan."""
    require(len(plan.rules) == 1 and len(plan.models) == models, "models don't fit")
    _check_rules(plan.rules[0], nodes)
    ends, d = int(plan.rules[0]["sites"]) + nodes, len(plan.deployments)
    require(plan.links.shape == (ends, nodes) and len(plan.node_first) == nodes + 1, "nodes don't fit")
    require(len(plan.node_deployments) == plan.denied.shape[1] == d, "deployments don't fit")
    _check_deployments(plan, models, nodes)
    _check_places(plan)
    _check_stations(plan)
    for name in ("net_ms", "net_sd_ms", "ms_per_kb", "up_at_ms"):
        within(f"links' {name}", plan.links[name], 0.0, _MOST)
        within(f"changes' {name}", plan.changes["link"][name], 0.0, _MOST)
    within("changes' row", plan.changes["row"], 0, ends - 1)
    within("changes' node", plan.changes["node"], 0, nodes - 1)
    within("changes' at_ms", plan.changes["at_ms"], 0.0, _MOST)
    require((np.diff(plan.changes["at_ms"]) >= 0).all(), "changes are not in order of time")


def _check_rules(rules: Any, nodes: int) -> None:
    within("nodes", nodes, 1, 1e6)
    within("sites", rules["sites"], 1, 1e6)
    within("window_ms", rules["window_ms"], 1e-6, _MOST)
    within("duration_ms", rules["duration_ms"], 1e-6, _MOST)
    within("windows", rules["duration_ms"] / rules["window_ms"] * nodes, 0.0, _MOST_WINDOWS)


def _check_deployments(plan: Plan, models: int, nodes: int) -> None:
    deployments, d = plan.deployments, len(plan.deployments)
    for name, count in (("node", nodes), ("station", len(plan.stations)), ("model", models)):
        within(f"deployments' {name}", deployments[name], 0, count - 1)
    for name in _NUMBERS:
        within(f"deployments' {name}", deployments[name], 0.0, _MOST)
    within("deployments' typical_ms", deployments["typical_ms"], 1e-30, _MOST)
    within("deployments' base_ms", deployments["base_ms"], 1e-30, _MOST)
    within("deployments' accuracy", deployments["accuracy"], 0.0, 1.0)
    within("deployments' batch_fixed", deployments["batch_fixed"], 0.0, 1.0)
    within("deployments' batch_share", deployments["batch_share"], 1e-30, 1.0)
    within("deployments' queue_limit", deployments["queue_limit"], 0.0, np.inf)
    within("deployments' batch", deployments["batch"], 1, 2**31 - 1)
    within("deployments' servers", deployments["servers"], 1, _MOST_SERVERS)
    within("servers", deployments["servers"].astype(np.int64).sum(), 0, _MOST_SERVERS)
    for m, (first, last) in enumerate(plan.models.tolist()):
        within("models' deployments", np.array([first, last]), 0, d)
        require(first <= last and (deployments["model"][first:last] == m).all(), "models' deployments don't fit")


def _check_places(plan: Plan) -> None:
    """Nodes have their deployments side by side."""
    d, first = len(plan.deployments), plan.node_first
    require(first[0] == 0 and first[-1] == d and (np.diff(first) >= 0).all(), "node_first is out of range")
    require((np.sort(plan.node_deployments) == np.arange(d)).all(), "node_deployments is out of range")
    node = np.repeat(np.arange(len(first) - 1), np.diff(first))
    require((plan.deployments["node"][plan.node_deployments] == node).all(), "nodes' deployments don't fit")


def _check_stations(plan: Plan) -> None:
    """Each station has its own servers or counts, in their order, and a shared one its table."""
    deployments, servers, counts = plan.deployments, 0, 0
    within("stations' free_mb", plan.stations["free_mb"], 0.0, _MOST)
    within("stations' node", plan.stations["node"], 0, len(plan.node_first) - 2)
    within("stations' deployment", plan.stations["deployment"], -1, len(deployments) - 1)
    for q, station in enumerate(plan.stations):
        n = int(station["node"])
        if (d := int(station["deployment"])) >= 0:
            fits = deployments["station"][d] == q and deployments["node"][d] == n and station["first"] == servers
            servers += int(deployments["servers"][d])
        else:
            here = plan.node_deployments[plan.node_first[n] : plan.node_first[n + 1]]
            fits = station["residents"] == len(here) and station["first"] == counts and len(here) > 0
            fits = fits and (deployments["station"][here] == q).all()
            fits = fits and (deployments["resident"][here] == np.arange(len(here))).all()
            fits = fits and _has_table(plan.degradation, station, len(here))
            counts += len(here)
        require(fits, "stations don't fit")
    queues = plan.stations["deployment"][deployments["station"]]
    require(((queues == np.arange(len(deployments))) | (queues == -1)).all(), "deployments' stations don't fit")
    require((plan.stations["residents"][plan.stations["deployment"] >= 0] == 0).all(), "stations don't fit")


def _has_table(degradation: Any, station: Any, residents: int) -> bool:
    """Whether the degradation of a shared node is all there."""
    at = int(station["table"])
    table = degradation[at:] if at >= 0 else degradation[:0]
    if station["linear"]:
        slopes = table[: residents**2]
        return len(slopes) == residents**2 and bool(((slopes >= 0) & (slopes <= _MOST)).all())
    if not len(table) or table[0] not in (1.0, 2.0):
        return False
    axes = int(table[0])
    sizes, axis_of = table[1 : 1 + axes], table[1 + axes : 1 + axes + residents]
    if len(axis_of) < residents or not ((sizes >= 1) & (sizes <= 1e6) & (sizes == np.floor(sizes))).all():
        return False
    cells = table[1 + axes + residents :][: residents * int(sizes.prod())]
    return len(cells) == residents * int(sizes.prod()) and bool((cells >= 1).all())


def check_workload(workload: DrawnWorkload, plan: Plan, sla_classes: int) -> None:
    """Refuse requests and streams that the engine could not run. The arrays have the types of a workload."""
    requests, streams = workload.requests, workload.streams
    counts = {"model": len(plan.models), "site": int(plan.rules[0]["sites"]), "source": len(plan.denied)}
    for name, count in (counts | {"sla": sla_classes}).items():
        within(f"requests' {name}", requests[name], 0, count - 1)
    within("requests' stream", requests["stream"], -1, len(streams) - 1)
    within("requests' now_ms", requests["now_ms"], 0.0, _MOST)
    require((np.diff(requests["now_ms"]) >= 0).all(), "requests are not in order of time")
    require((requests["id"] == np.arange(len(requests))).all(), "requests' id is out of range")
    for name in ("deadline_ms", "min_accuracy", "size_kb", "rate_qps"):
        within(f"requests' {name}", requests[name], 0.0, _MOST)
    for name in ("work", "quality", "up", "down"):
        within(f"draws' {name}", workload.draws[name], -_MOST if name != "work" else 1e-30, _MOST)
    within("streams' end_ms", streams["end_ms"], 0.0, np.inf)
    first, last = plan.models["first"], plan.models["last"]
    require((last > first)[requests["model"]].all(), "a request asks for a model that is not deployed")
