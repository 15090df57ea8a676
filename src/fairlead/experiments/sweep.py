"""A sweep: one scenario at several values of one field.

`cli` reads it here from what the user typed; `compare` runs its points like scenarios, labelled `rate=20`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fairlead.domain.errors import UserError, as_typed
from fairlead.experiments.trial import AnyScenario
from fairlead.inputs.plain_yaml import parse_yaml
from fairlead.scenarios.loader import load_any

_RANGE = re.compile(r"([^:,]+):([^:,]+):([^:,]+)")
_MOST_VALUES = 1000


@dataclass(frozen=True)
class Sweep:
    """The field, named as in `--set`, and its values as JSON has them."""

    param: str
    values: tuple[Any, ...]

    def settings(self) -> list[str]:
        """`key=value` for each point: its label, and what to set."""
        return [f"{self.param}={v if isinstance(v, str) else json.dumps(v)}" for v in self.values]


def read_sweep(param: str, text: str) -> Sweep:
    """The sweep that the user wrote: `20,40,60`, or `20:120:20` for start, stop (included) and step."""
    span = _RANGE.fullmatch(text)
    if re.fullmatch(r"[\d.]+:[\d.]+", text):
        raise UserError(f"--values {text}: the step is missing: start:stop:step (20:120:20)")
    values = _range(text, *span.groups()) if span else _list(text)
    sweep = Sweep(param, tuple(_tidy(value) for value in values))
    settings = sweep.settings()
    if twice := [s for s in settings if settings.count(s) > 1]:
        raise UserError(f"--values {text}: {twice[0]} is given twice")
    return sweep


def points(sweep: Sweep, name: str, overrides: Sequence[str]) -> dict[str, AnyScenario]:
    """The scenario at each value, by label. All are checked before anything runs."""
    try:
        return {setting: load_any(name, [*overrides, setting]) for setting in sweep.settings()}
    except UserError as error:
        raise UserError(str(error).replace(f"--set {sweep.param}", f"--param {sweep.param}")) from None


def _list(text: str) -> list[Any]:
    name = f"--values {as_typed(text)}"
    expected = "expected values with commas (20,40,60) or start:stop:step (20:120:20)"
    try:
        values: list[Any] = parse_yaml(f"[{text}]", name)
    except UserError as error:
        raise UserError(f"{error}; {expected}") from None
    if not values:
        raise UserError(f"{name}: {expected}")
    if len(values) > _MOST_VALUES:
        raise UserError(f"{name}: {_why(len(values))}")
    return values


def _range(text: str, *ends: str) -> list[float]:
    try:
        start, stop, step = (Decimal(end) for end in ends)  # decimal: 0.1:0.3:0.1 ends in 0.3
        steps = (stop - start) / step
        if not (steps.is_finite() and math.isfinite(start) and math.isfinite(step)):
            raise ValueError(steps)
    except (ArithmeticError, ValueError):
        raise UserError(f"--values {text}: expected start:stop:step, numbers with a step not 0 (20:120:20)") from None
    if not 0 <= steps < _MOST_VALUES:
        raise UserError(f"--values {text}: {_why(steps)}")
    return [float(start + i * step) for i in range(int(steps) + 1)]


def _why(steps: Decimal | int) -> str:
    return "no values: the step leads away from the stop" if steps < 0 else f"more than {_MOST_VALUES} values"


def _tidy(value: Any) -> Any:
    """20.0 is 20, so that a value has one label."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
