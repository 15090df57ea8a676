"""What the options of several groups of commands share. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from typing import Any

SCENARIO = "a name from `fairlead scenarios`, or a .yaml file"

#: Where a command takes --set.
FIELDS = """
--set takes a field of the workload or the rules by its name (rate, duration_s, dispatch, window_ms, ...), any other
field of the scenario by its path (nodes.dc.count=8, links.0.delay_ms=5, workload.sources.NAME.share=0.5). In a path
'*' stands for every entry that has the field ('devices.*.degradation.rho=0.5').
"""


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
