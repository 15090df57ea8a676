"""An upper bound on the success rate of a scenario and seed that no policy can pass, even one that knows the future.

`prices` turns any prices of server time into a proof of a bound; here good ones are searched: a projected subgradient
method (AdaGrad steps, averaged) from one slot for the whole run to finer and finer ones, on a sample of the requests
while slots are long. What is relaxed, and so makes the bound higher than what can be reached, is told in
docs/guides/bound.md.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairlead.experiments.bounds.prices import evaluate
from fairlead.experiments.bounds.service_options import ServiceOptions, service_options_of
from fairlead.policies.snapshot.capacity import capacities
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.world_arrays import Plan

_FINER: Final = 4  # slots become that much shorter from level to level
_MOST_PRICES: Final = 20_000
_PER_PRICE: Final = 40  # requests looked at for each price
_STEP: Final = 0.3  # first step, in prices of a typical request; halved from level to level
_LEVEL_BUDGET: Final = 4_000_000  # requests looked at on one level, within the iterations below
_ITERATIONS: Final = (12, 400)


def success_bound(plan: Plan, workload: DrawnWorkload) -> float:
    """The largest share of the workload's requests that could succeed under any policy, rounded down to whole ones."""
    ways = service_options_of(plan, workload)
    n = len(workload.requests)
    return _most_successes(ways, *capacities(plan)) / n if n else 1.0


def _most_successes(ways: ServiceOptions, servers: Any, whole: Any) -> int:
    most = int(np.count_nonzero(np.diff(ways.start)))  # what zero prices prove: those with any option
    if most == 0:
        return 0
    search = _Search(ways, servers, whole)
    shortest_ms = float(ways.first["work_ms"].min())
    for level in range(32):
        most = min(most, search.improve(level))
        slots = search.prices.shape[1] * _FINER
        if slots * len(servers) > _MOST_PRICES or search.horizon_ms / slots < shortest_ms / 8:
            break
    return most


class _Search:
    """Prices that get better."""

    def __init__(self, ways: ServiceOptions, servers: Any, whole: Any) -> None:
        self.ways, self.whole = ways, whole
        # Where there is room for everything there is nothing to pay.
        self.servers, self.priced = np.where(np.isinf(servers), 0.0, servers), np.isfinite(servers)[:, None]
        self.horizon_ms = float(max(ways.first["due_ms"].max(), ways.second["due_ms"].max(initial=0.0))) * (1 + 1e-9)
        used_ms, used = np.zeros(len(servers)), np.zeros(len(servers))
        for part in (ways.first, ways.second):
            used_ms += np.bincount(part["station"], part["work_ms"], len(servers))
            used += np.bincount(part["station"], minlength=len(servers))
        self.unit = (np.maximum(used, 1.0) / np.maximum(used_ms, 1e-9))[:, None]  # prices 1 for a typical request
        self.prices = np.zeros((len(servers), 1))

    def improve(self, level: int) -> int:
        """Search on the slots of this level; returns the bound that its best prices prove."""
        if level:
            self.prices = np.repeat(self.prices, _FINER, axis=1)
        per_ms = self.prices.shape[1] / self.horizon_ms
        requests = len(self.ways.start) - 1
        every = max(1, requests // (_PER_PRICE * self.prices.size))
        iterations = int(np.clip(_LEVEL_BUDGET * every / requests, *_ITERATIONS))
        step = _STEP * 0.5**level

        prices, used = self.prices, np.zeros_like(self.prices)
        best, squares, mean = math.inf, np.full_like(prices, 1e-12), np.zeros_like(prices)
        for k in range(iterations):
            value = self._evaluate(every, prices, per_ms, used)
            if value < best:
                best, self.prices = value, prices
            slope = (self.servers[:, None] / per_ms / every - used) * self.unit * self.priced
            squares += slope * slope
            prices = np.maximum(0.0, prices - step * slope / np.sqrt(squares) * self.unit)
            if 2 * k >= iterations:
                mean += prices / (iterations - (iterations + 1) // 2)
        if self._evaluate(every, mean, per_ms, used) < best:  # the function is convex: the middle of a zigzag is lower
            self.prices = mean
        rounding = 1e-6 + 1e-9 * requests  # of the sum, and then some
        return math.floor(self._evaluate(1, self.prices, per_ms, used) + rounding)

    def _evaluate(self, every: int, prices: Any, per_ms: float, used: Any) -> float:
        sums = np.empty((prices.shape[0], prices.shape[1] + 1))
        return evaluate(self.ways, every, self.servers, self.whole, prices, per_ms, sums, used)
