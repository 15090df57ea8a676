"""The errors a user is shown: one line that says what is wrong, where, and what would be right.

`fairlead.cli` turns a `UserError` into that line and exit code 2. Everything else that escapes is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Wrong input; its text is the one line that the user sees."""


class PolicyError(Exception):
    """A policy raised or chose an impossible candidate; the run is failed, others go on."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean X?)' for the known name nearest to `name`, or all known names when none is near."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (known: {', '.join(known)})" if known else ""


def one_line(error: BaseException) -> str:
    """A foreign error in one line: its type and the line that says most."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith("Failed in nopython mode"):  # Numba: the cause is below
        lines.pop(0)
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
