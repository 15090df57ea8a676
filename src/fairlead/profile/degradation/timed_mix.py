"""One mix of models on this machine: runs it, if memory allows, until its times are known; notes disturbance.

Between `measurement`, which says what mixes, and `process_pool`, which has the processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from fairlead.domain.errors import RunError, UserError
from fairlead.profile.degradation.foreign_load import Outside
from fairlead.profile.degradation.process_pool import Memory, Mix, ProcessPool, RunnableModel
from fairlead.profile.machine import Limits

LOOK_S: Final = 0.3  #: how long it takes to see whether others are on the machine
_LEAST_RUNS: Final = 5  # of a model in a mix, however slow it is
_RESERVE_MB: Final = 512.0  # of memory stays free, or a tenth of it if that is less


@dataclass(frozen=True)
class Pace:
    """How long a mix is watched: until the mean of each model is known within `width` (two standard errors)."""

    least_s: float = 0.4
    limit_s: float = 1.6
    width: float = 0.04


@dataclass(frozen=True)
class Sample:
    """What was seen of a mix."""

    means_ms: tuple[float, ...]  # by model; NaN where none of it ran
    outside: float  # share of our cores' time that others took


class Bench:
    """Runs mixes of these models. They count all models, those that are not in it with 0."""

    def __init__(
        self,
        pool: ProcessPool,
        models: Sequence[RunnableModel],
        limits: Limits,
        pace: Pace,
        memory_mb: float = math.inf,
    ) -> None:
        self._pool, self._limits, self._pace = pool, limits, pace
        self.room_mb = min(limits.available_mb() - _reserve_mb(limits), memory_mb)
        self.memory: list[Memory] = []
        for index, model in enumerate(models):
            self.memory.append(pool.memory(index))
            taken_mb = self.memory[index].process_mb
            if taken_mb > self.room_mb:
                there = f"{max(0.0, self.room_mb):.0f} MB to use"
                raise UserError(f"{model.name}: one process alone takes {taken_mb:.0f} MB, and there are {there}")
            pool.dismiss((0,) * len(models))

    def fits(self, mix: Mix) -> bool:
        """Whether memory suffices for so many processes."""
        return sum(count * one.process_mb for count, one in zip(mix, self.memory, strict=True)) <= self.room_mb

    def watch(self, mix: Mix) -> Sample:
        """Run exactly this mix for a while."""
        self._make_room(mix)
        self._pool.run(mix)
        self._pool.mark()
        outside, watched_s = Outside(self._pool.pids()), 0.0
        while True:
            self._pool.wait(self._pace.least_s)
            watched_s += self._pace.least_s
            times_ms, share = self._pool.times_ms(), outside.share()
            there = [times for times, count in zip(times_ms, mix, strict=True) if count]
            if min(map(len, there)) < _LEAST_RUNS:
                continue
            if watched_s >= self._pace.limit_s or all(_known(times, self._pace.width) for times in there):
                return Sample(tuple(fmean(times) if times else math.nan for times in times_ms), share)

    def others(self) -> float:
        """The share of our cores' time that others take while nothing of ours runs."""
        self._pool.rest()
        outside = Outside(self._pool.pids())
        self._pool.wait(LOOK_S)
        return outside.share()

    def _make_room(self, mix: Mix) -> None:
        """End what is not in the mix if there is no room for it beside what must be started."""
        if not self.fits(tuple(map(max, mix, self._pool.alive()))):
            self._pool.dismiss(mix)
        fresh = [self.memory[model].process_mb for model in self._pool.missing(mix)]
        left_mb = self._limits.available_mb() - sum(fresh)
        if fresh and left_mb < _reserve_mb(self._limits) / 2:  # there was more at the start
            raise RunError(f"too little memory is left: one more process would leave {max(0.0, left_mb):.0f} MB")


def _known(times_ms: Sequence[float], width: float) -> bool:
    return 2 * stdev(times_ms) / math.sqrt(len(times_ms)) <= width * fmean(times_ms)


def _reserve_mb(limits: Limits) -> float:
    return min(_RESERVE_MB, limits.total_mb() / 10)
