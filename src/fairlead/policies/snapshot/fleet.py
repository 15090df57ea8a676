"""Scenario to arrays: the one place where the nouns become a `Fleet`.

Called once per scenario, by hosts and the simulator; expects a scenario that `check` found sound.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from fairlead.domain.hardware import Device, Node
from fairlead.domain.models import Deployment, Variant
from fairlead.domain.name_patterns import places
from fairlead.domain.outcomes import Reason
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Source, mean_of, variance_of
from fairlead.policies.snapshot.fleet_arrays import DEPLOYMENT, LINK, MODEL, RULES, STATION, Fleet

Placement = tuple[Deployment, Variant, Node]


def build_fleet(scenario: Scenario) -> Fleet:
    """The arrays that candidate records are made from."""
    placements = scenario.placements()
    deployments = _deployments(scenario, placements)
    node_of = [list(scenario.nodes).index(node.name) for _, _, node in placements]
    by_node = np.argsort(node_of, kind="stable").astype(np.int32)
    node_first = np.searchsorted(np.sort(node_of), np.arange(len(scenario.nodes) + 1)).astype(np.int32)
    stations, degradation = _stations(scenario, placements, deployments, node_first, by_node)
    starts = np.flatnonzero(np.diff(deployments["model"], prepend=-1)).tolist()
    models = np.zeros(len(scenario.models), MODEL)
    for first, last in pairwise([*starts, len(deployments)]):
        models[deployments[first]["model"]] = (first, last)
    return Fleet(
        rules=_rules(scenario),
        deployments=deployments,
        stations=stations,
        node_first=node_first,
        node_deployments=by_node,
        models=models,
        degradation=degradation,
        denied=_denied(scenario, placements),
        links=_links(scenario),
    )


def _rules(scenario: Scenario) -> Any:
    rules = scenario.rules
    block = np.zeros(1, RULES)
    block["bind_streams"] = rules.dispatch == "stream"
    block["admit_deadline"] = "deadline" in rules.admit
    block["admit_accuracy"] = "accuracy" in rules.admit
    block["second_inference"] = rules.second_inference
    block["offload_from_node"] = rules.offload_from == "node"
    block["window_ms"] = rules.window_ms
    block["duration_ms"] = scenario.workload.duration_s * 1000.0
    block["sites"] = len(scenario.workload.sites)
    return block


def _deployments(scenario: Scenario, placements: list[Placement]) -> Any:
    variants, models = scenario.variants(), list(scenario.models)
    variant_order, nodes = list(variants), list(scenario.nodes)
    block = np.zeros(len(placements), DEPLOYMENT)
    for row, (placed, variant, node) in zip(block, placements, strict=True):
        device, latency = scenario.devices[node.device], variant.latency[node.device]
        shared = node.serving == "shared"
        speed = 1.0 if shared else min(1.0, placed.share * node.count / placed.servers)
        model = variants[variant.name][0].name
        row["node"] = nodes.index(node.name)
        row["variant"] = variant_order.index(variant.name)
        row["model"] = models.index(model)
        row["cloud"] = node.cloud
        row["base_ms"] = latency.base_ms / speed
        row["per_kb_ms"] = latency.per_kb_ms / speed
        row["typical_ms"] = row["base_ms"] + row["per_kb_ms"] * typical_size_kb(scenario, model)
        row["work_sd"] = work_sd(scenario, model)
        row["accuracy"] = variant.accuracy
        row["accuracy_sd"] = variant.accuracy_sd
        row["weight"] = speed / node.count  # a server uses the part of a device that it is as fast as
        row["power_w"] = (device.power_busy_w - device.power_idle_w) * speed
        row["price_per_ms"] = device.price_per_h / 3.6e6 * speed
        row["run_mb"] = variant.run_mb if shared else 0.0
        row["servers"] = 1 if shared else placed.servers
        row["batch"] = placed.batching.max if placed.batching else 1
        row["queue_limit"] = np.inf if placed.queue_limit is None else placed.queue_limit
        row["batch_wait_ms"] = placed.batching.wait_ms if placed.batching else 0.0
        row["batch_fixed"] = placed.batching.fixed if placed.batching else 0.0
        row["batch_share"] = row["batch_fixed"] / row["batch"] + 1.0 - row["batch_fixed"] if row["batch"] > 1 else 1.0
    return block


def typical_size_kb(scenario: Scenario, model: str) -> float:
    """The mean input size of the model's requests."""
    sources, weights = _asking(scenario, model)
    return float(np.average([mean_of(s.size_kb) for s in sources], weights=weights)) if sources else 1.0


def work_sd(scenario: Scenario, model: str) -> float:
    """The deviation of the work of the model's requests."""
    sources, weights = _asking(scenario, model)
    return math.sqrt(np.average([variance_of(s.work) for s in sources], weights=weights)) if sources else 0.0


def _asking(scenario: Scenario, model: str) -> tuple[list[Source], list[float]]:
    """The sources that ask for the model, and their shares."""
    sources = [s for s in scenario.workload.sources.values() if s.model == model and s.share > 0]
    return sources, [s.share for s in sources]


def _stations(
    scenario: Scenario, placements: list[Placement], deployments: Any, node_first: Any, by_node: Any
) -> tuple[Any, Any]:
    """One station per deployment of a queue node, one per shared node; links the deployments to them."""
    stations: list[tuple[Any, ...]] = []
    tables: list[float] = []
    servers = counts = 0
    for n, node in enumerate(scenario.nodes.values()):
        here = by_node[node_first[n] : node_first[n + 1]].tolist()
        device = scenario.devices[node.device]
        free_mb = device.memory_mb * node.count - sum(placements[d][1].memory_mb for d in here)
        if node.serving == "queue":
            for d in here:
                deployments[d]["station"] = len(stations)
                stations.append((n, d, servers, 0, 0, False, free_mb))
                servers += placements[d][0].servers
        elif here:
            for resident, d in enumerate(here):
                deployments[d]["station"], deployments[d]["resident"] = len(stations), resident
            alone_ms = [float(deployments[d]["typical_ms"]) for d in here]
            table, linear = _table(device, [placements[d][1] for d in here], alone_ms)
            stations.append((n, -1, counts, len(here), len(tables), linear, free_mb))
            tables += table
            counts += len(here)
    return np.array(stations, STATION), np.array(tables or [0.0])


def _table(device: Device, variants: list[Variant], alone_ms: list[float]) -> tuple[list[float], bool]:
    """The degradation of a shared node in the layout of `candidates.degradation`, and whether it is linear."""
    d = device.degradation
    assert d is not None  # scenarios are checked before they get here
    names = [v.name for v in variants]
    if d.rho is not None:
        return [d.rho * other / own for own in alone_ms for other in alone_ms], True
    if d.curve is not None:
        curves = [d.curve.get(name, d.curve.get("default", (1.0,))) for name in names]
        size = max(len(c) for c in curves)
        cells = [v for c in curves for v in (*c, *[np.inf] * (size - len(c)))]
        return [1.0, float(size), *[0.0] * len(names), *cells], False
    assert d.matrix is not None
    assert d.axes is not None
    tables = [d.matrix[name] for name in names]
    rows, columns = max(len(t) for t in tables), max(len(t[0]) for t in tables)
    cells = [
        t[i][j] if i < len(t) and j < len(t[0]) else np.inf for t in tables for i in range(rows) for j in range(columns)
    ]
    axes = [float(d.axes.index(n)) if n in d.axes else -1.0 for n in names]
    return [2.0, float(rows), float(columns), *axes, *cells], False


def _denied(scenario: Scenario, placements: list[Placement]) -> Any:
    sources = scenario.workload.sources.values()
    block = np.zeros((len(sources), len(placements)), np.uint16)
    nodes = [list(scenario.nodes).index(node.name) for _, _, node in placements]
    for row, source in zip(block, sources, strict=True):
        if source.regions or source.certificates:
            denied = [_is_denied(source, node) for node in scenario.nodes.values()]
            row[:] = np.where(np.array(denied)[nodes], np.uint16(Reason.NOT_ALLOWED), np.uint16(0))
    return block


def _is_denied(source: Source, node: Node) -> bool:
    outside = source.regions and node.region not in source.regions
    return bool(outside or set(source.certificates) - set(node.certificates))


def _links(scenario: Scenario) -> Any:
    """The links at the start, from every site and node to every node."""
    ends, nodes = scenario.end_names, scenario.node_names
    links = np.zeros((len(ends.names), len(nodes.names)), LINK)
    for link in scenario.links:
        here = np.ix_([*places(ends.like(link.from_))], [*places(nodes.like(link.to))])
        links[here] = (link.delay_ms, link.delay_sd_ms, per_kb_ms(link.bandwidth_mbps), 0.0)
    for node, name in enumerate(nodes.names):
        links[[*places(ends.called(name))], node] = 0  # a node is no way from itself
    return links


def per_kb_ms(bandwidth_mbps: float | None) -> float:
    """The time of a kilobyte on a link; 0 where no bandwidth is given."""
    return 0.0 if bandwidth_mbps is None else 8.0 / bandwidth_mbps
