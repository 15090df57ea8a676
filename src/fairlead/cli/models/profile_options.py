"""The options of `fairlead profile`."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import MOST_BATCH, MOST_EPOCHS, MOST_SAMPLES, MOST_THREADS, command, whole_number

_MOST_RUNS = 1_000_000

_EXAMPLES = """\
examples:
  fairlead profile model.onnx
  fairlead profile efficientnet-lite0                    a model of `fairlead models`
  fairlead profile detector.onnx --size height=640 --size width=640 --layers
  fairlead profile model.onnx --measure --runs 20
  fairlead profile model.onnx --for coral-usb            what an accelerator can't run of it; or: --for all
  fairlead profile model.onnx --train --optimizer adam --batch 32 --samples 50000 --epochs 10
  fairlead profile model.onnx --batch 8 --json
"""


def add_profile(commands: Any) -> None:
    """`fairlead profile`."""
    profile = command(
        commands,
        "profile",
        "show the layers of an ONNX model and what it costs",
        "Analyse an ONNX file: layers by type, multiplications, parameters, memory, and how much arithmetic there is\n"
        "for each byte moved. The model is run once, on zeros, only if its inner sizes depend on that.",
        _EXAMPLES,
    )
    profile.add_argument("model", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    profile.add_argument(
        "--batch",
        type=whole_number(1, MOST_BATCH),
        default=1,
        metavar="N",
        help="batch size, where the model file leaves it open (default 1)",
    )
    profile.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a dimension that the model file leaves open",
    )
    profile.add_argument("--layers", action="store_true", help="show every layer (kernel), not sums by layer type")
    profile.add_argument("--json", action="store_true", help="print everything as JSON")
    profile.add_argument(
        "--for",
        dest="family",
        metavar="NAME",
        help="show layers that an accelerator can't run: a device, a family, or all",
    )
    measured = profile.add_argument_group("run it, in ONNX Runtime on this CPU")
    measured.add_argument("--measure", action="store_true", help="measure time and memory, kernel by kernel")
    measured.add_argument(
        "--runs",
        type=whole_number(1, _MOST_RUNS),
        metavar="N",
        help="number of runs (default: as many as fit two seconds)",
    )
    measured.add_argument(
        "--threads", type=whole_number(1, MOST_THREADS), metavar="N", help="threads of a run (default 1)"
    )
    train = profile.add_argument_group("training, by arithmetic")
    train.add_argument(
        "--train",
        action="store_true",
        help="show the cost of a training step and of the whole job, forward and backward",
    )
    train.add_argument("--optimizer", metavar="NAME", help="sgd (default), momentum or adam")
    train.add_argument("--samples", type=whole_number(1, MOST_SAMPLES), metavar="N", help="samples in the data set")
    train.add_argument(
        "--epochs", type=whole_number(1, MOST_EPOCHS), metavar="N", help="passes over the data set (default 1)"
    )
