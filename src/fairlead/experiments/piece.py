"""A piece of work: one scenario and one seed, whose workload is drawn once and which every policy runs on.

`workers` runs pieces in this process, in others or on a cluster; all of them call `run_piece`. Its result is plain
data: it goes through files and networks and comes back the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.domain.errors import PolicyError
from fairlead.domain.scenario import Scenario

Figures = dict[str, float]


@dataclass(frozen=True)
class Piece:
    """One (scenario, seed) for all policies. Its label is unique in a comparison: a scenario's name or `rate=20`."""

    label: str
    scenario: Scenario
    seed: int
    policies: tuple[str, ...]
    bounded: bool = True  # with the upper bound, which takes longer than some policies


@dataclass(frozen=True)
class PieceResult:
    """What came of a piece: numbers, strings, lists and maps of them only."""

    label: str
    seed: int
    figures: dict[str, Figures]  # by policy
    failures: dict[str, str]  # policy -> one line
    details: dict[str, dict[str, Any]]  # by policy
    bound: float | None  # no policy can have more success than this


def run_piece(piece: Piece) -> PieceResult:
    """Run one piece. A policy that fails is noted, the others go on."""
    from fairlead.experiments.bounds.bound import success_bound
    from fairlead.experiments.detail import detail, learned
    from fairlead.policies.interface import find
    from fairlead.sim.serving.host import run
    from fairlead.sim.serving.plan import build_plan
    from fairlead.sim.serving.summary import summarise
    from fairlead.sim.serving.workload import make_workload
    from fairlead.sim.serving.world import new_world, reset

    scenario = piece.scenario
    plan, workload = build_plan(scenario), make_workload(scenario, piece.seed)
    world = new_world(plan, workload)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in piece.policies:
        reset(plan, world, workload)
        try:
            account = run(plan, world, policy := find(name))
        except PolicyError as error:
            at = "" if piece.label == scenario.name else f" at {piece.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {piece.seed})"
            continue
        figures[name] = summarise(scenario, plan, world) | {"fallback_share": account.fallback_share}
        details[name] = detail(scenario, plan, world)
        if policy.kind in ("batch", "selector"):
            details[name]["learned"] = learned(scenario, account)
    bound = success_bound(plan, workload) if piece.bounded else None
    return PieceResult(piece.label, piece.seed, figures, failures, details, bound)
