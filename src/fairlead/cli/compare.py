"""`fairlead compare`: checks the question, runs it with a progress bar, shows a table per scenario."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead.cli.catalog import console, warn_broken
from fairlead.cli.tables import show
from fairlead.domain.errors import UserError
from fairlead.experiments.compare import Comparison, compare
from fairlead.experiments.result_file import as_json
from fairlead.measure.files import check_writable, write_whole
from fairlead.policies.interface import find, registry
from fairlead.scenarios.loader import load


def run_compare(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.seeds < 1:
        raise UserError(f"--seeds {args.seeds}: at least 1 is needed (5 or more for a useful interval)")
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs {args.jobs}: at least 1 is needed")
    if args.json and args.json != "-":
        check_writable(Path(args.json))
    scenarios = [load(name, args.overrides) for name in args.scenarios]
    names = [s.name for s in scenarios]
    if len(set(names)) != len(names):
        raise UserError(f"two scenarios are called {max(names, key=names.count)!r}: results go by name")
    policies = _policies(args.policies)
    with _progress() as bar:
        task = bar.add_task("comparing", total=None)
        jobs = args.jobs or _jobs(len(scenarios) * args.seeds)
        result = compare(
            scenarios, policies, range(args.seeds), jobs, lambda done, n: bar.update(task, completed=done, total=n)
        )
    # The tables before the file: a full disk then costs the file alone.
    show(console(stderr=args.json == "-"), result, args.scenarios, args.overrides)
    if args.json == "-":
        print(as_json(result, args.overrides), end="")
    elif args.json:
        write_whole(Path(args.json), as_json(result, args.overrides))
        print(f"figures written to {args.json}", file=sys.stderr)
    return _close(result)


def _jobs(pieces: int) -> int:
    """One process per core that we may use, but none that would not earn its start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, pieces // 8))


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


def _close(result: Comparison) -> int:
    """Say what is not whole, and the exit code for it."""
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
