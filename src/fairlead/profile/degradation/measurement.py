"""Degradation measured on this machine (ECSRL, figures 1 and 2): with processes that run models in a loop.

A cell is the time of one more process beside m of one model and r of another that run already / its time alone. They
all run as long as it takes, so the newcomer is like any other of its model: the cell is read off m + 1 and r that run,
from the runs of all m + 1, and the same mix serves the other model as newcomer. Of the times it is the mean: where the
processes don't divide evenly among the cores they fall into two heaps, and a median jumps from one to the other.

Mixes are walked so that one process starts or rests at a time, from small to large, then back. What others do on the
machine meanwhile is watched, by the kernel's books and by the time alone taken again and again; what they disturbed is
measured anew, as is a mix whose repeats disagree: of three the odd one goes. What does not fit into memory is not run:
it is infinite. Called by the cli.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median
from typing import Final

from fairlead.measure.degradation_matrix import Matrix
from fairlead.profile.degradation.process_pool import Memory, Mix, ProcessPool, RunnableModel
from fairlead.profile.degradation.timed_mix import LOOK_S, Bench, Pace, Sample
from fairlead.profile.machine import Limits

_CALM: Final = 0.05  # of our cores' time that others may take
_DRIFT: Final = 0.10  # that the time alone may change from before to after
_APART: Final = 0.12  # that repeats of a mix may differ
_ROUNDS: Final = 3  # in which what is in doubt is measured anew

Progress = Callable[[int, int], None]  #: mixes that are done, and all
Spread = tuple[tuple[float, ...], ...]  #: by cell: (most - least) / mean of its repeats; NaN where it has but one


@dataclass(frozen=True)
class Machine:
    """Where it was measured."""

    processor: str
    cores: int
    memory_mb: float


@dataclass(frozen=True)
class Measured:
    """What came out."""

    machine: Machine
    most: int  # of each model; less than what was asked for when it was interrupted
    matrices: list[Matrix]
    spreads: list[Spread]  # of each matrix
    memory: list[Memory]  # of each model
    room_mb: float  # for all processes together
    again: int  # how often a mix was measured anew, since others disturbed or its repeats were too far apart
    disturbed: int  # how many of the figures that count were disturbed nevertheless
    interrupted: bool


def measure(
    models: Sequence[RunnableModel],
    most: int,
    repeats: int = 2,
    threads: int = 1,
    memory_mb: float = math.inf,
    wait_s: float = 60.0,
    progress: Progress = lambda done, total: None,
    pace: Pace = Pace(),  # noqa: B008
) -> Measured:
    """Matrices up to `most` of each model already running; more than two models are taken in pairs.

    Where others disturb, it waits for them to be quiet, at most `wait_s` in all.
    """
    limits = Limits()
    with ProcessPool(models, threads) as pool:
        study = _Study(Bench(pool, models, limits, pace, memory_mb), len(models), repeats, wait_s, progress)
        interrupted = False
        try:
            study.walk(most)
        except KeyboardInterrupt:
            interrupted, most = True, study.whole(most)
            if most < 1:
                raise
    machine = Machine(limits.processor(), limits.cores(), limits.total_mb())
    names = [one.name for one in models]
    pairs = [(pair, model) for pair in study.pairs for model in pair]
    return Measured(
        machine,
        most,
        [study.matrix(machine.processor, names, pair, model, most) for pair, model in pairs],
        [study.spread(pair, model, most) for pair, model in pairs],
        study.bench.memory,
        study.bench.room_mb,
        study.again,
        sum(not _calm(sample) for mix in study.samples for sample in study.kept(mix)),
        interrupted,
    )


def shells(most: int, models: int) -> list[list[Mix]]:
    """Mixes of one or two models in the order of their walk: all of which the larger number is 1, then 2, ..."""
    if models == 1:
        return [[(n,)] for n in range(1, most + 2)]
    found: list[list[Mix]] = []
    for n in range(1, most + 2):
        up: list[Mix] = [*((n, i) for i in range(n + 1)), *((i, n) for i in range(n - 1, -1, -1))]
        found.append([mix for mix in (up if n % 2 else up[::-1]) if min(mix) <= most])  # no matrix has both at most + 1
    return found


@dataclass(frozen=True)
class _Ratios:
    """A mix as it was seen once: times by the time alone just then."""

    by_model: tuple[float, ...]  # NaN where none of it ran
    outside: float  # share of our cores' time that others took; 1 where the time alone changed meanwhile


class _Study:
    """Which mixes, how often, and what was seen of them."""

    def __init__(self, bench: Bench, models: int, repeats: int, wait_s: float, progress: Progress) -> None:
        self.bench, self._models, self._repeats = bench, models, repeats
        self._patience_s = wait_s
        self._progress, self._done, self._total = progress, 0, 0
        self.pairs: list[tuple[int, ...]] = list(combinations(range(models), 2)) if models > 1 else [(0,)]
        self.samples: dict[Mix, list[_Ratios]] = {}  # all that there are
        self.alone_ms: list[list[float]] = [[] for _ in range(models)]  # by model, taken again and again
        self.again = 0

    def walk(self, most: int) -> None:
        """Measure every mix that fits, as often as was asked for; then anew what is in doubt, as far as that helps."""
        plan = self._shells(most)
        back = [shell[::-1] for shell in plan[::-1]]
        self._measure([shell for turn in range(self._repeats) for shell in (back if turn % 2 else plan)])
        for _ in range(_ROUNDS):
            doubtful = [[mix for mix in shell if self._doubtful(mix)] for shell in plan]
            turns = [shell for shell in doubtful if shell]
            count = self._measure(turns)
            self.again += count
            if sum(_calm(self.samples[mix][-1]) for shell in turns for mix in shell) < count / 2:
                break  # who disturbs most of the time stays

    def _measure(self, turns: list[list[Mix]]) -> int:
        """Go through these; how many mixes they were."""
        count = sum(map(len, turns))
        self._total += count
        for shell in turns:
            self._shell(shell)
        return count

    def _shells(self, most: int) -> list[list[Mix]]:
        """Of all pairs, what fits; a mix that several pairs have is there once."""
        seen: set[Mix] = set()
        found = []
        for pair in self.pairs:
            for shell in shells(most, len(pair)):
                mixes = [self._of_all(pair, mix) for mix in shell]
                found.append([mix for mix in mixes if mix not in seen and self.bench.fits(mix)])
                seen |= set(mixes)
        return [shell for shell in found if shell]

    def _of_all(self, pair: tuple[int, ...], mix: Mix) -> Mix:
        """A mix of a pair as one of all models."""
        counts = dict(zip(pair, mix, strict=True))
        return tuple(counts.get(model, 0) for model in range(self._models))

    def _shell(self, mixes: list[Mix]) -> None:
        """Watch these mixes, and the time alone before and after: where that has changed, all of them are in doubt."""
        models = [model for model in range(self._models) if any(mix[model] for mix in mixes)]
        before = [self.alone_ms[model][-1] if self.alone_ms[model] else self._alone(model) for model in models]
        seen: list[Sample] = []
        for mix in mixes:
            if seen and seen[-1].outside > _CALM:
                self._await_quiet()
            seen.append(self.bench.watch(mix))
            self._done += 1
            self._progress(self._done, self._total)
        after = [self._alone(model) for model in models]
        steady = all(abs(last / first - 1) <= _DRIFT for first, last in zip(before, after, strict=True))
        alone_ms = {model: fmean(both) for model, *both in zip(models, before, after, strict=True)}
        for mix, sample in zip(mixes, seen, strict=True):
            ratios = tuple(mean / alone_ms.get(model, math.nan) for model, mean in enumerate(sample.means_ms))
            seen_here = _Ratios(ratios, sample.outside if steady else max(1.0, sample.outside))
            self.samples.setdefault(mix, []).append(seen_here)

    def _await_quiet(self) -> None:
        """Let others finish what they do, as long as our patience lasts."""
        while self._patience_s > 0 and self.bench.others() > _CALM:
            self._patience_s -= LOOK_S

    def _alone(self, model: int) -> float:
        sample = self.bench.watch(tuple(int(m == model) for m in range(self._models)))
        self.alone_ms[model].append(sample.means_ms[model])
        return sample.means_ms[model]

    def _doubtful(self, mix: Mix) -> bool:
        """Whether too few of its samples are calm, or they are too far apart."""
        kept = self.kept(mix)
        return not all(map(_calm, kept)) or _apart(kept) > _APART

    # ---- what came out

    def kept(self, mix: Mix) -> list[_Ratios]:
        """As many samples as were asked for: the calmest, and of those that are calm the ones that agree best."""
        found = sorted(self.samples.get(mix, []), key=lambda one: one.outside)
        some = [one for one in found if _calm(one)]
        if len(some) <= self._repeats:
            return found[: self._repeats]
        return list(min(combinations(some, self._repeats), key=_apart))

    def whole(self, most: int) -> int:
        """Up to how many of each model all cells are there, after an interrupt."""
        there = set(self.samples)
        sizes = (n for n in range(most, 0, -1) if all(set(shell) <= there for shell in self._shells(n)))
        return next(sizes, 0)

    def matrix(self, device: str, names: list[str], pair: tuple[int, ...], model: int, most: int) -> Matrix:
        """Of this model arriving among the pair."""
        cells = [[fmean(ratios) if ratios else math.inf for ratios in row] for row in self._grid(pair, model, most)]
        cells[0][0] = 1.0  # alone is what all are measured by
        axes = tuple(names[m] for m in pair)
        return Matrix(device, (), names[model], axes, median(self.alone_ms[model]), tuple(map(tuple, cells)))

    def spread(self, pair: tuple[int, ...], model: int, most: int) -> Spread:
        """Of the cells of that matrix."""
        return tuple(tuple(map(_spread, row)) for row in self._grid(pair, model, most))

    def _grid(self, pair: tuple[int, ...], model: int, most: int) -> Iterator[list[list[float]]]:
        """For each cell what its repeats gave; nothing where it does not fit."""
        for m in range(most + 1):
            row: list[Mix] = [(m, r) for r in range(most + 1)] if len(pair) > 1 else [(m,)]
            others = [self._of_all(pair, mix) for mix in row]
            mixes = [tuple(n + (i == model) for i, n in enumerate(mix)) for mix in others]  # the newcomer is in them
            yield [[one.by_model[model] for one in self.kept(mix)] for mix in mixes]


def _calm(sample: _Ratios) -> bool:
    return sample.outside <= _CALM


def _apart(samples: Iterable[_Ratios]) -> float:
    """How far they are apart, of the model that is farthest; 0 of a single one."""
    by_model = zip(*(one.by_model for one in samples), strict=True)
    return max((spread for ratios in by_model if not math.isnan(spread := _spread(ratios))), default=0.0)


def _spread(ratios: Sequence[float]) -> float:
    return (max(ratios) - min(ratios)) / fmean(ratios) if len(ratios) > 1 else math.nan
