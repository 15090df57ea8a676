"""The `fairlead` command: the composition root. It parses, calls, and turns errors into one line.

Imports are lazy: `fairlead --help` loads neither NumPy nor Numba, and nothing here needs torch or a Kubernetes client.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from fairlead import __version__
from fairlead.domain.errors import UserError, nearest

_EXAMPLES = """\
examples:
  fairlead scenarios                               what ships
  fairlead show full-edge                          one scenario, with its assumptions
  fairlead compare full-edge --seeds 5             every policy, paired seeds, confidence intervals
  fairlead compare full-edge --set rate=100 --policies closest,load-balancing --json out.json
  fairlead report out.json --plots plots           a page with plots, and the plots as PNG and SVG
"""

_COMPARE_EXAMPLES = """\
examples:
  fairlead compare full-edge dc-cloud --seeds 20
  fairlead compare shifting --policies closest,farthest,load-balancing --json out.json
  fairlead compare full-edge --set rate=100 --set rules.dispatch=request
  fairlead compare my-edge.yaml --jobs 4

--set takes a field of the workload or the rules by its name (rate, duration_s, dispatch, window_ms, ...), any other
field of the scenario by its path (nodes.dc.count=8, links.0.delay_ms=5, workload.sources.NAME.share=0.5).
"""


class _Parser(argparse.ArgumentParser):
    """Raises UserError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="fairlead",
        description="Fairlead decides where machine-learning work runs at the edge.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fairlead {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    compare = commands.add_parser(
        "compare",
        help="compare policies on scenarios over paired seeds",
        description="Run every policy on every scenario over the same seeds and show how they differ.",
        epilog=_COMPARE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    compare.add_argument(
        "scenarios", nargs="+", metavar="SCENARIO", help="a name from `fairlead scenarios`, or a .yaml file"
    )
    compare.add_argument("--policies", metavar="A,B", help="only these (default: all of `fairlead policies`)")
    compare.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds, from 0 (default 5)")
    compare.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a field of the scenarios",
    )
    compare.add_argument(
        "--jobs", type=int, metavar="N", help="processes (default: one per core, when there is enough to do)"
    )
    compare.add_argument("--json", metavar="FILE", help="write all figures there (-: to standard output)")
    report = commands.add_parser(
        "report",
        help="make a page with plots of a saved result",
        description="Make a self-contained HTML page of a result that --json wrote.",
        allow_abbrev=False,
    )
    report.add_argument("result", metavar="RESULT.json", help="what `fairlead compare --json` wrote")
    report.add_argument("-o", "--output", metavar="FILE", help="the page (default: RESULT.html)")
    report.add_argument("--plots", metavar="DIR", help="write the plots there too, as PNG and SVG")
    commands.add_parser("scenarios", help="list the scenarios that ship")
    commands.add_parser("policies", help="list the policies, third parties' included")
    show = commands.add_parser("show", help="show a scenario and its assumptions")
    show.add_argument("scenario", metavar="SCENARIO", help="a name from `fairlead scenarios`, or a .yaml file")
    show.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides", help="change a field first"
    )
    return parser


def _run(arguments: list[str]) -> int:
    parser = _parser()
    known = ["compare", "report", "scenarios", "policies", "show"]
    command = next((a for a in arguments if not a.startswith("-")), None)
    if command is not None and command not in known:
        raise UserError(f"unknown command {command!r}{nearest(command, known)}")
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    if args.command == "compare":
        from fairlead.cli.compare import run_compare

        return run_compare(args)
    if args.command == "report":
        from fairlead.cli.report import run_report

        return run_report(args.result, args.output, args.plots)
    from fairlead.cli import catalog

    if args.command == "show":
        return catalog.show(args.scenario, args.overrides)
    return catalog.scenarios() if args.command == "scenarios" else catalog.policies()


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when all went well, 2 on wrong input, 130 when interrupted."""
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except UserError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fairlead: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
