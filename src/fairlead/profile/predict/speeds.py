"""Predicts a device's time for a model from what the model asks for, with an interval. One class for each way in
which devices are known: by rates of kernels that were timed one by one, by rates fitted to whole models, and the Edge
TPU with its small memory behind a host. Pure arithmetic; made by `timed_devices` and `calibration`, called by
`prediction`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import nnls

from fairlead.profile.predict.layer_work import Work, by_kernel, by_model, summed, time_ms

_NINETY = 1.645  # standard deviations of the middle 90 %
_UNSEEN = 0.05  # standard deviation of what a model is different in from all probes (assumed; its coverage is measured)


@dataclass(frozen=True)
class PredictedTime:
    """A time, and where nine of ten true ones are."""

    ms: float
    low_ms: float
    high_ms: float


class Speed(Protocol):
    """What `prediction` asks."""

    def time_of(self, works: Sequence[Work]) -> PredictedTime:
        """The time of one run."""


@dataclass(frozen=True)
class KernelSpeed:
    """Rates for each type of layer, and how far off kernels of a type were (standard deviation of the relative error).

    Errors of one type go together, those of different types don't: so a model of few types has a wider interval.
    """

    rates: Mapping[str, float]
    deviations: Mapping[str, float]  # by type of layer

    def time_of(self, works: Sequence[Work]) -> PredictedTime:
        """The time of one run."""
        parts: dict[str, float] = {}
        for work in works:
            parts[work.layer_type] = parts.get(work.layer_type, 0.0) + time_ms(by_kernel(work), self.rates)
        whole = max(sum(parts.values()), 1e-6)
        worst = max(self.deviations.values(), default=0.0)
        variance = sum((ms / whole * self.deviations.get(layer_type, worst)) ** 2 for layer_type, ms in parts.items())
        factor = math.exp(_NINETY * math.sqrt(variance + _UNSEEN**2))
        return PredictedTime(whole, whole / factor, whole * factor)

    def unknown(self, works: Sequence[Work]) -> list[str]:
        """Types of layers that nothing was timed of."""
        known = {name.partition(".")[0] for name in self.rates}
        return sorted({work.layer_type for work in works} - known - {"free"})


@dataclass(frozen=True)
class ModelSpeed:
    """Rates fitted to whole models; how far off those are of models that were left out is the interval."""

    rates: Mapping[str, float]
    factors: tuple[float, float]  # of the time: between these are nine of ten
    eight_bit: bool = True  # whether eight bits have rates of their own; else those of the others are meant

    def time_of(self, works: Sequence[Work]) -> PredictedTime:
        """The time of one run."""
        counted = works if self.eight_bit else [replace(work, eight_bit=False) for work in works]
        whole = max(time_ms(summed(counted, by_model), self.rates), 1e-6)
        return PredictedTime(whole, whole * self.factors[0], whole * self.factors[1])


@dataclass(frozen=True)
class EdgeTpuSpeed:
    """A systolic array with a small memory of its own: weights that don't fit come from the host in every run.

    time = call + MACs / rate + (weights beyond the cache + input and output) / speed of the host's interface
    """

    call_ms: float
    ms_per_gmac: float
    cache_mb: float
    host_mb_s: float
    factors: tuple[float, float]

    def time_of(self, works: Sequence[Work]) -> PredictedTime:
        """The time of one run; a weight is a byte, and so is a number of the picture."""
        gmacs, over_mb = edge_tpu_counts(works, self.cache_mb)
        whole = self.call_ms + self.ms_per_gmac * gmacs + 1e3 * over_mb / self.host_mb_s
        return PredictedTime(whole, whole * self.factors[0], whole * self.factors[1])


def edge_tpu_counts(works: Sequence[Work], cache_mb: float) -> tuple[float, float]:
    """GMACs, and megabytes over the host's interface: weights beyond the cache, what the first layer reads and the last
    one writes."""
    ends = works[0].inputs + works[-1].outputs if works else 0
    over = max(0.0, sum(work.weights for work in works) / 1e6 - cache_mb)
    return sum(work.macs for work in works) / 1e9, over + ends / 1e6


def fit_edge_tpu(
    counts: Sequence[tuple[float, float]],
    times_ms: Sequence[float],
    cache_mb: float,
    host_mb_s: float,
    factors: tuple[float, float],
) -> EdgeTpuSpeed:
    """From (GMACs, megabytes over the interface) and times, behind an interface of known speed; relative errors.

    Large models have many weights and many MACs: their times alone would not tell one from the other.
    """
    times = np.asarray(times_ms, float)
    over = np.array([1e3 * megabytes / host_mb_s for _, megabytes in counts])
    rows = np.array([(1.0, macs) for macs, _ in counts])
    (call, per_gmac), _ = nnls(rows / times[:, None], 1.0 - over / times)
    return EdgeTpuSpeed(float(call), float(per_gmac), cache_mb, host_mb_s, factors)
