"""`fairlead tune`: the best weights of a rule for requests, the best fixed rule for a scenario of tasks."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairlead.cli.console import console
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError
from fairlead.domain.scenario import Scenario
from fairlead.domain.tasks import TunedRule
from fairlead.experiments.result_file import as_json, plain, versions
from fairlead.experiments.tune import FIRST_SEED, Tuned, tune
from fairlead.experiments.tune_weights import CHECK_SEED, TunedWeights, tune_weights
from fairlead.measure.numerals import counted
from fairlead.measure.report.phrases import plus_minus
from fairlead.measure.write_files import check_writable, write_whole
from fairlead.policies.interface import Policy, find
from fairlead.scenarios.loader import load_any, load_tasks


def run_tune(args: argparse.Namespace) -> int:
    """Run `fairlead tune`."""
    if args.json:
        check_writable(Path(args.json))
    scenarios = {name: load_any(name, args.overrides) for name in args.scenarios}
    of_requests = {name: scenario for name, scenario in scenarios.items() if isinstance(scenario, Scenario)}
    if len(of_requests) == len(scenarios):
        document = _tune_requests(of_requests, args)
    elif len(scenarios) == 1:
        document = _tune_tasks(args)
    else:
        raise UserError("a scenario of tasks is tuned alone: name no other scenario")
    if args.json:
        write_whole(Path(args.json), as_json(document))
        note(f"rule written to {args.json}")
    return 0


def _tune_requests(scenarios: dict[str, Scenario], args: argparse.Namespace) -> dict[str, Any]:
    rule = find(args.policy or "best-fit-foreseen")
    if not rule.weights or rule.base:
        raise UserError(f"{rule.name}: only rules that have weights can be tuned, by their plain names")
    with _weights_progress() as bar:
        task = bar.add_task("tuning", total=None)

        def progress(tried: int, best: str) -> None:
            bar.update(task, description=f"{counted(tried, 'set')} of weights tried; best: {best}")

        found = tune_weights(scenarios, rule, args.workloads or 6, progress)
    _show_weights(found, rule, scenarios)
    settings = {"scenarios": args.scenarios, "set": args.overrides, "workloads": found.gain.n}
    seeds = {"first_seed": FIRST_SEED, "first_check_seed": CHECK_SEED}
    success = {name: {"before": asdict(found.before[name]), "tuned": asdict(found.success[name])} for name in scenarios}
    made: dict[str, Any] = {"policy": found.rule.name, "weights": found.rule.values, "tried": found.tried}
    made |= {"gain": asdict(found.gain), "success": success}
    return dict(plain(made | {"settings": settings | seeds, "versions": versions()}))


def _show_weights(found: TunedWeights, rule: Policy, scenarios: Iterable[str]) -> None:
    out = console()
    table = Table(box=None, pad_edge=False)
    for heading in ("scenario", f"{rule.name}, %", "tuned, %"):
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    for name in scenarios:
        table.add_row(name, *(plus_minus(e, "{:.2f}") for e in (found.before[name], found.success[name])))
    many = f"{counted(found.gain.n, 'workload')} of each scenario"
    out.print(f"tried {counted(found.tried, 'set')} of weights on {many}; success on as many others:\n")
    out.print(table)
    if found.rule is rule:
        out.print("\nno other weights are better; the rule stays as it is:\n")
    else:
        out.print(f"\nthe tuned rule gains {plus_minus(found.gain, '{:.2f}')} points in the mean:\n")
    print(found.rule.name)


def _tune_tasks(args: argparse.Namespace) -> dict[str, Any]:
    if args.policy not in (None, "tuned-rule"):
        raise UserError(f"{args.policy}: on scenarios of tasks only tuned-rule is tuned")
    (name,) = args.scenarios
    scenario = load_tasks(name, args.overrides)
    with _progress() as bar:
        task = bar.add_task("tuning", total=None)
        found = tune(scenario, args.workloads or 48, lambda done, total: bar.update(task, completed=done, total=total))
    _show(found)
    gain = None if found.gain is None else asdict(found.gain)
    settings = {"scenario": name, "set": args.overrides, "workloads": found.steps.n, "first_seed": FIRST_SEED}
    made = {"tuned_rule": as_yaml(found.rule), "steps": asdict(found.steps), "gain": gain, "tried": found.tried}
    return dict(plain(made | {"settings": settings, "versions": versions()}))


def as_yaml(rule: TunedRule) -> dict[str, Any]:
    """The rule as a scenario has it."""
    made = {"by": rule.by, "first": list(rule.first), "wanted": _plain(rule.wanted), "least": _plain(rule.least)}
    return made | {"packing": rule.packing, "source": rule.source}


def _plain(table: Any) -> dict[str, dict[str, int]]:
    return {task_type: dict(amounts) for task_type, amounts in table.items()}


def _show(found: Tuned) -> None:
    out = console()
    steps = plus_minus(found.steps, "{:.3f}")
    out.print(
        f"tried {counted(found.tried, 'rule')} on {found.steps.n} workloads; with the best one, tasks take {steps} "
        "steps from arrival to completion on average"
    )
    if found.gain is not None:
        out.print(f"this is {plus_minus(found.gain, '{:.3f}')} steps less than with the scenario's own rule")
    out.print("\nfor the scenario:\n")
    text = yaml.safe_dump({"tuned_rule": as_yaml(found.rule)}, sort_keys=False, default_flow_style=None, width=110)
    print(text, end="")


def _weights_progress() -> Progress:
    screen = Console(stderr=True)
    return Progress(TextColumn("{task.description}"), console=screen, transient=True, disable=not screen.is_terminal)


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("orders and packings"),
        TimeRemainingColumn(),
        console=(screen := Console(stderr=True)),
        transient=True,
        disable=not screen.is_terminal,
    )
