"""The errors a user is shown: one line that says what is wrong, where, and what would be right.

`fairlead.cli` turns a `UserError` into that line and its exit code. Everything else that escapes is a bug of ours.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u2028\u2029\u202a-\u202e\u2066-\u2069"  # new lines, and what turns text around
    "\ud800-\udfff\ufffe\uffff]"  # no characters at all
)

_MOST_COMPARED = 1000
_LONGEST_NAME, _MOST_NAMES, _LONGEST_VALUE, _LONGEST_LINE = 200, 60, 100, 500
_LONGEST_SHOWN = 3000  # more than any list of known names in a message
_LONG_WORD = re.compile(r"\S{301,}")  # no name of a file is as long, and few paths are
_KEPT_OF_WORD = 100  # at either end

NO_WORKING_FOLDER = "the working folder no longer exists; change to another one"


class UserError(Exception):
    """Wrong input or wrong use; its text is the one line that the user sees."""

    exit_code: ClassVar[int] = 2


class RunError(UserError):
    """The question was right, and answering it failed: a full disk, a folder that has gone, a process that died."""

    exit_code = 1


class PolicyError(Exception):
    """A policy raised or chose an impossible candidate; the run is failed, others go on."""


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean X?)' for the known name nearest to `name`, or the known names when none is near."""
    known = sorted(set(known))
    comparable = len(name) <= _LONGEST_NAME and len(known) <= _MOST_COMPARED
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5) if comparable else []
    if close:
        return f" (did you mean {close[0]!r}?)"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f" (known: {', '.join(known[:_MOST_NAMES])}{more})" if known else ""


def how_to_install(extra: str) -> str:
    """The command for one of Fairlead's extras. It works in a checkout, since no package index has Fairlead."""
    return f"pip install -e '.[{extra}]' (in the checkout of Fairlead)"


def shown(value: object) -> str:
    """A value as a line has room for it: as Python writes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


def as_typed(text: str) -> str:
    """What a user typed: as it is, or as `shown` where it is long or does not print."""
    return text if len(text) <= _LONGEST_VALUE and text.isprintable() else shown(text)


def one_line(error: BaseException) -> str:
    """A foreign error in one line: its type and the line that says most."""
    try:
        text = _COLOURS.sub("", str(error))  # Numba's have some, wherever they go
    except Exception:  # an error whose own words fail
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    while len(lines) > 1 and lines[0].startswith("Failed in nopython mode"):  # Numba: the cause is below
        lines.pop(0)
    return f"{type(error).__name__}: {lines[0][:_LONGEST_LINE]}" if lines else type(error).__name__


def printable(text: str) -> str:
    """The text for one line of a terminal or a page: what could steer it is spelled out, as in \\x1b."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def error_line(error: BaseException) -> str:
    """An error as the one line that is shown: what does not print is spelled out, long words and lines are cut."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(error))
    text = _LONG_WORD.sub(lambda word: f"{word[0][:_KEPT_OF_WORD]}...{word[0][-_KEPT_OF_WORD:]}", text)
    half = _LONGEST_SHOWN // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:half]} ... {text[-half:]}"
