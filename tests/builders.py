"""Small scenarios and exact workloads for tests: every noun with defaults that make arithmetic by hand easy.

The device draws 10 W idle and 30 W busy and costs 1e-6 a millisecond. `small` takes 10 ms and is right with 0.8,
`large` takes 20 ms and is right with 0.9. Links cost nothing. All of it can be overridden by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from fairlead.domain.decision_log import DecisionLog
from fairlead.domain.hardware import Degradation, Device, Link, LinkChange, Node
from fairlead.domain.models import Batching, Deployment, Latency, Model, Variant
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Rules, Scenario, check
from fairlead.domain.workload import Arrivals, Draw, Phase, Source, Workload
from fairlead.policies.interface import Policy
from fairlead.sim.serving.decision_account import Account
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload
from fairlead.sim.serving.log import decision_log
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import DRAWS, STREAM, World

arrivals = partial(Arrivals, assumed=True)
batching = partial(Batching, assumed=True)
degradation = partial(Degradation, assumed=True)
link_change = partial(LinkChange, assumed=True)
phase = partial(Phase, assumed=True)


def device(name: str = "chip", **more: Any) -> Device:
    numbers = {"compute_tops": 1.0, "memory_mb": 1000.0, "power_idle_w": 10.0, "power_busy_w": 30.0}
    return Device(**{"name": name, "price_per_h": 3.6, "assumed": True, **numbers, **more})


def shared_device(**form: Any) -> Device:
    """A device whose workloads slow each other down: rho=..., curve=..., or axes=... and matrix=..."""
    return device(degradation=degradation(**form))


def node(name: str = "edge", **more: Any) -> Node:
    return Node(**{"name": name, "device": "chip", "assumed": True, **more})


def link(delay_ms: float = 0.0, from_: str = "*", to: str = "*", **more: Any) -> Link:
    return Link(from_=from_, to=to, delay_ms=delay_ms, assumed=True, **more)


def variant(
    name: str = "small", accuracy: float = 0.8, ms: float = 10.0, per_kb_ms: float = 0.0, **more: Any
) -> Variant:
    latency = {"chip": Latency(base_ms=ms, per_kb_ms=per_kb_ms, assumed=True)}
    return Variant(
        **{"name": name, "accuracy": accuracy, "memory_mb": 1.0, "latency": latency, "assumed": True, **more}
    )


SMALL, LARGE = variant(), variant("large", 0.9, 20.0)


def deploy(variant: str = "small", on: str = "edge", **more: Any) -> Deployment:
    return Deployment(variant=variant, nodes=(on,), assumed=True, **more)


def source(name: str = "app", **more: Any) -> Source:
    asks = {"model": "model", "tenant": "t", "sla": "s", "deadline_ms": 1000.0, "min_accuracy": 0.0}
    return Source(**{"name": name, "assumed": True, **asks, **more})


def scenario(
    *,
    devices: Iterable[Device] = (device(),),
    nodes: Iterable[Node] = (node(),),
    links: Iterable[Link] = (link(),),
    variants: Iterable[Variant] = (SMALL, LARGE),
    deployments: Iterable[Deployment] = (deploy(),),
    sources: Iterable[Source] = (source(),),
    changes: Iterable[LinkChange] = (),
    rules: Mapping[str, Any] | None = None,
    sites: Sequence[str] = ("site",),
    rate_per_min: float = 60.0,
    duration_s: float = 1.0,
) -> Scenario:
    """A sound scenario of one model."""
    workload = Workload(
        rate_per_min=rate_per_min,
        duration_s=duration_s,
        sites=tuple(sites),
        sources={s.name: s for s in sources},
        assumed=True,
    )
    made = Scenario(
        name="test",
        title="test",
        devices={d.name: d for d in devices},
        nodes={n.name: n for n in nodes},
        links=tuple(links),
        models={"model": Model(name="model", variants={v.name: v for v in variants})},
        deployments=tuple(deployments),
        workload=workload,
        rules=Rules(**{"assumed": True, **(rules or {})}),
        link_changes=tuple(changes),
    )
    assert list(check(made)) == []
    return made


@dataclass(frozen=True)
class Ask:
    """One request with all its draws as plain numbers; indices are rows of the scenario."""

    now_ms: float
    size_kb: float = 1.0
    deadline_ms: float = 1000.0
    min_accuracy: float = 0.0
    stream: int = -1
    rate_qps: float = 0.0
    site: int = 0
    source: int = 0
    work: float = 1.0
    quality: float = 0.0
    up: float = 0.0
    down: float = 0.0


def workload_of(requests: Sequence[Ask], ends_ms: Sequence[float] = (), seed: int = 0) -> DrawnWorkload:
    """Exactly these requests, by time; `ends_ms` says when each stream ends."""
    asked, draws, streams = (
        np.zeros(len(requests), REQUEST),
        np.zeros(len(requests), DRAWS),
        np.zeros(len(ends_ms), STREAM),
    )
    asked["id"] = np.arange(len(requests))
    for field in ("now_ms", "size_kb", "deadline_ms", "min_accuracy", "stream", "rate_qps", "site", "source"):
        asked[field] = [getattr(r, field) for r in requests]
    for field in ("work", "quality", "up", "down"):
        draws[field] = [getattr(r, field) for r in requests]
    streams["end_ms"] = ends_ms
    return DrawnWorkload(seed, asked, draws, streams)


def first_feasible(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return int(np.flatnonzero(excluded == 0)[0])


FIRST = Policy("first", first_feasible, "python")


def choosing(*choices: int) -> Policy:
    """Answers with choices[i] for request i."""
    return Policy("script", lambda request, candidates, excluded, u: choices[request.id], "python")


def play(made: Scenario, requests: Sequence[Ask], ends_ms: Sequence[float] = (), policy: Policy = FIRST) -> World:
    """The world after these requests."""
    plan = build_plan(made)
    world = new_world(plan, workload_of(requests, ends_ms))
    run(plan, world, policy)
    return world


@cache
def rich_scenario(dispatch: str = "request") -> Scenario:
    """Some of everything: batches, sharing, limits, an outage, streams and singles, second inferences."""
    small = variant(accuracy_sd=0.05, run_mb=200.0)
    large = variant("large", 0.9, 20.0, per_kb_ms=0.2, accuracy_sd=0.05, run_mb=300.0)
    nodes = [node("pair", count=2), node("shared", serving="shared"), node("cloud", cloud=True, count=2)]
    streams = source("streams", length_s=Draw(exponential=2.0), rate_qps=10.0, min_accuracy=0.8, share=0.2)
    singles = source("singles", deadline_ms=60.0, min_accuracy=0.75, size_kb=Draw(exponential=4.0))
    return scenario(
        devices=[shared_device(rho=0.5)],
        nodes=nodes,
        variants=[small, large],
        links=[link(3.0, delay_sd_ms=1.0, bandwidth_mbps=20.0), link(15.0, to="cloud", delay_sd_ms=5.0)],
        deployments=[
            deploy("small", "pair", servers=2, queue_limit=8, batching=batching(max=3, wait_ms=4.0)),
            deploy("small", "shared"),
            deploy("large", "shared"),
            deploy("large", "cloud", servers=2, queue_limit=6),
        ],
        sources=[replace(streams, work=Draw(lognormal=(1.0, 0.5))), singles],
        changes=[link_change(at_s=2.0, to="pair", up=False), link_change(at_s=2.5, to="pair", up=True)],
        rules={"dispatch": dispatch, "second_inference": True, "window_ms": 250.0},
        sites=("east", "west"),
        rate_per_min=9000.0,
        duration_s=5.0,
    )


def finished(made: Scenario, seed: int, policy: Policy) -> World:
    plan = build_plan(made)
    world = new_world(plan, make_workload(made, seed))
    run(plan, world, policy)
    return world


def log_of(made: Scenario, world: World) -> DecisionLog:
    """Its decision log, which does not know who decided."""
    return decision_log(made, build_plan(made), world, FIRST, Account(0))


def seen(world: World) -> bytes:
    """All results, as bytes."""
    return b"".join(a.tobytes() for a in (world.rows, world.windows, world.dispatched, world.nodes))
