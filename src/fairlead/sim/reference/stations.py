"""Requests and the stations that serve them, in the reference world: FIFO queues with batches, and shared nodes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairlead.sim.reference.flights import Flight, Line
from fairlead.sim.reference.foresight import QueueLine, SharedLine
from fairlead.sim.reference.places import Place, degradation

if TYPE_CHECKING:
    from fairlead.sim.reference.serving import World


@dataclass(eq=False)
class Job:
    """An admitted request."""

    request: Any  # REQUEST
    draws: Any
    row: Any  # DECISION: what has become of it so far
    place: Place  # of its present inference
    flight: Flight  # what is presumed of it there
    second: bool = False
    reached_ms: float = 0.0
    started_ms: float = 0.0
    left_ms: float = 0.0  # time alone still to run; shared nodes

    def alone_ms(self) -> float:
        return self.place.alone_ms(float(self.request["size_kb"])) * float(self.draws["work"])


class Station(ABC):
    """Where requests wait and run. `flying` is what was sent there and has not finished; `line` what is presumed."""

    def __init__(self, world: World, line: Line) -> None:
        self.world, self.line = world, line
        self.flying: list[Job] = []
        self.load = 0.0  # of bound streams

    def send(self, job: Job) -> None:
        """A request is on its way here."""
        self.flying.append(job)
        self.line.send(job.flight, self.world.now)

    def _started(self, job: Job) -> None:
        job.started_ms = self.world.now
        job.row["queue_ms"] += self.world.now - job.reached_ms

    def _finished(self, job: Job) -> None:
        job.row["service_ms"] += self.world.now - job.started_ms
        self.flying.remove(job)
        self.line.end(job.flight, self.world.now)

    def _account(self, jobs: list[Job], busy_ms: float, part_of_node: float) -> None:
        """Energy and price of a busy server, shared alike among its requests."""
        place, n = jobs[0].place, len(jobs)
        self.world.busy_ms[place.node_index] += busy_ms * part_of_node
        self.world.energy_mj[place.node_index] += busy_ms * place.power_w
        for job in jobs:
            job.row["energy_mj"] += busy_ms * place.power_w / n
            job.row["price"] += busy_ms * place.price_per_ms / n

    @abstractmethod
    def reach(self, job: Job) -> None:
        """A request reaches it."""

    @abstractmethod
    def next_ms(self) -> float:
        """When it wants to `step`."""

    @abstractmethod
    def step(self) -> list[Job]:
        """Do what is due now; what has finished."""


class Queue(Station):
    """One deployment on a queue node: a FIFO queue and its servers."""

    def __init__(self, world: World, place: Place) -> None:
        super().__init__(world, QueueLine(place.servers))
        self.place = place
        self.waiting: list[Job] = []
        self.serving: dict[int, tuple[float, list[Job]]] = {}  # (finish, batch) by server

    def reach(self, job: Job) -> None:
        self.waiting.append(job)
        self._start()

    def next_ms(self) -> float:
        return min(self._patience_ms(), min((finish for finish, _ in self.serving.values()), default=math.inf))

    def _patience_ms(self) -> float:
        """When the first in the queue has waited long enough to be served without company."""
        if not self.waiting or len(self.serving) == self.place.servers:
            return math.inf
        return self.waiting[0].reached_ms + self.place.batching.wait_ms

    def step(self) -> list[Job]:
        due = sorted(server for server, (finish, _) in self.serving.items() if finish <= self.world.now)
        done = [job for server in due for job in self.serving.pop(server)[1]]
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
            self._account(batch, takes_ms, self.place.part / self.place.node.count)
            free = min(server for server in range(self.place.servers) if server not in self.serving)
            self.serving[free] = self.world.now + takes_ms, batch


class Shared(Station):
    """A shared node: everything runs at once, each slowed by the others."""

    def __init__(self, world: World) -> None:
        super().__init__(world, SharedLine())
        self.running: list[Job] = []
        self.slowed: list[float] = []  # degradation of each that runs
        self.since_ms = 0.0  # when `running` last changed

    def reach(self, job: Job) -> None:
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

    def step(self) -> list[Job]:
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
