"""Numbers with their nouns, in sentences and tables."""

from __future__ import annotations

import math

_DIGITS, _MOST_DECIMALS = 3, 6
_LEAST, _MOST = 1e-6, 1e12  # beyond these a number gets an exponent


def counted(number: float, noun: str) -> str:
    """'1 seed', '2,412 seeds'."""
    text = f"{number:,.0f}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


def duration(seconds: float) -> str:
    """'12.3 s', '4.5 min', '2.1 h'."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 5400 else f"{seconds / 3600:.3g} h"


def plain_number(value: float) -> str:
    """Three significant digits in ordinary notation, all digits before the point: '0.0028', '76', '6,190'."""
    if not value or not math.isfinite(value):
        return "0" if not value else "\N{EN DASH}" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if not _LEAST <= abs(value) < _MOST:
        return f"{value:.2g}"
    decimals = min(_MOST_DECIMALS, max(0, _DIGITS - 1 - math.floor(math.log10(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def signed(value: float) -> str:
    """The same with its sign: '+7.78', '-0.0013', '0'."""
    return f"{'+' if value > 0 else ''}{plain_number(value)}"
