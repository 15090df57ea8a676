"""The options of `scenarios`, `policies` and `show`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import FIELDS, SCENARIO, add_set, command, whole_number

_RANDOM = """
random:SEED is a scenario wherever one is named, the same on every machine: `fairlead compare random:7`.
"""


def add_catalog(commands: Any) -> None:
    """`fairlead scenarios`, `policies` and `show`."""
    words = "list the scenarios that ship, or random edges"
    scenarios = command(commands, "scenarios", words, f"{words.capitalize()}.", _RANDOM)
    scenarios.add_argument(
        "--random", type=whole_number(1, 10_000), metavar="N", help="list N random edges and what characterises each"
    )
    scenarios.add_argument(
        "--first", type=whole_number(0, 2**63 - 1), metavar="SEED", help="seed of the first of them (default: 0)"
    )
    commands.add_parser("policies", help="list all policies, including those of installed plugins")
    words = "show a scenario, the sources of its numbers, and what is assumed"
    show = command(commands, "show", words, f"{words.capitalize()}.", FIELDS)
    show.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    add_set(show)
