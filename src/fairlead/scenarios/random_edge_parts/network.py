"""The links of a random edge, from its sites and nodes to its nodes, and how they change. Called by `random_edges`."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.domain.hardware import Link, LinkChange
from fairlead.scenarios.random_edge_parts.draws import Draws, rounded
from fairlead.scenarios.random_edge_parts.fleet import Fleet, Tier


@dataclass(frozen=True)
class Network:
    """The links as a scenario has them, and the one that holds for each site and node."""

    links: tuple[Link, ...]
    between: dict[tuple[str, str], Link]  # by (site, node)


def draw_network(draws: Draws, sites: list[str], fleet: Fleet) -> Network:
    """One delay for each tier, and shorter ones from the sites that are near to a node."""
    tiers = dict.fromkeys(fleet.tiers.values())
    far = {tier.name: _far(draws, tier) for tier in tiers}
    links = [*far.values()]
    between = {}
    for name, tier in fleet.tiers.items():
        near = [draws.pick(sites)] if tier.near_sites == 0 else [s for s in sites if draws.chance(tier.near_sites)]
        for site in sites:
            between[site, name] = far[tier.name]
            if site in near:
                between[site, name] = _near(draws, site, name, tier, far[tier.name])
                links.append(between[site, name])
    return Network(tuple(links), between)


def _far(draws: Draws, tier: Tier) -> Link:
    delay_ms = draws.log_uniform(*tier.delay_ms)
    return Link(
        from_="*",
        to=f"{tier.name}-*",
        delay_ms=delay_ms,
        delay_sd_ms=rounded(delay_ms * draws.uniform(0.05, 0.3)),
        bandwidth_mbps=draws.log_uniform(*tier.bandwidth_mbps),
        assumed=True,
    )


def _near(draws: Draws, site: str, node: str, tier: Tier, far: Link) -> Link:
    delay_ms = rounded(far.delay_ms * draws.uniform(*tier.near))
    return Link(
        from_=site,
        to=node,
        delay_ms=delay_ms,
        delay_sd_ms=rounded(delay_ms * draws.uniform(0.05, 0.3)),
        bandwidth_mbps=far.bandwidth_mbps,
        assumed=True,
    )


def draw_link_changes(draws: Draws, sites: list[str], fleet: Fleet, network: Network) -> tuple[LinkChange, ...]:
    """Congestion of the ways to some nodes, and outages of nodes; all of it ends."""
    found: list[LinkChange] = []
    nodes = list(fleet.nodes)
    if draws.chance(0.25):
        for _ in range(draws.whole(1, 3)):
            found += _congestion(draws, draws.some(sites, 0.7), draws.pick(nodes), network)
    if draws.chance(0.15):
        for _ in range(draws.whole(1, 2)):
            start, length = draws.uniform(5.0, 45.0), draws.uniform(1.0, 12.0)
            from_, to = "*" if draws.chance(0.7) else draws.pick(sites), draws.pick(nodes)
            found.append(LinkChange(at_s=start, from_=from_, to=to, up=False, assumed=True))
            found.append(LinkChange(at_s=rounded(start + length), from_=from_, to=to, up=True, assumed=True))
    return tuple(found)


def _congestion(draws: Draws, sites: list[str], node: str, network: Network) -> list[LinkChange]:
    """Longer and less certain delays and less bandwidth for a while, then what was before."""
    start = draws.uniform(5.0, 45.0)
    end = rounded(start + draws.uniform(5.0, 20.0))
    slower, narrower = draws.uniform(1.5, 4.0), draws.uniform(0.2, 0.7)
    found = []
    for at_s, delay, bandwidth in ((start, slower, narrower), (end, 1.0, 1.0)):
        for site in sites:
            link = network.between[site, node]
            found.append(
                LinkChange(
                    at_s=at_s,
                    from_=site,
                    to=node,
                    delay_ms=rounded(link.delay_ms * delay),
                    delay_sd_ms=rounded(link.delay_sd_ms * delay),
                    bandwidth_mbps=rounded((link.bandwidth_mbps or 1.0) * bandwidth),
                    assumed=True,
                )
            )
    return found
