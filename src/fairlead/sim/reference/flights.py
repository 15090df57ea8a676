"""Flights, in the reference world, and the lines in which they stand.

See "What is foreseen" in docs/guides/serving-world.md. Each station has a line (`foresight` has the two kinds); the
world tells it what is sent there, what ends there and when it is looked at, and asks it about newcomers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from fairlead.domain.outcomes import TOLERANCE_MS
from fairlead.sim.reference.places import Place

_BUSY_MS = 1000.0  # how fast `busy` forgets
CERTAIN = 5.0  #: Deviations from which on a normal law counts as sure


@dataclass(eq=False)
class Flight:
    """A request that was sent to a deployment and whose service there has not ended; or the newcomer."""

    place: Place
    arrives_ms: float  # expected
    work_ms: float  # expected
    sd_ms: float  # deviation of its work
    due_ms: float
    link_sd_ms: float  # deviation of the link between its site and the node, so of `due_ms`, too
    started_ms: float | None = None  # presumed; queue nodes
    done_ms: float = 0.0  # presumed progress; shared nodes

    def in_time(self, ends_ms: float, variance: float) -> float:
        """The chance that it is in time when its service ends at `ends_ms`, with this variance."""
        sd_ms = math.sqrt(variance + self.link_sd_ms**2)
        if abs(self.due_ms - ends_ms) >= CERTAIN * sd_ms:
            return 1.0 if ends_ms <= self.due_ms + TOLERANCE_MS else 0.0
        return share_above((ends_ms - self.due_ms) / sd_ms)


@dataclass(frozen=True)
class Foreseen:
    """What a newcomer will meet."""

    wait_ms: float
    wait_sd_ms: float
    makes_late: float


class Line(ABC):
    """The flights of one station, by expected arrival; of equal ones the one that was sent first is first."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []
        self.busy = 0.0
        self.looked_ms = 0.0  # when it was last looked at

    def send(self, flight: Flight, now_ms: float) -> None:
        """A flight is sent here."""
        self.look(now_ms)
        self.flights = sorted([*self.flights, flight], key=lambda f: f.arrives_ms)  # sorting keeps the order of equals
        self.look(now_ms)

    def end(self, flight: Flight, now_ms: float) -> None:
        """The service of a flight has ended."""
        self.look(now_ms)
        self.flights.remove(flight)

    def _was_busy(self, share: float, until_ms: float) -> None:
        """This share of the servers was busy from the last look on."""
        self.busy = share + (self.busy - share) * math.exp(-(until_ms - self.looked_ms) / _BUSY_MS)
        self.looked_ms = until_ms

    @abstractmethod
    def look(self, now_ms: float) -> None:
        """Bring what is presumed up to the present."""

    @abstractmethod
    def foresee(self, newcomer: Flight, deadline_ms: float, now_ms: float) -> Foreseen:
        """What `newcomer`, with that deadline, would meet if it were sent here now."""


# ---- the normal law


def what_is_left(work_ms: float, sd_ms: float, done_ms: float) -> tuple[float, float]:
    """Mean and variance of what is left of a work of which so much is done."""
    if done_ms <= 0.0:
        return work_ms, sd_ms**2
    if sd_ms == 0.0:
        return max(0.0, work_ms - done_ms), 0.0
    z = (done_ms - work_ms) / sd_ms
    if z < -CERTAIN:
        return work_ms - done_ms, sd_ms**2
    if z > CERTAIN:
        return sd_ms / z, 0.0
    h = normal_density(z) / share_above(z)
    return sd_ms * (h - z), sd_ms**2 * max(0.0, 1.0 - h * (h - z))


def normal_density(z: float) -> float:
    return math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)


def share_above(z: float) -> float:
    """The share of the standard normal law above z."""
    return math.erfc(z / math.sqrt(2.0)) / 2.0
