"""Standard output and error, which may be closed, full, gone or ASCII, and terminals that foreign text must not steer.

`main` calls `prepare` first of all. Results that are lines go through `say`, everything else that is told through
`note`; tables through `console`.
"""

from __future__ import annotations

import codecs
import io
import os
import sys

from fairlead.domain.errors import printable

_SPELLED = {"±": "+-", "²": "2", "∞": "inf", "…": "..."}


def say(text: str, flush: bool = False) -> None:
    """A line on standard output."""
    print(printable(text), flush=flush)


def note(text: str) -> None:
    """A line on standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def prepare() -> None:
    """Make standard output and error such that writing to them raises for a reader that has gone or a full disk alone.

    What is closed is /dev/null from now on, so that no file that we open takes its number and gets its text.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest number that is free: this one
            setattr(sys, name, open(number, "w" if number else "r", closefd=False, encoding="utf-8"))  # noqa: SIM115
    codecs.register_error("spelled", _spelled)
    if sys.stderr is sys.__stderr__ or sys.__stderr__ is None:  # nobody else's, such as a test's
        raw = io.BufferedWriter(_Unheard(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=sys.stderr.encoding, errors="spelled", line_buffering=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="spelled")


def encodable(text: str, encoding: str) -> str:
    """The text with what this encoding lacks spelled out."""
    return text.encode(encoding, "spelled").decode(encoding)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLED.get(character, "?") for character in lacking), error.end


class _Unheard(io.FileIO):
    """Standard error: that nobody can hear what is told is no reason to stop work."""

    def write(self, data: object) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError:
            return len(memoryview(data))  # type: ignore[arg-type]
