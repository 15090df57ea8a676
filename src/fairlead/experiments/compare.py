"""Compares policies on scenarios over paired seeds: the same workload for every policy, so that differences are theirs.

The work is cut into pieces, one per (scenario, seed), which `workers` run here or elsewhere. Results are put together
in the order of the question, so that they never depend on how many workers there were, nor on which was first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fairlead.domain.errors import UserError, one_line
from fairlead.experiments.checkpoint import Checkpoint
from fairlead.experiments.identity import keys
from fairlead.experiments.kinds import Kind, Summed, kind_of
from fairlead.experiments.piece import AnyScenario, Figures, Piece, PieceResult
from fairlead.experiments.workers import Workers, WorkersLost, local
from fairlead.measure.statistics import Estimate, estimate, paired_difference


@dataclass
class Comparison:
    """The runs that are finished. `runs[label][policy][seed]` are their figures."""

    scenarios: dict[str, AnyScenario]  # of one kind, by label: their name, or the point of a sweep
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: dict[str, dict[str, dict[int, Figures]]] = field(default_factory=dict)
    details: dict[str, dict[str, Summed]] = field(default_factory=dict)  # [label][policy], of all seeds
    bounds: dict[str, dict[int, float]] = field(default_factory=dict)  # [label][seed]
    failures: dict[str, str] = field(default_factory=dict)  # policy -> one line
    interrupted: str = ""  # why not all of it was run; empty when it was
    _done: dict[str, list[int]] = field(default_factory=dict, repr=False)  # by label; forgotten when a piece comes in

    @cached_property
    def kind(self) -> Kind:
        """The kind of world."""
        return kind_of(next(iter(self.scenarios.values())))

    def add(self, piece: PieceResult) -> None:
        """Take in a finished piece."""
        self._done.clear()
        for policy, figures in piece.figures.items():
            self.runs.setdefault(piece.label, {}).setdefault(policy, {})[piece.seed] = figures
        for policy, detail in piece.details.items():
            self.details.setdefault(piece.label, {}).setdefault(policy, self.kind.summed()).add(detail)
        if piece.bound is not None:
            self.bounds.setdefault(piece.label, {})[piece.seed] = piece.bound
        for policy, line in piece.failures.items():  # the least of them, whichever came first
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
            figures = (self.kind.objective, "fallback_share")
            reached, fell_back = (estimate(self.values(label, policy, figure)).mean for figure in figures)
            return -self.kind.sign * reached, fell_back, policy

        return sorted(alive, key=key)

    def estimates(self, label: str, policy: str) -> dict[str, Estimate]:
        """Every figure with its interval."""
        first = self.runs[label][policy][self.done_seeds(label)[0]]
        return {name: estimate(self.values(label, policy, name)) for name in first}

    def behind_best(self, label: str, policy: str) -> Estimate:
        """The objective minus that of the best policy, seed by seed."""
        best = self.values(label, self.ranking(label)[0], self.kind.objective)
        return paired_difference(self.values(label, policy, self.kind.objective), best)

    def fallbacks(self, policy: str) -> tuple[int, dict[str, int]]:
        """How many decisions a learned policy was asked for, and how often its fallback rule made them, by reason."""
        decisions, counts = 0, Counter[str]()
        for details in self.details.values():
            learned = details[policy].detail().get("learned", {}) if policy in details else {}
            decisions += learned.get("decisions", 0)
            counts.update(learned.get("fallbacks", {}))
        return decisions, dict(counts)

    def bound_values(self, label: str) -> list[float]:
        """The bound on the objective of each finished seed; empty unless all have one, as means of others differ."""
        bounds, seeds = self.bounds.get(label, {}), self.done_seeds(label)
        return [bounds[s] for s in seeds] if all(s in bounds for s in seeds) else []


def compare(
    scenarios: Mapping[str, AnyScenario],
    policies: Sequence[str],
    seeds: Sequence[int],
    workers: Workers = local,
    checkpoint: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    bounded: bool = True,
) -> Comparison:
    """Run every policy on every scenario and seed. What is finished when Ctrl-C or dead workers stop it is kept.

    With a checkpoint, pieces that it has are not run again, and it gets the others. `progress` is called first with
    the number of pieces that were finished before, then after each piece.
    """
    result = Comparison(dict(scenarios), tuple(policies), tuple(seeds))
    pieces = [Piece(label, s, seed, tuple(policies), bounded) for label, s in scenarios.items() for seed in seeds]
    with nullcontext() if checkpoint is None else Checkpoint(checkpoint) as kept:
        key_of = dict(zip(((p.label, p.seed) for p in pieces), keys(pieces), strict=True)) if kept else {}
        before = kept.finished(set(key_of.values())) if kept else {}
        for piece in before.values():
            result.add(piece)
        progress(done := len(before), len(pieces))
        left = [p for p in pieces if key_of.get((p.label, p.seed)) not in before]
        running = closing(workers(left)) if left else nullcontext(())
        try:
            with running as results:
                for piece in results:
                    result.add(piece)
                    if kept:
                        kept.add(key_of[piece.label, piece.seed], piece)
                    progress(done := done + 1, len(pieces))
        except KeyboardInterrupt:
            result.interrupted = "interrupted"
        except WorkersLost as error:
            result.interrupted = str(error)
        except UserError as error:
            if not done:
                raise
            result.interrupted = f"stopped: {error}"
        except (MemoryError, OSError) as error:
            result.interrupted = f"stopped by {one_line(error)}"
    return result
