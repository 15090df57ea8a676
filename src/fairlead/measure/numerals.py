"""Numbers with their nouns, in sentences and tables."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """'1 seed', '2,412 seeds'."""
    text = f"{number:,.0f}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


def duration(seconds: float) -> str:
    """'12.3 s', '4.5 min', '2.1 h'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"
