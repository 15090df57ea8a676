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
    """How workloads on one shared device slow each other down: time beside others / time alone. One of three forms.

    - `rho`: linear interference, 1 + rho * sum(time alone of each other workload / own time alone).
    - `curve`: for each variant (or `default`), the value at 1, 2, ... running workloads; past the end it is infinite.
    - `matrix`: for each arriving variant, a table over how many of `axes[0]` and `axes[1]` already run (ECSRL, figure
      1). `.inf`, or the end of the table, is the resource limit: nothing more is placed there.
    """

    rho: float | None = None  # 0: no interference; 1: as slow as one after the other
    curve: Mapping[str, tuple[float, ...]] | None = None  # values by variant, or `default`
    axes: tuple[str, str] | None = None  # the two variants whose numbers the matrix counts
    matrix: Mapping[str, tuple[tuple[float, ...], ...]] | None = None  # a table by arriving variant

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
    """A type of accelerator or processor."""

    name: str
    compute_tops: float  # peak performance by the vendor; information only, no latency depends on it
    memory_mb: float  # memory of one device
    power_idle_w: float  # power of one device that does nothing
    power_busy_w: float  # power of one device that is fully busy
    price_per_h: float  # price of an hour of busy time
    degradation: Degradation | None = None  # interference; required where nodes with this device serve `shared`

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(compute_tops=self.compute_tops, memory_mb=self.memory_mb)
        not_negative(power_idle_w=self.power_idle_w, price_per_h=self.price_per_h)
        if self.power_busy_w < self.power_idle_w:
            raise ValueError("power_busy_w must be at least power_idle_w")


@dataclass(frozen=True, kw_only=True)
class Node(Sourced):
    """A host with `count` devices of one type.

    `serving: queue` gives every deployed variant its own FIFO queue on a fixed share of the devices;
    `serving: shared` runs all requests at once, and they slow each other down (processor sharing with degradation).
    """

    name: str
    device: str  # name of its type of device
    count: int = 1  # number of devices
    serving: Literal["queue", "shared"] = "queue"  # how it serves, see above
    cloud: bool = False  # whether it can be the target of a second inference
    cluster: str = ""  # name of the cluster that it belongs to; empty: a cluster of its own
    region: str = ""  # its region, compared with a source's `regions`
    certificates: tuple[str, ...] = ()  # its certificates, compared with a source's `certificates`

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

    The delay is normal with mean `delay_ms` and deviation `delay_sd_ms`, cut at 0. Later links override.
    """

    from_: str  # pattern of sites or nodes
    to: str  # pattern of nodes
    delay_ms: float  # mean delay
    delay_sd_ms: float = 0.0  # standard deviation of the delay
    bandwidth_mbps: float | None = None  # bandwidth; None: transfers take no time

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(delay_ms=self.delay_ms, delay_sd_ms=self.delay_sd_ms)
        if self.bandwidth_mbps is not None:
            positive(bandwidth_mbps=self.bandwidth_mbps)


@dataclass(frozen=True, kw_only=True)
class LinkChange(Sourced):
    """From `at_s` on, matching links have the given values; others stay. `up: false` starts an outage."""

    at_s: float  # time of the change, in seconds from the start
    from_: str = "*"  # pattern of sites or nodes
    to: str = "*"  # pattern of nodes
    delay_ms: float | None = None  # new mean delay
    delay_sd_ms: float | None = None  # new standard deviation
    bandwidth_mbps: float | None = None  # new bandwidth
    up: bool | None = None  # false: down from now on; true: up again

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(at_s=self.at_s, delay_ms=self.delay_ms or 0.0, delay_sd_ms=self.delay_sd_ms or 0.0)
        if self.bandwidth_mbps is not None:
            positive(bandwidth_mbps=self.bandwidth_mbps)
