"""Counting and picking among feasible candidates, for the policies that choose by number."""

from __future__ import annotations

from typing import Any

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
