"""Where tables are printed."""

from __future__ import annotations

import sys

from rich.console import Console


class _Console(Console):
    """Leaves it to `main` what a reader that has gone means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """Standard output (or error); wide enough for tables when it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(width=None if stream.isatty() else 200, highlight=False, stderr=stderr)
