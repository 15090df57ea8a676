"""Simulated degradation (ECSRL, figures 1 and 2): matrices of a scenario's shared devices, measured in the engine.

For a cell, workloads that will not end are put on the node, then one more; its time in service / its time alone is the
degradation. Where the engine does not take one of them, for lack of memory or by a queue limit, it is infinite. Network
and rules of the scenario play no part. Called by the cli.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any, Final

import numpy as np

from fairlead import __version__
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.experiments.result_file import plain, versions
from fairlead.measure.degradation_matrix import Matrix
from fairlead.policies.interface import Policy
from fairlead.policies.snapshot.fleet import typical_size_kb
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import DRAWS, STREAM, Plan

RHOS: Final = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  #: of the sensitivity to the interference assumption
_STAYS: Final = 1e6  # times the work of a request: it outlasts any newcomer
_MOST: Final = 12


@dataclass(frozen=True)
class SimulatedDegradation:
    """What the scenario's shared devices do, and what they would do under other interference."""

    scenario: Scenario
    most: int
    matrices: list[Matrix]
    by_rho: dict[float, list[Matrix]]  # of the devices that the scenario gives a rho


def simulate_degradation(scenario: Scenario, most: int) -> SimulatedDegradation:
    """Matrices up to `most` of each model already running."""
    if not 1 <= most <= _MOST:
        raise UserError(f"--max {most}: 1 to {_MOST} workloads of each model are possible")
    if all(node.serving != "shared" for node in scenario.nodes.values()):
        raise UserError(
            f"{scenario.name}: no node is shared (`serving: shared`), so models do not slow each other down; try ecsrl"
        )
    by_rho = {rho: [m for m in _matrices(_with_rho(scenario, rho), most) if _has_rho(scenario, m)] for rho in RHOS}
    return SimulatedDegradation(
        scenario, most, _matrices(scenario, most), {rho: found for rho, found in by_rho.items() if found}
    )


def as_document(made: SimulatedDegradation, overrides: list[str]) -> dict[str, Any]:
    """The study as plain data: a list of matrices, with the slopes of their fits by rho where they have one."""
    document = {
        "kind": "degradation",
        "fairlead": __version__,
        "versions": versions(),
        "settings": {"scenario": made.scenario.name, "set": overrides, "max": made.most},
        "title": made.scenario.title,
        "measured": "in the simulator",
        "assumptions": [f"{path}: {words}" for path, words in made.scenario.assumptions()],
        "matrices": [m.as_dict() | _by_rho(made, m) for m in made.matrices],
    }
    return dict(plain(document))


def _by_rho(made: SimulatedDegradation, matrix: Matrix) -> dict[str, Any]:
    others = [m for found in made.by_rho.values() for m in found if m.same_question(matrix)]
    slopes = [fit.slope if (fit := m.fit()) else math.nan for m in others]
    return {"by_rho": {"rho": list(made.by_rho), "slope": slopes}} if others else {}


def _with_rho(scenario: Scenario, rho: float) -> Scenario:
    """The scenario with another rho, on the devices that have one."""
    devices = {
        name: replace(d, degradation=replace(d.degradation, rho=rho))
        if d.degradation is not None and d.degradation.rho is not None
        else d
        for name, d in scenario.devices.items()
    }
    return replace(scenario, devices=devices)


def _has_rho(scenario: Scenario, matrix: Matrix) -> bool:
    degradation = scenario.devices[matrix.device].degradation
    return degradation is not None and degradation.rho is not None


def _matrices(scenario: Scenario, most: int) -> list[Matrix]:
    bench = _Bench(scenario)
    return [
        bench.matrix(nodes, arriving, axes, most)
        for nodes, here in _nodes_alike(scenario).items()
        for axes in _axes(scenario, nodes[0], here)
        for arriving in here
    ]


def _nodes_alike(scenario: Scenario) -> dict[tuple[str, ...], list[str]]:
    """Shared nodes that are alike, and the variants on them."""
    alike: dict[tuple[Any, ...], list[str]] = {}
    for node in scenario.nodes.values():
        here = [(v.name, d.queue_limit) for d, v, n in scenario.placements() if n.name == node.name]
        if node.serving == "shared" and here:
            alike.setdefault((node.device, *here), []).append(node.name)
    return {tuple(names): [name for name, _ in key[1:]] for key, names in alike.items()}


def _axes(scenario: Scenario, node: str, here: list[str]) -> Iterator[tuple[str, ...]]:
    """Each pair of the variants; a device that is given by a matrix keeps its order of axes."""
    degradation = scenario.devices[scenario.nodes[node].device].degradation
    first = list(degradation.axes) if degradation is not None and degradation.axes is not None else []
    ordered = [*(v for v in first if v in here), *(v for v in here if v not in first)]
    yield from combinations(ordered, 2) if len(ordered) > 1 else [tuple(ordered)]


class _Bench:
    """The scenario's nodes without its network and rules, to put workloads on by hand."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario, self._plan = scenario, _bare(build_plan(scenario))
        placements = scenario.placements()
        self._rows = {(node.name, variant.name): row for row, (_, variant, node) in enumerate(placements)}
        self._time_ms = cache(self._measured_ms)  # pairs of axes share their edges

    def matrix(self, nodes: tuple[str, ...], arriving: str, axes: tuple[str, ...], most: int) -> Matrix:
        """The matrix of the arriving variant on the first of the nodes, which are alike."""
        there = [self._rows[nodes[0], axis] for axis in axes]
        newcomer = self._rows[nodes[0], arriving]
        second = range(most + 1) if len(axes) > 1 else range(1)
        alone_ms = self._time_ms((), newcomer)
        cells = tuple(
            tuple(self._time_ms((*[there[0]] * m, *[there[-1]] * r), newcomer) / alone_ms for r in second)
            for m in range(most + 1)
        )
        return Matrix(self._scenario.nodes[nodes[0]].device, nodes, arriving, axes, alone_ms, cells)

    def _measured_ms(self, running: tuple[int, ...], newcomer: int) -> float:
        """How long the newcomer is in service; infinite when not all of them fit. They are rows of deployments."""
        rows = [*running, newcomer]
        world = new_world(self._plan, self._workload(rows))
        choices = [row - int(self._plan.models[self._plan.deployments[row]["model"]]["first"]) for row in rows]

        def place(request: Any, candidates: Any, excluded: Any, u: float) -> int:
            choice = choices[request.id]
            return -1 if excluded[choice] else choice

        run(self._plan, world, Policy("bench", place, "python"))
        if (world.rows["outcome"] == Outcome.REJECTED).any():
            return math.inf
        return float(world.rows["service_ms"][-1])

    def _workload(self, rows: list[int]) -> DrawnWorkload:
        """A request of typical size for each, at once and in this order; all but the last stay."""
        asked, draws = np.zeros(len(rows), REQUEST), np.zeros(len(rows), DRAWS)
        asked["id"], asked["stream"], asked["deadline_ms"] = np.arange(len(rows)), -1, np.inf
        models = list(self._scenario.models)
        for request, row in zip(asked, rows, strict=True):
            request["model"] = self._plan.deployments[row]["model"]
            request["size_kb"] = typical_size_kb(self._scenario, models[request["model"]])
        draws["work"] = _STAYS
        draws["work"][-1] = 1.0
        return DrawnWorkload(0, asked, draws, np.zeros(0, STREAM))


def _bare(plan: Plan) -> Plan:
    """Links take no time and never change; every request is dispatched by itself, to where it is sent."""
    rules = plan.rules.copy()
    for rule in ("bind_streams", "admit_deadline", "admit_accuracy", "second_inference"):
        rules[rule] = False
    rules["duration_ms"] = rules["window_ms"] = 1.0
    return plan._replace(
        rules=rules, denied=np.zeros_like(plan.denied), links=np.zeros_like(plan.links), changes=plan.changes[:0]
    )
