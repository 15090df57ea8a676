"""A scenario: hardware, network, models, workload and rules of one serving world, checked as a whole.

Built by `fairlead.scenarios.loader` from YAML, or by hand in Python; made into arrays by `fairlead.sim.serving.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from fairlead.domain.errors import nearest
from fairlead.domain.hardware import Cluster, Device, Link, LinkChange, Node
from fairlead.domain.models import Deployment, Model, Variant
from fairlead.domain.provenance import STRICT, Sourced, positive
from fairlead.domain.workload import Workload, mean_of


@dataclass(frozen=True, kw_only=True)
class Rules(Sourced):
    """How the world admits, binds and repairs."""

    dispatch: Literal["stream", "request"] = "request"  # bind a stream once, or decide for every request
    admit: tuple[Literal["deadline", "accuracy"], ...] = ()  # nominal misses that exclude a candidate
    second_inference: bool = False  # an answer that is not good enough is repeated in the cloud
    offload_from: Literal["node", "access"] = "node"  # who sends it there
    window_ms: float = 1000.0  # of statistics, and of selectors

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(window_ms=self.window_ms)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Everything a serving world is made of."""

    __pydantic_config__ = STRICT

    name: str
    title: str  # one line for lists
    devices: Mapping[str, Device]  # kinds of hardware, by name
    nodes: Mapping[str, Node]  # the hosts, by name
    links: tuple[Link, ...]  # from each site to each node; of several that match, the last counts
    models: Mapping[str, Model]  # what can be asked for, by name
    deployments: tuple[Deployment, ...]  # which variant runs where
    workload: Workload  # who asks, how often and for what
    rules: Rules  # how the world admits, binds and repairs
    link_changes: tuple[LinkChange, ...] = ()  # what the network does over time

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Nodes grouped by the cluster that they name; a node that names none is its own."""
        names = dict.fromkeys(node.cluster or node.name for node in self.nodes.values())
        return tuple(
            Cluster(name=c, nodes=tuple(n.name for n in self.nodes.values() if (n.cluster or n.name) == c))
            for c in names
        )

    def variants(self) -> dict[str, tuple[Model, Variant]]:
        """Every variant by its name, with its model."""
        return {v.name: (m, v) for m in self.models.values() for v in m.variants.values()}

    def placements(self) -> list[tuple[Deployment, Variant, Node]]:
        """Deployments with patterns resolved: one entry per (variant, node), in the order of the models."""
        known = self.variants()
        order = {v: i for i, v in enumerate(known)}
        found = [
            (d, known[d.variant][1], node)
            for d in sorted(self.deployments, key=lambda d: order[d.variant])
            for node in self.nodes.values()
            if any(fnmatchcase(node.name, pattern) for pattern in d.nodes)
        ]
        models = list(self.models)
        return sorted(found, key=lambda p: models.index(known[p[0].variant][0].name))

    def assumptions(self) -> list[tuple[str, str]]:
        """Every assumption as (path, words), for `fairlead show` and for result files."""
        return list(assumptions_of(self))


def assumptions_of(thing: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every assumption in a noun and the nouns that it has, as (path, words)."""
    if isinstance(thing, Sourced) and (words := thing.assumptions()):
        yield path, words
    if is_dataclass(thing):
        children: Iterable[tuple[str, Any]] = ((f.name, getattr(thing, f.name)) for f in fields(thing))
    elif isinstance(thing, Mapping):
        children = thing.items()
    elif isinstance(thing, tuple):
        children = ((str(i), item) for i, item in enumerate(thing))
    else:
        return
    for key, child in children:
        yield from assumptions_of(child, f"{path}.{key}" if path else str(key))


Problem = tuple[tuple[str | int, ...], str]
_MOST_REQUESTS = 2e7  # some 300 bytes each
_MOST_WINDOWS = 2e7


def check(scenario: Scenario) -> Iterator[Problem]:
    """What is wrong across the nouns, as (path into the file, one line). Nothing when the scenario is sound."""
    found = [*_too_large(scenario), *_unknown_names(scenario), *_links(scenario)]
    yield from found or _fit(scenario)  # what fits where can be asked once all names are known


def _too_large(s: Scenario) -> Iterator[Problem]:
    """Refuse what no machine could hold, before anything is allocated."""
    w = s.workload
    expected = 0.0
    for source in (x for x in w.sources.values() if x.arrivals.process != "trace"):
        arrivals = w.arrivals_per_ms(source) * w.duration_s * 1000.0 * max([1.0, *(p.rate for p in source.phases)])
        per_arrival = mean_of(source.length_s) * mean_of(source.rate_qps) if source.length_s is not None else 1.0
        expected += arrivals * max(1.0, per_arrival)
    if expected > _MOST_REQUESTS:
        yield ("workload",), f"about {expected:.3g} requests: more than {_MOST_REQUESTS:g} don't fit into memory"
    windows = w.duration_s * 1000.0 / s.rules.window_ms
    if windows * len(s.nodes) > _MOST_WINDOWS:
        yield ("rules", "window_ms"), f"{windows:.3g} windows: use longer ones ({_MOST_WINDOWS:g} / nodes at most)"


def _unknown_names(s: Scenario) -> Iterator[Problem]:
    variants = s.variants()
    if len(variants) != sum(len(m.variants) for m in s.models.values()):
        yield ("models",), "two models have a variant of the same name"
    for node in s.nodes.values():
        if node.device not in s.devices:
            yield ("nodes", node.name, "device"), f"unknown device {node.device!r}{nearest(node.device, s.devices)}"
    for i, d in enumerate(s.deployments):
        if d.variant not in variants:
            yield ("deployments", i, "variant"), f"unknown variant {d.variant!r}{nearest(d.variant, variants)}"
        for pattern in d.nodes:
            if not any(fnmatchcase(n, pattern) for n in s.nodes):
                yield ("deployments", i, "nodes"), f"no node is called {pattern!r}{nearest(pattern, s.nodes)}"
    for source in s.workload.sources.values():
        path = ("workload", "sources", source.name)
        if source.model not in s.models:
            yield (*path, "model"), f"unknown model {source.model!r}{nearest(source.model, s.models)}"
        for weights in [source.sites, *(p.sites for p in source.phases)]:
            for site in weights or ():
                if site not in s.workload.sites:
                    yield (*path, "sites"), f"unknown site {site!r}{nearest(site, s.workload.sites)}"


def _links(s: Scenario) -> Iterator[Problem]:
    ends = (*s.workload.sites, *s.nodes)
    items: list[tuple[str, int, Link | LinkChange]] = [("links", i, link) for i, link in enumerate(s.links)]
    items += [("link_changes", i, change) for i, change in enumerate(s.link_changes)]
    for section, i, item in items:
        if not any(fnmatchcase(e, item.from_) for e in ends):
            yield (section, i, "from"), f"no site or node is called {item.from_!r}{nearest(item.from_, ends)}"
        if not any(fnmatchcase(n, item.to) for n in s.nodes):
            yield (section, i, "to"), f"no node is called {item.to!r}{nearest(item.to, s.nodes)}"
    for site in s.workload.sites:
        for node in s.nodes:
            if not any(fnmatchcase(site, ln.from_) and fnmatchcase(node, ln.to) for ln in s.links):
                yield ("links",), f"no link from site {site!r} to node {node!r}"
    if s.rules.second_inference and s.rules.offload_from == "node":
        for first in s.nodes:
            for cloud in (n.name for n in s.nodes.values() if n.cloud and n.name != first):
                if not any(fnmatchcase(first, ln.from_) and fnmatchcase(cloud, ln.to) for ln in s.links):
                    yield ("links",), f"no link from node {first!r} to {cloud!r} for the second inference"
    yield from _endless_outages(s)


def _endless_outages(s: Scenario) -> Iterator[Problem]:
    for end in (*s.workload.sites, *s.nodes):
        for node in s.nodes:
            down = -1
            for i in sorted(range(len(s.link_changes)), key=lambda i: s.link_changes[i].at_s):
                change = s.link_changes[i]
                if change.up is not None and fnmatchcase(end, change.from_) and fnmatchcase(node, change.to):
                    down = -1 if change.up else i
            if down >= 0:
                yield ("link_changes", down), f"the outage from {end!r} to {node!r} never ends (add 'up: true' later)"
                return


def _fit(s: Scenario) -> Iterator[Problem]:
    placements = s.placements()
    variants = s.variants()
    seen: set[tuple[str, str]] = set()
    for d, variant, node in placements:
        path = ("deployments", s.deployments.index(d))
        if node.device not in variant.latency:
            yield path, f"{variant.name!r} has no latency on {node.device!r}, the device of {node.name!r}"
        if (variant.name, node.name) in seen:
            yield path, f"{variant.name!r} is deployed twice on {node.name!r}"
        seen.add((variant.name, node.name))
        device = s.devices[node.device]
        if node.serving == "shared" and device.degradation is None:
            yield ("devices", node.device), f"node {node.name!r} is shared: its device needs a degradation"
        if node.serving == "shared" and (problem := _not_in_table(device, variant.name)):
            yield ("devices", node.device, "degradation"), problem
        if node.serving == "shared" and d.batching:
            yield path, f"batching needs a queue node, {node.name!r} is shared"
    for node in s.nodes.values():
        here = [(d, v) for d, v, n in placements if n.name == node.name]
        room = s.devices[node.device].memory_mb * node.count
        needed = sum(v.memory_mb + (v.run_mb if node.serving == "shared" else 0) for _, v in here)
        if needed > room:
            yield ("nodes", node.name), f"its variants need {needed:g} MB and it has {room:g} MB"
        if node.serving == "queue" and sum(d.share for d, _ in here) > 1 + 1e-9:
            yield (
                ("nodes", node.name),
                f"the shares deployed on it add up to {sum(d.share for d, _ in here):g}, above 1",
            )
    for source in s.workload.sources.values():
        if not any(variants[v.name][0].name == source.model for _, v, _ in placements):
            yield (
                ("workload", "sources", source.name, "model"),
                f"model {source.model!r} fits nowhere: none of its variants is deployed on any node",
            )


def _not_in_table(device: Device, variant: str) -> str:
    """What is missing when the device's degradation does not speak of the variant."""
    d = device.degradation
    if d is not None and d.curve is not None and not {variant, "default"} & set(d.curve):
        return f"curve has neither {variant!r} nor 'default'"
    if d is not None and d.matrix is not None and variant not in d.matrix:
        return f"matrix has no table for {variant!r}"
    return ""
