"""What `fairlead compare` and `fairlead sweep` share: check the question, run it with a progress bar, close it.

Other commands take from here how files are checked and written.
Tables go to standard output, the JSON where it is asked for, everything else to standard error.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fairlead.cli.catalog.listing import warn_broken
from fairlead.cli.console import console
from fairlead.cli.options import MOST_SEED
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import FALLBACK_WORDS, Fallback
from fairlead.experiments.compare import Comparison, compare
from fairlead.experiments.ray_workers import check_address, on_ray
from fairlead.experiments.result_file import as_document, as_json
from fairlead.experiments.sweep import Sweep
from fairlead.experiments.trial import AnyScenario
from fairlead.experiments.workers import Workers, local
from fairlead.experiments.world_adapter import WorldAdapter, adapter_of
from fairlead.measure.decision_log_file import check_parquet
from fairlead.measure.numerals import counted
from fairlead.measure.report.plot_files import converter
from fairlead.measure.report.render import write_any_plots, write_any_report
from fairlead.measure.write_files import check_different, check_folder, check_writable, write_whole
from fairlead.policies.compile_cache import compiled_before, why_not_kept


def check_options(args: argparse.Namespace) -> None:
    """Refuse wrong options before anything is loaded."""
    if args.first_seed + args.seeds - 1 > MOST_SEED:
        raise UserError(f"--first-seed {args.first_seed}: expected all seeds below 2^31")
    if args.ray is not None:
        check_address(args.ray)
    if args.checkpoint == "":
        raise UserError("--checkpoint: a name is missing")
    check_log(args)
    check_outputs(args)


def check_log(args: argparse.Namespace) -> None:
    """Refuse decision logs that could not be whole, or not be written."""
    log = getattr(args, "log", None)
    if log is None:
        return
    if log == "":
        raise UserError("--log: a name is missing")
    if args.checkpoint is not None:
        raise UserError("--log can't be used with --checkpoint: finished trials are not run again and leave no log")
    if args.ray is not None:
        raise UserError("--log can't be used with --ray: each machine would keep its own logs")
    check_parquet()


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse files that can't be written, before anything is run."""
    for option in ("json", "report", "plots"):
        if getattr(args, option) == "":
            raise UserError(f"--{option}: a name is missing")
    if args.json and args.json != "-":
        check_writable(Path(args.json))
    if args.report and Path(args.report).suffix not in (".html", ".htm"):
        raise UserError(f"--report {args.report}: its name should end in .html (--plots writes PNG and SVG)")
    if args.report:
        check_writable(Path(args.report))
    if args.plots:
        check_folder(Path(args.plots))
    if args.report or args.plots:
        converter()
    check_different({"--json": args.json, "--report": args.report})


def answer(
    args: argparse.Namespace,
    scenarios: Mapping[str, AnyScenario],
    show: Callable[[Console, dict[str, Any]], None],
    checkpoint: Path | None,
    sweep: Sweep | None = None,
) -> int:
    """Run it, show it, write it; the exit code."""
    check_different({"--json": args.json, "--report": args.report, "--checkpoint": checkpoint})
    adapter = adapter_of(next(iter(scenarios.values())))
    logs = Path(args.log) if getattr(args, "log", None) else None  # only `compare` has that option
    if logs and adapter.name != "serving":
        raise UserError("--log: tasks have no decision log; requests do (see `fairlead scenarios`)")
    if logs:
        check_folder(logs)
    workers = _workers(args, len(scenarios))
    policies = _policies(adapter, args.policies)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    with _progress() as bar:
        progress = ProgressTeller(bar, args, checkpoint)
        result = compare(scenarios, policies, seeds, workers, checkpoint, progress, not args.no_bound, logs)
    document = as_document(result, args.overrides, sweep)
    try:  # the tables before the files: a full disk then costs the files alone
        show(console(stderr=args.json == "-"), document)
    finally:  # files are written even when the reader of the tables is gone (`| head`)
        code = _close(result, checkpoint)
        if logs and result.runs:
            note(f"decision logs written to {logs}")
        write_outputs(args, document)
    return code


def write_outputs(args: argparse.Namespace, document: dict[str, Any]) -> None:
    """Write the files that were asked for."""
    if args.json == "-":
        print(as_json(document), end="")
    elif args.json:
        write_whole(Path(args.json), as_json(document))
        note(f"figures written to {args.json}")
    if args.report:
        write_any_report(document, Path(args.report))
        note(f"report written to {args.report}")
    if args.plots:
        note(f"{len(write_any_plots(document, Path(args.plots)))} plots written to {args.plots}")


def _workers(args: argparse.Namespace, scenarios: int) -> Workers:
    if args.ray is not None:
        return partial(on_ray, address=args.ray)
    return partial(local, jobs=args.jobs or _jobs(scenarios * args.seeds))


def _jobs(trials: int) -> int:
    """One process per core that we may use, but none that would not earn its start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, trials // 8))


def _policies(adapter: WorldAdapter, text: str | None) -> list[str]:
    if text is None:
        warn_broken()
        return list(adapter.rules())
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UserError("--policies: names are missing (see `fairlead policies`)")
    if "rules" in names:
        warn_broken()
    found = (adapter.rules() if name == "rules" else [adapter.find(name, also=["rules"]).name] for name in names)
    return list(dict.fromkeys(policy for policies in found for policy in policies))


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("trials (a scenario and a seed)"),
        TimeRemainingColumn(),
        console=(console := Console(stderr=True)),
        transient=True,
        disable=not console.is_terminal,
    )


class ProgressTeller:
    """Tells the bar how far it is; before that, what was finished before and why the first trial takes long."""

    def __init__(self, bar: Progress, args: argparse.Namespace, checkpoint: Path | None) -> None:
        self._bar, self._checkpoint, self._before = bar, checkpoint, -1
        self._verb = {"compare": "comparing", "sweep": "sweeping"}[args.command]
        self._task = bar.add_task((compiling() if args.ray is None else "") or self._verb, total=None)

    def __call__(self, done: int, total: int) -> None:
        """Called as `compare` calls its `progress`."""
        if self._before < 0:
            self._before = done
            if done:
                note(f"{done} of {total} trials are already finished ({self._checkpoint})")
        elif done > self._before:
            self._bar.update(self._task, description=self._verb)
        self._bar.update(self._task, completed=done, total=total)


def compiling() -> str:
    """Why the first run takes long; empty when it does not."""
    if compiled_before():
        return ""
    when = f"it is not kept: {why_not_kept}" if why_not_kept else "first run"
    return f"compiling the engine ({when}; about a minute)"


def _fallback_line(result: Comparison, name: str) -> str:
    """When a learned policy did not decide everything itself: how often its rule did, and why."""
    decisions, counts = result.fallbacks(name)
    if not counts:
        return ""
    policy, why = result.adapter.find(name), ", ".join(_reason(why, n) for why, n in counts.items())
    why = policy.model_fault.why if policy.model_fault else why
    share, rules = sum(counts.values()) / decisions, " or ".join(result.fallback_rules(name))
    return f"{name} fell back to {rules} in {share:.2%} of its {decisions:,} decisions ({why})"


def _finished(done: int, total: int) -> str:
    """How many trials the tables and files have."""
    if not done:
        return f"none of {counted(total, 'trial')} is finished"
    return f"{done} of {counted(total, 'trial')} {'is' if done == 1 else 'are'} finished and shown"


def _resuming(checkpoint: Path | None) -> str:
    """How to get the rest without running these trials again."""
    if checkpoint:
        return f"; run the same command again to resume from {checkpoint}"
    return "; with --checkpoint FILE they would be kept, and the same command would resume"


def _reason(why: str, n: int) -> str:
    return f"{FALLBACK_WORDS[Fallback(why)]}: {counted(n, 'time')}"


def _by_line(failures: Mapping[str, str]) -> dict[str, list[str]]:
    """Each error once, with the policies that had it."""
    lines: dict[str, list[str]] = {}
    for name, line in sorted(failures.items()):
        lines.setdefault(line, []).append(name)
    return lines


def _close(result: Comparison, checkpoint: Path | None) -> int:
    """Say what is incomplete and where it is kept; the exit code."""
    for line in result.warnings:
        note(f"fairlead: {line}")
    for name in result.policies:
        if line := _fallback_line(result, name):
            note(f"fairlead: {line}")
    rest = "other results are unaffected" if len(result.failures) < len(result.policies) else "no other policy ran"
    for line, names in _by_line(result.failures).items():
        which = "" if names[0] in line else f" ({', '.join(names)})"
        note(f"fairlead: {line}{which}; its runs are marked failed, {rest}")
    if result.interrupted:
        done = sum(len(result.done_seeds(label)) for label in result.scenarios)
        total = len(result.scenarios) * len(result.seeds)
        note(f"fairlead: {result.interrupted}; {_finished(done, total)}{_resuming(checkpoint) if done else ''}")
        return 130 if result.interrupted == "interrupted" else 1
    if checkpoint:
        note(f"all trials are kept in {checkpoint}; the same command reuses them, also with more seeds")
    return 1 if result.failures else 0
