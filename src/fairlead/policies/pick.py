"""Picking among feasible candidates, for the policies that choose by number or by expected completion."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.expected_times import completion_ms
from fairlead.policies.jit import kernel


@kernel
def count_feasible(excluded: Any) -> int:
    """How many candidates are feasible."""
    n = 0
    for c in range(len(excluded)):
        if excluded[c] == 0:
            n += 1
    return n


@kernel
def nth_feasible(excluded: Any, n: int) -> int:
    """The index of the n-th feasible candidate, from 0."""
    for c in range(len(excluded)):
        if excluded[c] == 0:
            if n == 0:
                return c
            n -= 1
    return -1


@kernel
def soonest(request: Any, candidates: Any, excluded: Any) -> int:
    """The earliest expected answer of candidates expected to be accurate, else of all. -1: none feasible."""
    best, best_ms, best_accurate = -1, np.inf, False
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        accurate = candidates[c].accuracy >= request.min_accuracy
        expected_ms = completion_ms(candidates[c])
        if (accurate and not best_accurate) or (accurate == best_accurate and expected_ms < best_ms):
            best, best_ms, best_accurate = c, expected_ms, accurate
    return best
