"""`fairlead evaluate`: how far off predictions are of what was left out, as a table or JSON."""

from __future__ import annotations

import argparse
import errno
import json
import os
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from fairlead.cli.console import console
from fairlead.domain.errors import UserError
from fairlead.profile.predict.cross_validation import Errors, family_of, leave_devices_out, leave_models_out, new_on_new
from fairlead.profile.predict.speeds import KernelSpeed
from fairlead.profile.predict.timed_devices import find_device, own_calibrations
from fairlead.profile.predict.timed_models import Measured, calibrated, flops_only, leave_measured_out, measure_model
from fairlead.profile.predict.timing_tables import read_table
from fairlead.profile.zoo.models import find_model

Rows = dict[str, Errors]
_WORDS = {
    "model": "each model, from the other models",
    "family": "each family of models, from the other families",
    "device": "each device, from three probes on it; the model was timed on other devices",
    "both": "each device, from three probes on it; the model was timed nowhere",
}


def run_evaluate(args: argparse.Namespace) -> int:
    """Run the command."""
    tables = [what for what in args.what if what in ("cpu", "gpu")]
    models = [what for what in args.what if what not in tables]
    if models and tables:
        raise UserError("either tables (cpu, gpu) or models, not both")
    rows = _of_models(args, models) if models else _of_tables(args, tables)
    figures = {name: errors.figures() for name, errors in rows.items()}
    if args.json:
        print(json.dumps(figures, indent=1))
        return 0
    table = Table(header_style="bold")
    for heading in (
        "predicted",
        "predictions",
        "MAPE %",
        "median %",
        "within 10 %",
        "Spearman",
        "in the 90 % interval",
    ):
        table.add_column(heading, justify="left" if heading == "predicted" else "right")
    for name, found in figures.items():
        numbers = [f"{found[key]:.1f}" for key in ("mape_percent", "median_percent", "within_10_percent")]
        rank, covered = f"{found['spearman']:.4f}", f"{found['covered_percent']:.1f} %"
        table.add_row(escape(name), f"{found['predictions']:,.0f}", *numbers, rank, covered)
    console().print(table)
    return 0


def _of_tables(args: argparse.Namespace, units: list[str]) -> Rows:
    ways: dict[str, Callable[[str], Errors]] = {
        "model": lambda unit: leave_models_out(read_table(unit)),
        "family": lambda unit: leave_models_out(read_table(unit), family_of),
        "device": lambda unit: leave_devices_out(read_table(unit)),
        "both": lambda unit: new_on_new(read_table(unit)),
    }
    return {
        f"ncnn's {unit.upper()}s: {_WORDS[way]}": ways[way](unit) for unit in units for way in args.leave_out or ways
    }


def _of_models(args: argparse.Namespace, names: list[str]) -> Rows:
    if args.leave_out and {"device", "both"} & set(args.leave_out):
        raise UserError("--leave-out device is for the tables: models are timed on one device, this machine")
    found = [find_model(name) for name in dict.fromkeys(names)]
    for path, _ in found:
        if not path.is_file():
            raise UserError(f"{path}: can't read it: {os.strerror(errno.ENOENT)}")
    if len(found) < 3:
        raise UserError(f"{', '.join(names)}: too few models to leave one out: give three or more")
    bar = Console(stderr=True)
    measured: list[Measured] = [
        measure_model(path, sizes)
        for path, sizes in track(found, "timing", console=bar, transient=True, disable=not bar.is_terminal)
    ]
    rows = {}
    for way in args.leave_out or ("model", "family"):
        rows[f"timed here: each {way}, from the others"] = leave_measured_out(measured, way)
    rows["the same by MACs alone, each family from the others"] = flops_only(measured)
    here = find_device("here") if "here" in own_calibrations() else None
    if here and isinstance(here.speed, KernelSpeed) and here.runtime.endswith("1 thread"):  # as models are timed here
        rows["by the calibration of this machine"] = calibrated(measured, here.speed)
    return rows
