"""The compiled simulator against queueing theory: known means, Little's law, conservation, the utilisation law.

A mean is taken over independent runs (seeds) and its 99.9 % confidence interval must hold the value of the formula and
be narrow. Seeds are fixed: a test always gives the same answer. S is the mean service time, lambda the rate of
arrivals, rho the load per server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import factorial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from fairlead.domain.hardware import Degradation, Device, Link, Node
from fairlead.domain.models import Batching, Deployment, Latency, Model, Variant
from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Rules, Scenario, check
from fairlead.domain.workload import Draw, Source, Workload
from fairlead.policies.interface import find
from fairlead.policies.randomness import inverse_normal
from fairlead.policies.snapshot.fleet_arrays import PROMISED, RUNNING
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import AT_WINDOW, DONE, WINDOW, Plan, World

S = 10.0  # ms
ROUND_ROBIN = find("round-robin")
EXPONENTIAL, CONSTANT, LOGNORMAL = Draw(exponential=1.0), 1.0, Draw(lognormal=(1.0, 1.5))
SQUARED_CV = {EXPONENTIAL: 1.0, CONSTANT: 0.0, LOGNORMAL: 1.5**2}
WORKS = pytest.mark.parametrize("work", list(SQUARED_CV), ids=["exponential", "constant", "lognormal"])
LOADS = pytest.mark.parametrize("load", [0.5, 0.8])
FREE_LINK = Link(from_="*", to="*", delay_ms=0.0, assumed=True)


# ---- building and running


node = partial(Node, device="chip", assumed=True)
batching = partial(Batching, assumed=True)


def deploy(on: str, variant: str = "small", **more: Any) -> Deployment:
    return Deployment(variant=variant, nodes=(on,), assumed=True, **more)


def source(name: str = "one", **more: Any) -> Source:
    given = {"deadline_ms": 1e9, "min_accuracy": 0.0} | more
    return Source(name=name, model="model", tenant="t", sla="s", assumed=True, **given)


def scenario(
    nodes: list[Node], deployments: list[Deployment], sources: list[Source], per_s: float, seconds: float,
    links: tuple[Link, ...] = (FREE_LINK,), sites: tuple[str, ...] = ("site",), **rules: Any,
) -> Scenario:  # fmt: skip
    """Nodes of one device, on which `small` takes S ms and `large`, which is better, 2 S."""
    device = Device(
        name="chip", compute_tops=1.0, memory_mb=1000.0, power_idle_w=3.0, power_busy_w=11.0, price_per_h=1.0,
        degradation=Degradation(rho=1.0, assumed=True), assumed=True,
    )  # fmt: skip
    variants = {
        name: Variant(name=name, accuracy=accuracy, accuracy_sd=0.1, memory_mb=1.0, assumed=True,
                      latency={"chip": Latency(base_ms=ms, assumed=True)})
        for name, accuracy, ms in (("small", 0.7, S), ("large", 0.9, 2 * S))
    }  # fmt: skip
    made = Scenario(
        name="theory", title="", devices={"chip": device}, nodes={n.name: n for n in nodes}, links=links,
        models={"model": Model(name="model", variants=variants)}, deployments=tuple(deployments),
        workload=Workload(rate_per_min=60 * per_s, duration_s=seconds, sites=sites,
                          sources={s.name: s for s in sources}, assumed=True),
        rules=Rules(assumed=True, **rules),
    )  # fmt: skip
    assert list(check(made)) == []
    return made


def one_node(work: float | Draw, load: float, requests: int, servers: int = 1, serving: Any = "queue") -> Scenario:
    """Poisson arrivals at one node with `servers` servers of full speed (or one shared device)."""
    per_s = load * servers * 1000.0 / S
    at = node(name="n", count=servers, serving=serving)
    return scenario([at], [deploy("n", servers=servers)], [source(work=work)], per_s, requests / per_s)


def world_of(made: Scenario, plan: Plan, seed: int) -> World:
    world = new_world(plan, make_workload(made, seed))
    assert world.draws["work"].mean() == pytest.approx(1.0, abs=0.15)  # else theory speaks of another load
    return world


def over_seeds(made: Scenario, seeds: int, statistics: Callable[[Any, World], Any]) -> Any:
    """What `statistics` says of (rows after the warm-up, world) of each of `seeds` runs, one row each."""
    plan, found = build_plan(made), []
    for seed in range(seeds):
        world = world_of(made, plan, seed)
        run(plan, world, ROUND_ROBIN)
        found.append(statistics(world.rows[settled(plan, world)], world))
    return np.array(found)


def settled(plan: Plan, world: World) -> Any:
    """Which requests came after the warm-up, a tenth of the run."""
    return world.requests["now_ms"] > 0.1 * plan.rules[0]["duration_ms"]


def assert_mean(samples: Any, theory: float, narrow: float = 0.04) -> None:
    """Theory lies in the 99.9 % interval of the samples' mean, whose half width is below `narrow` of it."""
    mean = samples.mean()
    half = student.ppf(0.9995, len(samples) - 1) * samples.std(ddof=1) / np.sqrt(len(samples))
    assert half < narrow * abs(theory), f"too vague to tell: {mean:.6g} +- {half:.2g}, theory {theory:.6g}"
    assert abs(mean - theory) <= half, f"simulated {mean:.6g} +- {half:.2g}, theory {theory:.6g}"


# ---- means


def test_normal_draws_have_the_quantiles_of_the_normal_distribution() -> None:
    p = np.concatenate([10.0 ** -np.arange(2.0, 16.0), np.linspace(0.01, 0.99, 197)])
    np.testing.assert_allclose([inverse_normal(u) for u in p], norm.ppf(p), rtol=1e-12, atol=1e-15)


def erlang_c(servers: int, load: float) -> float:
    """Probability that one has to wait in M/M/c."""
    a = servers * load
    last = a**servers / factorial(servers) / (1.0 - load)
    return last / (sum(a**k / factorial(k) for k in range(servers)) + last)


@LOADS
@pytest.mark.parametrize("servers", [1, 2, 4])
def test_exponential_service_waits_as_erlang_c_says(servers: int, load: float) -> None:
    """M/M/c: P(wait) = C(c, a), E[wait] = C(c, a) S / (c (1 - rho)); for c = 1, C = rho."""
    made = one_node(EXPONENTIAL, load, 60_000, servers)
    found = over_seeds(made, 30, lambda rows, _: (rows["queue_ms"].mean(), (rows["queue_ms"] > 0.0).mean()))
    must_wait = erlang_c(servers, load)
    assert_mean(found[:, 0], must_wait * S / (servers * (1.0 - load)))
    assert_mean(found[:, 1], must_wait, narrow=0.02)


@LOADS
@WORKS
def test_one_server_waits_as_pollaczek_khinchine_says(work: float | Draw, load: float) -> None:
    """M/G/1: E[wait] = rho S (1 + cv^2) / (2 (1 - rho)); M/D/1 with cv = 0."""
    found = over_seeds(one_node(work, load, 120_000), 30, lambda rows, _: rows["queue_ms"].mean())
    assert_mean(found, load * S * (1.0 + SQUARED_CV[work]) / (2.0 * (1.0 - load)))


@LOADS
@WORKS
def test_a_shared_node_is_insensitive_to_the_distribution_of_work(work: float | Draw, load: float) -> None:
    """M/G/1-PS: E[response] = S / (1 - rho), whatever the distribution."""
    made = one_node(work, load, 60_000, serving="shared")
    found = over_seeds(made, 30, lambda rows, _: rows["latency_ms"].mean())
    assert_mean(found, S / (1.0 - load))


@LOADS
def test_a_shared_node_slows_small_and_large_requests_alike(load: float) -> None:
    """M/G/1-PS: E[response | size x] = x / (1 - rho), so in any bin of sizes E[response] / E[x] = 1 / (1 - rho)."""

    def statistics(rows: Any, world: World) -> list[float]:
        alone, took = S * world.draws["work"][rows["request"]], rows["latency_ms"]
        return [took[b].mean() / alone[b].mean() for b in (alone < 0.5 * S, alone > 1.5 * S)]

    found = over_seeds(one_node(EXPONENTIAL, load, 60_000, serving="shared"), 30, statistics)
    for slowdown in found.T:
        assert_mean(slowdown, 1.0 / (1.0 - load))


# ---- Little's law and conservation, at window edges


def edges(plan: Plan, world: World) -> Iterator[float]:
    """Run the world, stopping at every window edge and once more at the end."""
    handle, clock = Handle(plan, [world], [ROUND_ROBIN.compiled]), world.clock[0]
    handle.advance(AT_WINDOW)
    while handle.codes[0] == WINDOW:
        yield float(clock["now_ms"])
        handle.advance(AT_WINDOW)
    assert handle.codes[0] == DONE
    yield float(clock["now_ms"])


def in_flight(world: World) -> int:
    clock = world.clock[0]
    return int(clock["arrived"] - clock["finished"] - clock["rejected"])


def jobs_at_nodes(plan: Plan, world: World) -> Any:
    """How many wait or are served at each node, from the stations and servers."""
    queues = plan.stations[plan.stations["deployment"] >= 0]
    of_server = np.repeat(queues["node"], plan.deployments["servers"][queues["deployment"]])
    served = np.where(np.isfinite(world.servers["finish_ms"]), world.servers["jobs"], 0)
    n = len(world.nodes)
    return np.bincount(plan.stations["node"], world.stations["jobs"], n) + np.bincount(of_server, served, n)


def test_number_present_is_rate_times_time_present() -> None:
    """Little: L (mean over window edges) = lambda W on the way up, at each node, from arrival to the end of service."""
    nodes = [node(name="pair", count=2), node(name="shared", serving="shared"), node(name="batches")]
    batches = deploy("batches", batching=batching(max=4, wait_ms=5.0, fixed=0.8))
    deployments = [deploy("pair", servers=2), deploy("shared"), batches]
    near = Link(from_="near", to="*", delay_ms=5.0, delay_sd_ms=4.0, bandwidth_mbps=10.0, assumed=True)
    far = Link(from_="far", to="*", delay_ms=60.0, delay_sd_ms=10.0, assumed=True)
    sources, sites = [source(work=LOGNORMAL, size_kb=Draw(uniform=(1.0, 9.0)))], ("near", "far")
    made = scenario(nodes, deployments, sources, 220.0, 200.0, (near, far), sites, window_ms=50.0)
    plan, ratios = build_plan(made), []
    for seed in range(15):
        world = world_of(made, plan, seed)
        duration_ms, seen = plan.rules[0]["duration_ms"], []
        for at_ms in edges(plan, world):
            if 0.1 * duration_ms < at_ms <= duration_ms:
                seen.append([world.clock[0]["joining"], *jobs_at_nodes(plan, world), in_flight(world)])
        rows, chosen = world.rows, settled(plan, world)
        link = plan.links[world.requests["site"], rows["node"]]
        down_ms = np.maximum(0.0, link["net_ms"] + link["net_sd_ms"] * world.draws["down"])
        there_ms = rows["queue_ms"] + rows["service_ms"]
        spent_ms = [np.where(rows["node"] == n, there_ms, 0.0) for n in range(len(nodes))]
        spent_ms = [rows["net_ms"] - down_ms, *spent_ms, rows["latency_ms"] - down_ms]
        ratios.append(np.mean(seen, axis=0) / [s[chosen].sum() / (0.9 * duration_ms) for s in spent_ms])
    for ratio in np.array(ratios).T:
        assert_mean(ratio, 1.0, narrow=0.02)


def chain(world: World, job: int, length: int) -> list[int]:
    """The jobs of a queue, batch or shared node, along their links."""
    found = []
    for _ in range(length):
        found.append(int(job))
        job = world.jobs[job]["next"]
    assert length == 0 or job == -1
    return found


def jobs_held(world: World) -> list[int]:
    """Every job that some structure holds: the heap of those on their way, the stations, the busy servers."""
    held = world.heap["job"][: world.clock[0]["joining"]].tolist()
    for place, first in ((world.stations, "head"), (world.servers[np.isfinite(world.servers["finish_ms"])], "job")):
        for state in place:
            held += chain(world, state[first], int(state["jobs"]))
    return held


@pytest.mark.parametrize("offload_from", ["node", "access"])
@pytest.mark.parametrize("dispatch", ["request", "stream"])
def test_every_request_is_finished_rejected_or_held_exactly_once(dispatch: str, offload_from: str) -> None:
    """arrived = finished + rejected + held at every window edge; with limits, batches, sharing, second inferences."""
    nodes = [node(name="queue", count=2), node(name="shared", serving="shared"), node(name="cloud", cloud=True)]
    deployments = [
        deploy("queue", servers=2, queue_limit=12, batching=batching(max=3, wait_ms=8.0)),
        deploy("shared", queue_limit=6),
        deploy("shared", "large", queue_limit=5),
        deploy("cloud", "large", queue_limit=10, batching=batching(max=4, wait_ms=3.0, fixed=0.9)),
    ]
    sources = [source(work=EXPONENTIAL, min_accuracy=0.7)]
    sources += [source("streams", length_s=0.5, rate_qps=20.0, work=LOGNORMAL, min_accuracy=0.75, share=0.1)]
    links = (Link(from_="*", to="*", delay_ms=10.0, delay_sd_ms=5.0, assumed=True),)
    rules: Any = {"dispatch": dispatch, "offload_from": offload_from, "second_inference": True, "window_ms": 7.0}
    plan = build_plan(made := scenario(nodes, deployments, sources, 170.0, 20.0, links, **rules))
    world = world_of(made, plan, 1)
    clock, batched, shared = world.clock[0], 0, plan.stations["deployment"] < 0
    most = np.zeros(len(nodes))
    for _ in edges(plan, world):
        held = jobs_held(world)
        pending = np.flatnonzero(world.rows["outcome"][: clock["arrived"]] == Outcome.PENDING)
        assert sorted(held) == pending.tolist()
        assert len(held) == in_flight(world) == clock["joining"] + jobs_at_nodes(plan, world).sum()
        on_queues = world.candidates["in_flight"][plan.stations["deployment"][~shared]].sum()
        assert len(held) == on_queues + world.counts[PROMISED].sum()
        assert world.stations["jobs"][shared].sum() == world.counts[RUNNING].sum()
        busy = np.isfinite(world.servers["finish_ms"])
        assert world.stations["busy"].sum() == busy.sum()
        batched += (world.servers["jobs"][busy] > 1).sum()
        most = np.maximum(most, jobs_at_nodes(plan, world))
    windows = world.windows
    assert in_flight(world) == 0
    assert clock["arrived"] == len(world.requests) == windows["arrived"].sum()
    assert windows["delivered"].sum() == clock["finished"]
    assert windows["rejected"].sum() == clock["rejected"]
    # The run has seen what it is about.
    assert min(clock["finished"], clock["rejected"], windows["escalated"].sum(), batched) > 100
    assert most.min() > 3


# ---- utilisation


def test_utilisation_is_rate_times_service_time() -> None:
    """Utilisation = lambda S / capacity; busy time is the work done, energy above idle is power x busy time."""
    nodes = [node(name="pair", count=2), node(name="halves"), node(name="shared", serving="shared")]
    deployments = [deploy("pair", servers=2), deploy("halves", servers=2), deploy("shared")]
    made = scenario(nodes, deployments, [source(work=LOGNORMAL)], 210.0, 250.0)
    capacity = np.array([2.0, 1.0, 1.0])  # in devices: two, one split over two servers, one shared

    def statistics(_: Any, world: World) -> Any:
        work_ms = np.bincount(world.rows["node"], S * world.draws["work"])
        busy_ms, energy_mj = world.nodes["busy_ms"], world.nodes["energy_mj"]
        np.testing.assert_allclose(busy_ms * capacity, work_ms, rtol=1e-9)
        np.testing.assert_allclose(energy_mj, (11.0 - 3.0) * capacity * busy_ms, rtol=1e-9)
        np.testing.assert_allclose(np.bincount(world.rows["node"], world.rows["energy_mj"]), energy_mj, rtol=1e-9)
        return busy_ms / max(1000.0 * made.workload.duration_s, world.clock[0]["last_ms"])

    found = over_seeds(made, 20, statistics)
    for utilisation, devices in zip(found.T, capacity, strict=True):
        assert_mean(utilisation, 70.0 * S / 1000.0 / devices, narrow=0.02)
