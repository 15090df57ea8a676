"""`fairlead compare` and `fairlead sweep`: from what the user typed to scenarios by label, and to tables."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from fairlead.cli.experiments.run_comparison import answer, check_options
from fairlead.cli.experiments.sweep_tables import show_sweep
from fairlead.cli.experiments.tables import show_comparison
from fairlead.domain.errors import UserError
from fairlead.experiments.sweep import points, read_sweep
from fairlead.experiments.world_adapter import adapter_of
from fairlead.scenarios.loader import load_any

_WORLDS = {"serving": "requests", "tasks": "tasks"}  # what arrives in a world of that name


def run_compare(args: argparse.Namespace) -> int:
    """Run `fairlead compare`."""
    check_options(args)
    scenarios = [load_any(name, args.overrides) for name in args.scenarios]
    names = [s.name for s in scenarios]
    if len(set(names)) != len(names):
        twice = max(names, key=names.count)
        raise UserError(f"two scenarios are called {twice!r}: results are kept by name, so give one of them another")
    worlds = {_WORLDS[adapter_of(s).name]: s.name for s in scenarios}
    if len(worlds) > 1:
        said = " and ".join(f"{name} is a scenario of {world}" for world, name in worlds.items())
        raise UserError(f"{said}: compare the two separately")
    return answer(
        args,
        dict(zip(names, scenarios, strict=True)),
        lambda out, document: show_comparison(out, document, args.scenarios),
        _checkpoint(args.checkpoint),
    )


def run_sweep(args: argparse.Namespace) -> int:
    """Run `fairlead sweep`."""
    check_options(args)
    sweep = read_sweep(args.param, args.values)
    scenarios = points(sweep, args.scenario, args.overrides)
    name = re.sub(r"[^\w.-]", "-", f"fairlead-sweep-{next(iter(scenarios.values())).name}-{args.param}.jsonl")
    return answer(
        args,
        scenarios,
        lambda out, document: show_sweep(out, document, args.scenario),
        _checkpoint(args.checkpoint or name),
        sweep,
    )


def _checkpoint(file: str | None) -> Path | None:
    return None if file in (None, "none") else Path(str(file))
