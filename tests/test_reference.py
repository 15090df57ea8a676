"""The compiled engine equals the reference simulator, request by request, on random scenarios that vary everything.

A scenario is made from its number alone: `differences(run_both(N, policy))` in a shell repeats case N. Two families:
numbers drawn from a continuum, where no two events coincide, and numbers on a lattice of powers of two, where
arithmetic is exact and many do, which tests the order at the same instant.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pytest

from fairlead.domain.hardware import Degradation, Device, Link, LinkChange, Node
from fairlead.domain.models import Batching, Deployment, Latency, Model, Variant
from fairlead.domain.outcomes import REASON_NAMES, Outcome
from fairlead.domain.records import FORESEEN
from fairlead.domain.scenario import Rules, Scenario, check
from fairlead.domain.workload import Arrivals, Draw, Phase, Source, Workload
from fairlead.policies.interface import Policy, policy, rules
from fairlead.sim.reference.serving import Result, simulate
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import World

Serving = Literal["queue", "shared"]

CHUNKS, PER_CHUNK = 20, 13
SAME = ("request", "time_ms", "choice", "node", "variant", "second", "outcome", "reason", "bound")
# Equal to 1e-9 relative; times, being differences of instants of up to some 1e5 ms, have an absolute floor.
CLOSE = {"net_ms": 1e-9, "queue_ms": 1e-9, "service_ms": 1e-9, "latency_ms": 1e-9}
CLOSE |= {"accuracy": 0.0, "energy_mj": 1e-9, "price": 1e-18}


# ---- random scenarios


@dataclass
class Maker:
    """Draws the nouns of one scenario."""

    rng: random.Random
    lattice: bool
    steady: bool = False  # whether all requests of a source bring the same work
    slow_alone: float = 1.0  # slow-down in curves and matrices of a request that is alone

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, low: float, high: float) -> float:
        if self.lattice:
            return float(self.rng.randint(int(low), int(high)))
        return self.rng.uniform(low, high)

    def draw(self, low: float, high: float) -> float | Draw:
        """A number or any form of draw, about low..high."""
        if self.lattice:
            values = tuple(2.0 ** self.rng.randint(round(math.log2(low)), int(math.log2(high))) for _ in range(4))
            return Draw(choice=values) if self.chance(0.6) else values[0]
        mean = self.rng.uniform(low, high)
        weights = (1.0, 2.0, 0.5) if self.chance(0.5) else None
        forms: list[float | Draw] = [
            mean,
            Draw(constant=mean),
            Draw(uniform=(low, high)),
            Draw(exponential=mean),
            Draw(lognormal=(mean, self.rng.uniform(0.1, 1.0))),
            Draw(choice=(low, mean, high), weights=weights),
        ]
        return self.rng.choice(forms)

    def scenario(self) -> Scenario:
        rng = self.rng
        sites = tuple(f"s{i}" for i in range(rng.randint(1, 4)))
        devices = [f"d{i}" for i in range(rng.randint(1, 3))]
        nodes = self.nodes(devices)
        models = self.models(devices)
        variants = [v for m in models.values() for v in m.variants.values()]
        deployments = self.deployments(nodes, models)
        rules = Rules(
            dispatch=rng.choice(("stream", "request")),
            admit=rng.choice(((), (), (), ("deadline",), ("accuracy",), ("deadline", "accuracy"))),
            second_inference=self.chance(0.6),
            offload_from=rng.choice(("node", "access")),
            window_ms=rng.choice((100.0, 1000.0)),
            assumed=True,
        )
        duration_s = float(rng.choice((2, 4, 8)))
        scenario = Scenario(
            name="random",
            title="random",
            devices={d: self.device(d, [v.name for v in variants]) for d in devices},
            nodes=nodes,
            links=self.links(sites, nodes),
            models=models,
            deployments=deployments,
            workload=self.workload(sites, list(models), duration_s),
            rules=rules,
            link_changes=self.link_changes([*sites, *nodes], list(nodes), duration_s),
        )
        return self.fit_memory(scenario)

    def nodes(self, devices: list[str]) -> dict[str, Node]:
        mixed: tuple[Serving, ...] = ("queue", "shared")
        either = self.rng.choice((mixed[:1], mixed[1:], mixed, mixed))
        found = {}
        for i in range(self.rng.randint(1, 6)):
            serving = self.rng.choice(either)
            found[f"n{i}"] = Node(
                name=f"n{i}",
                device=self.rng.choice(devices),
                count=1 if serving == "shared" else self.rng.choice((1, 1, 2, 4)),
                serving=serving,
                cloud=self.chance(0.4),
                region=self.rng.choice(("", "eu", "us")),
                certificates=tuple(c for c in ("iso", "med") if self.chance(0.6)),
                assumed=True,
            )
        return found

    def device(self, name: str, variants: list[str]) -> Device:
        idle = self.number(1, 20)
        return Device(
            name=name,
            compute_tops=1.0,
            memory_mb=1.0,  # set by fit_memory
            power_idle_w=idle,
            power_busy_w=idle + self.number(0, 60),
            price_per_h=self.number(0, 4),
            degradation=self.degradation(variants),
            assumed=True,
        )

    def degradation(self, variants: list[str]) -> Degradation:
        form = self.rng.choice(("curve", "matrix") if self.lattice else ("rho", "curve", "matrix"))
        if form == "rho":
            return Degradation(rho=self.rng.choice((0.0, self.rng.uniform(0.0, 1.5))), assumed=True)
        if form == "curve":
            names = ["default", *(v for v in variants if self.chance(0.4))]
            return Degradation(curve={v: self.curve() for v in names}, assumed=True)
        rows, columns = self.rng.randint(1, 8), self.rng.randint(1, 8)
        tables = {v: self.table(rows, columns) for v in variants}
        first, second = self.rng.sample([*variants, "elsewhere"], 2)
        return Degradation(axes=(first, second), matrix=tables, assumed=True)

    def table(self, rows: int, columns: int) -> tuple[tuple[float, ...], ...]:
        """Infinite from some number of others on, as resource limits are."""
        limit = self.rng.choice((2, 4, 99))
        return tuple(
            tuple(self.slower(i + j) if i + j < limit else math.inf for j in range(columns)) for i in range(rows)
        )

    def curve(self) -> tuple[float, ...]:
        return tuple(self.slower(i) for i in range(self.rng.choice((1, 3, 6, 12, 40))))

    def slower(self, others: int) -> float:
        if self.lattice:
            return self.slow_alone * 2.0 ** min(4, others // 2)
        return self.slow_alone + others * self.rng.uniform(0.0, 0.8)

    def models(self, devices: list[str]) -> dict[str, Model]:
        found = {}
        for m in range(self.rng.randint(1, 3)):
            variants = {}
            for v in range(self.rng.randint(1, 3)):
                name = f"m{m}v{v}"
                latency = {
                    d: Latency(
                        base_ms=2.0 ** self.rng.randint(1, 5) if self.lattice else self.rng.uniform(2.0, 40.0),
                        per_kb_ms=self.rng.choice((0.0, 0.5 if self.lattice else self.rng.uniform(0.0, 0.5))),
                        assumed=True,
                    )
                    for d in devices
                }
                variants[name] = Variant(
                    name=name,
                    accuracy=self.rng.choice((0.5, 0.6, 0.7, 0.8, 0.9)),
                    accuracy_sd=self.rng.choice((0.0, 0.05, 0.2)),
                    memory_mb=self.number(10, 200),
                    run_mb=self.rng.choice((0.0, self.number(1, 100))),
                    latency=latency,
                    assumed=True,
                )
            found[f"m{m}"] = Model(name=f"m{m}", variants=variants)
        return found

    def deployments(self, nodes: dict[str, Node], models: dict[str, Model]) -> tuple[Deployment, ...]:
        """Each variant on some nodes; each model on at least one."""
        names = [v for m in models.values() for v in m.variants]
        if self.chance(0.3) and all(n.serving == "queue" for n in nodes.values()):
            share = 1.0 / (len(names) if not self.lattice else 16)
            return tuple(self.deployment(v, self.rng.choice(("*", "n*", "n?")), share, True) for v in names)
        drawn = [(v, n) for v in names for n in nodes if self.chance(0.6)]
        drawn += [(self.rng.choice(list(m.variants)), self.rng.choice(list(nodes))) for m in models.values()]
        pairs = sorted(set(drawn))
        if self.chance(0.5):
            self.rng.shuffle(pairs)
        here = Counter(n for _, n in pairs)
        found = []
        for v, n in pairs:
            share = 1.0 / (1 << (here[n] - 1).bit_length()) if self.lattice else self.rng.uniform(0.3, 1.0) / here[n]
            found.append(self.deployment(v, n, share, nodes[n].serving == "queue"))
        return tuple(found)

    def deployment(self, variant: str, nodes: str, share: float, queue: bool) -> Deployment:
        batching = None
        if queue and self.chance(0.45):
            batching = Batching(
                max=self.rng.randint(1, 5),
                wait_ms=self.rng.choice((0.0, self.number(1, 30))),
                fixed=self.rng.choice((0.0, 0.5, 1.0, 0.25 if self.lattice else self.rng.random())),
                assumed=True,
            )
        return Deployment(
            variant=variant,
            nodes=(nodes,),
            share=share,
            servers=self.rng.choice((1, 1, 2) if self.lattice else (1, 1, 2, 3)),
            queue_limit=self.rng.choice((None, None, self.rng.randint(1, 12))),
            batching=batching,
            assumed=True,
        )

    def link(self, from_: str, to: str) -> Link:
        return Link(
            from_=from_,
            to=to,
            delay_ms=self.number(0, 40),
            delay_sd_ms=0.0 if self.lattice else self.rng.choice((0.0, self.rng.uniform(0.0, 15.0))),
            bandwidth_mbps=self.rng.choice((None, 4.0, 8.0) if self.lattice else (None, self.rng.uniform(0.5, 50.0))),
            assumed=True,
        )

    def links(self, sites: tuple[str, ...], nodes: dict[str, Node]) -> tuple[Link, ...]:
        found = [self.link("*", "*")] if self.chance(0.3) else [self.link("s*", "*")]
        if len(found) and found[0].from_ != "*":
            found += [self.link("n*", n.name) for n in nodes.values() if n.cloud]
        for _ in range(self.rng.randint(0, 8)):
            found.append(self.link(self.rng.choice((*sites, "s?", "*1")[: len(sites) + 1]), self.rng.choice([*nodes])))
        return tuple(found)

    def link_changes(self, ends: list[str], nodes: list[str], duration_s: float) -> tuple[LinkChange, ...]:
        found = []
        if self.chance(0.5):
            return ()
        for _ in range(self.rng.randint(1, 6)):
            from_ = self.rng.choice([*ends, "s*", "n*", "*"])
            to = self.rng.choice([*nodes, "n*", "*"])
            at = self.rng.choice((0.0, 0.25, 0.5)) if self.lattice else self.rng.uniform(0.0, 0.9)
            at *= duration_s
            if self.chance(0.6):
                lasts = self.rng.choice((0.25, 0.5)) if self.lattice else self.rng.uniform(0.05, 2.0)
                found.append(LinkChange(at_s=at, from_=from_, to=to, up=False, assumed=True))
                found.append(LinkChange(at_s=at + lasts, from_=from_, to=to, up=True, assumed=True))
                at += self.rng.choice((0.0, lasts))
            values = self.link("*", "*")
            found.append(
                LinkChange(
                    at_s=at,
                    from_=from_,
                    to=to,
                    delay_ms=self.rng.choice((None, values.delay_ms)),
                    delay_sd_ms=self.rng.choice((None, values.delay_sd_ms)),
                    bandwidth_mbps=self.rng.choice((None, values.bandwidth_mbps)),
                    up=self.rng.choice((None, None, True)),
                    assumed=True,
                )
            )
        last = max(c.at_s for c in found)
        found.append(LinkChange(at_s=last, up=True, assumed=True))
        self.rng.shuffle(found)
        found.append(LinkChange(at_s=last, up=True, assumed=True))
        return tuple(found)

    def workload(self, sites: tuple[str, ...], models: list[str], duration_s: float) -> Workload:
        asked = [*models, *(self.rng.choice(models) for _ in range(self.rng.randint(0, 2)))]
        sources = {f"q{i}": self.source(f"q{i}", m, sites, duration_s) for i, m in enumerate(asked)}
        each = {n: _requests_per_arrival(s) for n, s in sources.items()}
        shares = sum(s.share for s in sources.values())
        mean = sum(s.share * each[n] for n, s in sources.items()) / shares
        wanted = self.rng.choice((60, 100, 200, 300))
        return Workload(
            rate_per_min=wanted / mean / duration_s * 60.0,
            duration_s=duration_s,
            sites=sites,
            sources=sources,
            assumed=True,
        )

    def source(self, name: str, model: str, sites: tuple[str, ...], duration_s: float) -> Source:
        rng = self.rng
        arrivals = Arrivals(
            process=rng.choice(("poisson", "mmpp", "diurnal")),
            burst_mean_s=0.3,
            calm_mean_s=1.0,
            period_s=rng.uniform(1.0, 8.0),
            amplitude=rng.random(),
            assumed=True,
        )
        length = rng.choice((None, rng.uniform(0.3, 2.0), Draw(exponential=0.8), Draw(uniform=(0.2, 2.0))))
        weights = {s: rng.random() + 0.01 for s in sites}
        work = self.draw(0.5, 1.5) if not self.lattice else Draw(choice=(0.5, 1.0, 2.0))
        phases = [Phase(at_s=t * duration_s, rate=rng.uniform(0.3, 2.0), assumed=True) for t in (0.3, 0.6)]
        if len(sites) > 1:
            phases[1] = replace(phases[1], sites={rng.choice(sites): 1.0})
        return Source(
            name=name,
            model=model,
            tenant=rng.choice(("a", "b")),
            sla=rng.choice(("gold", "tin")),
            deadline_ms=self.draw(30.0, rng.choice((150.0, 600.0))),
            min_accuracy=rng.choice((0.0, 0.5, 0.7, 0.8, Draw(choice=(0.6, 0.85, 0.95)), Draw(uniform=(0.4, 0.95)))),
            share=rng.uniform(0.2, 1.0),
            arrivals=arrivals,
            length_s=length,
            rate_qps=self.draw(2.0, 16.0),
            spacing=rng.choice(("periodic", "poisson")),
            size_kb=self.draw(1.0, 32.0),
            work=1.0 if self.steady else work,
            sites=rng.choice((None, weights)),
            regions=rng.choice(((), (), (), (), (), ("eu",), ("eu", "us"))),
            certificates=rng.choice(((), (), (), (), (), ("iso",))),
            phases=tuple(phases) if self.chance(0.3) else (),
            assumed=True,
        )

    def fit_memory(self, scenario: Scenario) -> Scenario:
        """Give each device what its fullest node needs, and on top of it little or much."""
        devices = dict(scenario.devices)
        for name, device in devices.items():
            needed = [1.0]
            for node in (n for n in scenario.nodes.values() if n.device == name):
                here = [v for _, v, n in scenario.placements() if n.name == node.name]
                needed.append(sum(v.memory_mb + v.run_mb for v in here))
            devices[name] = replace(device, memory_mb=max(needed) + self.rng.choice((1.0, 200.0, 1e5)))
        return replace(scenario, devices=devices)


def _requests_per_arrival(source: Source) -> float:
    if source.length_s is None:
        return 1.0
    length = source.length_s if isinstance(source.length_s, float) else 0.9
    return 1.0 + length * (source.rate_qps if isinstance(source.rate_qps, float) else 8.0)


def on_lattice(drawn: DrawnWorkload) -> DrawnWorkload:
    """The workload with all times on a grid of 4 ms: many coincide."""
    requests, streams = drawn.requests.copy(), drawn.streams.copy()
    requests["now_ms"] = np.floor(requests["now_ms"] / 4.0) * 4.0
    streams["end_ms"] = np.ceil(streams["end_ms"] / 4.0) * 4.0
    return DrawnWorkload(drawn.seed, requests, drawn.draws, streams)


# ---- the policies: all built-in ones, one that goes by what is foreseen, and one that writes down all that it is shown


def witness(seen: list[Any]) -> Policy:
    """Chooses by chance, declines now and then, and notes its arguments."""

    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        seen.append((np.array(request), np.array(candidates), np.array(excluded), u))
        feasible = [c for c in range(len(candidates)) if not excluded[c]]
        return -1 if u < 0.05 else feasible[int(u * len(feasible))]

    return Policy("witness", decide, kind="python")


@policy("foreseeing")
def foreseeing(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    """Soonest, with what it spoils; of equals the least busy. Numbers are rounded: those of the two differ by 1e-9."""
    best, best_key = -1, (np.inf, np.inf)
    for c in range(len(candidates)):
        if excluded[c] == 0:
            candidate = candidates[c]
            ms = candidate.net_ms + candidate.transfer_ms + candidate.proc_ms + candidate.wait_ms + candidate.wait_sd_ms
            key = np.rint(1024.0 * (ms + 100.0 * candidate.makes_late)), np.rint(1024.0 * candidate.busy)
            if key < best_key:
                best, best_key = c, key
    return best


POLICIES = [*rules().values(), foreseeing]


# ---- comparing


@dataclass
class Case:
    """One scenario, run by both."""

    scenario: Scenario
    drawn: DrawnWorkload
    result: Result
    world: World
    seen: tuple[list[Any], list[Any]]  # by the witness, in the engine and in the reference


def run_both(number: int, chosen: Policy | None) -> Case:
    """Case `number` under a policy; None: the witness."""
    scenario, drawn = make_case(number)
    seen: tuple[list[Any], list[Any]] = ([], [])
    plan = build_plan(scenario)
    world = new_world(plan, drawn)
    run(plan, world, chosen or witness(seen[0]))
    result = simulate(scenario, drawn, chosen or witness(seen[1]))
    return Case(scenario, drawn, result, world, seen)


def make_case(number: int) -> tuple[Scenario, DrawnWorkload]:
    maker = Maker(random.Random(number), number % 3 == 2, steady=number % 5 == 2, slow_alone=1.0 + (number % 7 == 2))
    while True:
        scenario = maker.scenario()
        drawn = make_workload(scenario, number)
        if 20 <= len(drawn.requests) <= 800:
            break
    assert list(check(scenario)) == []
    return scenario, on_lattice(drawn) if maker.lattice else drawn


def differences(case: Case) -> list[str]:
    """What differs, in words; the first few of each."""
    rows, mine, found = case.world.rows, case.result.rows, []
    for name in SAME:
        for i in np.flatnonzero(rows[name] != mine[name])[:3]:
            found.append(f"request {i} {name}: engine {rows[name][i]}, reference {mine[name][i]}")
    for name, floor in CLOSE.items():
        close = np.isclose(rows[name], mine[name], rtol=1e-9, atol=floor, equal_nan=True)
        for i in np.flatnonzero(~close)[:3]:
            found.append(f"request {i} {name}: engine {rows[name][i]!r}, reference {mine[name][i]!r}")
    found += [f"request {i} never ends" for i in np.flatnonzero(rows["outcome"] == Outcome.PENDING)[:3]]
    nodes = case.world.nodes
    for name, values in (("busy_ms", case.result.busy_ms), ("energy_mj", case.result.energy_mj)):
        for i in np.flatnonzero(~np.isclose(nodes[name], values, rtol=1e-9, atol=1e-9)):
            found.append(f"node {i} {name}: engine {nodes[name][i]!r}, reference {values[i]!r}")
    makespan = max(case.scenario.workload.duration_s * 1000.0, float(case.world.clock["last_ms"][0]))
    if not math.isclose(makespan, case.result.makespan_ms, rel_tol=1e-9):
        found.append(f"makespan: engine {makespan!r}, reference {case.result.makespan_ms!r}")
    return found + differences_in_windows(case) + differences_shown(*case.seen)


def differences_in_windows(case: Case) -> list[str]:
    """The engine's windows against the reference's rows, put into windows here."""
    windows, mine, found = case.world.windows, case.result.rows, []
    edge = case.scenario.rules.window_ms
    answered = mine["outcome"] != Outcome.REJECTED
    at = {
        "arrived": np.floor(mine["time_ms"] / edge),
        "rejected": np.floor(mine["time_ms"][~answered] / edge),
        "delivered": np.floor((mine["time_ms"] + mine["latency_ms"])[answered] / edge),
    }
    for name, outcome in (("succeeded", Outcome.SUCCESS), ("late", Outcome.LATE), ("inaccurate", Outcome.INACCURATE)):
        at[name] = at["delivered"][mine["outcome"][answered] == outcome]
    for name, which in at.items():
        counts = np.bincount(np.minimum(which, len(windows) - 1).astype(int), minlength=len(windows))
        for w in np.flatnonzero(counts != windows[name])[:3]:
            found.append(f"window {w} {name}: engine {windows[name][w]}, reference {counts[w]}")
    sent = np.zeros_like(case.world.dispatched)
    np.add.at(sent, (np.floor(mine["time_ms"][answered] / edge).astype(int), mine["node"][answered]), 1)
    return found + (["dispatched differs"] if (sent != case.world.dispatched).any() else [])


def differences_shown(engine: list[Any], reference: list[Any]) -> list[str]:
    """Where the witness was shown different things."""
    for (request, candidates, excluded, u), (request_, candidates_, excluded_, u_) in zip(
        engine, reference, strict=False
    ):
        i = request["id"]
        if request != request_ or u != u_:
            return [f"request {i} shown: engine {request} {u}, reference {request_} {u_}"]
        if (excluded != excluded_).any():
            return [f"request {i} excluded: engine {excluded}, reference {excluded_}"]
        for name in candidates.dtype.names:
            a, b = candidates[name], candidates_[name]
            close = 1e-6 if name in FORESEEN else 1e-9  # sums over whole runs
            if not np.allclose(a, b, rtol=close, atol=1e-15 if name == "price" else close):
                return [f"request {i} candidates {name}: engine {a}, reference {b}"]
    return [] if len(engine) == len(reference) else [f"decisions: engine {len(engine)}, reference {len(reference)}"]


# ---- what was tested


def features(case: Case) -> Counter[str]:
    """What happened in a case, counted."""
    s, rows, requests = case.scenario, case.result.rows, case.drawn.requests
    seen = Counter({f"reason {r.name}": int((rows["reason"] == r).sum()) for r in REASON_NAMES})
    seen.update({f"outcome {o.name}": int((rows["outcome"] == o).sum()) for o in Outcome})
    seen[f"second from {s.rules.offload_from}"] = int((rows["second"] >= 0).sum())
    seen["bound"] = int(rows["bound"].sum())
    seen["bound again"] = _bound_again(case)
    seen["answer waited"] = _answers_waited(case)
    seen["batch"] = _batched(case)
    seen["two at one instant"] = int((np.diff(requests["now_ms"]) == 0).sum())
    placements = s.placements()
    for row in rows[rows["choice"] >= 0]:
        deployment, _, node = placements[row["choice"]]
        device = s.devices[node.device]
        seen[f"on {node.serving}"] += 1
        if node.serving == "shared" and device.degradation is not None:
            form = next(f for f in ("rho", "curve", "matrix") if getattr(device.degradation, f) is not None)
            seen[f"degradation {form}"] += 1
        elif row["queue_ms"] > 0:
            seen[f"queued at {deployment.servers} servers"] += 1
    seen["network deviation"] += any(ln.delay_sd_ms > 0 for ln in s.links)
    seen["bandwidth"] += any(ln.bandwidth_mbps for ln in s.links)
    seen["link change"] += bool(s.link_changes)
    for source in s.workload.sources.values():
        seen["phases"] += bool(source.phases)
        seen[f"arrivals {source.arrivals.process}"] += 1
        seen["single requests" if source.length_s is None else f"streams {source.spacing}"] += 1
    return seen


def foreseen(case: Case) -> Counter[str]:
    """In how many candidates that the witness was shown something was foreseen."""
    seen: Counter[str] = Counter()
    nodes = list(case.scenario.nodes.values())
    for _, candidates, _, _ in case.seen[1]:
        for candidate in candidates:
            where = nodes[candidate["node"]].serving
            seen[f"wait, {where}"] += candidate["wait_ms"] > 0.1
            seen[f"wait or none, {where}"] += candidate["wait_sd_ms"] > candidate["wait_ms"] > 0.1
            seen[f"makes late, {where}"] += candidate["makes_late"] > 1e-3
            seen[f"busy, {where}"] += 0.01 < candidate["busy"] < 0.99
            seen["nowhere near"] += math.isinf(candidate["nearest_ms"])
    return seen


def _bound_again(case: Case) -> int:
    """Decisions for streams that had been bound before: an outage made them change."""
    if case.scenario.rules.dispatch != "stream":
        return 0
    streams = case.drawn.requests["stream"]
    fresh = [
        int(stream)
        for stream, row in zip(streams, case.result.rows, strict=True)
        if stream >= 0 and row["choice"] >= 0 and not row["bound"]
    ]
    return len(fresh) - len(set(fresh))


def _answers_waited(case: Case) -> int:
    """Answers held back by an outage: longer under way than four legs and two transfers can take."""
    values: list[Link | LinkChange] = [*case.scenario.links, *case.scenario.link_changes]
    slowest_ms = max(v.delay_ms or 0.0 for v in values) + 5.0 * max(v.delay_sd_ms or 0.0 for v in values)
    mbps = min((v.bandwidth_mbps for v in values if v.bandwidth_mbps), default=math.inf)
    longest_ms = 2.0 * (2.0 * slowest_ms + case.drawn.requests["size_kb"] * 8.0 / mbps)
    return int((case.result.rows["net_ms"] > longest_ms).sum())


def _batched(case: Case) -> int:
    """Requests served together: same deployment, same end of service, though their work differs."""
    works = [q.work for q in case.scenario.workload.sources.values()]
    if any(not isinstance(w, Draw) or w.choice is not None or w.constant is not None for w in works):
        return 0
    rows = case.result.rows
    rows = rows[(rows["choice"] >= 0) & (rows["second"] < 0)]
    groups = Counter(zip(rows["choice"], rows["service_ms"], rows["energy_mj"], strict=True))
    return sum(n for n in groups.values() if n > 1)


# ---- tests


@functools.cache
def chunk(number: int) -> tuple[list[str], Counter[str]]:
    """The differences in a chunk of cases, and what they exercised."""
    found: list[str] = []
    seen: Counter[str] = Counter()
    for n in range(number * PER_CHUNK, (number + 1) * PER_CHUNK):
        rule = POLICIES[n % len(POLICIES)]
        for case, name in ((run_both(n, rule), rule.name), (run_both(n, None), "witness")):
            found += [f"case {n} under {name}: {difference}" for difference in differences(case)]
            seen += features(case) + foreseen(case)
    return found, seen


@pytest.mark.parametrize("number", range(CHUNKS))
def test_engine_equals_reference(number: int) -> None:
    found, _ = chunk(number)
    assert not found, "\n".join(found)


def test_cases_exercise_everything() -> None:
    """The comparison above is worth something only where something happens."""
    seen: Counter[str] = Counter()
    for number in range(CHUNKS):
        seen += chunk(number)[1]
    wanted = {
        "second from node": 200,
        "second from access": 200,
        "batch": 100,
        "bound": 1000,
        "bound again": 5,
        "answer waited": 20,
        "two at one instant": 200,
        "on queue": 1000,
        "on shared": 1000,
        "degradation rho": 500,
        "degradation curve": 500,
        "degradation matrix": 500,
        **{f"queued at {n} servers": 200 for n in (1, 2, 3)},
        **{f"outcome {o.name}": 500 for o in Outcome if o is not Outcome.PENDING},
        **{f"reason {r.name}": 50 for r in REASON_NAMES},
        **{f"arrivals {process}": 50 for process in ("poisson", "mmpp", "diurnal")},
        **dict.fromkeys(("single requests", "streams periodic", "streams poisson", "phases"), 50),
        **dict.fromkeys(("network deviation", "bandwidth", "link change"), 50),
        **{f"{what}, queue": least for what, least in (("wait", 5000), ("wait or none", 1000), ("busy", 10000))},
        **{f"{what}, shared": least for what, least in (("wait", 5000), ("busy", 10000))},
        **{f"makes late, {where}": 200 for where in ("queue", "shared")},
        "nowhere near": 20,
    }
    rare = {name: seen[name] for name, least in wanted.items() if seen[name] < least}
    assert not rare
