"""How good an agent is while it learns: paired with every rule on workloads that it never learns from.

Workloads are those of `VALIDATION_SEED`, the same for rules and agent; they are neither training's nor those of
`fairlead compare` (seeds below 2**31). The best rule of each place is found on them too, which favours the rule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairlead.learn.environments import THREADS, VALIDATION_SEED, Place
from fairlead.measure.statistics import Estimate, estimate
from fairlead.policies.interface import find
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.worlds import Worlds, workload_seed
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.world import new_world

Choose = Callable[[Any, Any], Any]  # observations (B, F), masks (B, A) -> actions (B,); called from several threads
_TOGETHER: Final = 8  # worlds: a world takes 80 MB where 240,000 requests arrive


class Stopped(Exception):
    """Someone wants training to end."""


@dataclass(frozen=True)
class Verdict:
    """What validation says of an agent: `figures` (places, workloads, 3) as `_figures` has them."""

    figures: Any
    scores: Any  # (places, workloads)
    gaps: Any  # (places, workloads) score - that of the place's best rule

    @property
    def gap(self) -> Estimate:
        """Mean over the places, workload by workload."""
        return estimate(self.gaps.mean(axis=0).tolist())

    def gap_at(self, place: int) -> Estimate:
        """The gap in one place."""
        return estimate(self.gaps[place].tolist())


class Validation:
    """Plays rules and agents on the validation workloads of every place."""

    def __init__(
        self,
        places: Sequence[Place],
        rules: Sequence[str],
        make: Callable[[Worlds, int], Batch],
        score: Callable[[Any], Any],
        workloads: int,
        stop: threading.Event,
    ) -> None:
        self.places, self.rules, self.make, self.score, self._stop = places, tuple(rules), make, score, stop
        self.seeds = [workload_seed(VALIDATION_SEED, i) for i in range(workloads)]
        self.rule_figures: Any = None  # (places, rules, workloads, 3)

    def play_rules(self) -> Any:
        """Play every rule; known from then on. Returns the figures, for `restore_rules`."""
        pointers = [find(rule).compiled for rule in self.rules]
        self.rule_figures = self._everywhere(
            lambda place, seeds: _play_rules(place.worlds, pointers, seeds, self._stop)
        )
        return self.rule_figures

    def best_rules(self) -> list[int]:
        """The best rule of each place."""
        return [int(i) for i in self.score(self.rule_figures).mean(axis=2).argmax(axis=1)]

    def best_rule(self) -> str:
        """The best over all places."""
        return self.rules[int(self.score(self.rule_figures).mean(axis=(0, 2)).argmax())]

    def judge(self, choose: Choose) -> Verdict:
        """Play the agent."""
        figures = self._everywhere(
            lambda place, seeds: _play(self.make(place.worlds, len(seeds)), choose, seeds, self._stop)
        )
        scores = self.score(figures)
        rules = self.score(self.rule_figures)
        best = np.stack([rules[p, rule] for p, rule in enumerate(self.best_rules())])
        return Verdict(figures, scores, scores - best)

    def _everywhere(self, play: Callable[[Place, list[int]], Any]) -> Any:
        """`play` gives (..., seeds, 3); this (places, ..., workloads, 3)."""
        parts = [self.seeds[i : i + _TOGETHER] for i in range(0, len(self.seeds), _TOGETHER)]
        with ThreadPoolExecutor(THREADS) as threads:
            played = threads.map(lambda job: play(*job), [(place, part) for place in self.places for part in parts])
            results = list(played)
        by_place = [results[i : i + len(parts)] for i in range(0, len(results), len(parts))]
        return np.stack([np.concatenate(of_place, axis=-2) for of_place in by_place])


def _play(batch: Batch, choose: Choose, seeds: Sequence[int], stop: threading.Event) -> Any:
    for b, seed in enumerate(seeds):
        batch.begin(b, seed)
    ended = 0
    while ended < batch.size:
        if stop.is_set():
            raise Stopped
        batch.observe()
        batch.actions[:] = choose(batch.observations, batch.masks)
        ended = batch.play()
    return _figures(batch.handle)


def _play_rules(worlds: Worlds, pointers: Sequence[Any], seeds: Sequence[int], stop: threading.Event) -> Any:
    workloads = [worlds.draw(seed) for seed in seeds]
    handle = Handle(worlds.plan, [new_world(worlds.plan, workload) for workload in workloads], pointers)
    figures = []
    for rule in range(len(pointers)):
        if stop.is_set():
            raise Stopped
        for b, workload in enumerate(workloads):
            handle.reset(b, workload)
        handle.chosen[:] = rule
        handle.advance(0)
        figures.append(_figures(handle))
    return np.stack(figures)


def _figures(handle: Handle) -> Any:
    """Of each world that has ended: share of successes, joules and degradation (beyond 1) a request."""
    clocks: Iterable[Any] = (world.clock[0] for world in handle.worlds)
    return np.array([(c["succeeded"], c["energy_mj"] * 1e-3, c["degradation"]) / max(c["arrived"], 1) for c in clocks])
