"""The errors a user is shown: one line that says what is wrong, where, and what would be right.

`fairlead.cli` turns a `UserError` into that line and exit code 2. Everything else that escapes is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST_NAME, _MOST_NAMES, _LONGEST_VALUE, _LONGEST_LINE = 200, 60, 100, 500


class UserError(Exception):
    """Wrong input; its text is the one line that the user sees."""


class PolicyError(Exception):
    """A policy raised or chose an impossible candidate; the run is failed, others go on."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean X?)' for the known name nearest to `name`, or the known names when none is near."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5) if len(name) <= _LONGEST_NAME else []
    if close:
        return f" (did you mean {close[0]!r}?)"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f" (known: {', '.join(known[:_MOST_NAMES])}{more})" if known else ""


def shown(value: object) -> str:
    """A value as a line has room for it: as Python writes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def as_typed(text: str) -> str:
    """What a user typed: as it is, or as `shown` where it is long or does not print."""
    return text if len(text) <= _LONGEST_VALUE and text.isprintable() else shown(text)


def one_line(error: BaseException) -> str:
    """A foreign error in one line: its type and the line that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Failed in nopython mode"):  # Numba: the cause is below
        lines.pop(0)
    return f"{type(error).__name__}: {lines[0][:_LONGEST_LINE]}" if lines else type(error).__name__
