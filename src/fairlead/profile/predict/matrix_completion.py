"""The times of many models on a device of which only a few were timed, from how they go together on other devices.

Logarithms of times are taken to be spread as a multivariate t distribution over devices, whose heavy tails leave odd
devices little say. It is fitted by expectation and maximisation, since devices lack models (Liu and Rubin, 1995). What
was not timed is then its conditional mean. Called by calibration from probes, and by its evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any
_NINETY = 1.645  # standard deviations of the middle 90 %
_FREEDOM = 4.0  # of the t distribution
_ROUNDS = 25
_FLOOR = 1e-3  # added to variances in every round: about 3 % of a time, which differ so from day to day


@dataclass(frozen=True)
class Together:
    """How logarithms of times go together over devices."""

    mean: Array  # (models,)
    spread: Array  # (models, models)

    def complete(self, times_ms: Array) -> tuple[Array, Array]:
        """All times of a device, given some (nan: not timed), and the standard deviations of their logarithms.

        Of the possible times it tells the one of least expected relative error, which is below the middle.
        """
        given = ~np.isnan(times_ms)
        rest = ~given
        known = np.log(times_ms[given]) - self.mean[given]
        weights = np.linalg.solve(self.spread[np.ix_(given, given)], self.spread[np.ix_(given, rest)])
        variance = np.diag(self.spread[np.ix_(rest, rest)] - weights.T @ self.spread[np.ix_(given, rest)])
        times, deviations = np.array(times_ms, float), np.zeros(len(times_ms))
        times[rest] = np.exp(self.mean[rest] + weights.T @ known - variance)
        deviations[rest] = np.sqrt(np.maximum(variance, 0.0))
        return times, deviations

    def interval(self, times_ms: Array, deviations: Array) -> tuple[Array, Array]:
        """The interval in which nine of ten predictions of `complete` lie."""
        middle = np.log(times_ms) + deviations**2
        return np.exp(middle - _NINETY * deviations), np.exp(middle + _NINETY * deviations)


def fit_together(times_ms: Array) -> Together:
    """From times of (devices, models), nan where one is lacking."""
    logs: Array = np.log(times_ms)
    count = logs.shape[1]
    mean = np.nanmean(logs, axis=0)
    filled: Array = np.where(np.isnan(logs), mean, logs)
    spread = np.cov(filled.T) + 0.01 * np.eye(count)
    patterns = _by_pattern(logs)
    for _ in range(_ROUNDS):
        mean, spread = _round(logs, patterns, mean, spread)
    return Together(mean, spread)


def _by_pattern(logs: Array) -> list[tuple[Array, Array]]:
    """Devices that lack the same models: (what they have, which they are)."""
    has: Array = ~np.isnan(logs)
    patterns, which = np.unique(has, axis=0, return_inverse=True)
    return [(pattern, np.flatnonzero(which.ravel() == n)) for n, pattern in enumerate(patterns)]


def _round(logs: Array, patterns: list[tuple[Array, Array]], mean: Array, spread: Array) -> tuple[Array, Array]:
    """What is lacking as it is expected, then the mean and the spread that fit best to that."""
    filled, say, left = np.empty_like(logs), np.empty(len(logs)), np.zeros_like(spread)
    for has, rows in patterns:
        lacks = ~has
        off = logs[np.ix_(rows, has)] - mean[has]
        solved = np.linalg.solve(spread[np.ix_(has, has)], off.T).T
        say[rows] = (_FREEDOM + has.sum()) / (_FREEDOM + (off * solved).sum(axis=1))
        filled[np.ix_(rows, has)] = logs[np.ix_(rows, has)]
        if lacks.any():
            across = spread[np.ix_(has, lacks)]
            filled[np.ix_(rows, lacks)] = mean[lacks] + solved @ across
            unknown = spread[np.ix_(lacks, lacks)] - across.T @ np.linalg.solve(spread[np.ix_(has, has)], across)
            left[np.ix_(lacks, lacks)] += len(rows) * unknown
    mean = (say[:, None] * filled).sum(axis=0) / say.sum()
    apart: Array = filled - mean
    return mean, (apart.T * say @ apart + left) / len(logs) + _FLOOR * np.eye(len(mean))


def best_probes(together: Together, count: int) -> list[int]:
    """Which models to time, so that the others are best known: each is the best beside those before it."""
    chosen: list[int] = []
    for _ in range(count):
        rest = [n for n in range(len(together.mean)) if n not in chosen]
        chosen.append(min(rest, key=lambda n: _left_unknown(together.spread, [*chosen, n])))
    return chosen


def _left_unknown(spread: Array, given: list[int]) -> float:
    """The mean standard deviation of the others."""
    rest = [n for n in range(len(spread)) if n not in given]
    across = spread[np.ix_(given, rest)]
    variance = np.diag(spread[np.ix_(rest, rest)] - across.T @ np.linalg.solve(spread[np.ix_(given, given)], across))
    return float(np.sqrt(np.maximum(variance, 0.0)).mean())
