"""Which amounts are worth giving to tasks of a type. Called by policies that choose among all, and by the bound."""

from __future__ import annotations

from typing import Any

import numpy as np


def useful(minimum: Any, most: Any, elastic: Any, steps: Any) -> tuple[Any, Any]:
    """A type's amounts (A, K) and steps (A,), fastest first, but for those no faster than some with less of everything.

    `minimum`, `most` and `elastic` are (K,), `steps` has those of every allocation, by its number.
    """
    which = np.flatnonzero(elastic)
    grid = np.array(list(np.ndindex(*(int(most[k]) + 1 for k in which))))
    kept: list[int] = []
    for a in np.lexsort((grid.sum(axis=1), steps)):  # by steps: whoever comes later must have less of something
        if np.isfinite(steps[a]) and not any((grid[a] >= grid[c]).all() for c in kept):
            kept.append(int(a))
    amounts = np.repeat(minimum[None], len(kept), axis=0)
    amounts[:, which] = grid[kept]
    return amounts, steps[kept]
