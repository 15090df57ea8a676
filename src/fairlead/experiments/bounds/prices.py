"""Prices for server time that prove an upper bound on how many requests any policy can serve well.

Give every station q and slot of time t a price p[q, t] >= 0 per server-millisecond. Whatever a policy does, the
requests that succeed occupy no more than the servers there are, so (weak duality: a Lagrangian of the time-indexed
relaxation of scheduling; Dyer and Wolsey 1990, Sousa and Wolsey 1992)

    successes  <=  sum_q,t servers[q] * slot_ms * p[q, t]  +  sum_i max(0, 1 - cost_i(p))

where cost_i is what request i's cheapest option costs. This holds for ANY prices: the search for good ones only makes
the bound tighter, and stopping it early never makes it wrong.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.jit import index, inlined, kernel


@inlined
def _paid(prices: Any, sums: Any, q: int, per_ms: float, t_ms: float) -> float:
    """Integral of station q's price from 0 to `t_ms`; `sums` holds it at the edges of the slots."""
    k = index(min(int(t_ms * per_ms), prices.shape[1] - 1))
    return sums[q, k] + (t_ms - k / per_ms) * prices[q, k]


@inlined
def _cheapest(way: Any, whole: bool, prices: Any, sums: Any, per_ms: float) -> tuple[float, float]:
    """(cost, start) of the cheapest stay within the option's window; `per_ms` is slots per ms.

    `whole`: without a break, as a queue serves; exact, since between edges of slots the cost is linear. Otherwise
    (batches, shared nodes) in trials, at no less than all of it in the cheapest slot that the window touches.
    """
    q, work_ms = index(way.station), way.work_ms
    first, last = index(way.release_ms * per_ms), index(min(int(way.due_ms * per_ms), prices.shape[1] - 1))
    if first == last:
        return prices[q, first] * work_ms, way.release_ms
    if whole:
        return _cheapest_whole(way, q, prices, sums, per_ms)
    best, best_ms = prices[q, first], way.release_ms
    for k in range(first + 1, last + 1):
        if prices[q, k] < best:
            best, best_ms = prices[q, k], k / per_ms
    return best * work_ms, best_ms


@kernel
def _cheapest_whole(way: Any, q: int, prices: Any, sums: Any, per_ms: float) -> tuple[float, float]:
    work_ms = way.work_ms
    first_ms, last_ms = way.release_ms, max(way.release_ms, way.due_ms - way.work_ms)
    best_ms = first_ms
    best = _paid(prices, sums, q, per_ms, first_ms + work_ms) - _paid(prices, sums, q, per_ms, first_ms)
    k = int(first_ms * per_ms) + 1
    while best > 0.0 and (k - 1) / per_ms < last_ms + work_ms:
        for side in range(3):  # it starts at the edge, ends at it, or starts as late as it can
            at_ms = k / per_ms - side * work_ms if side < 2 else last_ms
            if first_ms < at_ms <= last_ms:
                cost = _paid(prices, sums, q, per_ms, at_ms + work_ms) - _paid(prices, sums, q, per_ms, at_ms)
                if cost < best:
                    best, best_ms = max(0.0, cost), at_ms
        k += 1
    return max(0.0, best), best_ms


@kernel
def _use(way: Any, whole: bool, start_ms: float, used: Any, per_ms: float) -> None:
    """Add the stay to what is used of its station's slots."""
    q, last = index(way.station), used.shape[1] - 1
    k = min(int(start_ms * per_ms), last)
    t_ms, left_ms = start_ms, way.work_ms
    while whole and k < last and (k + 1) / per_ms < t_ms + left_ms:
        here_ms = max(0.0, (k + 1) / per_ms - t_ms)
        used[q, index(k)] += here_ms
        left_ms -= here_ms
        t_ms += here_ms
        k += 1
    used[q, index(k)] += left_ms


@kernel
def evaluate(
    ways: Any, every: int, servers: Any, whole: Any, prices: Any, per_ms: float, sums: Any, used: Any
) -> float:
    """The bound that these prices prove; `used` takes the server time of each request's cheapest option.

    Only every n-th request is looked at (`every` > 1: for a rough search), against that part of the servers.
    """
    value = 0.0
    for q in range(prices.shape[0]):
        sums[q, 0] = 0.0
        for k in range(prices.shape[1]):
            used[q, k] = 0.0
            sums[q, k + 1] = sums[q, k] + prices[q, k] / per_ms
        if sums[q, prices.shape[1]] > 0.0:
            value += servers[q] * sums[q, prices.shape[1]] / every
    for i in range(0, len(ways.start) - 1, every):
        best, at, first_ms, second_ms = 1.0, index(0), -1.0, 0.0
        for w in range(index(ways.start[i]), index(ways.start[i + 1])):
            first = ways.first[w]
            cost, begin_ms = _cheapest(first, whole[index(first.station)], prices, sums, per_ms)
            again_ms = 0.0
            if first.then >= 0 and cost < best:
                second = ways.second[index(first.then)]
                more, again_ms = _cheapest(second, whole[index(second.station)], prices, sums, per_ms)
                cost += more
            if cost < best:
                best, at, first_ms, second_ms = cost, index(w), begin_ms, again_ms
        if first_ms >= 0.0:
            value += 1.0 - best
            first = ways.first[at]
            _use(first, whole[index(first.station)], first_ms, used, per_ms)
            if first.then >= 0:
                second = ways.second[index(first.then)]
                _use(second, whole[index(second.station)], second_ms, used, per_ms)
    return value
