"""The command; see the package."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from .runner import fuzz
from .targets import TARGETS


def main() -> int:
    """Fuzz, say what came of it; 1 where something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS), help="default: all of them")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the cases; default: the time")
    parser.add_argument("--case", type=int, help="run this one alone")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="where files of failures go")
    args = parser.parse_args()
    alone: dict[str, Any] = {} if args.case is None else {"first": args.case, "cases": 1}
    results = []
    for target in args.target or TARGETS:
        results.append(fuzz(target, args.seed, args.seconds, failures=args.failures, **alone))
        print(results[-1], flush=True)
    failed = sum(len(result.failures) for result in results)
    print(f"all: {sum(result.cases for result in results)} cases, {failed} failures", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
