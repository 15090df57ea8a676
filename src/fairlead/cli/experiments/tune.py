"""`fairlead tune`: the best fixed rule for a scenario of tasks."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead.cli.console import console
from fairlead.cli.standard_streams import note
from fairlead.domain.tasks import TunedRule
from fairlead.experiments.result_file import as_json, plain, versions
from fairlead.experiments.tune import FIRST_SEED, Tuned, tune
from fairlead.measure.numerals import counted
from fairlead.measure.report.phrases import plus_minus
from fairlead.measure.write_files import check_writable, write_whole
from fairlead.scenarios.loader import load_tasks


def run_tune(args: argparse.Namespace) -> int:
    """Run `fairlead tune`."""
    if args.json:
        check_writable(Path(args.json))
    scenario = load_tasks(args.scenario, args.overrides)
    with _progress() as bar:
        task = bar.add_task("tuning", total=None)
        found = tune(scenario, args.workloads, lambda done, total: bar.update(task, completed=done, total=total))
    _show(found, args)
    if args.json:
        write_whole(Path(args.json), as_json(_document(found, args)))
        note(f"rule written to {args.json}")
    return 0


def as_yaml(rule: TunedRule) -> dict[str, Any]:
    """The rule as a scenario has it."""
    made = {"by": rule.by, "first": list(rule.first), "wanted": _plain(rule.wanted), "least": _plain(rule.least)}
    return made | {"packing": rule.packing, "source": rule.source}


def _plain(table: Any) -> dict[str, dict[str, int]]:
    return {task_type: dict(amounts) for task_type, amounts in table.items()}


def _show(found: Tuned, args: argparse.Namespace) -> None:
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


def _document(found: Tuned, args: argparse.Namespace) -> dict[str, Any]:
    gain = None if found.gain is None else asdict(found.gain)
    settings = {"scenario": args.scenario, "set": args.overrides, "workloads": args.workloads, "first_seed": FIRST_SEED}
    made = {"tuned_rule": as_yaml(found.rule), "steps": asdict(found.steps), "gain": gain, "tried": found.tried}
    return dict(plain(made | {"settings": settings, "versions": versions()}))


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
