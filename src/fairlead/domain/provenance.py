"""Every number names its source or is marked an assumption.

A noun with numbers carries `source` (where they come from) and `assumed` (`True`: all of them; or the fields that are).
Scenario files are refused without one of the two, and results print the assumptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

#: Unknown fields in a scenario file are errors (read by the loader's validator).
STRICT = {"extra": "forbid"}

#: No number of a scenario is larger, and none that must be above 0 is smaller: what is computed from them stays finite.
MOST: Final = 1e15
LEAST: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Sourced:
    """Base of the nouns whose numbers must be accounted for."""

    __pydantic_config__ = STRICT

    source: str = ""  # where the numbers come from: a data sheet, a paper, a measurement
    assumed: bool | tuple[str, ...] = False  # true: all numbers are assumed; or a list of the fields that are

    def __post_init__(self) -> None:
        if not self.source and not self.assumed:
            raise ValueError("its numbers need 'source: ...' or 'assumed: true'")
        if isinstance(self.assumed, tuple):
            known = {f.name for f in fields(self)}
            unknown = [name for name in self.assumed if name not in known]
            if unknown:
                raise ValueError(f"assumed names a field that is not here: {unknown[0]!r}")
            if not self.source:
                raise ValueError("a list of assumed fields needs 'source: ...' for the others")
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), int | float):
                finite(**{field.name: value})

    def assumptions(self) -> str:
        """What is assumed here, in words; empty when nothing is."""
        if self.assumed is True:
            return "all numbers" + (f" ({self.source})" if self.source else "")
        if isinstance(self.assumed, tuple):
            return ", ".join(self.assumed)
        return ""


def finite(**numbers: float) -> None:
    """Raise unless each named number is one, and within what can be computed with."""
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}")
        if abs(value) > MOST:
            raise ValueError(f"{name} must be at most {MOST:g}, got {value:g}")


def positive(**numbers: float) -> None:
    """Raise unless each named number is above zero, and finite."""
    finite(**numbers)
    for name, value in numbers.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value:g}")
        if value < LEAST:
            raise ValueError(f"{name} must be at least {LEAST:g}, got {value:g}")


def not_negative(**numbers: float) -> None:
    """Raise unless each named number is zero or above, and finite."""
    finite(**numbers)
    for name, value in numbers.items():
        if not value >= 0:
            raise ValueError(f"{name} must be 0 or above, got {value:g}")


def share(**numbers: float) -> None:
    """Raise unless each named number lies in 0..1."""
    for name, value in numbers.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie in 0..1, got {value:g}")
