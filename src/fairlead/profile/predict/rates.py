"""Rates of devices, fitted to what was timed on them: milliseconds for each unit of an amount (`layer_work`).

All fits are least squares with rates that are not negative, so that they can be read and go on to larger models.
`fit_kernels`: every kernel of a machine was timed. `fit_population` and `fit_near`: of each device only some models
were; so the rates of all devices together come first, and a device keeps near to them as far as its own times allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from fairlead.profile.predict.layer_work import Amounts

Array = Any
_NEARNESS = 0.02  # weight of a rate's distance to the population's, beside the squared relative error of one model
_LEAST = 1e-3  # share of an average model's time that each amount takes at least
_ROUNDS = 30


def fit_kernels(amounts: Sequence[Amounts], times_ms: Sequence[float]) -> dict[str, float]:
    """Rates of a machine. Errors are weighed by one over the time: between absolute, which sees the long ones alone,
    and relative, which sees the short ones alone; sums over kernels come out right.
    """
    names, x = _matrix(amounts)
    times = np.maximum(np.asarray(times_ms, float), 1e-3)
    weight = 1.0 / np.sqrt(times)
    rates, _ = nnls(x * weight[:, None], times * weight)
    return dict(zip(names, map(float, rates), strict=True))


def _matrix(amounts: Sequence[Amounts]) -> tuple[list[str], Array]:
    names = sorted({name for one in amounts for name in one})
    return names, np.array([[one.get(name, 0.0) for name in names] for one in amounts])


@dataclass(frozen=True)
class Population:
    """What devices have in common: rates of a device of middling speed."""

    names: tuple[str, ...]
    rates: Array  # (names,) ms per unit

    def parts(self, amounts: Sequence[Amounts]) -> Array:
        """What each amount of each model takes on it, in ms: (models, names)."""
        return np.array([[one.get(name, 0.0) for name in self.names] for one in amounts]) * self.rates


def fit_population(amounts: Sequence[Amounts], times_ms: Array) -> Population:
    """Rates and speeds in turn, for times of (devices, models), nan where one is lacking."""
    names, x = _matrix(amounts)
    known = ~np.isnan(times_ms)
    inverse = np.where(known, 1.0 / np.where(known, times_ms, 1.0), 0.0)
    slowness = np.exp(np.nanmean(np.log(times_ms), axis=1))
    rates = np.zeros(len(names))
    for _ in range(_ROUNDS):
        weights = inverse * slowness[:, None]  # (devices, models): relative error = weights * (x @ rates) - 1
        length = np.sqrt((weights**2).sum(axis=0))
        aim = weights.sum(axis=0) / np.maximum(length, 1e-12)
        rates, _ = nnls(x * length[:, None], aim)
        relative = (x @ rates) * inverse
        slowness = relative.sum(axis=1) / (relative**2).sum(axis=1)
    least = _LEAST * (x @ rates).mean() / x.mean(axis=0)  # nothing is free, on no device
    return Population(tuple(names), np.maximum(rates, least))


def fit_near(
    population: Population, amounts: Sequence[Amounts], times_ms: Array, weights: Array | None = None
) -> dict[str, float]:
    """Rates of one device: its relative errors and its distance to the population, at its own speed, are both small.

    `weights` are of the squared errors; without them all times count alike.
    """
    times = np.asarray(times_ms, float)
    sure = np.ones(len(times)) if weights is None else np.sqrt(weights)
    parts = population.parts(amounts) / times[:, None] * sure[:, None]
    whole = parts.sum(axis=1)
    speed = float((sure * whole).sum() / (whole**2).sum())
    count = parts.shape[1]
    aim = np.concatenate([sure, np.full(count, np.sqrt(_NEARNESS))])
    factors = np.full(count, speed)
    for _ in range(3):  # the speed to be near to is that of the fit
        ties = np.sqrt(_NEARNESS) * np.eye(count) / speed
        factors, _ = nnls(np.vstack([parts, ties]), aim)
        speed = max(float(factors.mean()), 1e-9)
    return dict(zip(population.names, map(float, population.rates * factors), strict=True))
