"""The options of `scenarios`, `policies` and `show`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import FIELDS, SCENARIO, add_set, command


def add_catalog(commands: Any) -> None:
    """`fairlead scenarios`, `policies` and `show`."""
    commands.add_parser("scenarios", help="list the scenarios that ship")
    commands.add_parser("policies", help="list all policies, including those of installed plugins")
    words = "show a scenario, the sources of its numbers, and what is assumed"
    show = command(commands, "show", words, f"{words.capitalize()}.", FIELDS)
    show.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    add_set(show)
