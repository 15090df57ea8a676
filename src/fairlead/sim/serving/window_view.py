"""What a selector sees of worlds at the edge of a window: the window that has just ended.

Counts it in the world's arrays and leaves the scaling to `fairlead.policies.observe`. Called by the gym and by
`run_policy`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.records import TRAFFIC
from fairlead.policies.addresses import ROWS_OF_WORDS, WORDS
from fairlead.policies.jit import inlined, kernel, typed_kernel
from fairlead.policies.observe import FLOATS, TRAFFIC_ROWS, count_mix, observe_window, window_scale, window_size
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.policies.snapshot.node_delays import measure_delays
from fairlead.sim.serving.addresses import plan_at, world_at
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.world_arrays import DONE, Plan

_OBSERVATIONS = types.Array(types.float32, 2, "C")


class WindowView:
    """Observes worlds of one plan, padded to so many nodes, with or without the mix of requests and links."""

    def __init__(self, plan: Plan, nodes: int, mix: bool) -> None:
        self._scale = window_scale(capacity_qps(plan), float(plan.rules["window_ms"][0]))
        self._nodes, self._mix = nodes, mix
        self.features = window_size(nodes, mix)  # F, the length of an observation
        self._observe = _compiled()

    def observe(self, handle: Handle, out: Any) -> None:
        """Write the observation of every world into `out` (B, F); at the start there are clients and links alone."""
        traffic, delays_ms = np.zeros(1, TRAFFIC), np.zeros(handle.plan.links.shape[1])
        rows = handle.plan_words, handle.world_words, handle.codes
        self._observe(*rows, self._scale, self._nodes, self._mix, traffic, delays_ms, out)


@inlined
def ended_window(world: Any, code: int) -> int:
    """The window that has just ended: -1 at the start, at the end the last that has arrivals."""
    window = world.clock[0].window
    return window - 1 if code != DONE else min(window, len(world.windows) - 2)


@kernel
def _count_mix(world: Any, w: int, traffic: Any) -> None:
    """What the arrivals of window `w` ask for."""
    last = world.clock[0].next_request
    for later in range(w + 1, world.clock[0].window + 1):
        last -= world.windows[later].arrived
    traffic.within_40_ms = traffic.within_80_ms = traffic.within_160_ms = 0
    traffic.min_accuracy = 0.0
    for i in range(last - world.windows[w].arrived, last):  # requests are sorted by time
        count_mix(traffic, world.requests[i])


def _observe(
    plan_row: Any,
    world_rows: Any,
    codes: Any,
    scale: Any,
    nodes: int,
    mix: bool,
    traffic: Any,
    delays_ms: Any,
    observations: Any,
) -> None:
    plan = plan_at(plan_row)
    for b in range(len(codes)):
        world = world_at(world_rows, b)
        w, counts = ended_window(world, codes[b]), traffic[0]
        window = world.windows[max(w, 0)]  # at the start the first one, which is empty
        counts.arrived, counts.delivered, counts.clients = window.arrived, window.delivered, window.clients
        if w < 0:
            counts.clients = world.clock[0].early_streams
        if mix:
            _count_mix(world, max(w, 0), counts)
            measure_delays(plan, world, delays_ms)
        observe_window(counts, world.dispatched[max(w, 0)], delays_ms, scale, nodes, mix, observations[b])


@cache
def _compiled() -> Any:
    flat = FLOATS, types.int64, types.boolean, TRAFFIC_ROWS, FLOATS
    return typed_kernel(_observe, WORDS, ROWS_OF_WORDS, WORDS, *flat, _OBSERVATIONS)
