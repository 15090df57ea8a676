"""The serving world again, slow and readable: the oracle of the compiled engine (`fairlead.sim.serving`).

It follows docs/guides/serving-world.md from top to bottom, in plain Python, from the nouns of a scenario, and computes
everything afresh from the state of the world. Tests call it and hold the engine to its results; nothing else does.
It must never import the engine's kernels or its plan: an oracle that shares code shares faults.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError
from fairlead.domain.hardware import Device, LinkChange, Node
from fairlead.domain.models import Batching, Deployment, Variant
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.records import CANDIDATE, DECISION
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw, Number
from fairlead.policies.interface import Policy
from fairlead.policies.randomness import NETWORK, POLICY, normal, uniform
from fairlead.sim.serving.workload import Workload

_UP_2, _DOWN_2 = 2, 3  # which draw of its network delays the second inference takes
_HARD = Reason.NO_CAPACITY | Reason.NO_MEMORY | Reason.UNREACHABLE | Reason.NOT_ALLOWED
_MS_PER_H = 3_600_000.0


@dataclass(frozen=True)
class Result:
    """What became of every request and every node."""

    rows: Any  # DECISION, one per request
    busy_ms: list[float]  # per node, weighted by the part of it that is busy
    energy_mj: list[float]  # per node, above idle
    makespan_ms: float


def simulate(scenario: Scenario, workload: Workload, policy: Policy) -> Result:
    """Run `workload` through the world of `scenario` under `policy`."""
    world = _World(scenario, workload, policy)
    world.run()
    return Result(world.rows, world.busy_ms, world.energy_mj, world.makespan_ms)


# ---- what never changes


@dataclass(frozen=True, eq=False)
class _Place:
    """A deployment: one variant on one node."""

    index: int  # among all placements
    deployment: Deployment
    variant: Variant
    variant_index: int
    model: str
    node: Node
    node_index: int
    device: Device
    typical_kb: float

    @property
    def shared(self) -> bool:
        return self.node.serving == "shared"

    @property
    def servers(self) -> int:
        return 1 if self.shared else self.deployment.servers

    @property
    def part(self) -> float:
        """How many devices one of its servers is."""
        return 1.0 if self.shared else self.node.count * self.deployment.share / self.servers

    @cached_property
    def batching(self) -> Batching:
        return self.deployment.batching or Batching(max=1, wait_ms=0.0, fixed=0.0, assumed=True)

    @property
    def power_w(self) -> float:
        """Above idle, of one busy server."""
        return (self.device.power_busy_w - self.device.power_idle_w) * self.part

    @property
    def price_per_ms(self) -> float:
        return self.device.price_per_h / _MS_PER_H * self.part

    def alone_ms(self, size_kb: float) -> float:
        """Time of one inference alone, on one server.

        Divided before it is added, as the engine does: where the energies of two candidates are equal but for rounding,
        as those of two shares of one kind of device are, policies must see the same rounding.
        """
        latency, speed = self.variant.latency[self.node.device], min(1.0, self.part)
        return latency.base_ms / speed + latency.per_kb_ms / speed * size_kb

    @cached_property
    def typical_ms(self) -> float:
        return self.alone_ms(self.typical_kb)

    def service_rate(self, size_kb: float) -> float:
        """Requests a second when always busy."""
        b, f = self.batching.max, self.batching.fixed
        return self.servers * 1000.0 / (self.alone_ms(size_kb) * (f / b + 1.0 - f))


def _places(scenario: Scenario) -> list[_Place]:
    known, nodes = scenario.variants(), list(scenario.nodes)
    return [
        _Place(
            index=i,
            deployment=deployment,
            variant=variant,
            variant_index=list(known).index(variant.name),
            model=known[variant.name][0].name,
            node=node,
            node_index=nodes.index(node.name),
            device=scenario.devices[node.device],
            typical_kb=_typical_kb(scenario, known[variant.name][0].name),
        )
        for i, (deployment, variant, node) in enumerate(scenario.placements())
    ]


def _typical_kb(scenario: Scenario, model: str) -> float:
    """Mean input size of the sources of `model`, weighted by share."""
    asking = [s for s in scenario.workload.sources.values() if s.model == model]
    shares = sum(s.share for s in asking)
    return sum(s.share * _mean(s.size_kb) for s in asking) / shares if shares else 1.0


def _mean(number: Number) -> float:
    if not isinstance(number, Draw):
        return number
    if number.uniform is not None:
        return sum(number.uniform) / 2.0
    if number.lognormal is not None:
        return number.lognormal[0]
    if number.choice is not None:
        weights = number.weights or (1.0,) * len(number.choice)
        return sum(w * c for w, c in zip(weights, number.choice, strict=True)) / sum(weights)
    mean = number.constant if number.exponential is None else number.exponential
    assert mean is not None
    return mean


def degradation(place: _Place, others: Counter[_Place]) -> float:
    """How much longer a request of `place` takes beside these others on its node."""
    how = place.device.degradation
    assert how is not None
    if how.rho is not None:
        return 1.0 + how.rho * sum(n * u.typical_ms for u, n in others.items()) / place.typical_ms
    if how.curve is not None:
        curve = how.curve.get(place.variant.name) or how.curve["default"]
        running = sum(others.values()) + 1
        return curve[running - 1] if running <= len(curve) else math.inf
    assert how.matrix is not None
    assert how.axes is not None
    table = how.matrix[place.variant.name]
    i, j = (sum(n for u, n in others.items() if u.variant.name == axis) for axis in how.axes)
    return table[i][j] if i < len(table) and j < len(table[i]) else math.inf


# ---- links


@dataclass(frozen=True)
class _Link:
    delay_ms: float
    sd_ms: float
    bandwidth_mbps: float | None
    up: bool = True

    def after(self, change: LinkChange) -> _Link:
        return replace(
            self,
            delay_ms=self.delay_ms if change.delay_ms is None else change.delay_ms,
            sd_ms=self.sd_ms if change.delay_sd_ms is None else change.delay_sd_ms,
            bandwidth_mbps=self.bandwidth_mbps if change.bandwidth_mbps is None else change.bandwidth_mbps,
            up=self.up if change.up is None else change.up,
        )

    def transfer_ms(self, size_kb: float) -> float:
        return 0.0 if self.bandwidth_mbps is None else size_kb * 8.0 / self.bandwidth_mbps

    def leg_ms(self, z: float) -> float:
        return max(0.0, self.delay_ms + self.sd_ms * z)


def _links(scenario: Scenario) -> dict[tuple[str, str], _Link]:
    links = {
        (end, node): _Link(link.delay_ms, link.delay_sd_ms, link.bandwidth_mbps)
        for link in scenario.links  # a later link overrides an earlier one
        for end in (*scenario.workload.sites, *scenario.nodes)
        for node in scenario.nodes
        if _matches(link, end, node)
    }
    return links | {(node, node): _Link(0.0, 0.0, None) for node in scenario.nodes}


def _matches(link: Any, end: str, node: str) -> bool:
    return end != node and fnmatchcase(end, link.from_) and fnmatchcase(node, link.to)


# ---- requests and stations


@dataclass(eq=False)
class _Job:
    """An admitted request."""

    request: Any  # REQUEST
    draws: Any
    row: Any  # DECISION: what has become of it so far
    place: _Place  # of its present inference
    second: bool = False
    reached_ms: float = 0.0
    started_ms: float = 0.0
    left_ms: float = 0.0  # time alone still to run; shared nodes

    def alone_ms(self) -> float:
        return self.place.alone_ms(float(self.request["size_kb"])) * float(self.draws["work"])


class _Station:
    """Where requests wait and run. `flying` is what was sent there and has not finished."""

    def __init__(self, world: _World) -> None:
        self.world = world
        self.flying: list[_Job] = []
        self.load = 0.0  # of bound streams

    def _started(self, job: _Job) -> None:
        job.started_ms = self.world.now
        job.row["queue_ms"] += self.world.now - job.reached_ms

    def _finished(self, job: _Job) -> None:
        job.row["service_ms"] += self.world.now - job.started_ms
        self.flying.remove(job)

    def _account(self, jobs: list[_Job], busy_ms: float, part_of_node: float) -> None:
        """Energy and price of a busy server, shared alike among its requests."""
        place, n = jobs[0].place, len(jobs)
        self.world.busy_ms[place.node_index] += busy_ms * part_of_node
        self.world.energy_mj[place.node_index] += busy_ms * place.power_w
        for job in jobs:
            job.row["energy_mj"] += busy_ms * place.power_w / n
            job.row["price"] += busy_ms * place.price_per_ms / n

    def reach(self, job: _Job) -> None:
        raise NotImplementedError

    def next_ms(self) -> float:
        raise NotImplementedError

    def step(self) -> list[_Job]:
        """Do what is due now; what has finished."""
        raise NotImplementedError


class _Queue(_Station):
    """One deployment on a queue node: a FIFO queue and its servers."""

    def __init__(self, world: _World, place: _Place) -> None:
        super().__init__(world)
        self.place = place
        self.waiting: list[_Job] = []
        self.serving: list[tuple[float, list[_Job]]] = []  # (finish, batch), one per busy server

    def reach(self, job: _Job) -> None:
        self.waiting.append(job)
        self._start()

    def next_ms(self) -> float:
        return min(self._patience_ms(), min((finish for finish, _ in self.serving), default=math.inf))

    def _patience_ms(self) -> float:
        """When the first in the queue has waited long enough to be served without company."""
        if not self.waiting or len(self.serving) == self.place.servers:
            return math.inf
        return self.waiting[0].reached_ms + self.place.batching.wait_ms

    def step(self) -> list[_Job]:
        done = [job for finish, batch in self.serving if finish <= self.world.now for job in batch]
        self.serving = [(finish, batch) for finish, batch in self.serving if finish > self.world.now]
        for job in done:
            self._finished(job)
        self._start()
        return done

    def _start(self) -> None:
        b, f = self.place.batching.max, self.place.batching.fixed
        while len(self.serving) < self.place.servers:
            if len(self.waiting) < b and self._patience_ms() > self.world.now:
                return
            batch, self.waiting = self.waiting[:b], self.waiting[b:]
            times = [job.alone_ms() for job in batch]
            takes_ms = f * max(times) + (1.0 - f) * sum(times) if len(batch) > 1 else times[0]
            for job in batch:
                self._started(job)
            self._account(batch, takes_ms, self.place.deployment.share / self.place.servers)
            self.serving.append((self.world.now + takes_ms, batch))


class _Shared(_Station):
    """A shared node: everything runs at once, each slowed by the others."""

    def __init__(self, world: _World) -> None:
        super().__init__(world)
        self.running: list[_Job] = []
        self.slowed: list[float] = []  # degradation of each that runs
        self.since_ms = 0.0  # when `running` last changed

    def reach(self, job: _Job) -> None:
        self._progress()
        self._started(job)
        job.left_ms = job.alone_ms()
        self.running.append(job)
        self._slow()

    def next_ms(self) -> float:
        return self.since_ms + min(self._to_go(), default=math.inf)

    def _to_go(self) -> list[float]:
        jobs = zip(self.running, self.slowed, strict=True)
        return [job.left_ms * slowed if job.left_ms > 0.0 else 0.0 for job, slowed in jobs]

    def step(self) -> list[_Job]:
        first = self.running[int(np.argmin(self._to_go()))]
        self._progress()
        self.running.remove(first)
        self._finished(first)
        self._slow()
        return [first]

    def _progress(self) -> None:
        """Bring what runs up to the present."""
        passed_ms = self.world.now - self.since_ms
        for job, slowed in zip(self.running, self.slowed, strict=True):
            job.left_ms = max(0.0, job.left_ms - passed_ms / slowed)
        if self.running:
            self._account(self.running, passed_ms, 1.0)
        self.since_ms = self.world.now

    def _slow(self) -> None:
        counts = Counter(job.place for job in self.running)
        self.slowed = [degradation(job.place, counts - Counter([job.place])) for job in self.running]


# ---- the world


@dataclass(eq=False)
class _Binding:
    place: _Place
    load: float


@dataclass(order=True)
class _Reach:
    """A request on its way to a node."""

    at_ms: float
    id: int
    job: _Job = field(compare=False)


class _World:
    def __init__(self, scenario: Scenario, workload: Workload, policy: Policy) -> None:
        self.scenario, self.workload, self.policy = scenario, workload, policy
        self.binds = scenario.rules.dispatch == "stream"
        self.sources = list(scenario.workload.sources.values())
        self.places = _places(scenario)
        self.links = _links(scenario)
        self.changes = sorted(scenario.link_changes, key=lambda c: c.at_s)
        self.ends: list[tuple[float, int]] = sorted((float(s["end_ms"]), i) for i, s in enumerate(workload.streams))
        self.stations: list[_Station] = []
        self.station_of = self._make_stations()
        self.bindings: dict[int, _Binding] = {}  # by stream
        self.travelling: list[_Reach] = []
        self.now, self.entered, self.decisions = 0.0, 0, 0
        self.busy_ms, self.energy_mj = [0.0] * len(scenario.nodes), [0.0] * len(scenario.nodes)
        self.makespan_ms = scenario.workload.duration_s * 1000.0
        self.rows = np.zeros(len(workload.requests), DECISION)

    def _make_stations(self) -> dict[_Place, _Station]:
        """One station per deployment on queue nodes, one per shared node, in the order of the nodes."""
        found: dict[_Place | str, _Station] = {}
        for place in sorted(self.places, key=lambda p: p.node_index):
            key = place.node.name if place.shared else place
            if key not in found:
                found[key] = _Shared(self) if place.shared else _Queue(self, place)
        self.stations = list(found.values())
        return {place: found[place.node.name if place.shared else place] for place in self.places}

    def run(self) -> None:
        """Let one thing happen after the other, until nothing is left."""
        while (due := min(self._coming(), default=(math.inf, 0, 0)))[0] < math.inf:
            self.now, what, which = due
            if what == 0:
                for job in self.stations[which].step():
                    self.makespan_ms = max(self.makespan_ms, self.now)
                    self._answered(job)
            elif what == 1:
                self._change_links(self.changes.pop(0))
            elif what == 2:
                self._unbind(self.ends.pop(0)[1])
            elif what == 3:
                job = heapq.heappop(self.travelling).job
                job.reached_ms = self.now
                self.station_of[job.place].reach(job)
            else:
                self.entered += 1
                self._enter(which)

    def _coming(self) -> Iterator[tuple[float, int, int]]:
        """The next of each kind as (time, kind, which): the lowest comes first, also at the same instant."""
        for i, station in enumerate(self.stations):
            yield station.next_ms(), 0, i
        if self.changes:
            yield self.changes[0].at_s * 1000.0, 1, 0
        if self.ends:
            yield self.ends[0][0], 2, 0
        if self.travelling:
            yield self.travelling[0].at_ms, 3, 0
        if self.entered < len(self.workload.requests):
            yield float(self.workload.requests["now_ms"][self.entered]), 4, self.entered

    def _change_links(self, change: LinkChange) -> None:
        for (end, node), link in self.links.items():
            if _matches(change, end, node):
                self.links[end, node] = link.after(change)

    def _link(self, end: str, place: _Place) -> _Link | None:
        return self.links.get((end, place.node.name))

    def _site(self, request: Any) -> str:
        return self.scenario.workload.sites[int(request["site"])]

    # -- deciding

    def _enter(self, i: int) -> None:
        request = self.workload.requests[i].copy()
        row = self.rows[i]
        row["request"], row["time_ms"] = i, self.now
        row["choice"] = row["node"] = row["variant"] = row["second"] = -1
        place = self._bound_place(request)
        if place is not None:
            row["bound"] = 1
        else:
            place, reason = self._decide(request)
            if place is None:
                row["outcome"], row["reason"] = Outcome.REJECTED, reason
                row["latency_ms"] = row["accuracy"] = math.nan
                return
            self._bind(request, place)
        row["choice"], row["node"], row["variant"] = place.index, place.node_index, place.variant_index
        draws = self.workload.draws[i]
        self._send(_Job(request, draws, row, place), self.now, self._site(request), float(draws["up"]))

    def _bound_place(self, request: Any) -> _Place | None:
        """Where the request's stream is bound to; unbinds it when that can't be reached or has no room."""
        binding = self.bindings.get(int(request["stream"]))
        if binding is None:
            return None
        link = self._link(self._site(request), binding.place)
        c = dict(zip(CANDIDATE.names or (), self._candidate(request, binding.place, link), strict=True))
        if self._obstacles(request, binding.place, c, link, binding=False) & _HARD:
            self._unbind(int(request["stream"]))
            return None
        return binding.place

    def _bind(self, request: Any, place: _Place) -> None:
        if self.binds and request["stream"] >= 0:
            load = float(request["rate_qps"]) / place.service_rate(float(request["size_kb"]))
            load = round(load * 2.0**40) / 2.0**40
            self.bindings[int(request["stream"])] = _Binding(place, load)
            self.station_of[place].load += load

    def _unbind(self, stream: int) -> None:
        binding = self.bindings.pop(stream, None)
        if binding is not None:
            self.station_of[binding.place].load -= binding.load

    def _decide(self, request: Any) -> tuple[_Place | None, int]:
        """Where the policy sends the request; or None and the reason."""
        model = list(self.scenario.models)[request["model"]]
        places = [p for p in self.places if p.model == model]
        site = self._site(request)
        candidates: Any = np.array([self._candidate(request, p, self._link(site, p)) for p in places], CANDIDATE)
        excluded = np.array(
            [
                self._obstacles(request, p, c, self._link(site, p), self.binds)
                for p, c in zip(places, candidates, strict=True)
            ],
            np.uint16,
        )
        if excluded.all():
            return None, min(1 << (int(bits).bit_length() - 1) for bits in excluded)
        request["seq"] = self.decisions
        self.decisions += 1
        u = uniform(self.workload.seed, POLICY, int(request["id"]), 0)
        record: Any = np.array([request]).view(np.recarray)
        choice = int(self.policy.function(record[0], candidates.view(np.recarray), excluded.copy(), u))
        if choice == -1:
            return None, int(Reason.DECLINED)
        if not 0 <= choice < len(places) or excluded[choice]:
            raise PolicyError(f"policy {self.policy.name!r} chose index {choice}")
        return places[choice], 0

    def _candidate(self, request: Any, place: _Place, link: _Link | None) -> tuple[float, ...]:
        """The candidate's record, in the order of CANDIDATE."""
        link = link or _Link(math.inf, 0.0, None, up=False)
        size_kb, flying = float(request["size_kb"]), self.station_of[place].flying
        proc_ms, rate = place.alone_ms(size_kb), place.service_rate(size_kb)
        beside = Counter(job.place for job in flying)
        record = {
            "node": place.node_index,
            "variant": place.variant_index,
            "net_ms": link.delay_ms,
            "net_sd_ms": link.sd_ms,
            "transfer_ms": link.transfer_ms(size_kb),
            "proc_ms": proc_ms,
            "service_rate": rate,
            "load": self._load(place, rate),
            "queue_ms": 0.0 if place.shared else _expected_wait_ms(place, len(flying)),
            "suffered": degradation(place, beside) if place.shared else 1.0,
            "caused": _caused(place, beside) if place.shared else 0.0,
            "accuracy": place.variant.accuracy,
            "energy_mj": place.power_w * proc_ms,
            "price": place.price_per_ms * proc_ms,
            "free_mb": self._free_mb(place),
            "in_flight": len(flying),
        }
        return tuple(record[name] for name in CANDIDATE.names or ())

    def _load(self, place: _Place, service_rate: float) -> float:
        station = self.station_of[place]
        if self.binds:
            return station.load
        if place.shared:
            return math.fsum(job.place.typical_ms for job in station.flying) / 1000.0
        return len(station.flying) / service_rate

    def _free_mb(self, place: _Place) -> float:
        weights = sum(p.variant.memory_mb for p in self.places if p.node is place.node)
        in_use = sum(job.place.variant.run_mb for job in self.station_of[place].flying) if place.shared else 0.0
        return place.device.memory_mb * place.node.count - weights - in_use

    def _obstacles(self, request: Any, place: _Place, candidate: Any, link: _Link | None, binding: bool) -> int:
        """Why the candidate can't take the request: reason bits."""
        rules, source = self.scenario.rules, self.sources[request["source"]]
        limit = place.deployment.queue_limit
        full = limit is not None and candidate["in_flight"] >= limit
        overbooked = candidate["load"] + request["rate_qps"] / candidate["service_rate"] > 1.0 + 1e-12
        slowed = math.isinf(candidate["suffered"]) or math.isinf(candidate["caused"])
        nominal_ms = 2.0 * (candidate["net_ms"] + 2.0 * candidate["net_sd_ms"])
        nominal_ms += candidate["transfer_ms"] + candidate["proc_ms"]
        elsewhere = bool(source.regions) and place.node.region not in source.regions
        obstacles = {
            Reason.NO_CAPACITY: full or (binding and overbooked),
            Reason.NO_MEMORY: place.shared and (candidate["free_mb"] < place.variant.run_mb or slowed),
            Reason.TOO_LATE: "deadline" in rules.admit and nominal_ms > request["deadline_ms"],
            Reason.TOO_INACCURATE: "accuracy" in rules.admit and place.variant.accuracy < request["min_accuracy"],
            Reason.UNREACHABLE: link is None or not link.up,
            Reason.NOT_ALLOWED: elsewhere or not set(source.certificates) <= set(place.node.certificates),
        }
        return sum(int(bit) for bit, holds in obstacles.items() if holds)

    # -- travelling

    def _send(self, job: _Job, leaves_ms: float, from_: str, z: float) -> None:
        """Up the link to the node of `job.place`, where the request counts from now on."""
        link = self.links[from_, job.place.node.name]
        travels_ms = link.leg_ms(z) + link.transfer_ms(float(job.request["size_kb"]))
        job.row["net_ms"] += leaves_ms - self.now + travels_ms
        self.station_of[job.place].flying.append(job)
        heapq.heappush(self.travelling, _Reach(leaves_ms + travels_ms, int(job.request["id"]), job))

    def _back_ms(self, job: _Job, z: float) -> float:
        """When the answer of now reaches its site: the link's delay is that of now, an outage is waited for."""
        site, node = self._site(job.request), job.place.node.name
        link = self.links[site, node]
        return (self.now if link.up else self._up_again_ms(site, node)) + link.leg_ms(z)

    def _up_again_ms(self, site: str, node: str) -> float:
        """The next instant after whose changes the link is up."""
        last = {c.at_s: c.up for c in self.changes if c.up is not None and _matches(c, site, node)}
        return next(at_s for at_s, up in last.items() if up) * 1000.0

    # -- the answer

    def _answered(self, job: _Job) -> None:
        """The first answer may be repeated in the cloud; what becomes of it is settled now."""
        rules, id_, variant = self.scenario.rules, int(job.request["id"]), job.place.variant
        quality = variant.accuracy + variant.accuracy_sd * float(job.draws["quality"])
        z_down = normal(self.workload.seed, NETWORK, id_, _DOWN_2) if job.second else float(job.draws["down"])
        back_ms = self._back_ms(job, z_down)
        if rules.second_inference and quality < job.request["min_accuracy"] and not job.second:
            at_node = rules.offload_from == "node"
            from_ = job.place.node.name if at_node else self._site(job.request)
            place = self._second_place(job, from_)
            if place is not None:
                job.place, job.second, job.row["second"] = place, True, place.index
                z_up = normal(self.workload.seed, NETWORK, id_, _UP_2)
                self._send(job, self.now if at_node else back_ms, from_, z_up)
                return
        self._deliver(job, back_ms, quality)

    def _second_place(self, job: _Job, from_: str) -> _Place | None:
        """The better deployment in the cloud that should answer first. It binds nothing: bound load is no obstacle."""
        best, best_ms = None, math.inf
        for place in self.places:
            better = place.variant.accuracy > job.place.variant.accuracy
            if place.model != job.place.model or not place.node.cloud or not better:
                continue
            link = self._link(from_, place)
            c = dict(zip(CANDIDATE.names or (), self._candidate(job.request, place, link), strict=True))
            if self._obstacles(job.request, place, c, link, binding=False) & _HARD:
                continue
            ms = 2.0 * c["net_ms"] + c["transfer_ms"] + c["queue_ms"] + c["proc_ms"] * c["suffered"]
            if ms < best_ms:
                best, best_ms = place, ms
        return best

    def _deliver(self, job: _Job, at_ms: float, quality: float) -> None:
        row = job.row
        row["net_ms"] += at_ms - self.now
        row["latency_ms"], row["accuracy"] = at_ms - job.request["now_ms"], quality
        if row["latency_ms"] > job.request["deadline_ms"]:
            row["outcome"] = Outcome.LATE
        elif quality < job.request["min_accuracy"]:
            row["outcome"] = Outcome.INACCURATE
        else:
            row["outcome"] = Outcome.SUCCESS


def _expected_wait_ms(place: _Place, flying: int) -> float:
    b, f, c = place.batching.max, place.batching.fixed, place.servers
    ahead = max(0, flying - c * b + b)
    if b == 1:
        return ahead * place.typical_ms / c
    return ahead // b * place.typical_ms * (f + (1.0 - f) * b) / c


def _caused(newcomer: _Place, flying: Counter[_Place]) -> float:
    """By how much the degradations of all in flight would grow, summed."""
    total = 0.0
    for place, n in flying.items():
        others = flying - Counter([place])
        after = degradation(place, others + Counter([newcomer]))
        total += math.inf if math.isinf(after) else n * (after - degradation(place, others))
    return total
