"""`fairlead predict`: what a model takes on devices, as a table or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from fairlead.cli.console import console
from fairlead.cli.models.profile import given_sizes
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError, nearest
from fairlead.measure.numerals import counted, duration
from fairlead.profile.analysis import Analysis
from fairlead.profile.onnx_file import analyse
from fairlead.profile.predict.prediction import PRECISIONS, Prediction, predict
from fairlead.profile.predict.timed_devices import TimedDevice, all_devices, find_device
from fairlead.profile.predict.training_time import Job, TrainingPrediction, predict_training
from fairlead.profile.zoo.models import find_model

_MANY = 8  # devices whose assumptions are more than a reader wants


def run_predict(args: argparse.Namespace) -> int:
    """Run the command."""
    job = _job(args)
    if args.precision is not None and args.precision not in PRECISIONS:
        raise UserError(f"--precision {args.precision}: unknown{nearest(args.precision, PRECISIONS)}")
    batch = 1 if job or args.batch is None else args.batch  # what training does with a batch is scaled
    if batch < 1:
        raise UserError(f"--batch {batch}: expected a whole number from 1 on")
    devices = _every() if args.all else [find_device(name) for name in dict.fromkeys(args.device)]
    path, sizes = find_model(args.model)
    analysis = replace(analyse(path, sizes | given_sizes(args.size), batch), name=Path(args.model).stem)
    if args.batch and not job:
        _check_batch(analysis, args.batch)
    if job:
        return _train(args, [predict_training(analysis, one, job) for one in devices], analysis.name)
    found = [predict(analysis, device, args.precision) for device in devices]
    if args.all:
        found.sort(key=lambda one: (not one.feasible, one.time.ms if one.time else float("inf")))
    if args.feasible:
        found = [one for one in found if one.feasible]
    if args.json:
        print(json.dumps([_document(one) for one in found], indent=1))
    else:
        _show(analysis.name, batch, found)
    return 0


def _every() -> list[TimedDevice]:
    """All devices; calibrations that can't be read are reported and left out."""
    found = []
    for one in all_devices():
        if isinstance(one, UserError):
            note(f"fairlead: left out: {one}")
        else:
            found.append(one)
    return found


def _check_batch(analysis: Analysis, batch: int) -> None:
    first = next((one for one in analysis.inputs if one.shape), None)
    if first and first.shape[0] != batch:
        way = f"--size {first.name}.0={batch} changes it, where the rest of the graph allows that"
        raise UserError(f"--batch {batch}: the file fixes it at {first.shape[0]}; {way}")


def _job(args: argparse.Namespace) -> Job | None:
    if not args.train:
        for option in ("samples", "epochs"):
            if getattr(args, option) is not None:
                raise UserError(f"--{option} needs --train")
        return None
    if args.precision is not None or args.feasible:
        raise UserError("--precision and --feasible are for single runs and can't be used with --train")
    if args.samples is None:
        raise UserError("--train needs --samples N: how many samples an epoch has")
    batch, epochs = (given if given is not None else usual for given, usual in ((args.batch, 32), (args.epochs, 1)))
    return Job(batch, args.samples, epochs)


def _document(one: Prediction) -> dict[str, Any]:
    time = one.time
    return {
        "device": one.device.name, "title": one.device.title, "runtime": one.device.runtime,
        "precision": one.precision, "feasible": one.feasible, "against": list(one.against), "notes": list(one.notes),
        "latency_ms": time.ms if time else None, "low_ms": time.low_ms if time else None,
        "high_ms": time.high_ms if time else None, "energy_mj": one.energy_mj, "memory_mb": one.memory_mb,
        "source": one.device.source, "assumed": list(one.device.assumed),
    }  # fmt: skip


def _show(name: str, batch: int, found: Sequence[Prediction]) -> None:
    out = console()
    out.print(f"[bold]{escape(name)}[/bold], batch {batch}; nine of ten true times are expected between low and high")
    table = Table(header_style="bold")
    for heading in ("device", "runtime", "precision", "ms", "low", "high", "mJ", "MB", "remarks"):
        table.add_column(heading, justify="right" if heading in ("ms", "low", "high", "mJ", "MB") else "left")
    for one in found:
        time = one.time
        times = [number(value) for value in (time.ms, time.low_ms, time.high_ms)] if time else ["", "", ""]
        energy = number(one.energy_mj) if one.energy_mj is not None else ""
        words = "; ".join((*(f"can't run there: {why}" for why in one.against), *one.notes))
        row = [one.device.name, one.device.runtime, one.precision, *times, energy, f"{one.memory_mb:,.0f}", words]
        table.add_row(*map(escape, row), style=None if one.feasible else "dim")
    out.print(table)
    assumed = {f"{one.device.name}: {', '.join(one.device.assumed)}" for one in found if one.device.assumed}
    if assumed:
        many = f"figures of {counted(len(assumed), 'device')}; --json names them"
        out.print(f"assumed: {many if len(assumed) > _MANY else escape('; '.join(sorted(assumed)))}")


def number(value: float) -> str:
    """Three digits, or all of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _train(args: argparse.Namespace, found: Sequence[TrainingPrediction], name: str) -> int:
    if args.json:
        print(json.dumps([one.as_dict() for one in found], indent=1))
        return 0
    out = console()
    job = found[0].job
    out.print(
        f"[bold]{escape(name)}[/bold], training on {counted(job.samples, 'sample')}, "
        f"{counted(job.epochs, 'epoch')}, batch {job.batch}: {counted(job.steps, 'step')}"
    )
    table = Table(header_style="bold")
    for heading in ("device", "runtime", "ms a step", "low", "high", "whole job", "MB", "can't train there"):
        table.add_column(heading, justify="left" if heading in ("device", "runtime", "can't train there") else "right")
    for one in found:
        step = one.step
        times = [number(value) for value in (step.ms, step.low_ms, step.high_ms)] if step else ["", "", ""]
        whole = duration(step.ms * job.steps / 1e3) if step else ""
        row = [one.device.name, one.runtime, *times, whole, f"{one.memory_mb:,.0f}", "; ".join(one.against)]
        table.add_row(*map(escape, row), style="dim" if one.against else None)
    out.print(table)
    return 0
