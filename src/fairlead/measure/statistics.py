"""Means with confidence intervals, paired differences, fairness: arithmetic that experiments and reports call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` seeds and the half width of its 95 % confidence interval (NaN with fewer than two seeds)."""

    mean: float
    ci95: float
    n: int

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.ci95

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.ci95


@cache
def _t_quantile(degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, 0.975))


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and Student-t interval of independent values. Values that are undefined (NaN) are left out."""
    kept = [v for v in values if not math.isnan(v)]
    if not kept:
        return Estimate(math.nan, math.nan, 0)
    n, mean = len(kept), math.fsum(kept) / len(kept)
    if n < 2:
        return Estimate(mean, math.nan, 1)
    variance = math.fsum((v - mean) ** 2 for v in kept) / (n - 1)
    return Estimate(mean, _t_quantile(n - 1) * math.sqrt(variance / n), n)


def estimate_of_sums(total: int, squares: int, n: int, unit: float = 1.0) -> Estimate:
    """The same of `n` whole numbers of which only the sum and that of their squares are known, in another unit."""
    if n < 1:
        return Estimate(math.nan, math.nan, 0)
    variance = (n * squares - total * total) / (n * (n - 1)) if n > 1 else math.nan  # exact above the stroke
    half = _t_quantile(n - 1) * math.sqrt(max(0.0, variance) / n) if n > 1 else math.nan
    return Estimate(total / n / unit, half / unit, n)


def paired_difference(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """Mean and interval of value - base, seed by seed: what is common to a seed cancels."""
    return estimate([v - b for v, b in zip(values, base, strict=True)])


def jain(shares: Sequence[float]) -> float:
    """Jain's fairness index (Jain, Chiu, Hawe 1984): 1 when all shares are equal, 1/n when one has everything."""
    kept = [s for s in shares if not math.isnan(s)]
    squares = math.fsum(s * s for s in kept)
    return math.fsum(kept) ** 2 / (len(kept) * squares) if squares > 0 else math.nan
