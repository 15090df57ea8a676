"""The `fairlead` command: the composition root. It parses, calls, and turns errors into one line.

Imports are lazy: `fairlead --help` loads neither NumPy nor Numba, and nothing here needs torch or a Kubernetes client.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from fairlead import __version__
from fairlead.cli.train_options import add_train
from fairlead.domain.errors import UserError, nearest

_EXAMPLES = """\
examples:
  fairlead scenarios                               what ships
  fairlead show full-edge                          one scenario, with its assumptions
  fairlead compare full-edge --seeds 5             every policy, paired seeds, confidence intervals
  fairlead compare full-edge --set rate=100 --policies closest,load-balancing --json out.json
  fairlead sweep full-edge --param rate --values 20:120:20
  fairlead report out.json --plots plots           a page with plots, and the plots as PNG and SVG
  fairlead degradation ecsrl                       how workloads slow each other down on its devices
  fairlead train aset --scenario full-edge --out runs/mine        an agent that picks the rule of each window
  fairlead explain ecsrl --policy ecsrl --at 30    why a learned policy decided as it did
"""
_SCENARIO = "a name from `fairlead scenarios`, or a .yaml file"

_COMPARE_EXAMPLES = """\
examples:
  fairlead compare full-edge dc-cloud --seeds 20
  fairlead compare shifting --policies closest,farthest,load-balancing --json out.json
  fairlead compare shifting ecsrl --report out.html
  fairlead compare full-edge --set rate=100 --set rules.dispatch=request
  fairlead compare my-edge.yaml --jobs 4
  fairlead compare full-edge --seeds 1000 --ray auto --checkpoint full-edge.jsonl
"""

_SWEEP_EXAMPLES = """\
examples:
  fairlead sweep full-edge --param rate --values 20,40,60,80,100,120
  fairlead sweep full-edge --param rate --values 20:120:20 --seeds 20 --report out.html --plots plots
  fairlead sweep ecsrl --param nodes.cloud.count --values 1,2,4 --policies closest,farthest
  fairlead sweep full-edge --param rate --values 10:200:10 --seeds 100 --ray 10.0.0.1:6379
"""

_DEGRADATION_EXAMPLES = """\
examples:
  fairlead degradation ecsrl
  fairlead degradation ecsrl --set devices.xavier-nx.degradation.rho=0.8 --max 4 --report out.html
"""

_EXPLAIN_EXAMPLES = """\
examples:
  fairlead explain shifting --policy ./runs/aset --at 600
  fairlead explain ecsrl --policy ecsrl --at 30 --replay
  fairlead explain ecsrl --policy ./runs/mine --request 1500 --json why.json --report why.html
"""

_REPORT_EXAMPLES = """\
examples:
  fairlead report out.json                         writes out.html
  fairlead report out.json -o page.html --plots plots
"""

_SET = """
--set takes a field of the workload or the rules by its name (rate, duration_s, dispatch, window_ms, ...), any other
field of the scenario by its path (nodes.dc.count=8, links.0.delay_ms=5, workload.sources.NAME.share=0.5). In a path
'*' is every entry that has the field ('devices.*.degradation.rho=0.5').
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
        epilog=_COMPARE_EXAMPLES + _SET,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    compare.add_argument("scenarios", nargs="+", metavar="SCENARIO", help=_SCENARIO)
    _add_experiment(compare, checkpoint="keep every finished piece there, and go on from what is there")
    sweep = commands.add_parser(
        "sweep",
        help="compare policies over the values of one field of a scenario",
        description="Compare policies on one scenario at several values of one of its fields, over the same seeds.\n"
        "A sweep that was stopped or killed goes on where it was when the same command is run again.",
        epilog=_SWEEP_EXAMPLES + _SET,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    sweep.add_argument("scenario", metavar="SCENARIO", help=_SCENARIO)
    sweep.add_argument("--param", required=True, metavar="FIELD", help="the field, named as in --set")
    sweep.add_argument(
        "--values",
        required=True,
        metavar="V,W|START:STOP:STEP",
        help="its values (20,40,60 or 20:120:20, stop included)",
    )
    _add_experiment(
        sweep,
        checkpoint="keep every finished piece there, and go on from what is there "
        "(default: fairlead-sweep-SCENARIO-FIELD.jsonl in this folder; none: no file)",
    )
    report = commands.add_parser(
        "report",
        help="make a page with plots of a saved result",
        description="Make a self-contained HTML page of a result that --json wrote.",
        epilog=_REPORT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words = "what --json of compare, sweep, degradation or explain wrote"
    report.add_argument("result", metavar="RESULT.json", help=words)
    report.add_argument("-o", "--output", metavar="FILE", help="the page (default: RESULT.html)")
    report.add_argument("--plots", metavar="DIR", help="write the plots there too, as PNG and SVG")
    degradation = commands.add_parser(
        "degradation",
        help="show how workloads slow each other down on a scenario's shared devices",
        description="Measure, in the simulator, the time of one more workload beside those that run already: a matrix\n"
        "for each arriving model and device, the curve over their number with a linear fit, and its slope by rho.",
        epilog=_DEGRADATION_EXAMPLES + _SET,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    degradation.add_argument("scenario", metavar="SCENARIO", help=_SCENARIO)
    degradation.add_argument(
        "--max", type=int, default=6, metavar="N", help="up to so many of each model run already (default 6)"
    )
    _add_set(degradation)
    _add_outputs(degradation)
    add_train(commands)
    _add_explain(commands)
    commands.add_parser("scenarios", help="list the scenarios that ship")
    commands.add_parser("policies", help="list the policies, third parties' included")
    show = commands.add_parser("show", help="show a scenario and its assumptions")
    show.add_argument("scenario", metavar="SCENARIO", help=_SCENARIO)
    _add_set(show)
    return parser


def _add_explain(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        help="show why a learned policy decided as it did",
        description="Play a scenario with a learned policy and explain one of its decisions: what it saw, what the\n"
        "alternatives were worth to it, and which inputs drove the choice.",
        epilog=_EXPLAIN_EXAMPLES + _SET,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    explain.add_argument("scenario", metavar="SCENARIO", help=_SCENARIO)
    explain.add_argument(
        "--policy", required=True, metavar="NAME|FOLDER", help="a learned one of `fairlead policies`, or a bundle"
    )
    which = explain.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--at",
        type=float,
        metavar="SECONDS",
        help="the window under way then, or the first request decided from then on",
    )
    which.add_argument("--request", type=int, metavar="ID", help="this request, by its number in the workload")
    explain.add_argument("--seed", type=int, default=0, metavar="N", help="of the workload (default 0)")
    explain.add_argument(
        "--replay",
        action="store_true",
        help="run it again with each alternative in the place of this one decision, and tell the difference",
    )
    _add_set(explain)
    _add_outputs(explain)


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change a field of the scenario",
    )


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write all figures there (-: to standard output)")
    parser.add_argument("--report", metavar="FILE.html", help="make a page with interactive plots")
    parser.add_argument("--plots", metavar="DIR", help="write the plots there, as PNG and SVG")


def _add_experiment(parser: argparse.ArgumentParser, checkpoint: str) -> None:
    """The options that compare and sweep share."""
    parser.add_argument(
        "--policies",
        metavar="A,B",
        help="names of `fairlead policies`, folders of bundles, or rules for all of these (default: rules)",
    )
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many seeds (default 5)")
    parser.add_argument("--first-seed", type=int, default=0, metavar="N", help="the first of them (default 0)")
    _add_set(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs", type=int, metavar="N", help="processes (default: one per core, when there is enough to do)"
    )
    where.add_argument(
        "--ray", metavar="ADDRESS", help="run on the Ray cluster there: host:port, auto, or ray://host:port"
    )
    _add_outputs(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help=checkpoint)
    parser.add_argument("--no-bound", action="store_true", help="leave out the upper bound, which takes its time")


def _compare(args: argparse.Namespace) -> int:
    from fairlead.cli.compare import run_compare

    return run_compare(args)


def _sweep(args: argparse.Namespace) -> int:
    from fairlead.cli.compare import run_sweep

    return run_sweep(args)


def _report(args: argparse.Namespace) -> int:
    from fairlead.cli.report import run_report

    return run_report(args.result, args.output, args.plots)


def _degradation(args: argparse.Namespace) -> int:
    from fairlead.cli.degradation import run_degradation

    return run_degradation(args)


def _train(args: argparse.Namespace) -> int:
    from fairlead.cli.train import run_train

    return run_train(args)


def _explain(args: argparse.Namespace) -> int:
    from fairlead.cli.explain import run_explain

    return run_explain(args)


def _scenarios(args: argparse.Namespace) -> int:
    from fairlead.cli import catalog

    return catalog.scenarios()


def _policies(args: argparse.Namespace) -> int:
    from fairlead.cli import catalog

    return catalog.policies()


def _show(args: argparse.Namespace) -> int:
    from fairlead.cli import catalog

    return catalog.show(args.scenario, args.overrides)


_RUN = {"compare": _compare, "sweep": _sweep, "report": _report, "degradation": _degradation, "train": _train,
        "explain": _explain, "scenarios": _scenarios, "policies": _policies, "show": _show}  # fmt: skip


def _run(arguments: list[str]) -> int:
    parser = _parser()
    command = next((a for a in arguments if not a.startswith("-")), None)
    if command is not None and command not in _RUN:
        raise UserError(f"unknown command {command!r}{nearest(command, _RUN)}")
    args = parser.parse_args(arguments)
    if args.command is None:
        parser.print_help()
        return 0
    return _RUN[args.command](args)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when all went well, 2 on wrong input, 130 when interrupted."""
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone is no error
    except UserError as error:
        print(f"fairlead: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fairlead: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of standard output, such as a full disk: files have their own words
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"fairlead: {error.strerror or error}", file=sys.stderr)
        return 1
