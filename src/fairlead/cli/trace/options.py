"""The options of `fairlead trace`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import MOST_EPOCHS, command, number, whole_number

#: Tasks that ship, each a program in `fairlead.learn.trace_tasks`.
SHIPPED = ("convnet", "inference")

_MOST_REPEATS = 1000

_DESCRIPTION = """\
Run training and inference tasks with each number of CPUs and GPUs, and write task types for simulated clusters:
measured curves of progress, and a scenario that `fairlead compare` runs at once. A training ends at a target of its
validation loss, inference when all samples are done.
"""

_EXAMPLES = """\
TASK is one that ships (convnet, inference; they need torch), or a program of yours with its arguments, in quotes. It
prints a line for each epoch, {"epoch": 3, "loss": 0.41}, from epoch 0 before training on; or, of inference,
{"done": 128, "of": 1024}. Time counts from {"ready": true}, else from its start. NAME=... names the type.

DIR keeps each finished run: the same command resumes, and more tasks, CPUs or repeats can be added.

examples:
  fairlead trace convnet --cpu 1,2 --out traces
  fairlead trace convnet inference --cpu 1,2,4 --gpu 0,1 --repeats 5 --out traces
  fairlead trace small='train.py --width 8' large='train.py --width 64' --cpu 1,2 --target-loss 0.3 --out traces
  fairlead compare traces/family.yaml
"""


def add_trace(commands: Any) -> None:
    """Add the command to the parser's."""
    trace = command(commands, "trace", "measure how fast tasks run by CPUs and GPUs", _DESCRIPTION, _EXAMPLES)
    trace.add_argument("tasks", nargs="+", metavar="TASK", help="convnet, inference, or [NAME=]'PROGRAM [ARGUMENTS]'")
    trace.add_argument("--cpu", required=True, metavar="N,N", help="numbers of CPUs to run each task on")
    trace.add_argument(
        "--gpu", default="0", metavar="N,N", help="numbers of GPUs, combined with each of --cpu (default 0)"
    )
    trace.add_argument("--out", required=True, metavar="DIR", help="write the runs and the task types into DIR")
    trace.add_argument(
        "--target-loss",
        action="append",
        default=[],
        metavar="[NAME=]X",
        help="validation loss at which a training ends (default: most of its fall within --epochs)",
    )
    trace.add_argument(
        "--epochs",
        type=whole_number(1, MOST_EPOCHS),
        default=10,
        metavar="N",
        help="epochs of the first run of a training without a target (default 10)",
    )
    trace.add_argument(
        "--repeats",
        type=whole_number(1, _MOST_REPEATS),
        default=3,
        metavar="N",
        help="runs with each allocation; the one of median time counts (default 3)",
    )
    trace.add_argument("--plots", metavar="DIR", help="write plots of progress into DIR, as PNG and SVG")
    trace.add_argument(
        "--timeout", type=number, default=600.0, metavar="S", help="time limit of one run, in seconds (default 600)"
    )
