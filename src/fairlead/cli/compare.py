"""`fairlead compare`: checks the question, runs it with a progress bar, shows a table per scenario."""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fairlead.cli.catalog import console, warn_broken
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import REASON_NAMES
from fairlead.domain.scenario import Scenario
from fairlead.experiments.compare import Comparison, compare
from fairlead.experiments.result_file import as_json, check_writable, write_whole
from fairlead.measure.statistics import Estimate
from fairlead.policies.interface import find, registry
from fairlead.scenarios.loader import load


def run_compare(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.seeds < 1:
        raise UserError(f"--seeds {args.seeds}: at least 1 is needed (5 or more for a useful interval)")
    if args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: at least 1 is needed")
    if args.json:
        check_writable(Path(args.json))
    scenarios = [load(name, args.overrides) for name in args.scenarios]
    names = [s.name for s in scenarios]
    if len(set(names)) != len(names):
        raise UserError(f"two scenarios are called {max(names, key=names.count)!r}: results go by name")
    policies = _policies(args.policies)
    with _progress() as bar:
        task = bar.add_task("comparing", total=None)
        result = compare(
            scenarios, policies, range(args.seeds), args.jobs, lambda done, n: bar.update(task, completed=done, total=n)
        )
    _show(result)  # before the file: a full disk then costs the file alone
    if args.json:
        write_whole(Path(args.json), as_json(result, args.overrides))
    return _close(result, args.json)


def _policies(text: str | None) -> list[str]:
    if text is None:
        warn_broken()
        return list(registry()[0])
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError("--policies: names are missing (see `fairlead policies`)")
    return list(dict.fromkeys(find(name).name for name in names))


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("scenario seeds"),
        TimeRemainingColumn(),
        console=(console := Console(stderr=True)),
        transient=True,
        disable=not console.is_terminal,
    )


def _close(result: Comparison, json_file: str | None) -> int:
    """Say what is not whole, and the exit code for it."""
    if json_file:
        print(f"figures written to {json_file}", file=sys.stderr)
    for line in result.failures.values():
        print(f"fairlead: {line}; its runs are marked failed, the others are whole", file=sys.stderr)
    if result.interrupted:
        done = sum(len(result.done_seeds(s.name)) for s in result.scenarios)
        total = len(result.scenarios) * len(result.seeds)
        print(
            f"fairlead: {result.interrupted}; {done} of {total} scenario seeds were finished and are kept",
            file=sys.stderr,
        )
        return 130 if result.interrupted == "interrupted" else 1
    return 2 if result.failures else 0


# ---- tables


def _show(result: Comparison) -> None:
    out = console()
    for scenario in result.scenarios:
        seeds = len(result.done_seeds(scenario.name))
        if not seeds:
            out.print(f"{scenario.name}: no seed is finished")
            continue
        out.print(f"[bold]{escape(scenario.name)}[/bold]: {escape(scenario.title)}")
        out.print(f"{seeds} paired seeds; mean and 95 % interval; success, late, inaccurate, rejected in % of requests")
        out.print(_outcomes(result, scenario.name))
        out.print("energy (idle included), price of busy time, how busy, and success per SLA class and tenant in %")
        out.print(_costs(result, scenario))
        assumed = scenario.assumptions()
        out.print(f"[dim]assumed: {_sections(assumed)}; all {len(assumed)}: fairlead show {scenario.name}[/dim]\n")
    for name in result.failures:
        out.print(f"[red]failed[/red]: {escape(name)}")


def _sections(assumed: list[tuple[str, str]]) -> str:
    """Whose numbers are assumed, by section."""
    sections = Counter(path.split(".")[0] for path, _ in assumed)
    return ", ".join(f"{n} in {section}" for section, n in sections.items())


def _table(*columns: str) -> Table:
    table = Table(header_style="bold")
    table.add_column("policy", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _outcomes(result: Comparison, scenario: str) -> Table:
    table = _table(
        "success", "behind best", "late", "inaccurate", "rejected", "rejected for", "p50 ms", "p95 ms", "p99 ms"
    )
    for rank, policy in enumerate(result.ranking(scenario)):
        e = result.estimates(scenario, policy)
        behind = "best" if rank == 0 else _percent(result.behind_best(scenario, policy))
        shares = [_percent(e[name]) for name in ("late", "inaccurate", "rejected")]
        times = [f"{e[f'latency_{p}_ms'].mean:.1f}" for p in ("p50", "p95", "p99")]
        style = "bold" if rank == 0 else ""
        table.add_row(escape(policy), _percent(e["success"]), behind, *shares, _reasons(e), *times, style=style)
    return table


def _costs(result: Comparison, scenario: Scenario) -> Table:
    classes = [("sla", name) for name in scenario.workload.sla_classes]
    classes += [("tenant", name) for name in scenario.workload.tenants]
    table = _table(
        *("mJ / success", "cost / million", "busy"),
        *(f"{kind} {name}" for kind, name in classes),
        *("fair sla", "fair tenant"),
    )
    for rank, policy in enumerate(result.ranking(scenario.name)):
        e = result.estimates(scenario.name, policy)
        table.add_row(
            escape(policy),
            _plus_minus(e["energy_per_success_mj"], "{:.0f}"),
            _plus_minus(_times(1e6, e["cost_per_success"]), "{:.2f}"),
            f"{100 * e['utilisation'].mean:.0f} %",
            *(f"{100 * e[f'success_{kind}_{name}'].mean:.1f}" for kind, name in classes),
            f"{e['fairness_sla'].mean:.3f}",
            f"{e['fairness_tenant'].mean:.3f}",
            style="bold" if rank == 0 else "",
        )
    return table


def _plus_minus(e: Estimate, form: str) -> str:
    return form.format(e.mean) + ("" if math.isnan(e.ci95) else f" ±{form.format(e.ci95)}")


def _times(factor: float, e: Estimate) -> Estimate:
    return Estimate(factor * e.mean, factor * e.ci95, e.n)


def _percent(e: Estimate) -> str:
    return _plus_minus(_times(100, e), "{:.2f}")


def _reasons(e: dict[str, Estimate]) -> str:
    found = [(e[f"rejected_{name}"].mean, name) for name in REASON_NAMES.values()]
    return ", ".join(f"{name} {100 * mean:.1f}" for mean, name in sorted(found, reverse=True) if mean > 0)
