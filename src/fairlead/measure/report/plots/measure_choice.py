"""The figures that a reader chooses among in a plot: shares of outcomes, or mean and quantiles of completion times."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairlead.measure.report.document import Point
from fairlead.measure.report.plots.plot import ends, has_interval, known
from fairlead.measure.report.style import Spec
from fairlead.measure.statistics import Estimate


@dataclass(frozen=True)
class Measures:
    """Some figures of one unit. The first is the objective, which the bound is of."""

    figures: Mapping[str, str]  # choice -> name in the document
    axis: Spec
    text: Callable[[Estimate], str]  # with its unit
    named: Callable[[str], str]  # what a choice is, at the start of a sentence
    bound: str  # what the bound is
    passing: str  # which policies can't pass it
    most: float = math.inf  # intervals are cut there, and at 0

    @property
    def first(self) -> str:
        """What is drawn until a reader chooses."""
        return next(iter(self.figures))

    def of(self, point: Point, policy: str, choice: str) -> Estimate:
        """The figure of a choice."""
        return point.figure(policy, self.figures[choice])

    def row(self, point: Point, policy: str) -> Spec:
        """All choices with their intervals and in words."""
        row: Spec = {"policy": policy, "label": point.label}
        for choice in self.figures:
            e = self.of(point, policy, choice)
            if known(e):
                row[choice] = e.mean
                row |= ends(choice, e, 0.0, self.most)
            row[f"{choice}_text"] = self.text(e)
        return row

    def texts(self) -> Spec:
        """Of a tooltip."""
        return {f"{choice}_text": choice for choice in self.figures}

    def have_intervals(self, found: Sequence[Point]) -> bool:
        """Whether there is any interval to draw."""
        return any(has_interval(self.of(p, policy, self.first)) for p in found for policy in p.ranking)

    def findings(self, found: Sequence[Point], by: str) -> dict[str, str]:
        """For each choice, in words, what the best policy has at each label."""
        return {choice: self._finding(found, choice, by) for choice in self.figures}

    def _finding(self, found: Sequence[Point], choice: str, by: str) -> str:
        best = [f"{p.label} {p.ranking[0]} {self.text(self.of(p, p.ranking[0], choice))}" for p in found]
        what = "Best" if choice == self.first else f"{self.named(choice)} under the best"
        return f"{what} by {by}: {'; '.join(best)}."

    def chosen(self) -> Spec:
        """The param that a reader sets."""
        return {"name": "measure", "value": self.first}

    def only_first(self) -> Spec:
        """The transform that drops everything when another choice is drawn."""
        return {"filter": f"measure == '{self.first}'"}


def by_measure() -> list[Spec]:
    """The transforms that take what the reader chose as `measured`, with its interval."""
    return [
        {"calculate": "datum[measure]", "as": "measured"},
        {"calculate": "datum[measure + '_low']", "as": "measured_low"},
        {"calculate": "datum[measure + '_high']", "as": "measured_high"},
    ]
