"""Degradation matrices (ECSRL, figures 1 and 2): how much longer one more workload takes beside those that run already.

The form that everyone shares who makes, prints or draws them, with the curve over concurrency and its linear fit.
`experiments.simulated_degradation` makes them in the simulator. Pure arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Level:
    """A point of the curve: the cells of equal concurrency."""

    running: int  # workloads, the newcomer included
    mean: float  # of the finite cells; infinite when there is none
    cells: int
    infinite: int  # of those


@dataclass(frozen=True)
class Line:
    """A linear fit: degradation = intercept + slope * running."""

    slope: float
    intercept: float
    r2: float


@dataclass(frozen=True)
class Regime:
    """What holds once the processor is full: the line through those levels, and the rule of thumb beside it."""

    lanes: float  # workloads that can run without waiting for each other: cores / threads of each
    line: Line  # over the levels from there on
    knee: float  # workloads at which that line leaves 1: from there on they slow each other down
    off: float  # the largest relative error of max(1, running / lanes), over all levels


@dataclass(frozen=True)
class Matrix:
    """The degradation of one arriving model on one type of device."""

    device: str
    nodes: tuple[str, ...]  # of that device, with the same models on them; may be empty
    arriving: str
    axes: tuple[str, ...]  # the one or two models that run already
    alone_ms: float
    cells: tuple[tuple[float, ...], ...]  # [m][r]: m of axes[0] and r of axes[1] run already; one axis: one column

    def curve(self) -> list[Level]:
        """Mean over the cells of equal concurrency, as far as all mixes of it are in the table."""
        full = len(self.cells) if len(self.axes) == 1 else min(len(self.cells), len(self.cells[0]))
        levels = []
        for others in range(full):
            cells = [row[others - m] for m, row in enumerate(self.cells) if 0 <= others - m < len(row)]
            finite = [c for c in cells if math.isfinite(c)]
            mean = math.fsum(finite) / len(finite) if finite else math.inf
            levels.append(Level(others + 1, mean, len(cells), len(cells) - len(finite)))
        return levels

    def fit(self) -> Line | None:
        """Least squares over the levels at which every mix runs: where some do not fit, the mean is of other mixes."""
        return _fit([(level.running, level.mean) for level in self.curve() if not level.infinite])

    def beyond(self, lanes: float) -> Regime | None:
        """The near-linear part, from the level at which all lanes are taken; None where too few levels are that far."""
        levels = [level for level in self.curve() if not level.infinite]
        line = _fit([(level.running, level.mean) for level in levels if level.running >= lanes])
        if line is None:
            return None
        knee = (1.0 - line.intercept) / line.slope if line.slope > 0 else math.inf
        off = max(abs(max(1.0, level.running / lanes) / level.mean - 1.0) for level in levels)
        return Regime(lanes, line, knee, off)

    def same_question(self, other: Matrix) -> bool:
        """Whether both are of the same newcomer beside the same models in the same place."""
        mine, its = ((m.device, m.nodes, m.arriving, m.axes) for m in (self, other))
        return mine == its

    def as_dict(self) -> dict[str, Any]:
        """The matrix as plain data, with its curve and fit."""
        fit = self.fit()
        return vars(self) | {"curve": [vars(level) for level in self.curve()], "fit": vars(fit) if fit else None}


def names(matrices: Sequence[Matrix]) -> list[str]:
    """What arrives, for each of the matrices of one device; where it is there for several axes, beside which."""
    arriving = [m.arriving for m in matrices]
    return [m.arriving if arriving.count(m.arriving) == 1 else f"{m.arriving} ({', '.join(m.axes)})" for m in matrices]


def by_device(matrices: Sequence[Matrix]) -> dict[str, list[Matrix]]:
    """The matrices of each type of device, by its name with its nodes."""
    found: dict[str, list[Matrix]] = {}
    for m in matrices:
        found.setdefault(f"{m.device} ({', '.join(m.nodes)})" if m.nodes else m.device, []).append(m)
    return found


def _fit(points: list[tuple[int, float]]) -> Line | None:
    if len(points) < 2:
        return None
    n = len(points)
    x_mean, y_mean = sum(x for x, _ in points) / n, math.fsum(y for _, y in points) / n
    slope = math.fsum((x - x_mean) * (y - y_mean) for x, y in points) / sum((x - x_mean) ** 2 for x, _ in points)
    intercept = y_mean - slope * x_mean
    left = math.fsum((y - intercept - slope * x) ** 2 for x, y in points)
    total = math.fsum((y - y_mean) ** 2 for _, y in points)
    return Line(slope, intercept, 1.0 - left / total if total > 0 else 1.0)
