"""`fairlead degradation simulate`: the degradation matrices of a scenario's shared devices.

The tables take matrices from anywhere; the simulator's come from `experiments.simulated_degradation`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from fairlead.cli.console import console
from fairlead.cli.experiments.run_comparison import check_outputs, compiling, write_outputs
from fairlead.cli.experiments.tables import foot, head, print_columns
from fairlead.cli.standard_streams import note
from fairlead.experiments.simulated_degradation import as_document, simulate_degradation
from fairlead.measure.degradation_matrix import Level, Matrix, by_device, names
from fairlead.measure.report.degradation_document import Measured, devices
from fairlead.measure.report.degradation_tables import ABOUT_CELLS, factor, matrix_table, slopes_table
from fairlead.scenarios.loader import load


def run_simulate(args: argparse.Namespace) -> int:
    """Run the command."""
    check_outputs(args)
    scenario = load(args.scenario, args.overrides)
    if words := compiling():
        note(words)
    made = simulate_degradation(scenario, args.max)
    out, document = console(stderr=args.json == "-"), as_document(made, args.overrides)
    try:
        head(out, scenario.name, scenario.title, overrides=args.overrides)
        show_matrices(out, made.matrices)
        _show_slopes(out, devices(document))
        foot(out, document["assumptions"], args.scenario)
    finally:  # files are written even when the reader of the tables is gone (`| head`)
        write_outputs(args, document)
    return 0


def show_matrices(out: Console, matrices: Sequence[Matrix]) -> None:
    """Print each matrix with its curve and its fit."""
    out.print(f"{ABOUT_CELLS}\n")
    for device, there in by_device(matrices).items():
        for name, m in zip(names(there), there, strict=True):
            table = matrix_table(m, name)
            out.print(f"[bold]{escape(device)}[/bold]: {escape(table.title)}")
            print_columns(out, table.columns)
            fit = m.fit()
            points = sum(not level.infinite for level in m.curve())
            sure = f", R² {fit.r2:.3f}" if fit and points > 2 else ""
            line = f"{fit.slope:+z.3f} for each more{sure}" if fit else "none, because too few combinations fit"
            means = ", ".join(map(_level, m.curve()))
            out.print(f"mean by number of running workloads, the newcomer included: {means}\nlinear fit: {line}\n")


def _show_slopes(out: Console, found: Sequence[Measured]) -> None:
    """The slopes under other interference than the scenario's; nothing where no device's interference is a rho."""
    slopes = {f"{name} on {one.label}": series for one in found for name, series in one.slopes.items()}
    if slopes:
        table = slopes_table(slopes)
        out.print(table.title)
        print_columns(out, table.columns)


def _level(level: Level) -> str:
    less = f" ({level.infinite} of {level.cells} combinations do not fit)" if level.infinite else ""
    return f"{level.running}: {factor(level.mean)}{less}"
