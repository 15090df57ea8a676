"""The options of `fairlead trace`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command

#: Tasks that ship, each a program in `fairlead.learn.trace_tasks`.
SHIPPED = ("convnet", "inference")

_DESCRIPTION = """\
Run training and inference tasks for real with each number of CPUs and GPUs, and make a family of task types for the
world of tasks: measured curves of progress, and a scenario that `fairlead compare` runs at once. A training ends at a
target of its validation loss, inference when all samples are done.
"""

_EXAMPLES = """\
TASK is one that ships (convnet, inference; they need torch), or a program of yours with its arguments, in quotes. It
prints a line for each epoch, {"epoch": 3, "loss": 0.41}, from epoch 0 before training on; or, of inference,
{"done": 128, "of": 1024}. Time counts from {"ready": true}, else from its start. NAME=... names the type.

DIR keeps each finished run: the same command goes on where it was, with more tasks, CPUs or repeats if you like.

examples:
  fairlead trace convnet --cpu 1,2 --out traces
  fairlead trace convnet inference --cpu 1,2,4 --gpu 0,1 --repeats 5 --out traces
  fairlead trace small='train.py --width 8' large='train.py --width 64' --cpu 1,2 --target-loss 0.3 --out traces
  fairlead compare traces/family.yaml
"""


def add_trace(commands: Any) -> None:
    """Add the command to the parser's."""
    trace = command(
        commands, "trace", "measure tasks by CPUs and GPUs, for the world of tasks", _DESCRIPTION, _EXAMPLES
    )
    trace.add_argument("tasks", nargs="+", metavar="TASK", help="convnet, inference, or [NAME=]'PROGRAM [ARGUMENTS]'")
    trace.add_argument("--cpu", required=True, metavar="N,N", help="numbers of CPUs to run it on")
    trace.add_argument("--gpu", default="0", metavar="N,N", help="numbers of GPUs, each with each of --cpu (default 0)")
    trace.add_argument("--out", required=True, metavar="DIR", help="runs and the family go there")
    trace.add_argument(
        "--target-loss",
        action="append",
        default=[],
        metavar="[NAME=]X",
        help="validation loss at which a training is done (default: most of the way that it falls in --epochs)",
    )
    trace.add_argument(
        "--epochs", type=int, default=10, metavar="N", help="of the first run of a training without target (default 10)"
    )
    trace.add_argument(
        "--repeats", type=int, default=3, metavar="N", help="runs of each; the one of median time counts (default 3)"
    )
    trace.add_argument("--plots", metavar="DIR", help="write plots of progress there, as PNG and SVG")
    trace.add_argument("--timeout", type=float, default=600.0, metavar="S", help="most seconds of a run (default 600)")
