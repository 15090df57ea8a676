"""Numbers with their nouns, in sentences and tables."""

from __future__ import annotations


def counted(number: float, noun: str) -> str:
    """'1 seed', '2,412 seeds'."""
    return f"{number:,.0f} {noun}{'' if number == 1 else 's'}"
