"""Where tables are printed, and progress is shown."""

from __future__ import annotations

import os
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fairlead.cli.standard_streams import encodable
from fairlead.domain.errors import printable

_WIDE = 200
_DIGITS = 6  # a width has fewer


class _Console(Console):
    """Prints no control characters but its own, and what the encoding lacks as something else.

    It leaves it to `main` what a reader that has gone means.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        lines = "\n".join(map(printable, text.replace("\N{NO-BREAK SPACE}", " ").split("\n")))
        return super().render_str(encodable(lines, self.encoding), **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Standard output (or error); as wide as COLUMNS says, or as the terminal, or else wide enough for tables."""
    stream = sys.stderr if stderr else sys.stdout
    width = _given_width() or (None if stream.isatty() else _WIDE)
    return _Console(width=width, highlight=False, emoji=False, stderr=stderr)


def _given_width() -> int | None:
    """What the environment's COLUMNS says, if that is a width."""
    text = os.environ.get("COLUMNS", "")
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


class _PlainTable(Table):
    """Its cells are words, whatever is in brackets there."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*map(escape, cells), **options)


def columns_table(*columns: str) -> Table:
    """An empty table; its cells are plain text."""
    table = _PlainTable(header_style="bold")
    for column in columns:
        table.add_column(escape(column), overflow="fold")
    return table
