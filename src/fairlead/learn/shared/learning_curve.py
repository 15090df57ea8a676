"""The learning curve: the validations of a training, and the CSV file of them beside a trained bundle."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from fairlead.learn.shared.learner import Learner
from fairlead.learn.shared.validation import Verdict


@dataclass(frozen=True)
class CurvePoint:
    """A validation."""

    step: int
    seconds: float  # of training so far, validation included
    verdict: Verdict


def as_csv(learner: Learner, points: Sequence[CurvePoint]) -> str:
    """The validations as CSV: one line for each place, and one for all of them."""
    text = StringIO()
    columns = ["step", "seconds", "place", "gap", "ci95", "score", "success", "energy_j", "degradation"]
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for point in points:
        for p, label in enumerate([*(place.label for place in learner.judged), "all"]):
            everywhere = p == len(learner.judged)
            gap = point.verdict.gap if everywhere else point.verdict.gap_at(p)
            row = figures_at(point, slice(None) if everywhere else p) | {"gap": gap.mean, "ci95": gap.ci95}
            numbers = {name: f"{value:.6g}" for name, value in row.items()}
            writer.writerow({"step": point.step, "seconds": f"{point.seconds:.1f}", "place": label, **numbers})
    return text.getvalue()


def figures_at(point: CurvePoint, where: Any) -> dict[str, float]:
    """Means over the workloads of a place, or of several."""
    success, energy_j, degradation = point.verdict.figures[where].reshape(-1, 3).mean(axis=0).tolist()
    score = float(point.verdict.scores[where].mean())
    return {"score": score, "success": success, "energy_j": energy_j, "degradation": degradation}
