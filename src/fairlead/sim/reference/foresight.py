"""What is foreseen, in the reference world: what a newcomer will meet at a queue or on a shared node.

It follows the section of that name in docs/guides/serving-world.md, for each kind of station.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fairlead.domain.outcomes import TOLERANCE_MS
from fairlead.sim.reference.flights import CERTAIN, Flight, Foreseen, Line, normal_density, share_above, what_is_left
from fairlead.sim.reference.places import Place, degradation

_DONE_MS = 1e-9  # work of which no more is left is done
_LEAST_MS = 2e-9  # what is left of work at least
_ROUNDING_MS = 1e-6  # a shorter wait on a shared node is none
_SLACK = 1.5  # how far beyond the last deadline a shared node is foreseen


# ---- queue nodes


@dataclass
class _Server:
    free_ms: float
    variance: float = 0.0
    idle: bool = True

    def serve(self, flight: Flight, forgets: bool = False) -> None:
        """Serve a flight next. A server that waits for it may forget how uncertain its past is."""
        if forgets and flight.arrives_ms > self.free_ms:
            self.variance = 0.0
        self.free_ms = max(self.free_ms, flight.arrives_ms) + flight.work_ms
        self.variance += flight.sd_ms**2
        self.idle = False


def _first(servers: Iterable[_Server]) -> _Server:
    return min(servers, key=lambda server: (server.free_ms, not server.idle))


class QueueLine(Line):
    """A queue node: a server is presumed to serve one flight at a time, in the order of the line."""

    def __init__(self, servers: int) -> None:
        super().__init__()
        self.servers = servers

    def _started(self) -> list[Flight]:
        return [f for f in self.flights if f.started_ms is not None]

    def look(self, now_ms: float) -> None:
        self._was_busy(len(self._started()) / self.servers, now_ms)
        self._start(now_ms, free_since_ms=0.0)

    def end(self, flight: Flight, now_ms: float) -> None:
        super().end(flight, now_ms)
        if flight.started_ms is not None:
            self._start(now_ms, free_since_ms=now_ms)
        elif len(self._started()) == self.servers:
            self._started()[-1].started_ms = now_ms

    def _start(self, now_ms: float, free_since_ms: float) -> None:
        """Free servers start those that should have arrived."""
        for flight in self.flights:
            if len(self._started()) == self.servers or flight.arrives_ms > now_ms:
                return
            if flight.started_ms is None:
                flight.started_ms = max(flight.arrives_ms, free_since_ms)

    def foresee(self, newcomer: Flight, deadline_ms: float, now_ms: float) -> Foreseen:
        servers = self._servers(now_ms)
        waiting = [f for f in self.flights if f.started_ms is None]
        while waiting and waiting[0].arrives_ms <= newcomer.arrives_ms:
            if _first(servers).free_ms > newcomer.arrives_ms + deadline_ms:
                return Foreseen(*_wait(servers, newcomer), makes_late=0.0)
            _first(servers).serve(waiting.pop(0), forgets=True)
        late = self._makes_late(servers, newcomer, waiting) if len(self.flights) >= self.servers else 0.0
        return Foreseen(*_wait(servers, newcomer), makes_late=late)

    def _servers(self, now_ms: float) -> list[_Server]:
        """When they are free of what they serve."""
        found = []
        for flight in self._started():
            assert flight.started_ms is not None
            left_ms, variance = what_is_left(flight.work_ms, flight.sd_ms, now_ms - flight.started_ms)
            found.append(_Server(now_ms + left_ms, variance, idle=False))
        return found + [_Server(now_ms) for _ in range(self.servers - len(found))]

    def _makes_late(self, servers: list[_Server], newcomer: Flight, behind: list[Flight]) -> float:
        without, beside = [replace(s) for s in servers], [replace(s) for s in servers]
        _first(beside).serve(newcomer)
        late = 0.0
        for flight in behind:
            before, after = _first(without), _first(beside)
            before.serve(flight)
            after.serve(flight)
            if after.free_ms <= before.free_ms + TOLERANCE_MS:
                break
            late += flight.in_time(before.free_ms, after.variance) - flight.in_time(after.free_ms, after.variance)
        return late


def _wait(servers: list[_Server], newcomer: Flight) -> tuple[float, float]:
    """Mean and deviation of the time until a server is free, if that is after the newcomer's arrival."""
    if any(server.idle for server in servers):
        return 0.0, 0.0
    server = _first(servers)
    mean, sd = server.free_ms - newcomer.arrives_ms, math.sqrt(server.variance + newcomer.link_sd_ms**2)
    if abs(mean) >= CERTAIN * sd:
        return (mean, sd) if mean > 0.0 else (0.0, 0.0)
    share, density = share_above(-mean / sd), normal_density(mean / sd)
    cut = mean * share + sd * density
    square = (mean**2 + sd**2) * share + mean * sd * density
    return cut, math.sqrt(max(0.0, square - cut**2))


# ---- shared nodes


class SharedLine(Line):
    """A shared node: all that should have arrived are present, each slowed by the others, until they really end."""

    def look(self, now_ms: float) -> None:
        while self.looked_ms < now_ms:
            present = [f for f in self.flights if f.arrives_ms <= self.looked_ms]
            until_ms = min([now_ms, *(f.arrives_ms for f in self.flights if f.arrives_ms > self.looked_ms)])
            slowed = _slowed(present)
            for flight in present:
                flight.done_ms += (until_ms - self.looked_ms) / slowed[flight.place]
            self._was_busy(1.0 if present else 0.0, until_ms)

    def foresee(self, newcomer: Flight, deadline_ms: float, now_ms: float) -> Foreseen:
        last_ms = max([now_ms + deadline_ms, *(f.due_ms for f in self.flights)])
        until_ms = now_ms + _SLACK * (last_ms - now_ms)
        without, with_it = _run(self.flights, now_ms, until_ms), _run([*self.flights, newcomer], now_ms, until_ms)
        wait_ms = with_it.end_of(newcomer, until_ms) - newcomer.arrives_ms - newcomer.work_ms
        wait_ms = wait_ms if wait_ms > _ROUNDING_MS else 0.0
        late = 0.0
        for flight, ends_ms in without.ends.items():
            variance = ((ends_ms - now_ms) * flight.place.work_sd) ** 2
            late += flight.in_time(ends_ms, variance)
            if flight in with_it.ends:
                late -= flight.in_time(with_it.ends[flight], variance)
        return Foreseen(wait_ms, wait_ms * newcomer.place.work_sd, late)


@dataclass
class _Run:
    """How flights on a shared node went on."""

    ends: dict[Flight, float]
    left: dict[Flight, float]  # of those that have not ended
    slowed: dict[Place, float]  # of those present last

    def end_of(self, flight: Flight, until_ms: float) -> float:
        """When a flight ends, if need be after the end of the run."""
        if flight in self.ends:
            return self.ends[flight]
        slowed = self.slowed[flight.place] if flight.arrives_ms < until_ms else 1.0
        return max(until_ms, flight.arrives_ms) + self.left[flight] * (slowed if math.isfinite(slowed) else 1.0)


def _run(flights: list[Flight], now_ms: float, until_ms: float) -> _Run:
    """Let flights run on, each until its work is done."""
    left = {f: max(_LEAST_MS, what_is_left(f.work_ms, f.sd_ms, f.done_ms)[0]) for f in flights}
    run = _Run({}, left, {})
    while left and now_ms < until_ms:
        present = [f for f in left if f.arrives_ms <= now_ms]
        run.slowed = _slowed(present)
        ends_ms = [now_ms + left[f] * run.slowed[f.place] for f in present]
        next_ms = min([until_ms, *ends_ms, *(f.arrives_ms for f in left if f.arrives_ms > now_ms)])
        for flight in present:
            left[flight] -= (next_ms - now_ms) / run.slowed[flight.place]
            if left[flight] <= _DONE_MS:
                run.ends[flight] = next_ms
                del left[flight]
        now_ms = next_ms
    return run


def _slowed(present: list[Flight]) -> dict[Place, float]:
    """The slow-down of each, by its deployment, beside the others."""
    counts = Counter(f.place for f in present)
    return {place: degradation(place, counts - Counter([place])) for place in counts}
