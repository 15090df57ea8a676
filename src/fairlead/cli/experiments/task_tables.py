"""The tables of `fairlead compare` and `fairlead sweep` for worlds of tasks: completion times in steps."""

from __future__ import annotations

import math

from rich.console import Console
from rich.markup import escape

from fairlead.cli.catalog.task_listing import powers
from fairlead.cli.experiments.sweep_tables import Grid, across, grid_of, seeds_of_all
from fairlead.cli.experiments.tables import Columns, failed, foot, head, plus_minus, print_fitting, seeds_of
from fairlead.domain.tasks import TaskScenario
from fairlead.experiments.compare import Comparison
from fairlead.experiments.trial import AnyScenario
from fairlead.measure.statistics import estimate


def show_tasks(out: Console, result: Comparison, given: list[str], overrides: list[str]) -> None:
    """Print a comparison; `given` are the scenarios as the user named them."""
    for (label, scenario), name in zip(result.scenarios.items(), given, strict=True):
        seeds = len(result.done_seeds(label))
        if not seeds:
            out.print(f"{escape(label)}: no seed is finished")
            continue
        head(out, scenario, overrides)
        tasks = result.estimates(label, result.ranking(label)[0])["tasks"].mean
        out.print(
            f"{seeds_of(seeds, tasks, 'task')}; steps of "
            f"{_tasks(scenario).rules.interval_s:g} s from arrival to completion"
        )
        if bound := result.bound_values(label):
            out.print(f"Lower bound without resizing or pre-emption: {plus_minus(estimate(bound), '{:.3f}')} steps")
        print_fitting(out, *_columns(result, label))
        foot(out, scenario, name)
    failed(out, result)


def show_task_sweep(out: Console, result: Comparison, given: str, overrides: list[str]) -> None:
    """Print a sweep of the scenario that the user named `given`."""
    labels = [label for label in result.scenarios if result.ranking(label)]
    if labels:
        scenario = result.scenarios[labels[0]]
        head(out, scenario, overrides)
        out.print(f"{seeds_of_all(result, labels)}; steps from arrival to completion")
        grid = grid_of(result, labels, "completion_steps")
        policies = sorted(result.ranking(labels[0]), key=lambda p: math.fsum(cells[p].mean for cells in grid.values()))
        columns = _marked(result, grid, policies)
        bounds = {label: result.bound_values(label) for label in grid}
        if any(bounds.values()):
            policies = [*policies, "lower bound"]
            for label, bound in bounds.items():
                columns[label].append(plus_minus(estimate(bound), "{:.3f}") if bound else "none")
        across(out, {"policy": policies}, columns)
        bound_of = "; the lower bound holds without resizing or pre-emption" if any(bounds.values()) else ""
        out.print(f"* the best there{bound_of}")
    if unfinished := [label for label in result.scenarios if label not in labels]:
        out.print(f"no seed is finished: {escape(', '.join(unfinished))}")
    if labels:
        foot(out, scenario, given)
    failed(out, result)


def _marked(result: Comparison, grid: Grid, policies: list[str]) -> Columns:
    """The best of each point has a star."""
    best = {label: result.ranking(label)[0] for label in grid}
    return {
        label: [f"{'* ' if p == best[label] else ''}{plus_minus(cells[p], '{:.3f}')}" for p in policies]
        for label, cells in grid.items()
    }


def _columns(result: Comparison, label: str) -> tuple[Columns, list[str]]:
    ranking, scenario = result.ranking(label), _tasks(result.scenarios[label])
    e = {p: result.estimates(label, p) for p in ranking}
    columns: Columns = {
        "policy": ranking,
        "steps": [plus_minus(e[p]["completion_steps"], "{:.3f}") for p in ranking],
        "behind best": ["best", *(plus_minus(result.behind_best(label, p), "{:.3f}") for p in ranking[1:])],
    }
    for part in ("p50", "p95", "p99"):
        columns[part] = [f"{e[p][f'completion_{part}_steps'].mean:.1f}" for p in ranking]
    columns["waiting"] = [f"{e[p]['waiting_steps'].mean:.2f}" for p in ranking]
    types = [kind.name for kind in scenario.types.values() if kind.share]  # of others there are no tasks
    for name in types:
        columns[name] = [f"{e[p][f'completion_steps_{name}'].mean:.2f}" for p in ranking]
    for name in scenario.resources:
        columns[f"{name} used"] = [f"{100 * e[p][f'used_{name}'].mean:.0f} %" for p in ranking]
    if any(e[p]["unfinished"].mean for p in ranking):
        columns["unfinished"] = [f"{100 * e[p]['unfinished'].mean:.1f} %" for p in ranking]
    columns["privileges"] = [powers(result.adapter.find(p)) for p in ranking]
    used = [f"{name} used" for name in scenario.resources]
    return columns, [*used, "p50", *types, "waiting", "p99", "p95", "privileges", "behind best"]


def _tasks(scenario: AnyScenario) -> TaskScenario:
    assert isinstance(scenario, TaskScenario)
    return scenario
