"""Compares policies on scenarios over paired seeds: the same workload for every policy, so that differences are theirs.

The work is cut into trials, one per (scenario, seed), which `workers` run here or elsewhere. Results are put together
in the order of the question, so that they never depend on how many workers there were, nor on which was first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.domain.errors import RunError, UserError, one_line
from fairlead.experiments.checkpoint import Checkpoint
from fairlead.experiments.fingerprint import keys
from fairlead.experiments.trial import AnyScenario, Figures, Trial, TrialResult
from fairlead.experiments.workers import Workers, WorkersLost, local
from fairlead.experiments.world_adapter import Summed, WorldAdapter, adapter_of
from fairlead.measure.statistics import Estimate, estimate, paired_difference
from fairlead.measure.write_files import safe_names


@dataclass
class Comparison:
    """The runs that are finished. `runs[label][policy][seed]` are their figures."""

    scenarios: dict[str, AnyScenario]  # of one world, by label: their name, or the point of a sweep
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: dict[str, dict[str, dict[int, Figures]]] = field(default_factory=dict)
    details: dict[str, dict[str, Summed]] = field(default_factory=dict)  # [label][policy], of all seeds
    bounds: dict[str, dict[int, float]] = field(default_factory=dict)  # [label][seed]
    failures: dict[str, str] = field(default_factory=dict)  # policy -> one line
    interrupted: str = ""  # why not all of it was run; empty when it was
    _done: dict[str, list[int]] = field(default_factory=dict, repr=False)  # by label; forgotten when a trial comes in

    @cached_property
    def adapter(self) -> WorldAdapter:
        """What differs between the worlds."""
        return adapter_of(next(iter(self.scenarios.values())))

    def add(self, trial: TrialResult) -> None:
        """Take in a finished trial."""
        self._done.clear()
        for policy, figures in trial.figures.items():
            self.runs.setdefault(trial.label, {}).setdefault(policy, {})[trial.seed] = figures
        for policy, detail in trial.details.items():
            self.details.setdefault(trial.label, {}).setdefault(policy, self.adapter.summed()).add(detail)
        if trial.bound is not None:
            self.bounds.setdefault(trial.label, {})[trial.seed] = trial.bound
        for policy, line in trial.failures.items():  # the least of them, whichever came first
            self.failures[policy] = min(line, self.failures.get(policy, line))

    def done_seeds(self, label: str) -> list[int]:
        """Seeds for which every policy that did not fail has finished, in order."""
        if label not in self._done:
            runs = self.runs.get(label, {})
            alive = [p for p in self.policies if p not in self.failures]
            self._done[label] = [s for s in self.seeds if alive and all(s in runs.get(p, {}) for p in alive)]
        return self._done[label]

    def values(self, label: str, policy: str, figure: str) -> list[float]:
        """The figure of each finished seed."""
        runs = self.runs[label][policy]
        return [runs[s][figure] for s in self.done_seeds(label)]

    def ranking(self, label: str) -> list[str]:
        """Policies by the mean of the objective, best first; of equals who fell back to another less, then by name."""
        alive = [p for p in self.policies if p not in self.failures]
        if not self.done_seeds(label):
            return []

        def key(policy: str) -> tuple[float, float, str]:
            figures = (self.adapter.objective, "fallback_share")
            reached, fell_back = (estimate(self.values(label, policy, figure)).mean for figure in figures)
            return -self.adapter.sign * (0.0 if math.isnan(reached) else reached), fell_back, policy

        return sorted(alive, key=key)

    def estimates(self, label: str, policy: str) -> dict[str, Estimate]:
        """Every figure with its interval."""
        first = self.runs[label][policy][self.done_seeds(label)[0]]
        return {name: estimate(self.values(label, policy, name)) for name in first}

    def behind_best(self, label: str, policy: str) -> Estimate:
        """The objective minus that of the best policy, seed by seed."""
        best = self.values(label, self.ranking(label)[0], self.adapter.objective)
        return paired_difference(self.values(label, policy, self.adapter.objective), best)

    def fallbacks(self, policy: str) -> tuple[int, dict[str, int]]:
        """How many decisions a learned policy was asked for, and how often its fallback rule made them, by reason."""
        decisions, counts = 0, Counter[str]()
        for learned in self._learned(policy).values():
            decisions += learned.get("decisions", 0)
            counts.update(learned.get("fallbacks", {}))
        return decisions, dict(counts)

    def fallback_rules(self, policy: str) -> list[str]:
        """The rules that decided where a learned policy fell back."""
        found = self.adapter.find(policy)
        fell_back = [label for label, learned in self._learned(policy).items() if learned.get("fallbacks")]
        return list(dict.fromkeys(self.adapter.fallback_rule(self.scenarios[label], found) for label in fell_back))

    def _learned(self, policy: str) -> dict[str, dict[str, Any]]:
        """What is noted of a learned policy alone, by label."""
        return {label: d[policy].detail().get("learned", {}) for label, d in self.details.items() if policy in d}

    @cached_property
    def warnings(self) -> list[str]:
        """What to know before the figures are believed, of scenarios and of policies that were run: a line each."""
        ran = [policy for policy in self.policies if policy not in self.failures]
        return list(dict.fromkeys(line for s in self.scenarios.values() for line in self.adapter.warnings(s, ran)))

    def bound_values(self, label: str) -> list[float]:
        """The bound on the objective of each finished seed; empty unless all have one, as means of others differ."""
        bounds, seeds = self.bounds.get(label, {}), self.done_seeds(label)
        found = [bounds[s] for s in seeds] if all(s in bounds for s in seeds) else []
        return [] if all(map(math.isnan, found)) else found

    def empty_seeds(self, label: str) -> list[int]:
        """Finished seeds with which nothing arrives, so that their shares are undefined."""
        some = self.runs[label][self.ranking(label)[0]]
        return [s for s in self.done_seeds(label) if some[s].get("requests") == 0]


def compare(
    scenarios: Mapping[str, AnyScenario],
    policies: Sequence[str],
    seeds: Sequence[int],
    workers: Workers = local,
    checkpoint: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    bounded: bool = True,
    logs: Path | None = None,
) -> Comparison:
    """Run every policy on every scenario and seed. If Ctrl-C or dead workers stop it, the result has what is finished.

    With a checkpoint, trials that it has are not run again, and it gets the others. `progress` is called first with
    the number of trials that were finished before, then after each trial. Decision logs go into the folder `logs`:
    scenario=LABEL/policy=NAME/seed=N/decisions.parquet.
    """
    result = Comparison(dict(scenarios), tuple(policies), tuple(seeds))
    places = [str(logs / f"scenario={name}") if logs else None for name in safe_names(list(scenarios))]
    trials = [
        Trial(label, scenario, seed, tuple(policies), bounded, place)
        for (label, scenario), place in zip(scenarios.items(), places, strict=True)
        for seed in seeds
    ]
    with nullcontext() if checkpoint is None else Checkpoint(checkpoint) as kept:
        key_of = dict(zip(((p.label, p.seed) for p in trials), keys(trials), strict=True)) if kept else {}
        before = kept.finished(set(key_of.values())) if kept else {}
        for trial in before.values():
            result.add(trial)
        progress(done := len(before), len(trials))
        left = [p for p in trials if key_of.get((p.label, p.seed)) not in before]
        running = closing(workers(left)) if left else nullcontext(())
        try:
            with running as results:
                for trial in results:
                    result.add(trial)
                    if kept:
                        kept.add(key_of[trial.label, trial.seed], trial)
                    progress(done := done + 1, len(trials))
        except KeyboardInterrupt:
            result.interrupted = "interrupted"
        except WorkersLost as error:
            result.interrupted = str(error)
        except RunError as error:
            result.interrupted = f"stopped: {error}"
        except UserError as error:
            if not done:
                raise
            result.interrupted = f"stopped: {error}"
        except (MemoryError, OSError) as error:
            result.interrupted = f"stopped by {one_line(error)}"
    return result
