"""Random edges: `random_edge(seed)` draws a whole scenario, for training a general dispatcher and for testing it.

`random:SEED` names one wherever a scenario is named (the loader asks `edge_named`). The same seed gives the same
edge on every machine. What is drawn, and from which ranges, is told in the guide "Random edges"; each part of it is a
file of `random_edge_parts`. A change of the distribution changes what was trained and published: tests hold it fixed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fairlead.domain.errors import UserError, shown
from fairlead.domain.hardware import Device
from fairlead.domain.models import Deployment, Model
from fairlead.domain.scenario import Rules, Scenario, check
from fairlead.domain.workload import Source, Workload
from fairlead.scenarios.offered_load import (
    capacity_qps,
    load_ratio,
    offered_qps,
    service_qps,
    source_qps,
    typical_kb,
)
from fairlead.scenarios.random_edge_parts.demand import DURATION_S, Asking, Place, draw_asking, draw_source
from fairlead.scenarios.random_edge_parts.deployments import draw_degradations, draw_deployments, draw_hosted
from fairlead.scenarios.random_edge_parts.draws import Draws, rounded
from fairlead.scenarios.random_edge_parts.fleet import Fleet, draw_device, draw_fleet
from fairlead.scenarios.random_edge_parts.models import draw_models, only, slowed
from fairlead.scenarios.random_edge_parts.network import Network, draw_link_changes, draw_network

PREFIX: Final = "random:"  #: Of the names of random edges.
TEST_SEEDS: Final = range(1000)  #: For tests and published figures; nothing may be trained or tuned on them.
VALIDATION_SEEDS: Final = range(1000, 10_000)  #: For validation and tuning.
FIRST_TRAINING_SEED: Final = 1_000_000  #: From here on, for training.
SEEDS: Final = 2**63  #: Seeds are below.
LEAST_LOAD: Final = 0.1  #: Offered work / capacity is uniform from here ...
MOST_LOAD: Final = 2.0  #: ... to here.
FEWEST_REQUESTS: Final = 600.0  #: Expected; where there would be fewer, all times are made shorter.
MOST_REQUESTS: Final = (3_000.0, 40_000.0)  #: Expected, drawn from here; where there would be more, times get longer.


def random_edge(seed: int) -> Scenario:
    """The random edge of a seed: a sound scenario, the same on every machine."""
    draws = Draws(seed)
    load, most_requests = draws.uniform(LEAST_LOAD, MOST_LOAD), draws.log_uniform(*MOST_REQUESTS)
    sites = [f"site-{i}" for i in range(1, 1 + draws.whole(1, 8))]
    fleet = draw_fleet(draws)
    sizes_kb = [draws.log_uniform(5.0, 200.0) for _ in range(draws.whole(1, 3))]
    models = draw_models(draws, fleet.types, sizes_kb)
    hosted = draw_hosted(draws, fleet, models)
    degradations = draw_degradations(draws, fleet, hosted)
    models = only(models, {variant for here in hosted.values() for variant in here})
    devices = {name: draw_device(draws, of, degradations.get(name)) for name, of in fleet.types.items()}
    deployments = draw_deployments(draws, fleet, models, hosted)
    network = draw_network(draws, sites, fleet)
    asking = draw_asking(draws, dict(zip(models, sizes_kb, strict=True)))
    plain = _plain(seed, sites, fleet, devices, models, deployments, network, asking)
    scenario = _scaled(_with_mix(draws, plain, asking), load, most_requests)
    scenario = replace(scenario, rules=_rules(draws, fleet))
    scenario = _with_sources(draws, scenario, asking, network)
    scenario = replace(scenario, link_changes=draw_link_changes(draws, sites, fleet, network))
    scenario = _at_load(scenario, load)
    assert not list(check(scenario)), seed
    return scenario


def edge_named(name: str) -> Scenario | None:
    """The random edge that is called so; None: that is the name of something else."""
    if not name.startswith(PREFIX) or name.endswith((".yaml", ".yml")):
        return None
    digits = name.removeprefix(PREFIX)
    if not (digits.isascii() and digits.isdigit()) or digits != digits.lstrip("0").rjust(1, "0"):
        raise UserError(f"{shown(name)}: expected a whole number from 0 on after '{PREFIX}', as in {PREFIX}7")
    if len(digits) > len(str(SEEDS)) or int(digits) >= SEEDS:
        raise UserError(f"{shown(name)}: seeds of random edges are below 2^63")
    return random_edge(int(digits))


def _plain(
    seed: int,
    sites: list[str],
    fleet: Fleet,
    devices: dict[str, Device],
    models: dict[str, Model],
    deployments: tuple[Deployment, ...],
    network: Network,
    asking: list[Asking],
) -> Scenario:
    """The edge with sources of single requests, which stand for what each source will ask for."""
    sources = {
        a.name: Source(
            name=a.name,
            model=a.model,
            tenant="tenant",
            sla="sla",
            deadline_ms=1.0,
            min_accuracy=0.0,
            share=a.part,
            size_kb=a.size_kb,
            assumed=True,
        )
        for a in asking
    }
    tiers = list(dict.fromkeys(tier.name for tier in fleet.tiers.values()))
    variants = sum(len(m.variants) for m in models.values())
    counts = f"{_counted(len(fleet.nodes), 'node')} ({', '.join(tiers)}), {_counted(len(sites), 'site')}"
    return Scenario(
        name=f"{PREFIX}{seed}",
        title=f"random edge: {counts}, {_counted(len(models), 'model')}, {_counted(variants, 'variant')}",
        devices=devices,
        nodes=fleet.nodes,
        links=network.links,
        models=models,
        deployments=deployments,
        workload=Workload(rate_per_min=60.0, duration_s=DURATION_S, sites=tuple(sites), sources=sources, assumed=True),
        rules=Rules(assumed=True),
    )


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _with_mix(draws: Draws, plain: Scenario, asking: list[Asking]) -> Scenario:
    """The requests split over the models about as their capacities are, and over a model's sources by their parts."""
    of_model = {model: [a for a in asking if a.model == model] for model in plain.models}
    alike = {a.name: a.part / sum(b.part for b in of_model[a.model]) for a in asking}
    capacity = capacity_qps(_with_shares(plain, alike))
    wanted = {model: capacity[model] * draws.uniform(0.5, 1.5) for model in plain.models}
    return _with_shares(plain, {a.name: rounded(alike[a.name] * wanted[a.model]) for a in asking})


def _with_shares(scenario: Scenario, shares: dict[str, float]) -> Scenario:
    sources = {name: replace(s, share=shares[name]) for name, s in scenario.workload.sources.items()}
    return replace(scenario, workload=replace(scenario.workload, sources=sources))


def _at_load(scenario: Scenario, load: float) -> Scenario:
    """The scenario at the rate that gives this load ratio, which is proportional to the rate."""
    workload = scenario.workload
    rate = rounded(workload.rate_per_min * load / load_ratio(scenario), 6)
    return replace(scenario, workload=replace(workload, rate_per_min=rate))


def _scaled(scenario: Scenario, load: float, most_requests: float) -> Scenario:
    """The scenario at this load ratio, with all times scaled so that its requests are neither many nor few."""
    requests = sum(offered_qps(_at_load(scenario, load)).values()) * DURATION_S
    factor = requests / min(max(requests, FEWEST_REQUESTS), most_requests)
    return _at_load(replace(scenario, models=slowed(scenario.models, factor)), load)


def _rules(draws: Draws, fleet: Fleet) -> Rules:
    cloud = any(node.cloud for node in fleet.nodes.values())
    return Rules(
        dispatch="stream" if draws.chance(0.2) else "request",
        admit=draws.pick(((), ("deadline",), ("accuracy",), ("deadline", "accuracy")), (0.76, 0.08, 0.08, 0.08)),
        second_inference=cloud and draws.chance(0.5),
        offload_from=draws.pick(("node", "access")),
        assumed=True,
    )


def _with_sources(draws: Draws, scenario: Scenario, asking: list[Asking], network: Network) -> Scenario:
    """The scenario with what its sources really are."""
    workload, model_of = scenario.workload, {v: m.name for v, (m, _) in scenario.variants().items()}
    places: dict[str, list[Place]] = {model: [] for model in scenario.models}
    for deployed, variant, node in scenario.placements():
        model = model_of[variant.name]
        size_kb, time = typical_kb(scenario, model), variant.latency[node.device]
        speed = 1.0 if node.serving == "shared" else min(1.0, deployed.share * node.count / deployed.servers)
        proc_ms = (time.base_ms + time.per_kb_ms * size_kb) / speed
        rate = service_qps(deployed, variant, node, size_kb)
        places[model].append(Place(node.name, node.region, variant.accuracy, proc_ms, rate))
    by_stream = scenario.rules.dispatch == "stream"
    found = [
        draw_source(
            draws,
            a,
            source_qps(scenario, workload.sources[a.name]),
            places[a.model],
            list(workload.sites),
            network,
            by_stream,
        )
        for a in asking
    ]
    arrivals = sum(per_s for _, per_s in found)
    sources = {s.name: replace(s, share=rounded(per_s / arrivals)) for s, per_s in found}
    return replace(scenario, workload=replace(workload, sources=sources))
