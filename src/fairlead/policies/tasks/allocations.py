"""Allocations: the amounts of elastic resources that a task can get, and the number that stands for them.

Numbers count up the amounts of all elastic resources, from 0 to the most that a task gets, like the digits of a
number: the last resource counts by one. Tables of speeds have a column for each, and models that were trained choose
among them. Amounts are turned into a number, and back, only here. `most` and `elastic` are (K,).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairlead.policies.jit import inlined, jit


@inlined
def number_of(amounts: Any, most: Any, elastic: Any) -> int:
    """The number of amounts (K,)."""
    number = 0
    for k in range(len(most)):
        if elastic[k]:
            number = number * (most[k] + 1) + amounts[k]
    return number


@inlined
def how_many(most: Any, elastic: Any) -> int:
    """How many numbers there are."""
    numbers = 1
    for k in range(len(most)):
        if elastic[k]:
            numbers *= most[k] + 1
    return numbers


@inlined
def unit_of(k: int, most: Any, elastic: Any) -> int:
    """What a unit more of an elastic resource adds to the number."""
    unit = 1
    for j in range(k + 1, len(most)):
        if elastic[j]:
            unit *= most[j] + 1
    return unit


@inlined
def amounts_of(number: int, minimum: Any, most: Any, elastic: Any, task_type: int, out: Any) -> None:
    """The amounts (K,) of a number, for a task of a type: of what is not elastic its minimum."""
    rest = number
    for k in range(minimum.shape[1] - 1, -1, -1):
        if elastic[k]:
            out[k], rest = rest % (most[k] + 1), rest // (most[k] + 1)
        else:
            out[k] = minimum[task_type, k]


@jit
def by_role(role: Any) -> Any:
    """Resources in the order in which policies go through them: accelerators, processors, memory, others."""
    return np.argsort(role, kind="mergesort")


def all_allocations(most: Any, elastic: Any) -> Any:
    """The amounts of elastic resources (A, E) of all numbers, in order."""
    sizes = _sizes(most, elastic)
    return np.array(list(np.ndindex(*sizes)), np.int64).reshape(math.prod(sizes), len(sizes))


def by_amounts(table: Any, most: Any, elastic: Any) -> Any:
    """A table (J, A) by type and number as one by type and amounts of each elastic resource, (J, ...)."""
    return table.reshape(len(table), *_sizes(most, elastic))


def _sizes(most: Any, elastic: Any) -> tuple[int, ...]:
    """How many amounts of each elastic resource there are (E,)."""
    return tuple(int(m) + 1 for m, e in zip(most, elastic, strict=True) if e)


def useful(minimum: Any, most: Any, elastic: Any, steps: Any) -> tuple[Any, Any]:
    """A type's amounts (A, K) and steps (A,), fastest first, but for those no faster than some with less of everything.

    `minimum` is (K,), `steps` has those of every allocation, by its number.
    """
    grid = all_allocations(most, elastic)
    kept: list[int] = []
    for a in np.lexsort((grid.sum(axis=1), steps)):  # by steps: a later one must have less of something
        if np.isfinite(steps[a]) and not any((grid[a] >= grid[c]).all() for c in kept):
            kept.append(int(a))
    amounts = np.repeat(minimum[None], len(kept), axis=0)
    amounts[:, np.flatnonzero(elastic)] = grid[kept]
    return amounts, steps[kept]
