"""The decision log of a finished world: names and reference times for its rows, and who decided.

Called by `run_policy` and `experiments`; figures are made from what it returns, in `measure`, as from a log of live
requests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.decision_log import (
    DecisionLog,
    LogContext,
    LoggedDeployment,
    LoggedNode,
    fill_decisions,
)
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import Policy
from fairlead.sim.serving.decision_account import Account
from fairlead.sim.serving.station_capacity import capacities
from fairlead.sim.serving.world_arrays import Plan, World


def decision_log(scenario: Scenario, plan: Plan, world: World, policy: Policy, account: Account) -> DecisionLog:
    """The log of a run under `policy`; its rows are the world's own, completed here."""
    n = int(world.clock[0]["arrived"])  # a world of a batch may be padded behind these
    rows = world.rows[:n]
    fill_decisions(rows, account.decided_by, account.probability, account.fallback)
    exclusions = world.exclusions[:n] if len(world.exclusions) else None
    context = _context(scenario, plan, world, policy, account)
    return DecisionLog(context, world.requests[:n], rows, world.draws["work"][:n], exclusions)


def _context(scenario: Scenario, plan: Plan, world: World, policy: Policy, account: Account) -> LogContext:
    workload, seed = scenario.workload, int(world.clock[0]["seed"])
    return LogContext(
        name=scenario.name,
        duration_s=workload.duration_s,
        end_ms=float(world.clock[0]["last_ms"]),
        window_ms=scenario.rules.window_ms,
        nodes=_nodes(scenario, plan, world),
        deployments=_deployments(scenario, plan),
        models=tuple(scenario.models),
        variants=tuple(scenario.variants()),
        sources=tuple(workload.sources),
        sites=workload.sites,
        tenants=workload.tenants,
        sla_classes=workload.sla_classes,
        policies=tuple(account.policies),
        decisions=account.decisions,
        fallbacks=dict(account.fallbacks),
        active=tuple(account.active),
        settings={"scenario": scenario.name, "policy": policy.name, "hash": policy.hash, "seed": seed},
    )


def _nodes(scenario: Scenario, plan: Plan, world: World) -> tuple[LoggedNode, ...]:
    work_per_ms = _work_per_ms(plan, len(scenario.nodes))
    rows = zip(scenario.nodes.values(), work_per_ms.tolist(), world.nodes.tolist(), strict=True)
    return tuple(
        LoggedNode(node.name, node.count, scenario.devices[node.device].power_idle_w, work, busy_ms, energy_mj)
        for node, work, (busy_ms, energy_mj) in rows
    )


def _work_per_ms(plan: Plan, nodes: int) -> Any:
    """The most that each node can do, in its own time alone; 0 where nothing is deployed, infinite where all fits."""
    servers, _ = capacities(plan)
    weights = np.where(plan.stations["deployment"] >= 0, plan.deployments["weight"][plan.stations["deployment"]], 1.0)
    return np.bincount(plan.stations["node"], servers * weights, nodes)


def _deployments(scenario: Scenario, plan: Plan) -> tuple[LoggedDeployment, ...]:
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
        for row, (_, variant, node) in zip(plan.deployments, scenario.placements(), strict=True)
    )
