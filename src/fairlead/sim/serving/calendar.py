"""What happens next: a binary heap of requests on their way, and a winner tree over the stations' next events.

The heap orders by (time, request); the tree by (time, station). Both are exact; together they cost a few comparisons
an event, and the tree keeps that at a hundred nodes and more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import index, inlined


@inlined
def _before(heap: Any, i: int, at_ms: float, job: int) -> bool:
    """Whether event `i` comes before (at_ms, job). Without branches: the outcome can't be predicted."""
    return (heap[i].at_ms < at_ms) | ((heap[i].at_ms == at_ms) & (heap[i].job < job))


@inlined
def push(heap: Any, size: int, at_ms: float, job: int) -> None:
    """Put (at_ms, job) into the heap of `size` events; the caller then counts one more."""
    i = np.int64(size)
    while i > 0:
        parent = index((i - 1) >> 1)
        if _before(heap, parent, at_ms, job):
            break
        heap[index(i)].at_ms, heap[index(i)].job = heap[parent].at_ms, heap[parent].job
        i = np.int64(parent)
    heap[index(i)].at_ms, heap[index(i)].job = at_ms, job


@inlined
def pop(heap: Any, size: int) -> int:
    """Take the earliest job out of the heap of `size` events; the caller then counts one less."""
    top = heap[0].job
    size -= 1
    last, hole, child = heap[index(size)], index(0), np.int64(1)
    while child + 1 < size:  # the hole sinks along the earlier children to the bottom, ...
        left = heap[index(child)]
        earlier = index(child + int(_before(heap, index(child + 1), left.at_ms, left.job)))
        heap[hole].at_ms, heap[hole].job = heap[earlier].at_ms, heap[earlier].job
        hole, child = earlier, 2 * np.int64(earlier) + 1
    if child < size:
        heap[hole].at_ms, heap[hole].job = heap[index(child)].at_ms, heap[index(child)].job
        hole = index(child)
    push(heap, hole, last.at_ms, last.job)  # ... and the last event rises from there, seldom far
    return top


@inlined
def set_time(times: Any, tree: Any, station: int, at_ms: float) -> None:
    """The station's next event is at `at_ms` (infinity: none)."""
    if times[station] == at_ms:
        return
    times[station] = at_ms
    i, winner, winner_ms = np.int64(len(times) + station), np.int64(station), at_ms
    while i > 1:  # only the siblings on the way up are looked at, and those don't depend on each other
        sibling = tree[index(i ^ 1)]
        sibling_ms = times[sibling]
        wins = int((sibling_ms < winner_ms) | ((sibling_ms == winner_ms) & (sibling < winner)))
        winner += wins * (np.int64(sibling) - winner)
        winner_ms = min(winner_ms, sibling_ms)
        i >>= 1
        tree[index(i)] = winner


@inlined
def plant(times: Any, tree: Any) -> None:
    """Build the tree over `times`."""
    n = len(times)
    for leaf in range(n):
        tree[n + leaf] = leaf
    for i in range(n - 1, 0, -1):
        left, right = tree[2 * i], tree[2 * i + 1]
        tree[i] = right if times[right] < times[left] else left
