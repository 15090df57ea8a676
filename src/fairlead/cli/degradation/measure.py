"""`fairlead degradation measure`: how models slow each other down on this machine."""

from __future__ import annotations

import argparse
import math
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead import __version__
from fairlead.cli.console import console
from fairlead.cli.degradation.simulate import show_matrices
from fairlead.cli.experiments.run_comparison import check_outputs, write_outputs
from fairlead.cli.options import MOST_SIZE, as_whole_number
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError, nearest
from fairlead.experiments.result_file import plain, versions
from fairlead.measure.degradation_matrix import Matrix, names
from fairlead.measure.numerals import counted
from fairlead.measure.write_files import check_different, check_writable, write_whole
from fairlead.profile.degradation.measured_scenario import scenario_text
from fairlead.profile.degradation.measurement import Measured, measure
from fairlead.profile.degradation.process_pool import RunnableModel
from fairlead.profile.onnx_file import analyse
from fairlead.profile.zoo.models import find_model, zoo


def run_measure(args: argparse.Namespace) -> int:
    """Run the command."""
    _check(args)
    models = _runnable(args.models, args.size)
    with _progress() as bar:
        task = bar.add_task("measuring", total=None)
        found = measure(
            models, args.max, args.repeats, args.threads, args.memory_mb or math.inf, args.wait,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    lanes = max(1.0, found.machine.cores / args.threads)  # workloads that need not wait for each other
    try:
        _show(console(stderr=args.json == "-"), found, lanes)
    finally:  # files are written even when the reader of the tables is gone (`| head`)
        write_outputs(args, _document(args, models, found, lanes))
        if args.scenario:
            write_whole(Path(args.scenario), scenario_text(found, _accuracy(models)))
            note(f"scenario written to {args.scenario}")
    if found.interrupted:
        note(f"fairlead: interrupted; combinations of up to {found.most} of each model are complete and shown")
        return 130
    return 0


def _check(args: argparse.Namespace) -> None:
    check_outputs(args)
    if args.memory_mb is not None and not args.memory_mb > 0:
        raise UserError(f"--memory-mb {args.memory_mb:g}: expected a number above 0")
    if not args.wait >= 0:
        raise UserError(f"--wait {args.wait:g}: expected seconds, 0 or more")
    if args.scenario is not None:
        if Path(args.scenario).suffix not in (".yaml", ".yml"):
            raise UserError(f"--scenario {args.scenario}: its name should end in .yaml")
        if len(args.models) > 2:
            raise UserError("--scenario takes one or two models, because the matrix of a device has two axes")
        check_writable(Path(args.scenario))
        check_different({"--json": args.json, "--report": args.report, "--scenario": args.scenario})


def _runnable(models: list[str], options: list[str]) -> list[RunnableModel]:
    """The models with their sizes, under names that differ."""
    if len(set(models)) < len(models):
        raise UserError(
            f"{max(models, key=models.count)}: given twice; give one model alone to measure it beside itself"
        )
    sizes = _sizes(models, options)
    short = [model if model in zoo() else Path(model).stem for model in models]
    labels = short if len(set(short)) == len(short) else models
    found = []
    for model, label in zip(models, labels, strict=True):
        path, usual = find_model(model)
        found.append(RunnableModel(label, path, analyse(path, usual | sizes[model]).inputs))
    return found


def _sizes(models: list[str], options: list[str]) -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = {model: {} for model in models}
    for option in options:
        name, _, text = option.rpartition("=")
        model, _, name = name.rpartition(":")
        size = as_whole_number(text, 1, MOST_SIZE)
        if not name or size is None:
            raise UserError(f"--size {option}: expected [MODEL:]NAME=N, as in height=224")
        if not model and len(models) > 1:
            raise UserError(f"--size {option}: several models are given, so name one, as in {models[0]}:{name}={text}")
        if model and model not in models:
            raise UserError(f"--size {option}: {model!r} is not one of the models{nearest(model, models)}")
        sizes[model or models[0]][name] = size
    return sizes


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("combinations"),
        TimeRemainingColumn(),
        console=(console := Console(stderr=True)), transient=True, disable=not console.is_terminal,
    )  # fmt: skip


def _show(out: Console, found: Measured, lanes: float) -> None:
    machine = found.machine
    cores = counted(machine.cores, "core")
    out.print(f"[bold]{escape(machine.processor)}[/bold], {cores}; each workload is its own process")
    show_matrices(out, found.matrices)
    for name, matrix in zip(names(found.matrices), found.matrices, strict=True):
        out.print(f"{escape(name)}: {_regime(matrix, lanes)}")
    out.print(_repeats(found))
    for name, memory in zip(dict.fromkeys(m.arriving for m in found.matrices), found.memory, strict=True):
        parts = f"{memory.model_mb:.0f} for the model, {memory.run_mb:.0f} for its runs"
        out.print(f"{escape(name)}: a process takes {memory.process_mb:.0f} MB ({parts})")
    out.print(f"{found.room_mb:,.0f} MB of memory may be used in all")


def _regime(matrix: Matrix, lanes: float) -> str:
    regime = matrix.beyond(lanes)
    if regime is None:
        return f"too few points with {lanes:g} or more workloads for a fit beyond the cores (a larger --max adds some)"
    return (
        f"from {lanes:g} workloads on, each more adds {regime.line.slope:+z.3f} (R² {regime.line.r2:.3f}); the "
        f"slow-down begins at {regime.knee:.1f}; max(1, running / {lanes:g}) is right within {regime.off:.0%}"
    )


def _repeats(found: Measured) -> str:
    spreads = sorted(s for table in found.spreads for row in table for s in row if math.isfinite(s))
    if not spreads:
        agree = "cells were measured once"
    else:
        middle, high = spreads[len(spreads) // 2], spreads[-1]
        agree = f"repeated cells agree within {high:.0%}, half of them within {middle:.1%}"
    anew = (
        f"; {counted(found.again, 'time')} a combination was measured again (disturbed, or repeats differed)"
        if found.again
        else ""
    )
    left = f"; {found.disturbed} figures stayed disturbed: measure on a quieter machine" if found.disturbed else ""
    return agree + anew + left


def _accuracy(models: list[RunnableModel]) -> dict[str, float]:
    known = {name: model.accuracy for name, model in zoo().items()}
    return {one.name: value for one in models if (value := known.get(one.name)) is not None}


def _document(args: argparse.Namespace, models: list[RunnableModel], found: Measured, lanes: float) -> dict[str, Any]:
    """As `fairlead degradation simulate` writes it, with what is known of the machine and the repeats."""
    listed = [one.name for one in models]
    document = {
        "kind": "degradation",
        "fairlead": __version__,
        "versions": versions() | {"onnxruntime": metadata.version("onnxruntime")},
        "settings": {
            "models": listed, "max": found.most, "repeats": args.repeats, "threads": args.threads,
            "memory_mb": args.memory_mb, "size": args.size,
        },
        "title": f"{', '.join(listed)}; {counted(found.machine.cores, 'core')}",
        "measured": "on the machine, each workload in its own process",
        "complete": not found.interrupted,
        "machine": vars(found.machine) | {"room_mb": found.room_mb},
        "memory": {name: vars(memory) for name, memory in zip(listed, found.memory, strict=True)},
        "again": found.again,
        "disturbed": found.disturbed,
        "matrices": [_matrix(m, s, lanes) for m, s in zip(found.matrices, found.spreads, strict=True)],
    }  # fmt: skip
    return dict(plain(document))


def _matrix(matrix: Matrix, spread: Any, lanes: float) -> dict[str, Any]:
    regime = matrix.beyond(lanes)
    beyond = vars(regime) | {"line": vars(regime.line)} if regime else None
    return matrix.as_dict() | {"spread": spread, "beyond": beyond}
