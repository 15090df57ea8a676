"""Snapshots of a fleet that a host keeps up to date itself: what a gateway or a controller asks a policy about.

    builder = SnapshotBuilder(build_fleet(scenario))
    shown = builder.snapshot(request)                     REQUEST (1,) -> its candidates and their exclusions
    number = builder.sent(request, shown.first + choice)
    builder.finished(number, now_ms)                      when the answer is there

Later requests of a stream follow its first while `can_take` says so; one that was answered not accurately enough is
repeated at `second_choice`. The host says what was sent and what came back, which streams are bound, and how links and
nodes change; everything that a candidate record says is computed here, by the kernels that the simulator's engine uses.
Impossible calls raise ValueError: an unknown deployment, say, or an answer to what was not sent. One thread at a time.
"""

from __future__ import annotations

import operator
from functools import cache
from typing import Any, Final, Self

import numpy as np
from numba import from_dtype, types

from fairlead.domain.decision import RequestSnapshot
from fairlead.domain.records import REQUEST
from fairlead.policies.addresses import WORDS, tuple_at, words_of
from fairlead.policies.jit import typed_kernel
from fairlead.policies.observe import FLOATS
from fairlead.policies.snapshot.candidates import add_load, begin, book, bound_load, exclude, hard_bits, set_link
from fairlead.policies.snapshot.fleet_arrays import (
    FLEET_ARRAYS,
    LINK,
    STATE_ARRAYS,
    Fleet,
    FleetState,
)
from fairlead.policies.snapshot.node_delays import measure_delays
from fairlead.policies.snapshot.second_inference import second_choice
from fairlead.policies.snapshot.travel import second_row
from fairlead.policies.snapshot.under_way import depart, leave, new_kept, unpacked

_fleet_at: Any = tuple_at(Fleet, FLEET_ARRAYS)
_state_at: Any = tuple_at(FleetState, STATE_ARRAYS)
_DOWN: Final = np.inf  # a link that is down, for an unknown time


class SnapshotBuilder:
    """The candidates of one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        rows, nodes = fleet.links.shape
        made = (len(fleet.deployments), len(fleet.models), None, None, (rows, nodes), (rows, len(fleet.deployments)))
        sizes = (*made, (2, int(fleet.stations["residents"].sum())), 0)
        self.state = FleetState(
            *(
                np.zeros(len(fleet.deployments) if size is None else size, dtype)
                for size, (dtype, _) in zip(sizes, STATE_ARRAYS, strict=True)
            )
        )
        self.state = self.state._replace(kept=new_kept(fleet, 1))
        self._words = words_of(fleet, FLEET_ARRAYS), words_of(self.state, STATE_ARRAYS)
        self._places: dict[int, int] = {}  # number of each request under way -> deployment
        self._free = [0]  # numbers that can be given
        self._numbers = len(fleet.models), len(fleet.denied), int(fleet.rules["sites"][0])
        self._ranges = [(int(m["first"]), int(m["last"])) for m in fleet.models]
        self._exclude, self._send, self._finish, self._bind, self._add_load, self._set_link, *others = _compiled()
        start, self._can_take, self._second, self._delays = others
        start(*self._words)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = type(self)(self.fleet)
        copy.state = FleetState(*(array.copy() for array in self.state))
        copy._words = copy._words[0], words_of(copy.state, STATE_ARRAYS)
        copy._places, copy._free = dict(self._places), list(self._free)
        return copy

    def __reduce__(self) -> Any:
        raise TypeError("a SnapshotBuilder can't be pickled; build one from the fleet")

    def snapshot(self, request: Any) -> RequestSnapshot:
        """The candidates of a request, REQUEST (1,), and why some are excluded.

        They are views, to be read only. They hold until the next change, or the next `snapshot` or `second_choice`.
        """
        self._check(request)
        first, last = self._ranges[request["model"][0]]
        feasible = self._exclude(*self._words, request, first, last)
        return RequestSnapshot(
            request, self.state.candidates[first:last], self.state.excluded[first:last], bool(feasible), first
        )

    def sent(self, request: Any, deployment: int, now_ms: float | None = None, answered: int = -1) -> int:
        """A request (1,) is on its way to a deployment; returns its number there, for `finished`.

        It leaves when it came, or at `now_ms`; a second inference names the deployment that `answered` first.
        """
        self._check(request)
        place, first = self._place(deployment), self._place(answered) if answered >= 0 else -1
        if not self._free:
            self._make_room()
        number = self._free.pop()
        self._places[number] = place
        left_ms = float(request["now_ms"][0]) if now_ms is None else now_ms
        self._send(*self._words, request, number, place, left_ms, first)
        return number

    def finished(self, number: int, now_ms: float) -> None:
        """The request of this number is no longer where it was sent."""
        if (place := self._places.pop(number, -1)) < 0:
            raise ValueError(f"no request {number} is under way")
        self._free.append(number)
        self._finish(*self._words, number, place, now_ms)

    def _make_room(self) -> None:
        """Twice as many numbers."""
        old = unpacked(self.state.kept)
        had = len(old.flights)
        self.state = self.state._replace(kept=new_kept(self.fleet, 2 * had))
        for ours, its in zip(old, unpacked(self.state.kept), strict=True):
            its[: len(ours)] = ours
        self._words = self._words[0], words_of(self.state, STATE_ARRAYS)
        self._free.extend(range(had, 2 * had))

    def bind(self, deployment: int, rate_qps: float) -> float:
        """A stream of this rate is bound to a deployment; returns its load, for `unbind`."""
        return float(self._bind(*self._words, self._place(deployment), rate_qps))

    def unbind(self, deployment: int, load: float) -> None:
        """A stream of this load is no longer bound there."""
        self._add_load(*self._words, self._place(deployment), -load)

    def can_take(self, request: Any, deployment: int) -> bool:
        """Whether the place that a request's stream is bound to can take it; if not, `unbind` and decide anew."""
        self._check(request)
        return bool(self._can_take(*self._words, request, self._place(deployment)))

    def second_choice(self, request: Any, deployment: int) -> int:
        """Where to repeat a request (1,) that a deployment has answered not accurately enough; -1: nowhere."""
        self._check(request)
        return int(self._second(*self._words, request, self._place(deployment)))

    def delays_ms(self) -> Any:
        """How far each node is now, float64 (N,), as `Selector.stats` wants it."""
        delays_ms = np.zeros(self.fleet.links.shape[1])
        self._delays(*self._words, delays_ms)
        return delays_ms

    def set_link(self, row: int, node: int, net_ms: float, net_sd_ms: float, ms_per_kb: float, up: bool = True) -> None:
        """The link from a site (or, behind the sites, a node) to a node is different now."""
        rows, nodes = self.fleet.links.shape
        if not (0 <= row < rows and 0 <= node < nodes):
            raise ValueError(f"no link from {row} to {node}: there are {rows} ends and {nodes} nodes")
        link = np.array([(net_ms, net_sd_ms, ms_per_kb, 0.0 if up else _DOWN)], LINK)
        self._set_link(*self._words, row, node, link)

    def _place(self, deployment: int) -> int:
        """The deployment, which must be one."""
        if not 0 <= (place := operator.index(deployment)) < len(self.fleet.deployments):
            raise ValueError(f"no deployment {place}: there are {len(self.fleet.deployments)}")
        return place

    def _check(self, request: Any) -> None:
        """Compiled code would read past the arrays."""
        asked = request[0]
        model, source, site = int(asked["model"]), int(asked["source"]), int(asked["site"])
        models, sources, sites = self._numbers
        if model >= models or source >= sources or site >= sites:
            raise ValueError(
                f"a request for model {model} of source {source} at site {site}: "
                f"there are {models} models, {sources} sources and {sites} sites"
            )


def _exclude_of(fleet_words: Any, state_words: Any, request: Any, first: int, last: int) -> bool:
    return exclude(_fleet_at(fleet_words), _state_at(state_words), request[0], first, last)


def _send_to(
    fleet_words: Any, state_words: Any, request: Any, number: int, d: int, now_ms: float, answered: int
) -> None:
    fleet, state = _fleet_at(fleet_words), _state_at(state_words)
    book(fleet, state, d, 1)
    depart(fleet, state, number, d, request[0], now_ms, answered)


def _finish_at(fleet_words: Any, state_words: Any, number: int, d: int, now_ms: float) -> None:
    fleet, state = _fleet_at(fleet_words), _state_at(state_words)
    book(fleet, state, d, -1)
    leave(fleet, state, number, now_ms)


def _bind_to(fleet_words: Any, state_words: Any, d: int, rate_qps: float) -> float:
    fleet, state = _fleet_at(fleet_words), _state_at(state_words)
    load = bound_load(state.candidates[d], rate_qps)
    add_load(fleet, state, d, load)
    return load


def _add_load_to(fleet_words: Any, state_words: Any, d: int, load: float) -> None:
    add_load(_fleet_at(fleet_words), _state_at(state_words), d, load)


def _set_link_to(fleet_words: Any, state_words: Any, row: int, node: int, link: Any) -> None:
    set_link(_fleet_at(fleet_words), _state_at(state_words), row, node, link[0])


def _can_take_of(fleet_words: Any, state_words: Any, request: Any, d: int) -> bool:
    asked = request[0]
    return hard_bits(_fleet_at(fleet_words), _state_at(state_words), asked.site, asked.source, d) == 0


def _second_of(fleet_words: Any, state_words: Any, request: Any, answered: int) -> int:
    fleet, asked = _fleet_at(fleet_words), request[0]
    if not fleet.rules[0].second_inference:
        return -1
    row = second_row(fleet, asked.site, answered)
    return second_choice(fleet, _state_at(state_words), asked, answered, row)


def _delays_of(fleet_words: Any, state_words: Any, delays_ms: Any) -> None:
    measure_delays(_fleet_at(fleet_words), _state_at(state_words), delays_ms)


def _begin(fleet_words: Any, state_words: Any) -> None:
    begin(_fleet_at(fleet_words), _state_at(state_words))


@cache
def _compiled() -> tuple[Any, ...]:
    whole, real = types.int64, types.float64
    request, link = (types.Array(from_dtype(dtype), 1, "C") for dtype in (REQUEST, LINK))
    return (
        typed_kernel(_exclude_of, WORDS, WORDS, request, whole, whole),
        typed_kernel(_send_to, WORDS, WORDS, request, whole, whole, real, whole),
        typed_kernel(_finish_at, WORDS, WORDS, whole, whole, real),
        typed_kernel(_bind_to, WORDS, WORDS, whole, real),
        typed_kernel(_add_load_to, WORDS, WORDS, whole, real),
        typed_kernel(_set_link_to, WORDS, WORDS, whole, whole, link),
        typed_kernel(_begin, WORDS, WORDS),
        typed_kernel(_can_take_of, WORDS, WORDS, request, whole),
        typed_kernel(_second_of, WORDS, WORDS, request, whole),
        typed_kernel(_delays_of, WORDS, WORDS, FLOATS),
    )
