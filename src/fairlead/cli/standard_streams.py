"""Standard output and error, which may be closed, full, gone or ASCII, and terminals that foreign text must not steer.

`main` calls `prepare` first of all. Results that are lines go through `say`, all other messages through
`note`; tables through `console`.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any

from fairlead.domain.errors import printable

STANDARD_OUTPUT = "standard output"
_SPELLED = {"±": "+-", "²": "2", "∞": "inf", "…": "...", "\N{EN DASH}": "-", "\N{NO-BREAK SPACE}": " "}


def say(text: str, flush: bool = False) -> None:
    """A line on standard output."""
    print(printable(text), flush=flush)


def note(text: str) -> None:
    """A line on standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def prepare() -> None:
    """Make sure of standard output and error, once for the process.

    What is closed is /dev/null from now on, so that no file that we open takes its number and gets its text. An error
    of standard output says so; standard error has none.
    """
    codecs.register_error("spelled", _spelled)
    for number, name, writer in ((0, "stdin", None), (1, "stdout", _Output), (2, "stderr", _Unheard)):
        stream = getattr(sys, name)
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
        if writer and (stream is None or stream is getattr(sys, f"__{name}__")):  # not another's, such as a test's
            raw = io.BufferedWriter(writer(number, "w", closefd=False))
            encoding, lines = getattr(stream, "encoding", "utf-8"), number == 2 or os.isatty(number)
            setattr(sys, name, io.TextIOWrapper(raw, encoding, errors="spelled", line_buffering=lines))


def encodable(text: str, encoding: str) -> str:
    """The text with what this encoding lacks spelled out."""
    return text.encode(encoding, "spelled").decode(encoding)


def _spelled(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_SPELLED.get(character, "?") for character in lacking), error.end


class _Output(io.FileIO):
    """Standard output, whose errors name it."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, STANDARD_OUTPUT) from None


class _Unheard(io.FileIO):
    """Standard error. That it can't be written to is no reason to stop work."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(memoryview(data))
