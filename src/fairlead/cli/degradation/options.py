"""The options of `fairlead degradation`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import FIELDS, MOST_THREADS, SCENARIO, add_outputs, add_set, command, number, whole_number

_MOST = 12  # of each model already run

_EXAMPLES = """\
examples:
  fairlead degradation simulate ecsrl                                  interference in a scenario
  fairlead degradation measure efficientnet-lite0 ppocr-det            interference of two models on this machine
"""

_SIMULATE_EXAMPLES = """\
examples:
  fairlead degradation simulate ecsrl
  fairlead degradation simulate ecsrl --set devices.xavier-nx.degradation.rho=0.8 --max 4 --report out.html
"""

_MEASURE_EXAMPLES = """\
examples:
  fairlead degradation measure efficientnet-lite0 ppocr-det
  fairlead degradation measure a.onnx b.onnx --max 4 --report out.html --scenario mine.yaml
  fairlead degradation measure detector.onnx --size height=320 --size width=320
  fairlead degradation measure efficientnet-lite0 ppocr-det --size ppocr-det:x.2=640 --size ppocr-det:x.3=640
"""


def add_degradation(commands: Any) -> None:
    """`fairlead degradation` and its two commands."""
    degradation = command(
        commands,
        "degradation",
        "show how models that share a device slow each other down",
        "Show interference: how much longer a model takes when others run on the device. `simulate` shows it for a\n"
        "scenario, `measure` measures real models on this machine.",
        _EXAMPLES,
    )
    which = degradation.add_subparsers(dest="where", metavar="simulate|measure", required=True)
    _add_simulate(which)
    _add_measure(which)


def _add_simulate(commands: Any) -> None:
    """`fairlead degradation simulate`."""
    simulate = command(
        commands,
        "simulate",
        "show how models slow each other down on a scenario's shared devices",
        "Measure in the simulator how long one more model takes beside those that already run: a matrix for each\n"
        "arriving model and device, the curve over their number with a linear fit, and its slope by rho.",
        _SIMULATE_EXAMPLES + FIELDS,
    )
    simulate.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    simulate.add_argument(
        "--max",
        type=whole_number(1, _MOST),
        default=6,
        metavar="N",
        help="at most N of each model already run (default 6)",
    )
    add_set(simulate)
    add_outputs(simulate)


def _add_measure(commands: Any) -> None:
    """`fairlead degradation measure`."""
    measure = command(
        commands,
        "measure",
        "measure how models slow each other down on this machine",
        "Run models side by side, each in its own process, and measure how long one more takes beside them: a matrix\n"
        "for each arriving model, and the curve over their number with its fit. Combinations that do not fit into\n"
        "memory are skipped. This takes minutes.",
        _MEASURE_EXAMPLES,
    )
    measure.add_argument("models", nargs="+", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    measure.add_argument(
        "--max",
        type=whole_number(1, _MOST),
        default=6,
        metavar="N",
        help="at most N of each model already run (default 6)",
    )
    measure.add_argument(
        "--repeats",
        type=whole_number(1, 10),
        default=2,
        metavar="N",
        help="measurements of each combination (default 2)",
    )
    measure.add_argument(
        "--threads",
        type=whole_number(1, MOST_THREADS),
        default=1,
        metavar="N",
        help="threads of each model (default 1)",
    )
    measure.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[MODEL:]NAME=N",
        help="size of a dimension that the model file leaves open; MODEL is needed if several models have it",
    )
    measure.add_argument(
        "--memory-mb",
        type=number,
        metavar="N",
        help="memory for all models together (default: free memory less a reserve)",
    )
    measure.add_argument(
        "--wait",
        type=number,
        default=60.0,
        metavar="S",
        help="wait at most S seconds in all until other processes are quiet (default 60)",
    )
    measure.add_argument("--scenario", metavar="FILE.yaml", help="write a scenario with the measured interference")
    add_outputs(measure)
