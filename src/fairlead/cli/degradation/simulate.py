"""`fairlead degradation simulate`: the degradation matrices of a scenario's shared devices.

The tables take matrices from anywhere; the simulator's come from `experiments.simulated_degradation`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape

from fairlead.cli.console import console
from fairlead.cli.experiments.run_comparison import check_outputs, compiling, write_outputs
from fairlead.cli.experiments.tables import foot, head, print_columns
from fairlead.cli.standard_streams import note
from fairlead.experiments.simulated_degradation import as_document, simulate_degradation
from fairlead.measure.degradation_matrix import Level, Matrix, by_device, names
from fairlead.measure.report.tables import Columns
from fairlead.scenarios.loader import load

_INFINITE = "inf"


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
        out.print("cells: time of one more workload beside those that run / its time alone; inf: no memory for it\n")
        show_matrices(out, made.matrices)
        if made.by_rho:
            _show_slopes(out, made.by_rho)
        foot(out, document["assumptions"], args.scenario)
    finally:  # files are written even when the reader of the tables is gone (`| head`)
        write_outputs(args, document)
    return 0


def show_matrices(out: Console, matrices: Sequence[Matrix]) -> None:
    """Print each matrix with its curve and its fit."""
    for device, there in by_device(matrices).items():
        for m in there:
            out.print(f"[bold]{escape(m.arriving)}[/bold] arrives on {escape(device)}; alone {m.alone_ms:.4g} ms")
            across = f", across: {m.axes[1]}" if len(m.axes) > 1 else ""
            out.print(escape(f"down: how many {m.axes[0]} run already{across}"))
            print_columns(out, {"": [str(i) for i in range(len(m.cells))]} | _columns(m))
            means = ", ".join(map(_level, m.curve()))
            fit = m.fit()
            points = sum(not level.infinite for level in m.curve())
            sure = f", R² {fit.r2:.3f}" if fit and points > 2 else ""
            line = f"{fit.slope:+z.3f} for each more{sure}" if fit else "none, because too few combinations fit"
            out.print(f"mean by number of running workloads, the newcomer included: {means}\nlinear fit: {line}\n")


def _columns(m: Matrix) -> Columns:
    return {str(r): [_number(row[r]) for row in m.cells] for r in range(len(m.cells[0]))}


def _show_slopes(out: Console, by_rho: Mapping[float, Sequence[Matrix]]) -> None:
    """The slopes under other interference than the scenario's."""
    out.print("slope of the linear fit by rho, for devices whose interference is a rho")
    devices = by_device(next(iter(by_rho.values())))
    columns = {"arrives": [f"{name} on {there[0].device}" for there in devices.values() for name in names(there)]}
    for rho, matrices in by_rho.items():
        columns[f"{rho:g}"] = [f"{fit.slope:z.2f}" if (fit := m.fit()) else "" for m in matrices]
    print_columns(out, columns)


def _level(level: Level) -> str:
    less = f" ({level.infinite} of {level.cells} combinations do not fit)" if level.infinite else ""
    return f"{level.running}: {_number(level.mean)}{less}"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else _INFINITE
