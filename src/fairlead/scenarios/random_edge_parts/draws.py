"""Random numbers that are the same on every machine: what the parts of a random edge are drawn with.

Only the uniform numbers of NumPy's PCG64 are used, in one fixed order. Everything else is made from them here and
rounded to four significant digits, so that the last digits of a machine's logarithms do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Range = tuple[float, float]


class Draws:
    """One stream of random numbers."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def fraction(self) -> float:
        """Uniform in 0..1, without 1."""
        return float(self._generator.random())

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.fraction() < probability

    def uniform(self, low: float, high: float) -> float:
        """Uniform between the two."""
        return rounded(low + (high - low) * self.fraction())

    def log_uniform(self, low: float, high: float) -> float:
        """Between the two, with a uniform logarithm."""
        return rounded(low * (high / low) ** self.fraction())

    def whole(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int((high - low + 1) * self.fraction())

    def pick(self, items: Sequence[Item], weights: Sequence[float] = ()) -> Item:
        """One of the items, all alike or by weight."""
        weights = weights or (1.0,) * len(items)
        left = self.fraction() * sum(weights)
        for item, weight in zip(items, weights, strict=True):
            left -= weight
            if left < 0:
                return item
        return items[-1]

    def some(self, items: Sequence[Item], probability: float) -> list[Item]:
        """Those that are drawn, each with this probability; at least one."""
        found = [item for item in items if self.chance(probability)]
        return found or [self.pick(items)]


def rounded(value: float, digits: int = 4) -> float:
    """The number with so many significant digits."""
    return float(f"{value:.{digits}g}")
