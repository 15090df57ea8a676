"""How much a scenario of requests asks of its servers: the load ratio, offered work / capacity.

    offered (model)  = arrivals/s, in the mean over the run, x requests of an arrival (mean length x mean rate)
    capacity (model) = sum of its deployments' service rates on queue nodes + on each shared node where it is deployed
                       the service rate of its fastest variant there x part
    part             = offered (model) / sum of offered (all models deployed on the shared node)
    load ratio       = the largest offered / capacity of any model

Service rates are those of the guide "The serving world", at the typical size. So a shared node takes one request at a
time, and batches are full. Not counted: deadlines, accuracies, regions, outages, second inferences; sources with a
trace. Called by `random_edges` and by the list of random edges.
"""

from __future__ import annotations

import math
from itertools import pairwise

from fairlead.domain.hardware import Node
from fairlead.domain.models import Deployment, Variant
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Source, mean_of


def load_ratio(scenario: Scenario) -> float:
    """Offered work / capacity of the model for which that is largest."""
    offered, capacity = offered_qps(scenario), capacity_qps(scenario)
    return max(offered[model] / capacity[model] for model in offered)


def offered_qps(scenario: Scenario) -> dict[str, float]:
    """Requests a second for each model that is asked for."""
    found: dict[str, float] = {}
    for source in _drawn(scenario):
        found[source.model] = found.get(source.model, 0.0) + source_qps(scenario, source)
    return found


def source_qps(scenario: Scenario, source: Source) -> float:
    """Requests a second of a source, in the mean over the run."""
    workload = scenario.workload
    starts = [0.0, *(min(p.at_s, workload.duration_s) for p in source.phases), workload.duration_s]
    rates = [1.0, *(p.rate for p in source.phases)]
    lasted = [after - before for before, after in pairwise(starts)]
    mean_rate = math.fsum(rate * s for rate, s in zip(rates, lasted, strict=True)) / workload.duration_s
    each = 1.0 if source.length_s is None else mean_of(source.length_s) * mean_of(source.rate_qps)
    return workload.arrivals_per_ms(source) * 1000.0 * mean_rate * each


def capacity_qps(scenario: Scenario) -> dict[str, float]:
    """The largest number of requests a second of each model, all of its deployments together."""
    offered, model_of = offered_qps(scenario), {v: m.name for v, (m, _) in scenario.variants().items()}
    fastest: dict[tuple[str, str], float] = {}  # on shared nodes, by (node, model)
    found = dict.fromkeys(scenario.models, 0.0)
    for deployment, variant, node in scenario.placements():
        model = model_of[variant.name]
        rate = service_qps(deployment, variant, node, typical_kb(scenario, model))
        if node.serving == "queue":
            found[model] += rate
        else:
            fastest[node.name, model] = max(rate, fastest.get((node.name, model), 0.0))
    for (node_name, model), rate in fastest.items():
        together = math.fsum(offered.get(m, 0.0) for n, m in fastest if n == node_name)
        found[model] += rate * offered.get(model, 0.0) / together if together else 0.0
    return found


def service_qps(deployment: Deployment, variant: Variant, node: Node, size_kb: float) -> float:
    """The service rate of a deployment for inputs of this size; on a shared node that of a request alone."""
    latency = variant.latency[node.device]
    alone_ms = latency.base_ms + latency.per_kb_ms * size_kb
    if node.serving == "shared":
        return 1000.0 / alone_ms
    batches = deployment.batching
    part = batches.fixed / batches.max + 1.0 - batches.fixed if batches and batches.max > 1 else 1.0
    speed = min(1.0, deployment.share * node.count / deployment.servers)
    return deployment.servers * 1000.0 * speed / (alone_ms * part)


def typical_kb(scenario: Scenario, model: str) -> float:
    """The mean input size of the model's requests, by the shares of its sources."""
    asking = [s for s in scenario.workload.sources.values() if s.model == model and s.share > 0]
    shares = math.fsum(s.share for s in asking)
    return math.fsum(s.share * mean_of(s.size_kb) for s in asking) / shares if asking else 1.0


def _drawn(scenario: Scenario) -> list[Source]:
    return [s for s in scenario.workload.sources.values() if s.arrivals.process != "trace" and s.share > 0]
