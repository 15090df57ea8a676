"""What is too large to be held in memory or computed in time: refused by `scenario.check` before anything is allocated.

`workload_limits` can be asked first; `fleet_limits` once all names are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairlead.domain.scenario import Problem, Scenario

MOST_REQUESTS = 2e7  #: In one workload, some 300 bytes each.
_MOST_DRAWS = 1e8  # arrivals that are drawn, of which most may be thinned out; calms and bursts
_MOST_WINDOWS = 2e7
_MOST_LINKS = 4_000_000  # from sites and nodes to nodes
_MOST_PLACEMENTS = 100_000  # of a variant on a node
_MOST_SERVERS = 1_000_000
_MOST_CELLS = 10_000_000  # of the degradation tables of all shared nodes


def workload_limits(s: Scenario) -> Iterator[Problem]:
    """What is too large about requests, windows and links."""
    w = s.workload
    drawn = {name: source for name, source in w.sources.items() if source.arrivals.process != "trace"}
    expected = sum(map(w.expected_requests, drawn.values()))
    if expected > MOST_REQUESTS:
        yield ("workload",), f"about {expected:.3g} requests: more than {MOST_REQUESTS:g} don't fit into memory"
    for name, source in drawn.items():
        if (draws := w.expected_draws(source)) > _MOST_DRAWS:
            words = f"about {draws:.3g} arrivals and bursts to draw: {_MOST_DRAWS:g} are possible"
            yield ("workload", "sources", name, "arrivals"), words
    windows = w.duration_s * 1000.0 / s.rules.window_ms
    if windows * len(s.nodes) > _MOST_WINDOWS:
        yield ("rules", "window_ms"), f"{windows:.3g} windows: use longer ones ({_MOST_WINDOWS:g} / nodes at most)"
    links = (len(w.sites) + len(s.nodes)) * len(s.nodes)
    if links > _MOST_LINKS:
        yield ("nodes",), f"{links:,} links from sites and nodes to nodes: at most {_MOST_LINKS:,} are possible"


def fleet_limits(s: Scenario) -> Iterator[Problem]:
    """What is too large about the variants that are deployed."""
    here = dict.fromkeys(s.nodes, 0)
    servers = 0
    for i, deployment in enumerate(s.deployments):
        for name in s.nodes_of(deployment):
            here[name] += 1
            servers += deployment.servers if s.nodes[name].serving == "queue" else 0
        if sum(here.values()) > _MOST_PLACEMENTS:
            yield ("deployments", i), f"more than {_MOST_PLACEMENTS:,} places of variants on nodes"
            return
        if servers > _MOST_SERVERS:
            yield ("deployments", i, "servers"), f"more than {_MOST_SERVERS:,} servers in all"
            return
    changes = sum(
        s.end_names.like(change.from_).bit_count() * s.node_names.like(change.to).bit_count()
        for change in s.link_changes
    )
    if changes > _MOST_LINKS:
        yield ("link_changes",), f"{changes:,} changes of a link each: at most {_MOST_LINKS:,} are possible"
    cells = sum(_cells(s, name, count) for name, count in here.items() if s.nodes[name].serving == "shared")
    if cells > _MOST_CELLS:
        yield ("devices",), f"{cells:,} cells of degradation on shared nodes: at most {_MOST_CELLS:,} are possible"


def _cells(s: Scenario, node: str, variants: int) -> int:
    """The size of the degradation table of a shared node with so many variants."""
    degradation = s.devices[s.nodes[node].device].degradation
    if degradation is None:
        return 0
    if degradation.rho is not None:
        return variants**2
    curves, tables = (degradation.curve or {}).values(), (degradation.matrix or {}).values()
    rows = max(map(len, (*curves, *tables)), default=0)
    return variants * rows * max((len(table[0]) for table in tables), default=1)
