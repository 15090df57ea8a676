"""What picking rules could gain if the next minute were known: `python docs/results/clairvoyant.py [SCENARIO ...]`.

Every 20 windows all of the seven are tried from the same state and on the same requests, for these windows and 40 more
in which the best fixed rule plays; the picker goes on from the one that gained most. It is greedy, so no bound, but
it knows what no agent can know. Prints a table; a cell takes 5 to 60 seconds.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from make_aset import SCENARIOS
from tables import points

from fairlead.learn.aset.agent import SEVEN, Aset, AsetSettings, WindowGroup, _Episode
from fairlead.learn.shared.environments import Place
from fairlead.measure.statistics import paired_difference
from fairlead.scenarios.loader import load
from fairlead.sim.gym.world_file import worlds_of
from fairlead.sim.serving.run_policy import simulate
from fairlead.sim.serving.world import copy_state, like

SEEDS = range(1100, 1106)
RATES = (40, 60, 80, 100, 120)


class Clairvoyant(WindowGroup):
    """A group of worlds that goes on from the one that did best."""

    def __init__(self, learner: Aset, rule: int, seed: int, background: ThreadPoolExecutor) -> None:
        self._seed = seed
        super().__init__(learner, rule, 0, background)
        self.restart()
        self._after = [like(world, self._view.batch.worlds.plan) for world in self._view.batch.handle.worlds]

    def _draw(self) -> _Episode:
        worlds = self._learner.places[0].worlds
        workload = worlds.draw(self._seed)
        return _Episode(replace(worlds, draw=lambda _: workload), len(workload.requests), 0.0, 0)

    def success(self) -> float:
        """Of a whole run."""
        while not self._hold():
            self._go_on()
        return float(self._view.batch.success(self._best()))

    def _hold(self) -> bool:
        """Play each action for a while; True when the run is over."""
        self._gained = np.zeros(len(self._actions))
        return self._gain(self._actions, self._learner.settings.hold)

    def _gain(self, actions: Any, windows: int) -> bool:
        for _ in range(windows):
            ended = self._play(actions)
            self._gained += self._gains()
            if ended:
                return True
        return False

    def _go_on(self) -> None:
        """From the world that has gained most when the rule has played in all of them."""
        batch = self._view.batch
        worlds, codes = batch.handle.worlds, batch.handle.codes.copy()
        first, last = self._open()
        for world, kept in zip(worlds, self._after, strict=True):
            copy_state(world, kept, first, last)
        self._gain(self._rule, self._learner.settings.tail)
        for world in worlds:
            copy_state(self._after[self._best()], world, first, last)
        batch.handle.codes[:] = codes
        self._settled = first

    def _best(self) -> int:
        best = int(self._gained.argmax())
        return best if self._gained[best] > self._gained[self._rule] else self._rule


def main(scenarios: list[str]) -> None:
    print(f"| scenario | {' | '.join(map(str, RATES))} |\n{'|---' * (len(RATES) + 1)}|")
    for scenario in scenarios:
        print(f"| {scenario} | {' | '.join(gain(scenario, rate) for rate in RATES)} |", flush=True)


def gain(scenario: str, rate: int) -> str:
    """On the best of the seven."""
    overrides = (f"rate={rate}",)
    here = load(scenario, overrides)
    by_rule = {rule: [simulate(here, rule, seed).figures["success"] for seed in SEEDS] for rule in SEVEN}
    best = max(SEVEN, key=lambda rule: sum(by_rule[rule]))
    learner = Aset([Place(scenario, scenario, overrides, "", worlds_of(here))], SEVEN, AsetSettings(), 0)
    with ThreadPoolExecutor(1) as background:
        found = [Clairvoyant(learner, SEVEN.index(best), seed, background).success() for seed in SEEDS]
    gained = paired_difference(found, by_rule[best])
    return points(gained, 1)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SCENARIOS))
