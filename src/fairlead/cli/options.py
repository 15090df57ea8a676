"""What the options of several groups of commands share. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final

from fairlead.domain.errors import shown

SCENARIO = "a name from `fairlead scenarios`, random:SEED, or a .yaml file"

#: Where a command takes --set.
FIELDS = """
--set takes a field of the workload or the rules by its name (rate, duration_s, dispatch, window_ms, ...), any other
field of the scenario by its path (nodes.dc.count=8, links.0.delay_ms=5, workload.sources.NAME.share=0.5). In a path
'*' stands for every entry that has the field ('devices.*.degradation.rho=0.5').
"""

MOST_SEED: Final = 2**31 - 1  #: From there on, agents are trained and validated.
MOST_THREADS: Final = 1024
MOST_BATCH: Final = 1_000_000
MOST_EPOCHS: Final = 1_000_000
MOST_SAMPLES: Final = 10**12
MOST_SIZE: Final = 10**9  #: Of a dimension of a model.


def as_whole_number(text: str, least: int, most: int) -> int | None:
    """The whole number in a text, where it is one within these bounds."""
    try:
        value = int(text)
    except ValueError:  # also for more digits than Python reads
        return None
    return value if least <= value <= most else None


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """The type of an option for whole numbers, as argparse wants it."""

    def read(text: str) -> int:
        value = as_whole_number(text, least, most)
        if value is None:
            wanted = f"expected a whole number from {least} to {most:,}"
            raise argparse.ArgumentTypeError(f"{wanted}, got {shown(text)}")
        return value

    return read


def number(text: str) -> float:
    """The type of an option for any number, as argparse wants it."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, got {shown(text)}") from None


def command(commands: Any, name: str, words: str, description: str, examples: str) -> Any:
    """Add a command with a description and examples."""
    return commands.add_parser(
        name,
        help=words,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_set(parser: argparse.ArgumentParser, words: str = "change a field of the scenario") -> None:
    """`--set`."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help=words,
    )


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """`--json`, `--report`, `--plots`."""
    parser.add_argument("--json", metavar="FILE", help="write all figures to FILE (-: standard output)")
    parser.add_argument("--report", metavar="FILE.html", help="write a page with interactive plots to FILE.html")
    parser.add_argument("--plots", metavar="DIR", help="write the plots into DIR, as PNG and SVG")
