"""The command line of every benchmark: measure, then print one flat object, figure name -> number."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable


def main(description: str | None, measure: Callable[..., dict[str, float]], **options: str) -> None:
    """Print the figures, as a list or, with --json, as one object. `measure` is given the `options` (name=default)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    for name, default in options.items():
        parser.add_argument(f"--{name}", default=default, help=f"default: {default}")
    given = vars(parser.parse_args())
    as_json = given.pop("json")
    figures = measure(**given)
    if as_json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:48s} {value:,.4g}" if value < 1000 else f"{name:48s} {value:,.0f}")
