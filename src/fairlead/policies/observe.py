"""What learned policies see: a window of traffic, or a request and its candidates, as float32 in [0, 10], cut there.

One compiled function each, which the gym, the simulator's host and the live interface share: so a policy is asked about
what it was trained on. An observation's version names its layout; a bundle says which one it was trained with. The
functions know their arguments alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from fairlead.domain.records import CANDIDATE, REQUEST, TRAFFIC
from fairlead.policies.jit import inlined, typed_kernel

LIMIT: Final = 10.0  #: Observations lie in [0, LIMIT]: what is scaled beyond is cut.
WINDOW_VERSION: Final = "window-2"
DISPATCH_VERSION: Final = "dispatch-1"

# Numba's types.
SINGLES: Final = types.Array(types.float32, 1, "C")
FLOATS: Final = types.Array(types.float64, 1, "C")
COUNTS: Final = types.Array(types.int64, 1, "C")
EXCLUDED: Final = types.Array(types.uint16, 1, "C")
TRAFFIC_ROWS: Final = types.Array(from_dtype(TRAFFIC), 1, "C")


# ---- a request and its candidates

#: What a request shows, and the unit that it is shown in.
REQUEST_UNITS: Final = {"deadline_ms": 100.0, "min_accuracy": 1.0, "size_kb": 100.0, "rate_qps": 10.0}
_DEADLINE_MS, _ACCURACY, _SIZE_KB, _RATE_QPS = REQUEST_UNITS.values()
#: What a candidate shows, and the unit: all fields of CANDIDATE but its names, in their order.
CANDIDATE_UNITS: Final = {
    "net_ms": 100.0,
    "net_sd_ms": 10.0,
    "transfer_ms": 100.0,
    "proc_ms": 100.0,
    "service_rate": 100.0,
    "load": 1.0,
    "queue_ms": 100.0,
    "suffered": 1.0,
    "caused": 1.0,
    "accuracy": 1.0,
    "energy_mj": 1000.0,
    "price": 1e-6,
    "free_mb": 10_000.0,
    "in_flight": 10.0,
    "others_in_flight": 10.0,
}
#: Values of a slot, one for each word of a CANDIDATE: `feasible` in the place of its names, then its fields.
SLOT: Final = 1 + len(CANDIDATE_UNITS)
PREFERENCE: Final = ("energy_weight", "degradation_weight")
_WORDS: Final = CANDIDATE.itemsize // 8
assert tuple(CANDIDATE_UNITS) == (CANDIDATE.names or ())[2 : 1 + SLOT]
assert CANDIDATE.itemsize == 8 * (len(CANDIDATE.names or ()) - 1)  # its two names share a word


def dispatch_size(slots: int) -> int:
    """How many values `observe_dispatch` writes."""
    return len(REQUEST_UNITS) + SLOT * slots + len(PREFERENCE)


def dispatch_features(slots: int) -> list[str]:
    """The names of what `observe_dispatch` writes: (4 + 16 slots + 2,)."""
    return [*REQUEST_UNITS, *slot_features(slots), *PREFERENCE]


def slot_features(slots: int) -> list[str]:
    """The names of what `observe_candidates` writes: (16 slots,)."""
    return [f"{name} {c}" for c in range(slots) for name in ("feasible", *CANDIDATE_UNITS)]


def slot_scales(slots: int) -> tuple[Any, Any]:
    """Scale and shift, each float32 (16 slots,): a slot shows word * scale + shift; of the names nothing."""
    shown = [(1.0 / unit, -1.0 if name == "suffered" else 0.0) for name, unit in CANDIDATE_UNITS.items()]
    scale, shift = np.tile(np.array([(0.0, 0.0), *shown], np.float32), (slots, 1)).T.copy()
    return scale, shift


@inlined
def observe_request(request: Any, out: Any) -> None:
    """Write the request's values: the first 4 of `out`."""
    out[0] = min(request.deadline_ms / _DEADLINE_MS, LIMIT)
    out[1] = min(request.min_accuracy / _ACCURACY, LIMIT)
    out[2] = min(request.size_kb / _SIZE_KB, LIMIT)
    out[3] = min(request.rate_qps / _RATE_QPS, LIMIT)


@inlined
def observe_candidates(candidates: Any, excluded: Any, scale: Any, shift: Any, out: Any) -> None:
    """Write all slots into `out` (16 slots,); those without a candidate are zeros."""
    words = _floats_of(candidates)
    for c in range(len(candidates)):
        row, slot = words[c * _WORDS : c * _WORDS + SLOT], out[c * SLOT : (c + 1) * SLOT]
        for i in range(SLOT):
            slot[i] = np.float32(row[i])
    for i in range(len(candidates) * SLOT):  # all slots at once: the processor takes several
        out[i] = min(max(out[i] * scale[i] + shift[i], np.float32(0.0)), np.float32(LIMIT))
    for c in range(len(candidates)):
        out[c * SLOT] = excluded[c] == 0
    if len(candidates) * SLOT < len(out):
        out[len(candidates) * SLOT :] = 0.0


def _observe_dispatch(
    request: Any, candidates: Any, excluded: Any, scale: Any, shift: Any, preference: Any, out: Any
) -> None:
    """Write "dispatch-1" into `out`: of REQUEST (1,), CANDIDATE (c,), c at most the slots, and uint16 (c,)."""
    end = 4 + len(scale)
    observe_request(request[0], out)
    observe_candidates(candidates, excluded, scale, shift, out[4:end])
    out[end] = preference[0]
    out[end + 1] = preference[1]


@cache
def observe_dispatch() -> Any:
    """The compiled function, called as `_observe_dispatch`; it takes exactly these types."""
    request, candidates = (types.Array(from_dtype(dtype), 1, "C") for dtype in (REQUEST, CANDIDATE))
    return typed_kernel(_observe_dispatch, request, candidates, EXCLUDED, *[SINGLES] * 4)


# ---- a window

#: The rate that the number of clients is compared with the capacity by.
CLIENT_QPS: Final = 10.0
DELAY_MS: Final = 100.0  #: The unit of link delays.
FARTHEST_MS: Final = LIMIT * DELAY_MS  #: The delay that a link shows which is down.
_MIX: Final = ("within 40 ms", "within 80 ms", "within 160 ms", "min_accuracy")


def window_features(nodes: list[str], mix: bool) -> list[str]:
    """The names of what `observe_window` writes, for nodes of these names (padding included)."""
    names = ["qps", "rps", "clients", *(_MIX if mix else ()), *(f"load {n}" for n in nodes)]
    return names + [f"delay {n}" for n in nodes if mix]


def window_size(nodes: int, mix: bool) -> int:
    """How many values `observe_window` writes."""
    return 7 + 2 * nodes if mix else 3 + nodes


def window_scale(capacity_qps: Any, window_ms: float) -> Any:
    """What counts are multiplied by, float64 (3 + nodes,), given what each node can serve in requests a second."""
    total_qps, window_s = float(np.sum(capacity_qps)), window_ms / 1000.0
    units = [total_qps * window_s] * 2 + [total_qps / CLIENT_QPS, *(np.asarray(capacity_qps) * window_s)]
    return 1.0 / np.array(units)


@inlined
def count_mix(traffic: Any, request: Any) -> None:
    """Count in a TRAFFIC record what an arrival asks for; the arrivals themselves are counted by the caller."""
    traffic.within_40_ms += request.deadline_ms <= 40.0
    traffic.within_80_ms += request.deadline_ms <= 80.0
    traffic.within_160_ms += request.deadline_ms <= 160.0
    traffic.min_accuracy += request.min_accuracy


@inlined
def observe_window(traffic: Any, sent: Any, delays_ms: Any, scale: Any, slots: int, mix: bool, out: Any) -> None:
    """Write "window-2" into `out`: of a TRAFFIC record, requests sent to each node (n,), n at most the slots.

    `delays_ms` (n,), read for the mix alone: mean one-way delay over sites, a link that is down as FARTHEST_MS.
    """
    out[0] = min(traffic.arrived * scale[0], LIMIT)
    out[1] = min(traffic.delivered * scale[1], LIMIT)
    out[2] = min(traffic.clients * scale[2], LIMIT)
    at = 3
    if mix:
        arrived = max(1, traffic.arrived)
        out[3] = traffic.within_40_ms / arrived
        out[4] = traffic.within_80_ms / arrived
        out[5] = traffic.within_160_ms / arrived
        out[6] = traffic.min_accuracy / arrived
        at = 7
    out[at:] = 0.0
    for n in range(len(sent)):
        out[at + n] = min(sent[n] * scale[3 + n], LIMIT)
        if mix:
            out[at + slots + n] = min(delays_ms[n] / DELAY_MS, LIMIT)


def window_stats(
    traffic: Any, sent: Any, delays_ms: Any, capacity_qps: Any, window_ms: float, slots: int, mix: bool
) -> Any:
    """ "window-2" of plain counters, float32 (1, F): what a host that keeps its own books asks a selector about.

    `traffic` is a TRAFFIC record; each node has its count of requests sent to it in the window, its delay as in
    `observe_window` (SnapshotBuilder.delays_ms), and what it can serve in requests a second (snapshot.capacity).
    """
    arrays = np.asarray(traffic, TRAFFIC).reshape(1), np.array(sent, np.int64), np.array(delays_ms, np.float64)
    if not len(arrays[1]) == len(arrays[2]) == len(capacity_qps) <= slots:
        raise ValueError(f"sent, delays_ms and capacity_qps need one number for each node, of at most {slots} nodes")
    out = np.zeros((1, window_size(slots, mix)), np.float32)
    _compiled_window()(*arrays, window_scale(capacity_qps, window_ms), slots, mix, out[0])
    return out


def _observe_window(traffic: Any, sent: Any, delays_ms: Any, scale: Any, slots: int, mix: bool, out: Any) -> None:
    observe_window(traffic[0], sent, delays_ms, scale, slots, mix, out)


@cache
def _compiled_window() -> Any:
    arguments = TRAFFIC_ROWS, COUNTS, FLOATS, FLOATS, types.int64, types.boolean, SINGLES
    return typed_kernel(_observe_window, *arguments)


def _make_floats_of(typing_context: Any, records: Any) -> Any:
    """Records (n,) of whole eight-byte words as float64 (n * words,), without a copy."""
    flat_type = types.Array(types.float64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])
        words = context.get_constant(types.intp, signature.args[0].dtype.size // 8)
        word = context.get_constant(types.intp, 8)
        data = builder.bitcast(array.data, ir.DoubleType().as_pointer())
        length = builder.mul(builder.extract_value(array.shape, 0), words)
        flat = make_array(flat_type)(context, builder)
        populate_array(flat, data=data, shape=[length], strides=[word], itemsize=word, meminfo=None)
        return flat._getvalue()

    return flat_type(records), generate


_floats_of: Any = intrinsic(_make_floats_of)
