"""The tables of degradation matrices: one for each arriving model and device, and the slopes of their fits by rho.

The page draws them as HTML (`degradation_page`), the commands on a terminal (`cli.degradation`). Text, as in `tables`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fairlead.measure.degradation_matrix import Matrix
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Table

ABOUT_CELLS = (
    "A cell is the slow-down of one more workload: its time beside those that run already / its time alone. "
    "∞: there is no room for it (memory, or a queue limit)."
)


def matrix_table(m: Matrix, name: str) -> Table:
    """One matrix; `name` tells what arrives apart from others on the device."""
    down = f"down: how many {m.axes[0]} run already"
    across = f", across: how many {m.axes[1]}" if len(m.axes) > 1 else ""
    columns = {"running": [str(i) for i in range(len(m.cells))]} | {
        (str(r) if len(m.axes) > 1 else "slow-down"): [factor(row[r]) for row in m.cells]
        for r in range(len(m.cells[0]))
    }
    return Table(f"{name} arriving, {m.alone_ms:.4g} ms alone; {down}{across}", columns)


def slopes_table(slopes: Mapping[str, Sequence[tuple[float, float]]]) -> Table:
    """By what arrives: the slope at each rho."""
    found = [dict(series) for series in slopes.values()]
    rhos = sorted({rho for series in found for rho in series})
    columns = {"arriving": list(slopes)} | {
        f"{rho:g}": [factor(series.get(rho, math.nan)) for series in found] for rho in rhos
    }
    return Table("Slope of the linear fit by rho, where the interference is a rho", columns)


def factor(value: float) -> str:
    """A slow-down, or a slope."""
    return NOTHING if math.isnan(value) else "∞" if math.isinf(value) else f"{value:z.2f}"
