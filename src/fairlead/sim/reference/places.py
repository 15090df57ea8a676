"""What never changes in the reference world: who is deployed where, how they slow each other down, the links."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from fairlead.domain.hardware import Device, LinkChange, Node
from fairlead.domain.models import Batching, Deployment, Variant
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw, Number

_MS_PER_H = 3_600_000.0


@dataclass(frozen=True, eq=False)
class Place:
    """A deployment: one variant on one node."""

    index: int  # among all placements
    deployment: Deployment
    variant: Variant
    variant_index: int
    model: str
    node: Node
    node_index: int
    device: Device
    typical_kb: float
    work_sd: float  # deviation of the work of its model's requests

    @property
    def shared(self) -> bool:
        return self.node.serving == "shared"

    @property
    def servers(self) -> int:
        return 1 if self.shared else self.deployment.servers

    @property
    def part(self) -> float:
        """How much of a device one of its servers uses: never more than one."""
        return 1.0 if self.shared else min(1.0, self.node.count * self.deployment.share / self.servers)

    @cached_property
    def batching(self) -> Batching:
        return self.deployment.batching or Batching(max=1, wait_ms=0.0, fixed=0.0, assumed=True)

    @property
    def power_w(self) -> float:
        """Above idle, of one busy server."""
        return (self.device.power_busy_w - self.device.power_idle_w) * self.part

    @property
    def price_per_ms(self) -> float:
        return self.device.price_per_h / _MS_PER_H * self.part

    def alone_ms(self, size_kb: float) -> float:
        """Time of one inference alone, on one server.

        Divided before it is added, as the engine does: where the energies of two candidates are equal but for rounding,
        as those of two shares of one type of device are, policies must see the same rounding.
        """
        latency, speed = self.variant.latency[self.node.device], self.part
        return latency.base_ms / speed + latency.per_kb_ms / speed * size_kb

    @cached_property
    def typical_ms(self) -> float:
        return self.alone_ms(self.typical_kb)

    def per_request_ms(self, size_kb: float) -> float:
        """Time of one server per inference, in full batches."""
        b, f = self.batching.max, self.batching.fixed
        return self.alone_ms(size_kb) * (f / b + 1.0 - f)

    def service_rate(self, size_kb: float) -> float:
        """Requests a second when always busy."""
        return self.servers * 1000.0 / self.per_request_ms(size_kb)


def places_of(scenario: Scenario) -> list[Place]:
    known, nodes = scenario.variants(), list(scenario.nodes)
    return [
        Place(
            index=i,
            deployment=deployment,
            variant=variant,
            variant_index=list(known).index(variant.name),
            model=known[variant.name][0].name,
            node=node,
            node_index=nodes.index(node.name),
            device=scenario.devices[node.device],
            typical_kb=_typical_kb(scenario, known[variant.name][0].name),
            work_sd=_work_sd(scenario, known[variant.name][0].name),
        )
        for i, (deployment, variant, node) in enumerate(scenario.placements())
    ]


def _typical_kb(scenario: Scenario, model: str) -> float:
    """Mean input size of the sources of `model`, weighted by share."""
    asking = [s for s in scenario.workload.sources.values() if s.model == model]
    shares = sum(s.share for s in asking)
    return sum(s.share * _mean(s.size_kb) for s in asking) / shares if shares else 1.0


def _work_sd(scenario: Scenario, model: str) -> float:
    """Root of the mean variance of work over the sources of `model`, weighted by share."""
    asking = [s for s in scenario.workload.sources.values() if s.model == model]
    shares = sum(s.share for s in asking)
    return math.sqrt(sum(s.share * _variance(s.work) for s in asking) / shares) if shares else 0.0


def _variance(number: Number) -> float:
    if not isinstance(number, Draw) or number.constant is not None:
        return 0.0
    if number.uniform is not None:
        low, high = number.uniform
        return (high - low) ** 2 / 12.0
    if number.lognormal is not None:
        mean, variation = number.lognormal
        return (mean * variation) ** 2
    if number.exponential is not None:
        return number.exponential**2
    assert number.choice is not None
    weights, mean = number.weights or (1.0,) * len(number.choice), _mean(number)
    return sum(w * (c - mean) ** 2 for w, c in zip(weights, number.choice, strict=True)) / sum(weights)


def _mean(number: Number) -> float:
    if not isinstance(number, Draw):
        return number
    if number.uniform is not None:
        return sum(number.uniform) / 2.0
    if number.lognormal is not None:
        return number.lognormal[0]
    if number.choice is not None:
        weights = number.weights or (1.0,) * len(number.choice)
        return sum(w * c for w, c in zip(weights, number.choice, strict=True)) / sum(weights)
    mean = number.constant if number.exponential is None else number.exponential
    assert mean is not None
    return mean


def degradation(place: Place, others: Counter[Place]) -> float:
    """How much longer a request of `place` takes beside these others on its node."""
    how = place.device.degradation
    assert how is not None
    if how.rho is not None:
        return 1.0 + how.rho * sum(n * u.typical_ms for u, n in others.items()) / place.typical_ms
    if how.curve is not None:
        curve = how.curve.get(place.variant.name) or how.curve["default"]
        running = sum(others.values()) + 1
        return curve[running - 1] if running <= len(curve) else math.inf
    assert how.matrix is not None
    assert how.axes is not None
    table = how.matrix[place.variant.name]
    i, j = (sum(n for u, n in others.items() if u.variant.name == axis) for axis in how.axes)
    return table[i][j] if i < len(table) and j < len(table[i]) else math.inf


# ---- links


@dataclass(frozen=True)
class Link:
    delay_ms: float
    sd_ms: float
    bandwidth_mbps: float | None
    up: bool = True

    def after(self, change: LinkChange) -> Link:
        return replace(
            self,
            delay_ms=self.delay_ms if change.delay_ms is None else change.delay_ms,
            sd_ms=self.sd_ms if change.delay_sd_ms is None else change.delay_sd_ms,
            bandwidth_mbps=self.bandwidth_mbps if change.bandwidth_mbps is None else change.bandwidth_mbps,
            up=self.up if change.up is None else change.up,
        )

    def transfer_ms(self, size_kb: float) -> float:
        return 0.0 if self.bandwidth_mbps is None else size_kb * 8.0 / self.bandwidth_mbps

    def leg_ms(self, z: float) -> float:
        return max(0.0, self.delay_ms + self.sd_ms * z)


def links_of(scenario: Scenario) -> dict[tuple[str, str], Link]:
    links = {
        (end, node): Link(link.delay_ms, link.delay_sd_ms, link.bandwidth_mbps)
        for link in scenario.links  # a later link overrides an earlier one
        for end in (*scenario.workload.sites, *scenario.nodes)
        for node in scenario.nodes
        if matches(link, end, node)
    }
    return links | {(node, node): Link(0.0, 0.0, None) for node in scenario.nodes}


def matches(link: Any, end: str, node: str) -> bool:
    return end != node and fnmatchcase(end, link.from_) and fnmatchcase(node, link.to)
