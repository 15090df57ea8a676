"""`fairlead calibrate`: the rates of this machine, or of a device of which three models were timed."""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from fairlead.cli.standard_streams import note, say
from fairlead.domain.errors import UserError, how_to_install
from fairlead.measure.write_files import check_folder, check_writable, write_whole
from fairlead.profile.predict.calibration import Calibration, calibrate_from, calibrate_here
from fairlead.profile.predict.new_device import PROBES, Newcomers
from fairlead.profile.predict.timed_devices import calibrations_folder, shipped_devices
from fairlead.profile.predict.timing_tables import read_table


def run_calibrate(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.probes:
        print(" ".join(Newcomers(read_table(args.unit)).probes()))
        return 0
    output = _output(args)
    about = _about(args)
    if args.timed:
        if args.train:
            raise UserError("--train times this machine and can't be used with --from")
        made = calibrate_from(args.name, _timed(args.timed), args.unit, **about)
    else:
        if args.train and find_spec("torch") is None:
            raise UserError(f"--train needs torch: {how_to_install('train')}")
        made = _here(args, about)
    write_whole(output, made.as_json())
    say(f"{made.title}: {len(made.timed_ms)} models timed, {made.runtime}; saved in {output}")
    say(f"use it: fairlead predict MODEL.onnx --device {args.output or args.name}")
    return 0


def _output(args: argparse.Namespace) -> Path:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", args.name):
        raise UserError(f"--name {args.name}: expected small letters, digits, '-' and '.', as in my-board")
    if not args.output and args.name in shipped_devices():
        raise UserError(f"--name {args.name}: a shipped device has this name; choose another, or --output FILE.json")
    if args.output:
        if not args.output.endswith(".json"):
            raise UserError(f"--output {args.output}: its name should end in .json")
        check_writable(Path(args.output))
        return Path(args.output)
    folder = calibrations_folder()
    if folder is None:
        raise UserError("there is no home folder to keep the calibration in: give --output FILE.json")
    check_folder(folder)
    return folder / f"{args.name}.json"


def _about(args: argparse.Namespace) -> dict[str, Any]:
    """What the user knows of the device."""
    for option in ("busy_w", "memory_mb"):
        value = getattr(args, option)
        if value is not None and not 0 < value < 1e9:
            raise UserError(f"--{option.replace('_', '-')} {value:g}: expected a number above 0")
    known = {"power_busy_w": args.busy_w, "memory_mb": args.memory_mb}
    return {name: value for name, value in known.items() if value is not None}


def _timed(options: list[str]) -> dict[str, float]:
    timed = {}
    for option in options:
        model, equals, text = option.partition("=")
        try:
            ms = float(text)
        except ValueError:
            ms = -1.0
        if not (equals and 0 < ms < 1e7):
            raise UserError(f"--from {option}: expected MODEL=MS, as in resnet50_int8=180")
        timed[model] = ms
    if len(timed) < PROBES:
        raise UserError(f"--from: {PROBES} models or more are needed, got {len(timed)} (--probes names the best)")
    return timed


def _here(args: argparse.Namespace, about: dict[str, Any]) -> Calibration:
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("probe models")
    began = time.perf_counter()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("timing", total=None)

        def tell(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=what)

        made = calibrate_here(args.name, args.threads, tell, **about)
        if args.train:
            from fairlead.learn.timed_training_steps import time_steps

            made = replace(made, training=time_steps(args.threads, tell))
    note(f"calibrated in {time.perf_counter() - began:.0f} s")
    return made
