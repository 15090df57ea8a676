"""Which variants of a random edge are on which nodes, and how they are served and slow each other down there.

Called by `random_edges`. A variant is placed only where the memory suffices for it, as the loader checks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from fairlead.domain.hardware import Degradation, Node
from fairlead.domain.models import Batching, Deployment, Model, Variant
from fairlead.scenarios.random_edge_parts.draws import Draws, rounded
from fairlead.scenarios.random_edge_parts.fleet import Fleet

Hosted = dict[str, list[str]]  # names of variants by name of node


def draw_hosted(draws: Draws, fleet: Fleet, models: Mapping[str, Model]) -> Hosted:
    """Some variants of some models for each node; each model has a place."""
    hosted: Hosted = {name: [] for name in fleet.nodes}
    known = {v.name: v for m in models.values() for v in m.variants.values()}

    def add(node: str, variant: str) -> None:
        here = [*hosted[node], variant]
        if variant not in hosted[node] and _fits(fleet, fleet.nodes[node], [known[v] for v in here]):
            hosted[node].append(variant)

    for model in models.values():  # the smallest variants of three models fit on every node
        add(draws.pick(list(fleet.nodes)), next(iter(model.variants)))
    for name, node in fleet.nodes.items():
        wanted = [v for m in draws.some(list(models.values()), 0.75) for v in draws.some(list(m.variants), 0.6)]
        for variant in wanted:
            if node.serving == "shared" or len(hosted[name]) < 2 + 2 * node.count:
                add(name, variant)
        if not hosted[name]:
            add(name, next(iter(next(iter(models.values())).variants)))
    return hosted


def _fits(fleet: Fleet, node: Node, here: list[Variant]) -> bool:
    """Whether there is memory for the weights, and on a shared node for a request of each variant."""
    needed = sum(v.memory_mb + (v.run_mb if node.serving == "shared" else 0.0) for v in here)
    return needed <= fleet.types[node.device].memory_mb * node.count


# ---- interference


def draw_degradations(draws: Draws, fleet: Fleet, hosted: Hosted) -> dict[str, Degradation]:
    """One for each type of device that a shared node has. Where it is a matrix, two variants stay on these nodes."""
    found = {}
    for device in fleet.types:
        nodes = [n.name for n in fleet.nodes.values() if n.device == device and n.serving == "shared"]
        if not nodes:
            continue
        form = draws.pick(("rho", "curve", "matrix"), (0.4, 0.25, 0.35))
        pair = _pair(hosted, nodes) if form == "matrix" else None
        if pair is not None:
            hosted.update({n: [v for v in hosted[n] if v in pair] for n in nodes})
            found[device] = _matrix(draws, pair)
        elif form == "rho":
            found[device] = Degradation(rho=draws.uniform(0.2, 1.0), assumed=True)
        else:
            here = list(dict.fromkeys(v for n in nodes for v in hosted[n]))
            own = [v for v in here if draws.chance(0.5)]
            found[device] = Degradation(curve={v: _curve(draws) for v in ["default", *own]}, assumed=True)
    return found


def _pair(hosted: Hosted, nodes: list[str]) -> tuple[str, str] | None:
    """The two variants that are on most of these nodes, if every node keeps one and every model a place."""
    common = [v for v, _ in Counter(v for n in nodes for v in hosted[n]).most_common(2)]
    if len(common) < 2 or not all(set(common) & set(hosted[n]) for n in nodes):
        return None
    elsewhere = {v for n, here in hosted.items() if n not in nodes for v in here}
    models = {_model_of(v) for here in hosted.values() for v in here}
    return (common[0], common[1]) if models == {_model_of(v) for v in (*elsewhere, *common)} else None


def _model_of(variant: str) -> str:
    return variant.rpartition("-")[0]


def _curve(draws: Draws) -> tuple[float, ...]:
    """1 alone, then rising about linearly; the end is the limit of the device."""
    slope = draws.uniform(0.2, 1.0)
    return tuple(rounded(1.0 + slope * others * (1.0 + 0.02 * others)) for others in range(draws.whole(3, 12)))


def _matrix(draws: Draws, pair: tuple[str, str]) -> Degradation:
    """Each variant is slowed down by either, up to a number of both together."""
    limit = draws.whole(3, 8)

    def table() -> tuple[tuple[float, ...], ...]:
        by_first, by_second = draws.uniform(0.2, 1.2), draws.uniform(0.2, 1.2)
        return tuple(
            tuple(rounded(1.0 + by_first * i + by_second * j) if i + j < limit else math.inf for j in range(limit))
            for i in range(limit)
        )

    return Degradation(axes=pair, matrix={variant: table() for variant in pair}, assumed=True)


# ---- how they are served


def draw_deployments(draws: Draws, fleet: Fleet, models: Mapping[str, Model], hosted: Hosted) -> tuple[Deployment, ...]:
    """One for each variant on each node. Shares of a queue node add up to 1 at most."""
    known = {v.name: v for m in models.values() for v in m.variants.values()}
    batched, limited = draws.chance(0.35), draws.chance(0.15)
    found = []
    for name, here in hosted.items():
        node = fleet.nodes[name]
        queue = node.serving == "queue"
        weights = [draws.uniform(0.5, 1.5) for _ in here]
        for variant, weight in zip(here, weights, strict=True):
            share = math.floor(1e4 * weight / sum(weights)) / 1e4 if queue else 1.0
            servers = draws.pick((1, 2, 3, 4), (0.55, 0.2, 0.1, 0.15)) if queue else 1
            found.append(
                Deployment(
                    variant=variant,
                    nodes=(name,),
                    share=share,
                    servers=max(1, min(servers, int(10.0 * share * node.count))),  # a tenth of a device at least
                    queue_limit=draws.whole(2, 20) if limited and draws.chance(0.5) else None,
                    batching=_batching(draws, known[variant].latency[node.device].base_ms)
                    if queue and batched and draws.chance(0.5)
                    else None,
                    assumed=True,
                )
            )
    return tuple(found)


def _batching(draws: Draws, base_ms: float) -> Batching:
    wait_ms = rounded(base_ms * draws.uniform(0.1, 1.0)) if draws.chance(0.5) else 0.0
    return Batching(max=draws.whole(2, 8), wait_ms=wait_ms, fixed=draws.uniform(0.2, 0.8), assumed=True)
