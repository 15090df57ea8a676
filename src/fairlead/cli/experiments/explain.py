"""`fairlead explain`: why a learned policy decided as it did, as tables, JSON, page and plots."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from fairlead.cli.console import console
from fairlead.cli.experiments.run_comparison import check_outputs, compiling, write_outputs
from fairlead.cli.experiments.tables import foot, head, print_columns
from fairlead.cli.standard_streams import note
from fairlead.experiments.explain import as_document, explain
from fairlead.experiments.world_adapter import find_request_policy
from fairlead.measure.report.document import Document
from fairlead.measure.report.explanation_phrases import (
    ABOUT_INPUTS,
    about_replay,
    beyond_training,
    verdict,
    when,
)
from fairlead.measure.report.explanation_tables import alternatives, groups, inputs
from fairlead.measure.report.explanation_words import situation
from fairlead.measure.report.tables import Table
from fairlead.scenarios.loader import load

_MOST_INPUTS, _MOST_GROUPS = 10, 6


def run_explain(args: argparse.Namespace) -> int:
    """Run the command."""
    check_outputs(args)
    scenario, policy = load(args.scenario, args.overrides), find_request_policy(args.policy)
    if words := compiling():
        note(words)
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("playing", total=None)
        found = explain(
            scenario,
            policy,
            args.seed,
            at_s=args.at,
            request=args.request,
            replay=args.replay,
            progress=lambda done, total: bar.update(task, description="replaying", completed=done, total=total),
        )
    out = console(stderr=args.json == "-")
    asked = {"seed": args.seed, "set": args.overrides, "at_s": args.at, "request": args.request}
    document = as_document(found, scenario, policy, **asked, replay=args.replay)
    try:
        head(out, scenario.name, scenario.title, scenario.workload_in_words(), args.overrides)
        show(out, document)
        foot(out, document["assumptions"], args.scenario)
    finally:  # files are written even when the reader of the tables is gone (`| head`)
        write_outputs(args, document)
    return 0


def show(out: Console, document: Document) -> None:
    """Print an explanation."""
    made = document["decision"]
    about = ", ".join(f"{k} {v}" for k, v in situation(made).items())
    out.print(escape(f"{when(made)}: {about}"))
    out.print(escape(" ".join(filter(None, (verdict(document), beyond_training(made))))))
    possible = alternatives(document)
    print_columns(out, possible.columns, bold=possible.rows[0])
    if any(a["replayed"] for a in made["alternatives"]):
        _show_replay(out, document)
    if made["drivers"]:
        out.print(f"\nInputs that mattered most. {ABOUT_INPUTS}")
        _show_drivers(out, "inputs", inputs(made), _MOST_INPUTS, _moved(made, group=False))
        _show_drivers(out, "groups of inputs", groups(made), _MOST_GROUPS, _moved(made, group=True))


def _show_replay(out: Console, document: Document) -> None:
    made = document["decision"]
    out.print(f"Replay. {escape(about_replay(document))}")
    if not any(a["replayed"]["run"] or a["replayed"]["soon"] for a in made["alternatives"] if a["replayed"]):
        out.print("No alternative would have changed anything: all decide alike, or there was nothing to decide.")


def _moved(made: Document, group: bool) -> int:
    """How many inputs, or groups of inputs, change the margin at all."""
    return sum(bool(d["move"]) for d in made["drivers"] if d["group"] == group)


def _show_drivers(out: Console, what: str, table: Table, most: int, moved: int) -> None:
    """The strongest, which come first."""
    shown = min(most, moved)
    if shown:
        print_columns(out, {heading: cells[:shown] for heading, cells in table.columns.items()})
    if len(table.rows) > shown:
        out.print(f"[dim]{len(table.rows) - shown} more {what} have less effect or none; --json has them[/dim]")
