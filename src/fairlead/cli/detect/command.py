"""`fairlead detect`: the accelerators of this host, as a table, JSON, labels or a feature file; once, or watching."""

from __future__ import annotations

import argparse
import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead.cli.standard_streams import note, say
from fairlead.detect.catalog import read_catalog
from fairlead.detect.detector import Detection, detect, measure
from fairlead.detect.host_tree import HostTree
from fairlead.detect.labels import feature_file, labels
from fairlead.detect.nvml import load_nvml
from fairlead.detect.watch import Periods, Watch
from fairlead.domain.errors import UserError
from fairlead.measure.interrupts import on_stop
from fairlead.measure.write_files import check_writable, write_whole


def run_detect(args: argparse.Namespace) -> int:
    """Run the command."""
    root = Path(args.root)
    if not root.is_dir():
        raise UserError(f"--root {args.root}: no such folder")
    if args.output:
        if args.form == "table":
            raise UserError("--output takes --json, --labels or --nfd, not a table")
        check_writable(Path(args.output))
    periods = Periods(*(_positive(args, name) for name in ("static_every", "dynamic_every", "keep")))
    tree, catalog = HostTree(root), read_catalog(*map(Path, args.catalog))
    nvml = load_nvml() if root.resolve() == Path("/") else None  # it knows of this machine alone
    watch = Watch(lambda: detect(tree, catalog, nvml), lambda found: measure(found, tree, catalog, nvml), periods)
    words = watch.look(time.monotonic())
    if args.watch:
        return _watch(watch, words or ["no accelerator so far"], args)
    found = watch.known
    if args.form == "table":
        _table(found)
    else:
        _give(_text(found, args.form, None), args.output)
        if args.form != "json" and not found.accelerators:
            note("fairlead: no accelerator of the catalog found, so there is no label for one")
    for path, why in found.problems.items():
        note(f"fairlead: {path}: {why}: hardware behind it is unknown, not absent")
    return 0


def _positive(args: argparse.Namespace, name: str) -> float:
    value: float = getattr(args, name)
    if not 0 < value < 1e9:
        raise UserError(f"--{name.replace('_', '-')} {value:g}: expected seconds, more than 0")
    return value


def _watch(watch: Watch, words: list[str], args: argparse.Namespace) -> int:
    """Report changes until a signal ends it. There is no other end, so that is exit code 0."""
    end = threading.Event()
    said: dict[str, str] = {}
    with on_stop(lambda *_: end.set()):
        while True:
            _tell(watch, words, args)
            for path, why in watch.known.problems.items():
                if said.get(path) != why:  # once
                    note(f"fairlead: {path}: {why}")
            said = dict(watch.known.problems)
            if end.wait(max(0.0, watch.due() - time.monotonic())):
                return 0
            words = watch.look(time.monotonic())


def _tell(watch: Watch, words: list[str], args: argparse.Namespace) -> None:
    """Print changes as lines, other forms whole. Label files are written seldom, because memory cards wear out."""
    if args.form == "table":
        for line in words:
            say(f"{_now()} {line}", flush=True)
    elif args.form == "json" and not args.output:
        print(json.dumps(_document(watch.known, watch.missing)), flush=True)
    elif words or (args.output and (watch.fresh or args.form == "json")):
        _give(_text(watch.known, args.form, watch.periods.keep_s, watch.missing), args.output)


def _text(found: Detection, form: str, keep_s: float | None, missing: list[str] | None = None) -> str:
    if form == "json":
        return json.dumps(_document(found, missing or []), indent=1) + "\n"
    made = labels(found)
    return feature_file(made, keep_s) if form == "nfd" else "".join(f"{k}={v}\n" for k, v in made.items())


def _give(text: str, output: str | None) -> None:
    if output:
        write_whole(Path(output), text)
    else:
        print(text, end="", flush=True)


def _document(found: Detection, missing: list[str]) -> dict[str, Any]:
    accelerators = [
        {
            "id": one.id, "device": one.device, "title": one.title, "vendor": one.vendor,
            "category": one.category, "matched": one.matched, "path": one.path, "present": one.id not in missing,
            "facts": dict(one.facts), "figures": dict(one.figures),
        }
        for one in found.accelerators
    ]  # fmt: skip
    host = {"facts": dict(found.host), "figures": dict(found.load)}
    return {"time": _now(), "host": host, "accelerators": accelerators, "problems": dict(found.problems)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _table(found: Detection) -> None:
    from rich.markup import escape  # here, since watching goes without
    from rich.table import Table

    from fairlead.cli.console import console

    out = console()
    out.print(escape(", ".join(f"{k} {v}" for k, v in found.host.items()) or "this host does not name its model"))
    if not found.accelerators:
        out.print("no accelerator of the catalog found")
        return
    table = Table(header_style="bold")
    for heading in ("device", "category", "where", "known by", "facts", "now"):
        table.add_column(heading, overflow="fold")
    for one in found.accelerators:
        known = one.title, one.category, one.id.partition("@")[2], one.matched
        table.add_row(*map(escape, (*known, _pairs(one.facts), _pairs(one.figures))))
    out.print(table)


def _pairs(values: Any) -> str:
    return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items())
