"""The decision log of a finished world: names and reference times for its rows, and who decided.

Called by `run_policy` and `experiments`; figures are made from what it returns, in `measure`, as from a log of live
requests.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead.domain.decision_log import DecisionLog, LogContext, LoggedNode, fill_decisions
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import Policy
from fairlead.policies.snapshot.log_context import log_context
from fairlead.sim.serving.decision_account import Account
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
    context, clock = log_context(scenario, plan), world.clock[0]
    settings = {"scenario": scenario.name, "policy": policy.name, "hash": policy.hash, "seed": int(clock["seed"])}
    return replace(
        context,
        end_ms=float(clock["last_ms"]),
        nodes=_measured(context.nodes, world),
        policies=tuple(account.policies),
        decisions=account.decisions,
        fallbacks=dict(account.fallbacks),
        active=tuple(account.active),
        settings=settings,
    )


def _measured(nodes: tuple[LoggedNode, ...], world: World) -> tuple[LoggedNode, ...]:
    rows = zip(nodes, world.nodes.tolist(), strict=True)
    return tuple(replace(node, busy_ms=busy_ms, energy_mj=energy_mj) for node, (busy_ms, energy_mj) in rows)
