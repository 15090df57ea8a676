"""By how much the requests on a shared node slow each other down."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.jit import inlined


@inlined
def degradation(fleet: Any, station: Any, counts: Any, resident: int) -> float:
    """Time among others / time alone for one more of `resident` beside `counts` (K,), those of all K residents.

    Linear: 1 + sum_u slope[resident, u] counts[u]. Otherwise the table is: number of axes A, A sizes, K axes (on which
    axis a resident is counted), then K blocks of cells; past the edge it is infinite.
    """
    table = fleet.degradation
    at, residents = station.table, station.residents
    if station.linear:
        value = 1.0
        for other in range(residents):
            value += table[at + resident * residents + other] * counts[other]
        return value
    axes = int(table[at])
    cell, block = 0, 1
    for axis in range(axes):
        size = int(table[at + 1 + axis])
        here = 0
        for other in range(residents):
            if table[at + 1 + axes + other] == axis:
                here += counts[other]
        if here >= size:
            return np.inf
        cell = cell * size + here
        block *= size
    return table[at + 1 + axes + residents + resident * block + cell]


@inlined
def slowdown(fleet: Any, station: Any, counts: Any, resident: int) -> float:
    """Degradation of one of `resident` that is itself among `counts`."""
    counts[resident] -= 1
    value = degradation(fleet, station, counts, resident)
    counts[resident] += 1
    return value
