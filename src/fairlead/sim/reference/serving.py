"""The serving world again, slow and readable: the oracle of the compiled engine (`fairlead.sim.serving`).

It follows docs/guides/serving-world.md from top to bottom, in plain Python, from the nouns of a scenario, and computes
everything afresh from the state of the world. Tests call it and hold the engine to its results; nothing else does.
It must never import the engine: an oracle that shares code shares faults. Shared are the resolved placements of a
scenario, the drawn workload, the hash behind the draws, and the policies.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError
from fairlead.domain.hardware import LinkChange
from fairlead.domain.outcomes import TOLERANCE_MS, Outcome, Reason
from fairlead.domain.records import CANDIDATE, DECISION, FORESEEN
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import Policy
from fairlead.policies.randomness import NETWORK, POLICY, normal, uniform
from fairlead.sim.reference.flights import Flight
from fairlead.sim.reference.places import Link, Place, degradation, links_of, matches, places_of
from fairlead.sim.reference.stations import Job, Queue, Shared, Station
from fairlead.sim.serving.drawn_workload import DrawnWorkload

_UP_2, _DOWN_2 = 2, 3  # which draw of its network delays the second inference takes
_HARD = Reason.NO_CAPACITY | Reason.NO_MEMORY | Reason.UNREACHABLE | Reason.NOT_ALLOWED


@dataclass(frozen=True)
class Result:
    """What became of every request and every node."""

    rows: Any  # DECISION, one per request
    busy_ms: list[float]  # per node, weighted by the part of it that is busy
    energy_mj: list[float]  # per node, above idle
    makespan_ms: float


def simulate(scenario: Scenario, workload: DrawnWorkload, policy: Policy) -> Result:
    """Run `workload` through the world of `scenario` under `policy`."""
    world = World(scenario, workload, policy)
    world.run()
    return Result(world.rows, world.busy_ms, world.energy_mj, world.makespan_ms)


@dataclass(eq=False)
class _Binding:
    place: Place
    load: float


@dataclass(order=True)
class _Reach:
    """A request on its way to a node."""

    at_ms: float
    id: int
    job: Job = field(compare=False)


class World:
    def __init__(self, scenario: Scenario, workload: DrawnWorkload, policy: Policy) -> None:
        self.scenario, self.workload, self.policy = scenario, workload, policy
        self.binds = scenario.rules.dispatch == "stream"
        self.sources = list(scenario.workload.sources.values())
        self.places = places_of(scenario)
        self.links = links_of(scenario)
        self.changes = sorted(scenario.link_changes, key=lambda c: c.at_s)
        self.ends: list[tuple[float, int]] = sorted((float(s["end_ms"]), i) for i, s in enumerate(workload.streams))
        self.stations: list[Station] = []
        self.station_of = self._make_stations()
        self.bindings: dict[int, _Binding] = {}  # by stream
        self.travelling: list[_Reach] = []
        self.now, self.entered, self.decisions = 0.0, 0, 0
        self.busy_ms, self.energy_mj = [0.0] * len(scenario.nodes), [0.0] * len(scenario.nodes)
        self.makespan_ms = scenario.workload.duration_s * 1000.0
        self.rows = np.zeros(len(workload.requests), DECISION)

    def _make_stations(self) -> dict[Place, Station]:
        """One station per deployment on queue nodes, one per shared node, in the order of the nodes."""
        found: dict[Place | str, Station] = {}
        for place in sorted(self.places, key=lambda p: p.node_index):
            key = place.node.name if place.shared else place
            if key not in found:
                found[key] = Shared(self) if place.shared else Queue(self, place)
        self.stations = list(found.values())
        return {place: found[place.node.name if place.shared else place] for place in self.places}

    def run(self) -> None:
        """Let one thing happen after the other, until nothing is left."""
        while (due := min(self._coming(), default=(math.inf, 0, 0)))[0] < math.inf:
            self.now, event, which = due
            if event == 0:
                for job in self.stations[which].step():
                    self.makespan_ms = max(self.makespan_ms, self.now)
                    self._answered(job)
            elif event == 1:
                self._change_links(self.changes.pop(0))
            elif event == 2:
                self._unbind(self.ends.pop(0)[1])
            elif event == 3:
                job = heapq.heappop(self.travelling).job
                job.reached_ms = self.now
                self.station_of[job.place].reach(job)
            else:
                self.entered += 1
                self._enter(which)

    def _coming(self) -> Iterator[tuple[float, int, int]]:
        """The next of each event as (time, event, which): the lowest comes first, also at the same instant."""
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
            if matches(change, end, node):
                self.links[end, node] = link.after(change)

    def _link(self, end: str, place: Place) -> Link | None:
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
        draws, site = self.workload.draws[i], self._site(request)
        flight = self._flight(request, place, self.now, site)
        self._send(Job(request, draws, row, place, flight), self.now, site, float(draws["up"]))

    def _bound_place(self, request: Any) -> Place | None:
        """Where the request's stream is bound to; unbinds it when that can't be reached or has no room."""
        binding = self.bindings.get(int(request["stream"]))
        if binding is None:
            return None
        link = self._link(self._site(request), binding.place)
        c = self._candidate(request, binding.place, link)
        if self._obstacles(request, binding.place, c, link, binding=False) & _HARD:
            self._unbind(int(request["stream"]))
            return None
        return binding.place

    def _bind(self, request: Any, place: Place) -> None:
        if self.binds and request["stream"] >= 0:
            load = float(request["rate_qps"]) / place.service_rate(float(request["size_kb"]))
            load = round(load * 2.0**40) / 2.0**40
            self.bindings[int(request["stream"])] = _Binding(place, load)
            self.station_of[place].load += load

    def _unbind(self, stream: int) -> None:
        binding = self.bindings.pop(stream, None)
        if binding is not None:
            self.station_of[binding.place].load -= binding.load

    def _decide(self, request: Any) -> tuple[Place | None, int]:
        """Where the policy sends the request; or None and the reason."""
        model = list(self.scenario.models)[request["model"]]
        places = [p for p in self.places if p.model == model]
        site = self._site(request)
        shown = [
            self._candidate(request, p, self._link(site, p)) | self._foreseen(request, p, self._link(site, p))
            for p in places
        ]
        candidates: Any = np.array([tuple(c[name] for name in CANDIDATE.names or ()) for c in shown], CANDIDATE)
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

    def _candidate(self, request: Any, place: Place, link: Link | None) -> dict[str, float]:
        """The candidate's record, but for what is foreseen."""
        link = link or Link(math.inf, 0.0, None, up=False)
        size_kb, flying = float(request["size_kb"]), self.station_of[place].flying
        proc_ms, rate = place.alone_ms(size_kb), place.service_rate(size_kb)
        beside = Counter(job.place for job in flying)
        return {
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
            "others_in_flight": self._others(place),
            "proc_sd_ms": proc_ms * place.work_sd,
            "nearest_ms": self._nearest_ms(place),
        }

    def _nearest_ms(self, place: Place) -> float:
        """The lowest delay from any site from which the node can be reached."""
        links = [self._link(site, place) for site in self.scenario.workload.sites]
        return min((link.delay_ms for link in links if link is not None and link.up), default=math.inf)

    def _foreseen(self, request: Any, place: Place, link: Link | None) -> dict[str, float]:
        """The fields of FORESEEN: what is presumed at the candidate's station."""
        line = self.station_of[place].line
        line.look(self.now)
        if link is None or not link.up:
            return dict.fromkeys(FORESEEN, 0.0) | {"busy": line.busy}
        newcomer = self._flight(request, place, self.now, self._site(request))
        return vars(line.foresee(newcomer, float(request["deadline_ms"]), self.now)) | {"busy": line.busy}

    def _load(self, place: Place, service_rate: float) -> float:
        station = self.station_of[place]
        if self.binds:
            return station.load
        if place.shared:
            return math.fsum(job.place.typical_ms for job in station.flying) / 1000.0
        return len(station.flying) / service_rate

    def _others(self, place: Place) -> int:
        """How many are in flight on the node of `place` for other variants."""
        here = {self.station_of[p] for p in self.places if p.node is place.node}
        return sum(job.place is not place for station in here for job in station.flying)

    def _free_mb(self, place: Place) -> float:
        weights = sum(p.variant.memory_mb for p in self.places if p.node is place.node)
        in_use = sum(job.place.variant.run_mb for job in self.station_of[place].flying) if place.shared else 0.0
        return place.device.memory_mb * place.node.count - weights - in_use

    def _obstacles(self, request: Any, place: Place, candidate: Any, link: Link | None, binding: bool) -> int:
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
            Reason.TOO_LATE: "deadline" in rules.admit and nominal_ms > request["deadline_ms"] + TOLERANCE_MS,
            Reason.TOO_INACCURATE: "accuracy" in rules.admit and place.variant.accuracy < request["min_accuracy"],
            Reason.UNREACHABLE: link is None or not link.up,
            Reason.NOT_ALLOWED: elsewhere or not set(source.certificates) <= set(place.node.certificates),
        }
        return sum(int(bit) for bit, holds in obstacles.items() if holds)

    # -- travelling

    def _flight(self, request: Any, place: Place, leaves_ms: float, from_: str) -> Flight:
        """What is presumed of a request that is sent now, to leave at `leaves_ms`."""
        size_kb, link = float(request["size_kb"]), self.links[from_, place.node.name]
        site_link, work_ms = self.links[self._site(request), place.node.name], place.per_request_ms(size_kb)
        return Flight(
            place,
            arrives_ms=leaves_ms + link.delay_ms + link.transfer_ms(size_kb),
            work_ms=work_ms,
            sd_ms=work_ms * place.work_sd,
            due_ms=float(request["now_ms"] + request["deadline_ms"]) - site_link.delay_ms,
            link_sd_ms=site_link.sd_ms,
        )

    def _send(self, job: Job, leaves_ms: float, from_: str, z: float) -> None:
        """Up the link to the node of `job.place`, where the request counts from now on."""
        link = self.links[from_, job.place.node.name]
        travels_ms = link.leg_ms(z) + link.transfer_ms(float(job.request["size_kb"]))
        job.row["net_ms"] += leaves_ms - self.now + travels_ms
        self.station_of[job.place].send(job)
        heapq.heappush(self.travelling, _Reach(leaves_ms + travels_ms, int(job.request["id"]), job))

    def _back_ms(self, job: Job, z: float) -> float:
        """When the answer of now reaches its site: the link's delay is that of now, an outage is waited for."""
        site, node = self._site(job.request), job.place.node.name
        link = self.links[site, node]
        return (self.now if link.up else self._up_again_ms(site, node)) + link.leg_ms(z)

    def _up_again_ms(self, site: str, node: str) -> float:
        """The next instant after whose changes the link is up."""
        last = {c.at_s: c.up for c in self.changes if c.up is not None and matches(c, site, node)}
        return next(at_s for at_s, up in last.items() if up) * 1000.0

    # -- the answer

    def _answered(self, job: Job) -> None:
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
                expected_ms = self.now if at_node else self._back_ms(job, 0.0)
                job.flight = self._flight(job.request, place, expected_ms, from_)
                job.place, job.second, job.row["second"] = place, True, place.index
                z_up = normal(self.workload.seed, NETWORK, id_, _UP_2)
                self._send(job, self.now if at_node else back_ms, from_, z_up)
                return
        self._deliver(job, back_ms, quality)

    def _second_place(self, job: Job, from_: str) -> Place | None:
        """The better deployment in the cloud that should answer first. It binds nothing: bound load is no obstacle."""
        best, best_ms = None, math.inf
        for place in self.places:
            better = place.variant.accuracy > job.place.variant.accuracy
            if place.model != job.place.model or not place.node.cloud or not better:
                continue
            link = self._link(from_, place)
            c = self._candidate(job.request, place, link)
            if self._obstacles(job.request, place, c, link, binding=False) & _HARD:
                continue
            ms = 2.0 * c["net_ms"] + c["transfer_ms"] + c["queue_ms"] + c["proc_ms"] * c["suffered"]
            if ms < best_ms:
                best, best_ms = place, ms
        return best

    def _deliver(self, job: Job, at_ms: float, quality: float) -> None:
        row = job.row
        row["net_ms"] += at_ms - self.now
        row["latency_ms"], row["accuracy"] = at_ms - job.request["now_ms"], quality
        if row["latency_ms"] > job.request["deadline_ms"] + TOLERANCE_MS:
            row["outcome"] = Outcome.LATE
        elif quality < job.request["min_accuracy"]:
            row["outcome"] = Outcome.INACCURATE
        else:
            row["outcome"] = Outcome.SUCCESS


def _expected_wait_ms(place: Place, flying: int) -> float:
    b, f, c = place.batching.max, place.batching.fixed, place.servers
    ahead = max(0, flying - c * b + b)
    if b == 1:
        return ahead * place.typical_ms / c
    return ahead // b * place.typical_ms * (f + (1.0 - f) * b) / c


def _caused(newcomer: Place, flying: Counter[Place]) -> float:
    """By how much the degradations of all in flight would grow, summed."""
    total = 0.0
    for place, n in flying.items():
        others = flying - Counter([place])
        after = degradation(place, others + Counter([newcomer]))
        total += math.inf if math.isinf(after) else n * (after - degradation(place, others))
    return total
