"""A scenario: hardware, network, models, workload and rules of one serving world, checked as a whole.

Built by `fairlead.scenarios.loader` from YAML, or by hand in Python; made into arrays by `fairlead.sim.serving.plan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any, Literal

from fairlead.domain.errors import nearest
from fairlead.domain.hardware import Cluster, Device, Link, LinkChange, Node
from fairlead.domain.models import Deployment, Model, Variant
from fairlead.domain.name_patterns import Names, places
from fairlead.domain.provenance import STRICT, Sourced, positive
from fairlead.domain.scenario_limits import fleet_limits, workload_limits
from fairlead.domain.workload import Workload


@dataclass(frozen=True, kw_only=True)
class Rules(Sourced):
    """How requests are admitted, streams bound, and inaccurate answers repeated."""

    dispatch: Literal["stream", "request"] = "request"  # decide once per stream and bind it, or per request
    admit: tuple[Literal["deadline", "accuracy"], ...] = ()  # nominal misses that exclude a candidate
    second_inference: bool = False  # whether the cloud repeats an inference whose answer is not accurate enough
    offload_from: Literal["node", "access"] = "node"  # from where the request is sent on to the cloud
    window_ms: float = 1000.0  # length of a window of statistics, and of a decision of selectors

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(window_ms=self.window_ms)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A scenario of inference requests."""

    __pydantic_config__ = STRICT

    name: str
    title: str  # one line that lists show
    devices: Mapping[str, Device]  # types of hardware, by name
    nodes: Mapping[str, Node]  # hosts, by name
    links: tuple[Link, ...]  # links from sites to nodes; where several match, the last counts
    models: Mapping[str, Model]  # models that requests ask for, by name
    deployments: tuple[Deployment, ...]  # variants on nodes
    workload: Workload  # sources of requests and their rates
    rules: Rules  # rules of admission, binding and second inference
    link_changes: tuple[LinkChange, ...] = ()  # changes of links over time

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """Nodes grouped by the cluster that they name; a node that names none is its own."""
        names = dict.fromkeys(node.cluster or node.name for node in self.nodes.values())
        return tuple(
            Cluster(name=c, nodes=tuple(n.name for n in self.nodes.values() if (n.cluster or n.name) == c))
            for c in names
        )

    def workload_in_words(self) -> str:
        """How much arrives, and for how long."""
        return self.workload.in_words()

    def variants(self) -> dict[str, tuple[Model, Variant]]:
        """Every variant by its name, with its model."""
        return {v.name: (m, v) for m in self.models.values() for v in m.variants.values()}

    @cached_property
    def node_names(self) -> Names:
        """The names of the nodes, for patterns."""
        return Names(self.nodes)

    @cached_property
    def end_names(self) -> Names:
        """The names of what links lead from, for patterns: of the sites, then of the nodes."""
        return Names((*self.workload.sites, *self.nodes))

    def nodes_of(self, deployment: Deployment) -> list[str]:
        """Where it is placed: its patterns resolved."""
        found = reduce(or_, map(self.node_names.like, deployment.nodes), 0)
        return [self.node_names.names[n] for n in places(found)]

    def placements(self) -> list[tuple[Deployment, Variant, Node]]:
        """Deployments with patterns resolved: one entry per (variant, node), in the order of the models."""
        known = self.variants()
        order, models = {v: i for i, v in enumerate(known)}, {m: i for i, m in enumerate(self.models)}
        found = [
            (d, known[d.variant][1], self.nodes[name])
            for d in sorted(self.deployments, key=lambda d: order[d.variant])
            for name in self.nodes_of(d)
        ]
        return sorted(found, key=lambda p: models[known[p[0].variant][0].name])

    def assumptions(self) -> list[tuple[str, str]]:
        """Every assumption as (path, words), for `fairlead show` and for result files."""
        return list(assumptions_of(self))


def assumptions_of(scenario: Any) -> Iterator[tuple[str, str]]:
    """Every assumption in a scenario, as (path, words)."""
    return ((path, words) for path, noun in _sourced(scenario) if (words := noun.assumptions()))


def sources_of(scenario: Any) -> dict[str, list[str]]:
    """Every source of numbers that are not assumed, with the paths of what it is the source of."""
    found: dict[str, list[str]] = {}
    for path, noun in _sourced(scenario):
        if noun.source and noun.assumed is not True:
            found.setdefault(noun.source, []).append(path)
    return found


def _sourced(thing: Any, path: str = "") -> Iterator[tuple[str, Sourced]]:
    """A noun and the nouns that it has whose numbers are accounted for, each with its path."""
    if isinstance(thing, Sourced):
        yield path, thing
    if is_dataclass(thing):
        children: Iterable[tuple[str, Any]] = ((f.name, getattr(thing, f.name)) for f in fields(thing))
    elif isinstance(thing, Mapping):
        children = thing.items()
    elif isinstance(thing, tuple):
        children = ((str(i), item) for i, item in enumerate(thing))
    else:
        return
    for key, child in children:
        yield from _sourced(child, f"{path}.{key}" if path else str(key))


Problem = tuple[tuple[str | int, ...], str]


def check(scenario: Scenario) -> Iterator[Problem]:
    """What is wrong across the nouns, as (path into the file, one line). Nothing when the scenario is sound.

    Each step takes it that those before found nothing.
    """
    for look in (workload_limits, _unknown_names, fleet_limits, _links, _fit):
        sound = True
        for problem in look(scenario):
            sound = False
            yield problem
        if not sound:
            return


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
            if not s.node_names.like(pattern):
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
    ends, nodes = s.end_names, s.node_names
    items: list[tuple[str, int, Link | LinkChange]] = [("links", i, link) for i, link in enumerate(s.links)]
    items += [("link_changes", i, change) for i, change in enumerate(s.link_changes)]
    for section, i, item in items:
        if not ends.like(item.from_):
            yield (section, i, "from"), f"no site or node is called {item.from_!r}{nearest(item.from_, ends.names)}"
        if not nodes.like(item.to):
            yield (section, i, "to"), f"no node is called {item.to!r}{nearest(item.to, nodes.names)}"
    linked = [0] * len(ends.names)  # of each end the nodes that it has a link to
    for link in s.links:
        for end in places(ends.like(link.from_)):
            linked[end] |= nodes.like(link.to)
    sites = len(s.workload.sites)
    for end, site in enumerate(s.workload.sites):
        for node in places(nodes.all & ~linked[end]):
            yield ("links",), f"no link from site {site!r} to node {nodes.names[node]!r}"
    if s.rules.second_inference and s.rules.offload_from == "node":
        clouds = sum(1 << n for n, node in enumerate(s.nodes.values()) if node.cloud)
        for n, first in enumerate(s.nodes):
            for cloud in places(clouds & ~(1 << n) & ~linked[sites + n]):
                words = f"no link from node {first!r} to {nodes.names[cloud]!r} for the second inference"
                yield ("links",), words
    yield from _endless_outages(s)


def _endless_outages(s: Scenario) -> Iterator[Problem]:
    ends, nodes = s.end_names, s.node_names
    down = [0] * len(ends.names)  # of each end the nodes that it can't reach in the end
    changes = [(i, change) for i, change in enumerate(s.link_changes) if change.up is not None]
    changes.sort(key=lambda c: c[1].at_s)
    for _, change in changes:
        for end in places(ends.like(change.from_)):
            down[end] = down[end] & ~nodes.like(change.to) if change.up else down[end] | nodes.like(change.to)
    for end, name in enumerate(ends.names):
        for node in places(down[end]):
            here = [i for i, c in changes if ends.like(c.from_) >> end & 1 and nodes.like(c.to) >> node & 1]
            words = f"the outage from {name!r} to {nodes.names[node]!r} never ends (add 'up: true' later)"
            yield ("link_changes", here[-1]), words
            return


def _fit(s: Scenario) -> Iterator[Problem]:
    placements = s.placements()
    variants = s.variants()
    seen: set[tuple[str, str]] = set()
    numbers = {id(d): i for i, d in reversed([*enumerate(s.deployments)])}
    by_node: dict[str, list[tuple[Deployment, Variant]]] = {name: [] for name in s.nodes}
    for d, variant, node in placements:
        path = ("deployments", numbers[id(d)])
        by_node[node.name].append((d, variant))
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
        here = by_node[node.name]
        room = s.devices[node.device].memory_mb * node.count
        needed = sum(v.memory_mb + (v.run_mb if node.serving == "shared" else 0) for _, v in here)
        if needed > room:
            yield ("nodes", node.name), f"its variants need {needed:g} MB and it has {room:g} MB"
        if node.serving == "queue" and sum(d.share for d, _ in here) > 1 + 1e-9:
            yield (
                ("nodes", node.name),
                f"the shares deployed on it add up to {sum(d.share for d, _ in here):g}, above 1",
            )
    served = {variants[v.name][0].name for _, v, _ in placements}
    for source in s.workload.sources.values():
        if source.model not in served:
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
