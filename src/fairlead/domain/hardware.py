"""Devices, nodes and the links to them: the nouns of where work can run.

Frozen, checked when made; read by the loader and the simulator. No arithmetic of the world here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fairlead.domain.provenance import MOST, Sourced, not_negative, positive


@dataclass(frozen=True, kw_only=True)
class Degradation(Sourced):
    """How workloads on one shared device slow each other down (time among others / time alone). One of three forms.

    - `rho`: linear interference, 1 + rho * sum(solo time of each other / own solo time).
    - `curve`: per variant (or `default`), the value at 1, 2, ... running workloads; past the end it is infinite.
    - `matrix`: per arriving variant, a table over how many of `axes[0]` and `axes[1]` already run (ECSRL figure 1);
      `.inf`, or past the edge, is the resource limit: nothing more is placed there.
    """

    rho: float | None = None  # 0: they don't disturb each other; 1: as slow as one after the other
    curve: Mapping[str, tuple[float, ...]] | None = None  # by variant, or `default`
    axes: tuple[str, str] | None = None  # the two variants that a matrix counts
    matrix: Mapping[str, tuple[tuple[float, ...], ...]] | None = None  # by arriving variant

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(form is not None for form in (self.rho, self.curve, self.matrix)) != 1:
            raise ValueError("degradation takes exactly one of rho, curve, matrix")
        if (self.matrix is None) != (self.axes is None):
            raise ValueError("matrix and axes go together")
        if self.axes is not None and self.axes[0] == self.axes[1]:
            raise ValueError("axes must name two variants")
        if self.rho is not None:
            not_negative(rho=self.rho)
        cells = [v for c in (self.curve or {}).values() for v in c]
        for table in (self.matrix or {}).values():
            if len({len(row) for row in table}) != 1:
                raise ValueError("a degradation matrix needs rows of equal length")
            cells += [v for row in table for v in row]
        if any(not (1 <= cell <= MOST or cell == math.inf) for cell in cells):
            raise ValueError("degradation is a ratio to the time alone: 1 or above, or .inf")


@dataclass(frozen=True, kw_only=True)
class Device(Sourced):
    """A kind of accelerator or processor."""

    name: str
    compute_tops: float  # peak, as the vendor gives it; for reading, never for latency
    memory_mb: float  # of one device
    power_idle_w: float  # of one device that does nothing
    power_busy_w: float  # of one device that is fully busy
    price_per_h: float  # of busy time
    degradation: Degradation | None = None  # needed where nodes of it serve `shared`

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(compute_tops=self.compute_tops, memory_mb=self.memory_mb)
        not_negative(power_idle_w=self.power_idle_w, price_per_h=self.price_per_h)
        if self.power_busy_w < self.power_idle_w:
            raise ValueError("power_busy_w must be at least power_idle_w")


@dataclass(frozen=True, kw_only=True)
class Node(Sourced):
    """A host with `count` devices of one kind.

    `serving: queue` gives every deployed variant its own FIFO queue on a fixed share of the devices;
    `serving: shared` runs everything at once, each slowed by the others (processor sharing with degradation).
    """

    name: str
    device: str  # its kind
    count: int = 1  # how many of them
    serving: Literal["queue", "shared"] = "queue"  # how it serves, see above
    cloud: bool = False  # a target of the second inference
    cluster: str = ""  # the roof it is under; empty: its own
    region: str = ""  # asked for by a source's `regions`
    certificates: tuple[str, ...] = ()  # asked for by a source's `certificates`

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(count=self.count)
        if self.serving == "shared" and self.count != 1:
            raise ValueError("a shared node has count 1: give each device a node of its own")


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Nodes under one roof."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Link(Sourced):
    """One-way network delay from sites (or nodes, for the second inference) to nodes, both given as name patterns.

    The delay is normal with mean `delay_ms` and deviation `delay_sd_ms`, cut at 0. A later link overrides an earlier.
    """

    from_: str  # pattern of sites or nodes
    to: str  # pattern of nodes
    delay_ms: float  # mean
    delay_sd_ms: float = 0.0  # standard deviation
    bandwidth_mbps: float | None = None  # None: transfers cost nothing

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(delay_ms=self.delay_ms, delay_sd_ms=self.delay_sd_ms)
        if self.bandwidth_mbps is not None:
            positive(bandwidth_mbps=self.bandwidth_mbps)


@dataclass(frozen=True, kw_only=True)
class LinkChange(Sourced):
    """From `at_s` on, the links matched have new values; what is not named stays. `up: false` starts an outage."""

    at_s: float  # seconds from the start
    from_: str = "*"  # pattern of sites or nodes
    to: str = "*"  # pattern of nodes
    delay_ms: float | None = None  # new mean
    delay_sd_ms: float | None = None  # new standard deviation
    bandwidth_mbps: float | None = None  # new bandwidth
    up: bool | None = None  # false: down from now on; true: up again

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(at_s=self.at_s, delay_ms=self.delay_ms or 0.0, delay_sd_ms=self.delay_sd_ms or 0.0)
        if self.bandwidth_mbps is not None:
            positive(bandwidth_mbps=self.bandwidth_mbps)
