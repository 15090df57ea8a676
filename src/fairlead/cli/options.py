"""The options of all commands but `train`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

import argparse
from typing import Any

SCENARIO = "a name from `fairlead scenarios`, or a .yaml file"

_COMPARE_EXAMPLES = """\
examples:
  fairlead compare full-edge dc-cloud --seeds 20
  fairlead compare shifting --policies closest,farthest,load-balancing --json out.json
  fairlead compare shifting ecsrl --report out.html
  fairlead compare full-edge --set rate=100 --set rules.dispatch=request
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
  fairlead tune tapfinger-3
  fairlead tune tapfinger-3 --set rate=2 --set speed=paper --workloads 24
  fairlead tune my-clusters.yaml --json rule.json
"""

_DEGRADATION_EXAMPLES = """\
examples:
  fairlead degradation ecsrl
  fairlead degradation ecsrl --set devices.xavier-nx.degradation.rho=0.8 --max 4 --report out.html
"""

_DETECT_EXAMPLES = """\
examples:
  fairlead detect                                    a table
  fairlead detect --json | jq .accelerators
  fairlead detect --root /host --labels              the host's, from inside a container that has it there
  fairlead detect --watch                            a line for each change
  fairlead detect --watch --nfd --output /etc/kubernetes/node-feature-discovery/features.d/fairlead
  fairlead detect --catalog mine.yaml                with devices of your own
"""

_PROFILE_EXAMPLES = """\
examples:
  fairlead profile model.onnx
  fairlead profile efficientnet-lite0              a model of `fairlead models`
  fairlead profile detector.onnx --size height=640 --size width=640 --layers
  fairlead profile model.onnx --batch 8 --json
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

_FIELDS = """
--set takes a field of the workload or the rules by its name (rate, duration_s, dispatch, window_ms, ...), any other
field of the scenario by its path (nodes.dc.count=8, links.0.delay_ms=5, workload.sources.NAME.share=0.5). In a path
'*' is every entry that has the field ('devices.*.degradation.rho=0.5').
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


def add_compare(commands: Any) -> None:
    """`fairlead compare`."""
    compare = command(
        commands,
        "compare",
        "compare policies on scenarios over paired seeds",
        "Run every policy on every scenario over the same seeds and show how they differ.",
        _COMPARE_EXAMPLES + _FIELDS,
    )
    compare.add_argument("scenarios", nargs="+", metavar="SCENARIO", help=SCENARIO)
    _add_experiment(compare, checkpoint="keep every finished piece there, and go on from what is there")


def add_tune(commands: Any) -> None:
    """`fairlead tune`."""
    tune = command(
        commands,
        "tune",
        "find the best fixed rule for a scenario of tasks",
        "Find the parameters of the policy tuned-rule: the order of types, what each should get, with how little it\n"
        "may start, and how clusters are filled, on workloads that no comparison uses. It goes into the scenario.",
        _TUNE_EXAMPLES,
    )
    tune.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    add_set(tune)
    tune.add_argument("--workloads", type=int, default=48, metavar="N", help="to tune on (default 48)")
    tune.add_argument("--json", metavar="FILE", help="write what was found there")


def add_sweep(commands: Any) -> None:
    """`fairlead sweep`."""
    sweep = command(
        commands,
        "sweep",
        "compare policies over the values of one field of a scenario",
        "Compare policies on one scenario at several values of one of its fields, over the same seeds.\n"
        "A sweep that was stopped or killed goes on where it was when the same command is run again.",
        _SWEEP_EXAMPLES + _FIELDS,
    )
    sweep.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
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


def add_report(commands: Any) -> None:
    """`fairlead report`."""
    report = command(
        commands,
        "report",
        "make a page with plots of a saved result",
        "Make a self-contained HTML page of a result that --json wrote.",
        _REPORT_EXAMPLES,
    )
    words = "what --json of compare, sweep, degradation or explain wrote"
    report.add_argument("result", metavar="RESULT.json", help=words)
    report.add_argument("-o", "--output", metavar="FILE", help="the page (default: RESULT.html)")
    report.add_argument("--plots", metavar="DIR", help="write the plots there too, as PNG and SVG")


def add_degradation(commands: Any) -> None:
    """`fairlead degradation`."""
    degradation = command(
        commands,
        "degradation",
        "show how workloads slow each other down on a scenario's shared devices",
        "Measure, in the simulator, the time of one more workload beside those that run already: a matrix\n"
        "for each arriving model and device, the curve over their number with a linear fit, and its slope by rho.",
        _DEGRADATION_EXAMPLES + _FIELDS,
    )
    degradation.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    degradation.add_argument(
        "--max", type=int, default=6, metavar="N", help="up to so many of each model run already (default 6)"
    )
    add_set(degradation)
    add_outputs(degradation)


def add_detect(commands: Any) -> None:
    """`fairlead detect`."""
    detect = command(
        commands,
        "detect",
        "find out what accelerators this host has",
        "Find the accelerators of this host by its device tree, USB, PCI and NVML, and tell what they are, how they\n"
        "are attached and what they do now. Reads only; what it may not read is told apart from what is not there.",
        _DETECT_EXAMPLES,
    )
    form = detect.add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="all of it, for programs")
    form.add_argument("--labels", dest="form", action="store_const", const="labels", help="labels for Kubernetes")
    form.add_argument("--nfd", dest="form", action="store_const", const="nfd", help="a file for Node Feature Discovery")
    detect.set_defaults(form="table")
    detect.add_argument("--output", metavar="FILE", help="write it there, whole or not at all")
    detect.add_argument("--root", default="/", metavar="DIR", help="the host's files are below it (default /)")
    detect.add_argument(
        "--catalog", action="append", default=[], metavar="FILE.yaml", help="more devices; they go before ours"
    )
    detect.add_argument("--watch", action="store_true", help="go on until Ctrl-C or SIGTERM")
    for name, default, words in (
        ("--static-every", 60.0, "look for hardware"),
        ("--dynamic-every", 5.0, "read load, temperature, clocks, memory and power"),
    ):
        detect.add_argument(
            name, type=float, default=default, metavar="S", help=f"{words} every S seconds (default {default:g})"
        )
    detect.add_argument(
        "--keep",
        type=float,
        default=300.0,
        metavar="S",
        help="remember hardware that is gone for S seconds (default 300)",
    )


def add_profile(commands: Any) -> None:
    """`fairlead profile`."""
    profile = command(
        commands,
        "profile",
        "tell what an ONNX model is made of and what it costs",
        "Analyse an ONNX file: layers by kind, multiplications, parameters, memory, and how much arithmetic there is\n"
        "for each byte moved. It is not run, unless sizes inside of it are computed on the way: then once, on zeros.",
        _PROFILE_EXAMPLES,
    )
    profile.add_argument("model", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    profile.add_argument("--batch", type=int, default=1, metavar="N", help="where the file leaves it open (default 1)")
    profile.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="of a dimension that the file leaves open"
    )
    profile.add_argument("--layers", action="store_true", help="every layer, not sums by kind")
    profile.add_argument("--json", action="store_true", help="all of it, for programs")


def add_explain(commands: Any) -> None:
    """`fairlead explain`."""
    explain = command(
        commands,
        "explain",
        "show why a learned policy decided as it did",
        "Play a scenario with a learned policy and explain one of its decisions: what it saw, what the\n"
        "alternatives were worth to it, and which inputs drove the choice.",
        _EXPLAIN_EXAMPLES + _FIELDS,
    )
    explain.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
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
    add_set(explain)
    add_outputs(explain)


def add_catalog(commands: Any) -> None:
    """`fairlead scenarios`, `policies` and `show`."""
    commands.add_parser("scenarios", help="list the scenarios that ship")
    commands.add_parser("policies", help="list the policies, third parties' included")
    words = "show a scenario and its assumptions"
    show = command(commands, "show", words, "Show a scenario, with the source of every figure.", _FIELDS)
    show.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    add_set(show)


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
    add_set(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--jobs", type=int, metavar="N", help="processes (default: one per core, when there is enough to do)"
    )
    where.add_argument(
        "--ray", metavar="ADDRESS", help="run on the Ray cluster there: host:port, auto, or ray://host:port"
    )
    add_outputs(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help=checkpoint)
    parser.add_argument("--no-bound", action="store_true", help="leave out the bound, which takes its time")
