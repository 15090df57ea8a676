"""The yardstick workload: heterogeneous nodes, Poisson requests at load 0.8, normal network delay, exponential work,
one FIFO server per node, least-outstanding routing. As a scenario, and as a SimPy model given the same draws.
"""

from __future__ import annotations

from typing import Any

import simpy

from fairlead.domain.hardware import Device, Link, Node
from fairlead.domain.models import Deployment, Latency, Model, Variant
from fairlead.domain.scenario import Rules, Scenario
from fairlead.domain.workload import Draw, Source, Workload
from fairlead.policies.randomness import ARRIVAL, exponential
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload

LOAD = 0.8
SEED = 1


def scenario(nodes: int, requests: int) -> Scenario:
    """The yardstick with that many nodes and, nearly, that many requests (a few more: cut to the number)."""
    alone_ms = [5.0 + (7 * i) % 13 for i in range(nodes)]  # unlike nodes, 5 to 17 ms
    rate_per_s = LOAD * sum(1000.0 / t for t in alone_ms)
    latency = {f"device-{i}": Latency(base_ms=t, assumed=True) for i, t in enumerate(alone_ms)}
    variant = Variant(name="variant", accuracy=0.8, memory_mb=10, latency=latency, assumed=True)
    source = Source(
        name="clients",
        model="model",
        tenant="tenant",
        sla="sla",
        deadline_ms=100.0,
        min_accuracy=0.5,
        work=Draw(exponential=1.0),
        assumed=True,
    )
    return Scenario(
        name="yardstick",
        title="yardstick",
        devices={
            d: Device(
                name=d, compute_tops=1, memory_mb=1000, power_idle_w=2, power_busy_w=10, price_per_h=0.1, assumed=True
            )
            for d in latency
        },
        nodes={f"node-{i}": Node(name=f"node-{i}", device=f"device-{i}", assumed=True) for i in range(nodes)},
        links=(Link(from_="*", to="*", delay_ms=5, delay_sd_ms=1, assumed=True),),
        models={"model": Model(name="model", variants={"variant": variant})},
        deployments=(Deployment(variant="variant", nodes=("*",), assumed=True),),
        workload=Workload(
            rate_per_min=rate_per_s * 60.0,
            duration_s=(requests + 6.0 * requests**0.5) / rate_per_s,
            sites=("site",),
            sources={"clients": source},
            assumed=True,
        ),
        rules=Rules(assumed=True),
    )


def workload(of: Scenario, requests: int) -> DrawnWorkload:
    """Exactly that many requests."""
    w = make_workload(of, SEED)
    if len(w.requests) < requests:
        raise RuntimeError(f"drew {len(w.requests)} requests, {requests} are needed")
    return DrawnWorkload(w.seed, w.requests[:requests], w.draws[:requests], w.streams)


def simpy_inputs(
    of: Scenario, w: DrawnWorkload
) -> tuple[list[float], list[float], list[float], list[float], list[float]]:
    """(gaps between arrivals, delays up, delays down, work, time alone per node), all drawn beforehand."""
    link, n = of.links[0], len(w.requests)
    rate_per_ms = of.workload.rate_per_min / 60e3
    gaps = [exponential(SEED, ARRIVAL, i, 0) / rate_per_ms for i in range(n)]
    up = [max(0.0, link.delay_ms + link.delay_sd_ms * z) for z in w.draws["up"].tolist()]
    down = [max(0.0, link.delay_ms + link.delay_sd_ms * z) for z in w.draws["down"].tolist()]
    alone = [t.base_ms for t in of.models["model"].variants["variant"].latency.values()]
    return gaps, up, down, w.draws["work"].tolist(), alone


def simpy_latencies(
    gaps: list[float], up: list[float], down: list[float], work: list[float], alone: list[float]
) -> list[float]:
    """The yardstick in SimPy, written as its documentation would: one process per request, a Resource per node."""
    env = simpy.Environment()
    servers = [simpy.Resource(env) for _ in alone]
    outstanding = [0] * len(alone)
    latencies = [0.0] * len(gaps)

    def request(i: int) -> Any:
        arrived = env.now
        node = min(range(len(alone)), key=outstanding.__getitem__)
        outstanding[node] += 1
        yield env.timeout(up[i])
        with servers[node].request() as turn:
            yield turn
            yield env.timeout(alone[node] * work[i])
        outstanding[node] -= 1
        yield env.timeout(down[i])
        latencies[i] = env.now - arrived

    def arrivals() -> Any:
        for i, gap in enumerate(gaps):
            yield env.timeout(gap)
            env.process(request(i))

    env.process(arrivals())
    env.run()
    return latencies
