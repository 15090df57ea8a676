"""The options of `fairlead degradation`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import FIELDS, SCENARIO, add_outputs, add_set, command

_EXAMPLES = """\
examples:
  fairlead degradation simulate ecsrl                                  what a scenario's devices do, in the simulator
  fairlead degradation measure efficientnet-lite0 ppocr-det            what models do to each other on this machine
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
        "How much longer a model takes beside others on the same device: of a scenario, in the simulator, or of real\n"
        "models on this machine.",
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
        "show how workloads slow each other down on a scenario's shared devices",
        "Measure, in the simulator, the time of one more workload beside those that run already: a matrix\n"
        "for each arriving model and device, the curve over their number with a linear fit, and its slope by rho.",
        _SIMULATE_EXAMPLES + FIELDS,
    )
    simulate.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
    simulate.add_argument(
        "--max", type=int, default=6, metavar="N", help="up to so many of each model run already (default 6)"
    )
    add_set(simulate)
    add_outputs(simulate)


def _add_measure(commands: Any) -> None:
    """`fairlead degradation measure`."""
    measure = command(
        commands,
        "measure",
        "measure how models slow each other down on this machine",
        "Run models side by side in processes of their own and measure the time of one more beside those that run\n"
        "already: a matrix for each arriving model, the curve over their number with its fit, where it begins and how\n"
        "steep it is beyond the number of cores. What does not fit into memory is not run. Takes minutes.",
        _MEASURE_EXAMPLES,
    )
    measure.add_argument("models", nargs="+", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    measure.add_argument(
        "--max", type=int, default=6, metavar="N", help="up to so many of each model run already (default 6)"
    )
    measure.add_argument("--repeats", type=int, default=2, metavar="N", help="of each mix (default 2)")
    measure.add_argument("--threads", type=int, default=1, metavar="N", help="of each workload (default 1)")
    measure.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[MODEL:]NAME=N",
        help="of a dimension that the file leaves open; MODEL: where there are several",
    )
    measure.add_argument(
        "--memory-mb",
        type=float,
        metavar="N",
        help="for all workloads together (default: what is free, less a reserve)",
    )
    measure.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="for others to be quiet, in all at most (default 60)"
    )
    measure.add_argument("--scenario", metavar="FILE.yaml", help="write a scenario with what was measured")
    add_outputs(measure)
