"""How good an agent is while it learns: paired with every rule on workloads that it never learns from.

Workloads are those of `VALIDATION_SEED`, the same for rules and agent; they are neither training's nor those of
`fairlead compare` (seeds below 2**31). The best rule of each place is found on them too, which favours the rule.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.learn.shared.environments import THREADS, VALIDATION_SEED, Place, View
from fairlead.learn.shared.learner import Learner
from fairlead.measure.statistics import Estimate, estimate
from fairlead.policies.interface import find
from fairlead.sim.gym.world_file import Worlds, workload_seed
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.world import new_world

Choose = Callable[[Any, Any], Any]  # observations (B, F), masks (B, A) -> actions (B,); called from several threads


class Stopped(Exception):
    """Training was asked to end."""


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

    def __init__(self, learner: Learner, stop: threading.Event) -> None:
        self.learner, self._stop = learner, stop
        self.rule_figures: Any = None  # (places, rules, workloads, 3), once they have been played

    def play_rules(self) -> None:
        """Play every rule."""
        pointers = [find(rule).compiled for rule in self.learner.rules]
        self.rule_figures = self._everywhere(lambda place, part: _play_rules(place.worlds, pointers, part, self._stop))

    def best_rules(self) -> list[int]:
        """The best rule of each place."""
        return [int(i) for i in self.learner.score(self.rule_figures).mean(axis=2).argmax(axis=1)]

    def best_rule(self) -> int:
        """The best over all places."""
        return int(self.learner.score(self.rule_figures).mean(axis=(0, 2)).argmax())

    def judge(self, choose: Choose) -> Verdict:
        """Play the agent."""

        def play(place: Place, part: Sequence[int]) -> Any:
            view = self.learner.make(place.worlds, len(part))
            self.learner.begin(view, part)
            return _play(view, choose, part, self._stop)

        figures = self._everywhere(play)
        scores, rules = self.learner.score(figures), self.learner.score(self.rule_figures)
        best = np.stack([rules[p, rule] for p, rule in enumerate(self.best_rules())])
        return Verdict(figures, scores, scores - best)

    def _everywhere(self, play: Callable[[Place, Sequence[int]], Any]) -> Any:
        """Figures (places, ..., workloads, 3), of figures (..., part, 3) of each place and part of the workloads."""
        n, together = self.learner.settings.validation_workloads, self.learner.together
        parts = [range(i, min(i + together, n)) for i in range(0, n, together)]
        jobs = [(place, part) for place in self.learner.judged for part in parts]
        with ThreadPoolExecutor(THREADS) as threads:
            results = list(threads.map(lambda job: play(*job), jobs))
        by_place = [results[i : i + len(parts)] for i in range(0, len(results), len(parts))]
        return np.stack([np.concatenate(of_place, axis=-2) for of_place in by_place])


def _play(view: View, choose: Choose, part: Sequence[int], stop: threading.Event) -> Any:
    batch = view.batch
    for b, i in enumerate(part):
        batch.begin(b, workload_seed(VALIDATION_SEED, i))
    ended = 0
    while ended < batch.size:
        if stop.is_set():
            raise Stopped
        batch.observe()
        batch.actions[:] = view.actions(choose(view.observations(), view.masks()))
        ended = batch.play()
    return _figures(batch.handle)


def _play_rules(worlds: Worlds, pointers: Sequence[Any], part: Sequence[int], stop: threading.Event) -> Any:
    workloads = [worlds.draw(workload_seed(VALIDATION_SEED, i)) for i in part]
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
