"""`fairlead scenarios --random`: random edges and what characterises each of them."""

from __future__ import annotations

from collections import Counter

from rich.table import Table

from fairlead.cli.console import columns_table, console
from fairlead.domain.errors import UserError
from fairlead.domain.scenario import Scenario
from fairlead.scenarios.offered_load import load_ratio, offered_qps
from fairlead.scenarios.random_edges import SEEDS, random_edge


def show_random_edges(first: int, number: int) -> None:
    """A table of the edges of these seeds."""
    if first + number > SEEDS:
        raise UserError("--first: expected all seeds below 2^63")
    table = columns_table(
        "scenario", "nodes", "serving", "models (variants)", "sources", "dispatch", "load ratio", "requests / s"
    )
    for seed in range(first, first + number):
        _add(table, random_edge(seed))
    console().print(table)


def _add(table: Table, s: Scenario) -> None:
    tiers = Counter(node.cluster for node in s.nodes.values())
    nodes = ", ".join(f"{count} {tier}" for tier, count in tiers.items())
    serving = {node.serving for node in s.nodes.values()}
    streams = sum(source.length_s is not None for source in s.workload.sources.values())
    table.add_row(
        s.name,
        f"{len(s.nodes)}: {nodes}",
        "mixed" if len(serving) > 1 else min(serving),
        f"{len(s.models)} ({len(s.variants())})",
        f"{len(s.workload.sources)}, {streams} of streams",
        s.rules.dispatch,
        f"{load_ratio(s):.2f}",
        f"{sum(offered_qps(s).values()):.0f}",
    )
