"""`fairlead scenarios`, `fairlead policies`, `fairlead show`: what there is."""

from __future__ import annotations

import argparse
import math
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairlead.cli.catalog.random_listing import show_random_edges
from fairlead.cli.catalog.task_listing import powers, show_task_scenario
from fairlead.cli.console import columns_table, console
from fairlead.cli.standard_streams import note
from fairlead.domain.errors import UserError
from fairlead.domain.hardware import Node
from fairlead.domain.models import Deployment, Latency, Variant
from fairlead.domain.scenario import Scenario, sources_of
from fairlead.domain.tasks import TaskScenario
from fairlead.domain.workload import Draw, Source, Workload
from fairlead.experiments.scenario_hints import hints
from fairlead.measure.numerals import counted
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.interface import registry
from fairlead.policies.tasks.learned import learned_task_policies
from fairlead.scenarios.loader import available, available_tasks, load, load_any, load_tasks
from fairlead.sim.tasks.policy_catalog import task_registry

_ROUNDING = 1e-9  # a sum of shares may be rounded


def warn_broken() -> None:
    """One line on standard error for each third-party policy that did not load."""
    for line in (*registry()[1].values(), *task_registry()[1].values()):
        note(f"fairlead: {line}")


def run_scenarios(args: argparse.Namespace) -> int:
    """List the scenarios that ship, or random edges."""
    if args.random is not None:
        show_random_edges(args.first or 0, args.random)
        return 0
    if args.first is not None:
        raise UserError("--first needs --random, as in: fairlead scenarios --random 10 --first 100")
    table = columns_table("scenario", "what it is", "nodes", "arrivals / min", "seconds", "dispatch")
    for name in available():
        s = load(name)
        w = s.workload
        table.add_row(name, s.title, str(len(s.nodes)), f"{w.rate_per_min:g}", f"{w.duration_s:g}", s.rules.dispatch)
    console().print(table)
    tasks = columns_table(
        "scenario of tasks", "what it is", "clusters", "tasks", "arrivals / step", "seconds / step", "mode"
    )
    for name in available_tasks():
        t = load_tasks(name)
        rate, step = f"{t.workload.rate_per_step:g}", f"{t.rules.interval_s:g}"
        tasks.add_row(name, t.title, str(len(t.clusters)), str(t.workload.tasks), rate, step, t.rules.mode)
    console().print(tasks)
    return 0


def run_policies(args: argparse.Namespace) -> int:
    """List the policies, third parties' included."""
    table = columns_table("policy", "what it does", "source", "kind", "package")
    learned = columns_table("learned policy", "what it does", "kind", "picks from", "trained on", "fallback")
    for p in registry()[0].values():
        if p.bundle is None:
            table.add_row(p.name, p.summary, p.source, p.kind, p.package)
        else:
            learned.add_row(p.name, p.summary, p.kind, *_training(p.bundle), p.fallback_name)
    console().print(table)
    if learned.row_count:
        console().print(learned)
    tasks = columns_table("task policy", "what it does", "source", "kind", "privileges", "package")
    for t in task_registry()[0].values():
        tasks.add_row(t.name, t.summary, t.source, t.kind, powers(t), t.package)
    console().print(tasks)
    agents = columns_table("learned task policy", "what it does", "trained on")
    for a in learned_task_policies().values():
        agents.add_row(a.name, a.summary, a.bundle.trained_on)
    console().print(agents)
    warn_broken()
    return 0


def _training(bundle: Bundle) -> tuple[str, str]:
    """What it picks from and what it was trained on."""
    about = bundle.manifest
    if isinstance(about, Fault):
        return "", ""
    picks = ", ".join(about.actions) or f"up to {about.slots} candidates"
    return picks, ", ".join(about.scenarios)


def run_show(args: argparse.Namespace) -> int:
    """Show a scenario, where its numbers come from, and its assumptions."""
    name, overrides = args.scenario, args.overrides
    s = load_any(name, overrides)
    out = console()
    if isinstance(s, TaskScenario):
        show_task_scenario(out, s)
    else:
        _show_serving(out, s)
        for line in hints(s):
            note(f"fairlead: {line}")
    sources = columns_table("source", "its numbers are those of")
    for source, paths in sources_of(s).items():
        sources.add_row(source, ", ".join(paths))
    if sources.row_count:
        out.print(sources)
        out.print()
    assumed = s.assumptions()
    if assumed:
        out.print(f"[bold]{counted(len(assumed), 'assumption')}[/bold], numbers that have no public source:")
    else:
        out.print("[bold]no assumptions[/bold]: every number has a source")
    for path, words in assumed:
        out.print(f"  {escape(path)}: {escape(words)}", soft_wrap=True)
    return 0


def _show_serving(out: Console, s: Scenario) -> None:
    out.print(f"[bold]{escape(s.name)}[/bold]: {escape(s.title)}\n")
    rules, sites = s.rules, escape(", ".join(s.workload.sites))
    out.print(f"[bold]workload[/bold]: {s.workload_in_words()}, at {sites}\n")
    for table in (_devices(s), _nodes(s), _variants(s), _sources(s), _links(s)):
        out.print(table)
        out.print()
    out.print(
        f"[bold]rules[/bold]: dispatch per {rules.dispatch}; admits by {', '.join(rules.admit) or 'capacity only'}; "
        f"second inference {f'from the {rules.offload_from}' if rules.second_inference else 'off'}; "
        f"window {rules.window_ms:g} ms\n"
    )


def _devices(s: Scenario) -> Table:
    table = columns_table("device", "TOPS", "MB", "W idle-busy", "price / h busy", "interference when shared")
    for d in s.devices.values():
        power = f"{d.power_idle_w:g}-{d.power_busy_w:g}"
        how = d.degradation
        form = "" if how is None else f"rho {how.rho:g}" if how.rho is not None else "curve" if how.curve else "matrix"
        table.add_row(d.name, f"{d.compute_tops:g}", f"{d.memory_mb:g}", power, f"{d.price_per_h:g}", form)
    return table


def _deployed(d: Deployment, v: Variant, node: Node) -> str:
    parts = [f"{d.share:g}", f"{d.servers}"] if node.serving == "queue" else []
    parts += [f"at most {d.queue_limit} in flight"] if d.queue_limit is not None else []
    parts += [f"batches of {d.batching.max} within {d.batching.wait_ms:g} ms"] if d.batching else []
    return f"{v.name} ({', '.join(parts)})" if parts else v.name


def _nodes(s: Scenario) -> Table:
    table = columns_table("node", "devices", "serving", "cluster", "region", "variants (share, servers)")
    placements = s.placements()
    for node in s.nodes.values():
        here = ", ".join(_deployed(d, v, n) for d, v, n in placements if n is node)
        devices, region = f"{node.count} x {node.device}", ", ".join(filter(None, (node.region, *node.certificates)))
        table.add_row(node.name, devices, node.serving, node.cluster, region, here)
    return table


def _variants(s: Scenario) -> Table:
    table = columns_table("model", "variant", "accuracy", "MB (per request)", "alone on a device, ms")
    for name, (model, v) in s.variants().items():
        deviation = f" sd {v.accuracy_sd:g}" if v.accuracy_sd else ""
        times = ", ".join(f"{device} {_latency(t)}" for device, t in v.latency.items())
        memory = f"{v.memory_mb:g}{f' ({v.run_mb:g})' if v.run_mb else ''}"
        table.add_row(model.name, name, f"{v.accuracy:g}{deviation}", memory, times)
    return table


def _latency(t: Latency) -> str:
    per_kb = f" + {t.per_kb_ms:g}/kB" if t.per_kb_ms else ""
    return f"{t.base_ms:g}{per_kb}{' (assumed)' if t.assumed is True else ''}"


def _sources(s: Scenario) -> Table:
    columns = "source,model,tenant,SLA,share,arrivals,length s,rate qps,deadline ms,accuracy >=,kB,work"
    table = columns_table(*columns.split(","))
    for source in s.workload.sources.values():
        process = " ".join([source.arrivals.process, *(f"x{p.rate:g} from {p.at_s:g} s" for p in source.phases)])
        table.add_row(
            source.name, source.model, source.tenant, source.sla, _share(s.workload, source), process,
            "-" if source.length_s is None else _draw(source.length_s), _draw(source.rate_qps),
            _draw(source.deadline_ms), _draw(source.min_accuracy), _draw(source.size_kb), _draw(source.work),
        )  # fmt: skip
    return table


def _share(workload: Workload, source: Source) -> str:
    """The share as the file has it, and of the rate where the shares do not add up to 1."""
    drawn = [one.share for one in workload.sources.values() if one.arrivals.process != "trace"]
    total = math.fsum(drawn)
    if source.arrivals.process == "trace" or abs(total - 1) < _ROUNDING:
        return f"{source.share:g}"
    return f"{source.share:g} ({100 * source.share / total:.3g} % of the rate)"


def _links(s: Scenario) -> Table:
    table = columns_table("at s", "from", "to", "delay ms", "sd ms", "Mbit/s", "up")
    for link in s.links:
        rate = "" if link.bandwidth_mbps is None else f"{link.bandwidth_mbps:g}"
        table.add_row("0", link.from_, link.to, f"{link.delay_ms:g}", f"{link.delay_sd_ms:g}", rate, "yes")
    for change in s.link_changes:
        cells = ("" if v is None else f"{v:g}" for v in (change.delay_ms, change.delay_sd_ms, change.bandwidth_mbps))
        up = "" if change.up is None else ("yes" if change.up else "no")
        table.add_row(f"{change.at_s:g}", change.from_, change.to, *cells, up)
    return table


def _draw(number: Any) -> str:
    if not isinstance(number, Draw):
        return f"{number:g}"
    if number.uniform is not None:
        return f"{number.uniform[0]:g}..{number.uniform[1]:g}"
    if number.exponential is not None:
        return f"exp {number.exponential:g}"
    if number.lognormal is not None:
        return f"{number.lognormal[0]:g} (cv {number.lognormal[1]:g})"
    return " | ".join(f"{v:g}" for v in number.choice or (number.constant or 0.0,))
