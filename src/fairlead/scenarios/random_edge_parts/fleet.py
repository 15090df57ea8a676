"""The hosts of a random edge: its tiers, the nodes in them, and the types of devices with their speeds.

Called by `random_edges` first of all parts. What runs on the nodes is drawn in `deployments`, links in `network`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fairlead.domain.hardware import Degradation, Device, Node
from fairlead.scenarios.random_edge_parts.draws import Draws, Range, rounded

FASTEST: Final = 30.0  #: Speed of the fastest device; the slowest has 1.
_COUNTS: Final = (5.0, 2.0, 1.0, 1.0)  # weights of 1 to 4 devices
_MEMORY_MB: Final = (2048.0, 4096.0, 8192.0, 16384.0)


@dataclass(frozen=True)
class Tier:
    """A kind of place for nodes. A near site has a part of the delay that all others have."""

    name: str  # nodes are called name-1, name-2, ...
    region: str
    weight: float  # of a node that is in no tier yet
    delay_ms: Range
    near: Range  # delay from a near site / delay from another
    near_sites: float  # probability that a site is near; 0: exactly one is
    bandwidth_mbps: Range


TIERS: Final = (
    Tier("board", "edge", 4.0, (4.0, 15.0), (0.02, 0.1), 0.0, (100.0, 1000.0)),
    Tier("access", "edge", 4.0, (5.0, 15.0), (0.15, 0.5), 0.4, (100.0, 1000.0)),
    Tier("office", "edge", 2.0, (6.0, 20.0), (0.4, 0.8), 0.5, (100.0, 1000.0)),
    Tier("dc", "dc", 1.0, (8.0, 30.0), (0.6, 0.9), 0.3, (100.0, 1000.0)),
    Tier("cloud", "cloud", 1.0, (20.0, 80.0), (0.7, 0.95), 0.3, (20.0, 500.0)),
)


@dataclass(frozen=True)
class DeviceType:
    """What is drawn of a type of device before it is known what runs on it."""

    name: str
    speed: float  # 1..FASTEST
    memory_mb: float


@dataclass(frozen=True)
class Fleet:
    """Nodes by name, their tiers, and the types of devices."""

    tiers: dict[str, Tier]  # by name of node
    nodes: dict[str, Node]
    types: dict[str, DeviceType]


def draw_fleet(draws: Draws) -> Fleet:
    """2 to 16 nodes in 1 to 4 tiers."""
    chosen = _tiers(draws)
    number = max(draws.whole(2, 16), len(chosen))
    placed = list(chosen)
    placed += [draws.pick(chosen, [t.weight for t in chosen]) for _ in range(number - len(chosen))]
    placed.sort(key=TIERS.index)
    types = _types(draws, chosen)
    by_tier = [[t for t in types if t.name.startswith(tier.name)] or types for tier in chosen]
    nodes: dict[str, Node] = {}
    tiers: dict[str, Tier] = {}
    for i, tier in enumerate(placed):
        name = f"{tier.name}-{i - placed.index(tier) + 1}"
        tiers[name] = tier
        nodes[name] = Node(
            name=name,
            device=draws.pick(by_tier[chosen.index(tier)]).name,
            count=draws.pick((1, 2, 3, 4), _COUNTS),
            cloud=tier.name == "cloud",
            cluster=tier.name,
            region=tier.region,
            assumed=True,
        )
    used = {node.device for node in nodes.values()}
    return Fleet(tiers, _with_serving(draws, nodes), {t.name: t for t in types if t.name in used})


def _tiers(draws: Draws) -> list[Tier]:
    left = list(TIERS)
    for _ in range(len(TIERS) - draws.whole(1, 4)):
        left.remove(draws.pick(left))
    return left


def _types(draws: Draws, tiers: list[Tier]) -> list[DeviceType]:
    """One or two types for each tier, or one for all. Often the farther tiers have the faster ones."""
    if draws.chance(0.15):
        names = ["device"]
    else:
        names = [f"{tier.name}-{letter}" for tier in tiers for letter in ("ab" if draws.chance(0.3) else "a")]
    speeds = [draws.log_uniform(1.0, FASTEST) for _ in names]
    if draws.chance(0.6):
        speeds.sort()
    return [DeviceType(name, speed, draws.pick(_MEMORY_MB)) for name, speed in zip(names, speeds, strict=True)]


def _with_serving(draws: Draws, nodes: dict[str, Node]) -> dict[str, Node]:
    """All nodes queue, all are shared, or some are; a shared node has one device."""
    kind = draws.pick(("queue", "shared", "mixed"), (0.4, 0.25, 0.35))
    shared = {name for name in nodes if kind == "shared" or (kind == "mixed" and draws.chance(0.5))}
    if kind == "mixed" and len(shared) in (0, len(nodes)):
        shared ^= {next(iter(nodes))}
    return {name: replace(n, serving="shared", count=1) if name in shared else n for name, n in nodes.items()}


def draw_device(draws: Draws, of: DeviceType, degradation: Degradation | None) -> Device:
    """The device: power and price follow its speed."""
    busy_w = 8.0 * of.speed**0.8 * draws.log_uniform(0.7, 1.4)
    return Device(
        name=of.name,
        compute_tops=rounded(8.0 * of.speed),
        memory_mb=of.memory_mb,
        power_idle_w=rounded(busy_w * draws.uniform(0.05, 0.4)),
        power_busy_w=rounded(busy_w),
        price_per_h=rounded(0.01 * of.speed * draws.log_uniform(0.6, 1.7)),
        degradation=degradation,
        assumed=True,
    )
