"""What a decision log says of a scenario and its fleet, before anything is measured: a host begins its log with it.

    context = log_context(scenario, fleet)
    replace(context, end_ms=..., nodes=..., policies=..., decisions=...)      when the log ends

Called by the simulator (`fairlead.sim.serving.log`) and by hosts of live requests. Knows no world and no run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.decision_log import LogContext, LoggedDeployment, LoggedNode
from fairlead.domain.scenario import Scenario
from fairlead.policies.snapshot.capacity import capacities


def log_context(scenario: Scenario, fleet: Any) -> LogContext:
    """The context of a log of no decisions yet; `fleet` is that of the scenario, or a simulator's plan."""
    workload = scenario.workload
    return LogContext(
        name=scenario.name,
        duration_s=workload.duration_s,
        end_ms=0.0,
        window_ms=scenario.rules.window_ms,
        nodes=_nodes(scenario, fleet),
        deployments=_deployments(scenario, fleet),
        models=tuple(scenario.models),
        variants=tuple(scenario.variants()),
        sources=tuple(workload.sources),
        sites=workload.sites,
        tenants=workload.tenants,
        sla_classes=workload.sla_classes,
        policies=(),
    )


def _nodes(scenario: Scenario, fleet: Any) -> tuple[LoggedNode, ...]:
    work_per_ms = _work_per_ms(fleet, len(scenario.nodes)).tolist()
    return tuple(
        LoggedNode(node.name, node.count, scenario.devices[node.device].power_idle_w, work)
        for node, work in zip(scenario.nodes.values(), work_per_ms, strict=True)
    )


def _work_per_ms(fleet: Any, nodes: int) -> Any:
    """The most that each node can do, in its own time alone; 0 where nothing is deployed, infinite where all fits."""
    servers, _ = capacities(fleet)
    served = fleet.stations["deployment"]
    weights = np.where(served >= 0, fleet.deployments["weight"][served], 1.0)
    return np.bincount(fleet.stations["node"], servers * weights, nodes)


def _deployments(scenario: Scenario, fleet: Any) -> tuple[LoggedDeployment, ...]:
    models = list(scenario.models)
    return tuple(
        LoggedDeployment(
            variant=variant.name,
            node=node.name,
            model=models[row["model"]],
            base_ms=float(row["base_ms"]),
            per_kb_ms=float(row["per_kb_ms"]),
            batch_share=float(row["batch_share"]),
            node_share=float(row["weight"]),
        )
        for row, (_, variant, node) in zip(fleet.deployments, scenario.placements(), strict=True)
    )
