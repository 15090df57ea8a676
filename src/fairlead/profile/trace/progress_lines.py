"""What a traced task reports, line by line, and its curve of progress: the contract of the guide.

    {"ready": true}                 from here on time counts; else from the start of the program
    {"epoch": 3, "loss": 0.41}      training: the validation loss after an epoch; epoch 0 is before the first
    {"done": 128, "of": 1024}       inference: samples done

Pure: `run` reads the lines and knows the clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.domain.errors import UserError

FALL = 0.95  # of the way that the loss falls in the first run, where no target is given


@dataclass(frozen=True)
class ProgressPoint:
    """One line of progress."""

    time_s: float
    count: int  # epochs, or samples done
    loss: float | None = None  # of training


@dataclass
class Telling:
    """All that a task has reported so far."""

    of: int | None = None  # samples in all; None: it trains
    points: list[ProgressPoint] = field(default_factory=list)
    start_s: float = 0.0  # on the clock of the lines

    def take(self, line: bytes, now_s: float) -> bool:
        """Take a line in; whether it was meant for us. UserError when it is one that can't be."""
        told = _parsed(line)
        if told.get("started") is True and not self.points:
            self.start_s = now_s
        elif told.get("ready") is True and all(point.count == 0 for point in self.points):
            self.start_s = now_s
            self.points = [ProgressPoint(0.0, 0, point.loss) for point in self.points]
        elif "epoch" in told and "loss" in told:
            self._add(None, ProgressPoint(now_s - self.start_s, _whole(told, "epoch"), _number(told, "loss")))
        elif "done" in told and "of" in told:
            self._add(_whole(told, "of"), ProgressPoint(now_s - self.start_s, _whole(told, "done")))
        else:
            return False
        return True

    def _add(self, of: int | None, point: ProgressPoint) -> None:
        if self.points and of != self.of:
            raise UserError(f"it reports {_work(self.of)} first, then {_work(of)}")
        if not self.points and of is None and point.count != 0:
            raise UserError(f'it reports epoch {point.count} first: {{"epoch": 0, "loss": ...}} must come first')
        if of == 0:
            raise UserError('"of": 0: there is nothing to do')
        self.of = of
        self.points.append(point)

    def best_loss(self) -> float:
        """The least so far."""
        return min(point.loss for point in self.points if point.loss is not None)


def _work(of: int | None) -> str:
    return "epochs" if of is None else f"{of} samples"


def _parsed(line: bytes) -> dict[str, Any]:
    try:
        told = json.loads(line) if line.lstrip().startswith(b"{") else None
    except (ValueError, RecursionError):
        told = None
    return told if isinstance(told, dict) else {}


def _whole(told: dict[str, Any], name: str) -> int:
    value = told[name]
    if type(value) is not int or value < 0:
        raise UserError(f"{json.dumps(told)}: {name}: expected a whole number from 0 on")
    return value


def _number(told: dict[str, Any], name: str) -> float:
    value = told[name]
    if type(value) not in (int, float) or not math.isfinite(value):
        raise UserError(f"{json.dumps(told)}: {name}: expected a finite number")
    return float(value)


def found_target(points: Sequence[ProgressPoint]) -> float:
    """A target from a training without one: FALL of the way that its loss falls, rounded up to four digits."""
    losses = [point.loss for point in points if point.loss is not None]
    first, best = losses[0], min(losses)
    if len(losses) < 2 or not best < first:
        raise UserError(
            f"its loss does not fall: {first:g} before training, {best:g} at best in {len(losses) - 1} epochs"
        )
    target = first - FALL * (first - best)
    digit = 10.0 ** (math.floor(math.log10(abs(target) or 1.0)) - 3)
    rounded = math.ceil(target / digit - 1e-9) * digit  # up, so that the run that found it reaches it
    return float(f"{rounded:.4g}") if rounded < first else target


def curve(points: Sequence[ProgressPoint], of: int | None, target: float | None) -> list[tuple[float, float]]:
    """Progress over time, never falling, up to its end: the share of samples, or how far the loss has fallen."""
    made: list[tuple[float, float]] = []
    best = 0.0
    for point in points:
        best = max(best, min(1.0, _progress(point, points[0], of, target)))
        made.append((point.time_s, best))
        if best == 1.0:
            break
    return made


def _progress(point: ProgressPoint, first: ProgressPoint, of: int | None, target: float | None) -> float:
    if of is not None:
        return point.count / of
    assert point.loss is not None
    assert first.loss is not None
    assert target is not None
    return 1.0 if point.loss <= target else (first.loss - point.loss) / (first.loss - target)
