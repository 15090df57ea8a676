"""A piece of the world of tasks: one scenario and one seed, which every policy runs on; and what its runs look like."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.tasks import TaskScenario
from fairlead.experiments.bounds.tasks import completion_bound, has_bound
from fairlead.experiments.piece import Figures, Piece, PieceResult
from fairlead.sim.tasks.catalog import find_task_policy
from fairlead.sim.tasks.host import run_tasks
from fairlead.sim.tasks.layout import RUNS, TaskPlan, TaskWorlds
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.summary import completion_steps, summarise
from fairlead.sim.tasks.worlds import begin_all, new_worlds

_MOST_BINS: Final = 120
_LONGEST: Final = 200  # completion times are counted up to so many steps, and those above together


def run_task_piece(piece: Piece) -> PieceResult:
    """Run one piece. A policy that fails is noted, the others go on."""
    scenario = piece.scenario
    assert isinstance(scenario, TaskScenario)
    plan = build_task_plan(scenario)
    worlds = new_worlds(plan, [piece.seed], history=scenario.rules.most_steps)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in piece.policies:
        policy = find_task_policy(name)
        worlds.history[...] = 0
        begin_all(plan, worlds, np.array([piece.seed]), scenario.workload.rate_per_step)
        try:
            run_tasks(plan, worlds, policy, policy.parameters(scenario, plan.steps))
        except (PolicyError, UserError) as error:  # it went wrong, or lacks what it needs of the scenario
            at = "" if piece.label == scenario.name else f" at {piece.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {piece.seed})"
            continue
        figures[name] = summarise(scenario, plan, worlds, 0) | {"fallback_share": 0.0}
        details[name] = _detail(scenario, plan, worlds)
    whole = all(found["unfinished"] == 0 for found in figures.values())  # what is cut can be below it
    bound = completion_bound(plan, worlds, 0) if piece.bounded and whole and has_bound(scenario) else None
    return PieceResult(piece.label, piece.seed, figures, failures, details, bound)


def time_edges(scenario: TaskScenario) -> list[float]:
    """Edges of the bins of time, in steps: twice as long as arrivals take, at most 120; the last bin takes the rest."""
    lasts = 2.0 * scenario.workload.tasks / scenario.workload.rate_per_step
    width = max(1, int(np.ceil(lasts / _MOST_BINS)))
    return [float(i * width) for i in range(int(np.ceil(lasts / width)) + 1)]


def _detail(scenario: TaskScenario, plan: TaskPlan, worlds: TaskWorlds) -> dict[str, Any]:
    """Sums in bins of time, completion times counted, and for each type what its tasks were given at last, counted."""
    edges = np.array(time_edges(scenario))
    history, steps = worlds.history[0], completion_steps(worlds, 0)
    bins = np.clip(np.searchsorted(edges, np.arange(len(history)), side="right") - 1, 0, len(edges) - 2)
    sums = np.zeros((len(edges) - 1, history.shape[1]), np.int64)
    np.add.at(sums, bins, history)
    tasks = worlds.task[0]
    given = {}
    for j, name in enumerate(scenario.types):
        mine = (tasks["type"] == j) & (tasks["state"] >= RUNS)
        given[name] = {
            resource: np.bincount(worlds.amounts[0][mine, k], minlength=int(plan.most[k]) + 1).tolist()
            for k, resource in enumerate(scenario.resources)
            if plan.elastic[k]
        }
    return {
        "alive": sums[:, 0].tolist(),
        "used": {name: sums[:, 1 + k].tolist() for k, name in enumerate(scenario.resources)},
        "completion": np.bincount(np.minimum(steps, _LONGEST), minlength=_LONGEST + 1).tolist(),
        "given": given,
    }


class TaskSum:
    """The details of several seeds, added up: whole numbers, so that it is the same whoever comes first."""

    def __init__(self) -> None:
        self._sum: dict[str, Any] = {}

    def add(self, one: dict[str, Any]) -> None:
        """Take in the detail of one more seed."""
        self._sum = _added(self._sum, one)

    def detail(self) -> dict[str, Any]:
        """All of them together, in the form of one."""
        return self._sum


def _added(a: Any, b: Any) -> Any:
    if isinstance(b, dict):
        return {key: _added(a.get(key), value) for key, value in b.items()} if a else b
    return b if a is None else [x + y for x, y in zip(a, b, strict=True)]
