"""The options of `compare` to `explain`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from typing import Any, Final

from fairlead.cli.options import FIELDS, MOST_SEED, SCENARIO, add_outputs, add_set, command, number, whole_number

_MOST_SEEDS: Final = 1_000_000
_MOST_JOBS: Final = 10_000
_MOST_WORKLOADS: Final = 10_000  # to tune on
_MOST_REQUESTS: Final = 10**9

_COMPARE_EXAMPLES = """\
examples:
  fairlead compare full-edge dc-cloud --seeds 20
  fairlead compare shifting --policies closest,farthest,load-balancing --json out.json
  fairlead compare shifting ecsrl --report out.html
  fairlead compare full-edge --set rate=100 --set rules.dispatch=request
  fairlead compare ecsrl --policies closest,ecsrl --seeds 1 --log logs
  fairlead compare my-edge.yaml --jobs 4
  fairlead compare tapfinger-3 --policies tuned-rule,optimus,afs --seeds 50 --report tasks.html
  fairlead compare full-edge --seeds 1000 --ray auto --checkpoint full-edge.jsonl
"""

_SWEEP_EXAMPLES = """\
examples:
  fairlead sweep full-edge --param rate --values 20,40,60,80,100,120
  fairlead sweep full-edge --param rate --values 20:120:20 --seeds 20 --report out.html --plots plots
  fairlead sweep ecsrl --param nodes.cloud.count --values 1,2,4 --policies closest,farthest
  fairlead sweep full-edge --param rate --values 10:200:10 --seeds 100 --ray 10.0.0.1:6379
"""

_TUNE_EXAMPLES = """\
examples:
  fairlead tune ecsrl --set rate=24000
  fairlead tune my-edge.yaml full-edge --policy best-fit --workloads 12
  fairlead tune tapfinger-3
  fairlead tune tapfinger-3 --set rate=2 --set speed=paper --workloads 24
  fairlead tune my-clusters.yaml --json rule.json
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


def add_compare(commands: Any) -> None:
    """`fairlead compare`."""
    compare = command(
        commands,
        "compare",
        "compare policies on scenarios over paired seeds",
        "Run every policy on every scenario over the same seeds and show how they differ.",
        _COMPARE_EXAMPLES + FIELDS,
    )
    compare.add_argument("scenarios", nargs="+", metavar="SCENARIO", help=SCENARIO)
    _add_experiment(compare, checkpoint="save finished trials in FILE, and resume from it")
    compare.add_argument(
        "--log",
        metavar="DIR",
        help="write a Parquet file into DIR for each scenario, policy and seed, with every request and its outcome",
    )


def add_sweep(commands: Any) -> None:
    """`fairlead sweep`."""
    sweep = command(
        commands,
        "sweep",
        "compare policies over the values of one field of a scenario",
        "Compare policies on one scenario at several values of one of its fields, over the same seeds.\n"
        "Run the same command again to resume a sweep that was stopped or killed.",
        _SWEEP_EXAMPLES + FIELDS,
    )
    sweep.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    sweep.add_argument("--param", required=True, metavar="FIELD", help="field to vary, named as in --set")
    sweep.add_argument(
        "--values",
        required=True,
        metavar="V,W|START:STOP:STEP",
        help="values of the field (20,40,60 or 20:120:20, stop included)",
    )
    _add_experiment(
        sweep,
        checkpoint="save finished trials in FILE, and resume from it (default: fairlead-sweep-SCENARIO-FIELD.jsonl "
        "in this folder; none: save nothing)",
    )


def add_tune(commands: Any) -> None:
    """`fairlead tune`."""
    tune = command(
        commands,
        "tune",
        "find the best weights of a rule for your scenarios",
        "Find the weights of a rule with which most requests of the scenarios succeed, on workloads that no\n"
        "comparison uses. The command prints the policy's name with these weights, as `fairlead compare` takes it,\n"
        "and what they gain on further workloads.\n\n"
        "For a scenario of tasks, find the parameters of the policy tuned-rule: the order of task types, how much\n"
        "each type should get, the least it may start with, and how clusters are filled. The command prints them as\n"
        "an entry for the scenario file.",
        _TUNE_EXAMPLES,
    )
    tune.add_argument("scenarios", metavar="SCENARIO", nargs="+", help=f"{SCENARIO}; of tasks, one")
    add_set(tune)
    tune.add_argument(
        "--policy",
        metavar="NAME",
        help="the rule to tune for requests: one that has weights (default best-fit-foreseen)",
    )
    tune.add_argument(
        "--workloads",
        type=whole_number(2, _MOST_WORKLOADS),
        metavar="N",
        help="how many workloads of each scenario to tune on (default 6 for requests, 48 for tasks)",
    )
    tune.add_argument("--json", metavar="FILE", help="write the parameters to FILE")


def add_report(commands: Any) -> None:
    """`fairlead report`."""
    report = command(
        commands,
        "report",
        "make a page with plots of a saved result",
        "Make a self-contained HTML page of a result that --json wrote.",
        _REPORT_EXAMPLES,
    )
    words = "a file that --json of compare, sweep, degradation or explain wrote"
    report.add_argument("result", metavar="RESULT.json", help=words)
    report.add_argument("-o", "--output", metavar="FILE", help="name of the page (default: RESULT.html)")
    report.add_argument("--plots", metavar="DIR", help="also write the plots into DIR, as PNG and SVG")


def add_explain(commands: Any) -> None:
    """`fairlead explain`."""
    explain = command(
        commands,
        "explain",
        "show why a learned policy decided as it did",
        "Play a scenario with a learned policy and explain one of its decisions: its inputs, the score\n"
        "it gave to each alternative, and the inputs that mattered most.",
        _EXPLAIN_EXAMPLES + FIELDS,
    )
    explain.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    explain.add_argument(
        "--policy",
        required=True,
        metavar="NAME|FOLDER",
        help="a learned policy of `fairlead policies`, or the folder of a bundle",
    )
    which = explain.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--at",
        type=number,
        metavar="SECONDS",
        help="explain the window at this time, or the first request decided from then on",
    )
    which.add_argument(
        "--request",
        type=whole_number(0, _MOST_REQUESTS),
        metavar="ID",
        help="explain the request of this number in the workload",
    )
    explain.add_argument(
        "--seed", type=whole_number(0, MOST_SEED), default=0, metavar="N", help="seed of the workload (default 0)"
    )
    explain.add_argument(
        "--replay",
        action="store_true",
        help="run again with each alternative instead of this decision, and show the difference",
    )
    add_set(explain)
    add_outputs(explain)


def _add_experiment(parser: argparse.ArgumentParser, checkpoint: str) -> None:
    """The options that compare and sweep share."""
    parser.add_argument(
        "--policies",
        metavar="A,B",
        help="names of `fairlead policies`, folders of bundles, or `rules` for all rules (default: rules)",
    )
    parser.add_argument(
        "--seeds",
        type=whole_number(1, _MOST_SEEDS),
        default=5,
        metavar="N",
        help="how many seeds (default 5)",
    )
    parser.add_argument(
        "--first-seed", type=whole_number(0, MOST_SEED), default=0, metavar="N", help="first seed (default 0)"
    )
    add_set(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs",
        type=whole_number(1, _MOST_JOBS),
        metavar="N",
        help="number of processes (default: one per core, fewer for a short run)",
    )
    where.add_argument("--ray", metavar="ADDRESS", help="run on the Ray cluster at host:port, ray://host:port, or auto")
    add_outputs(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help=checkpoint)
    parser.add_argument("--no-bound", action="store_true", help="do not compute the upper bound, which takes a while")
