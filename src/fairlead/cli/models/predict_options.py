"""The options of `predict`, `calibrate` and `evaluate`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import command

_PREDICT_EXAMPLES = """\
examples:
  fairlead predict model.onnx --device jetson-nano
  fairlead predict model.onnx --all --feasible
  fairlead predict model.onnx --device here --batch 8            after `fairlead calibrate`
  fairlead predict model.onnx --device raspberry-pi-4-model-b --precision int8
  fairlead predict model.onnx --device here --train --samples 50000 --epochs 10
  fairlead predict model.onnx --device coral-usb --device coral-usb2 --json
"""

_CALIBRATE_EXAMPLES = """\
examples:
  fairlead calibrate                              this machine, as `here`, on one thread
  fairlead calibrate --threads 4 --name box --busy-w 25
  fairlead calibrate --train                      training steps too (needs torch)
  fairlead calibrate --probes                     which models to time on a device elsewhere
  fairlead calibrate --name my-board --from mobilenetv2_yolov3=210 --from resnet50_int8=180 --from shufflenet=41
"""

_EVALUATE_EXAMPLES = """\
examples:
  fairlead evaluate                               the shipped tables, by models, families and devices left out
  fairlead evaluate cpu --leave-out device
  fairlead evaluate a.onnx b.onnx c.onnx          models timed here, against the calibration of this machine
"""


def add_predict(commands: Any) -> None:
    """`fairlead predict`."""
    predict = command(
        commands,
        "predict",
        "predict time, energy and memory of a model on devices",
        "Predict what a model takes on devices: time with an interval that nine of ten true times are in, energy,\n"
        "memory, and whether it can run there. Devices: the shipped tables, and machines that were calibrated.",
        _PREDICT_EXAMPLES,
    )
    predict.add_argument("model", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    which = predict.add_mutually_exclusive_group(required=True)
    which.add_argument("--device", action="append", metavar="NAME|FILE", help="one of --all, or a calibration's file")
    which.add_argument("--all", action="store_true", help="every known device, the fastest first")
    predict.add_argument("--feasible", action="store_true", help="only where it can run")
    predict.add_argument("--precision", metavar="P", help="as if the model were of it: float32, float16 or int8")
    predict.add_argument("--batch", type=int, metavar="N", help="inputs at once (default 1; with --train 32)")
    predict.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="of a dimension that the file leaves open"
    )
    predict.add_argument("--train", action="store_true", help="a training job instead of one run")
    predict.add_argument("--samples", type=int, metavar="N", help="with --train: how many there are")
    predict.add_argument("--epochs", type=int, metavar="E", help="with --train (default 1)")
    predict.add_argument("--json", action="store_true", help="all of it, for programs")


def add_calibrate(commands: Any) -> None:
    """`fairlead calibrate`."""
    calibrate = command(
        commands,
        "calibrate",
        "find the rates of a machine, for predictions",
        "Time a handful of probe models on this machine, kernel by kernel, and fit its rates to them; under a minute.\n"
        "Or, with --from, fit a device elsewhere to the times of three models that ncnn's benchmark has.",
        _CALIBRATE_EXAMPLES,
    )
    calibrate.add_argument("--name", default="here", metavar="NAME", help="to predict for it by (default here)")
    calibrate.add_argument("--threads", type=int, default=1, metavar="N", help="of ONNX Runtime (default 1)")
    calibrate.add_argument("--train", action="store_true", help="time training steps too, in torch")
    calibrate.add_argument("--probes", action="store_true", help="only tell which models --from should have")
    calibrate.add_argument(
        "--from", dest="timed", action="append", default=[], metavar="MODEL=MS", help="a time with ncnn, elsewhere"
    )
    calibrate.add_argument("--unit", choices=("cpu", "gpu"), default="cpu", help="with --from: what ran them")
    calibrate.add_argument("--busy-w", type=float, metavar="W", help="power when busy, for energies")
    calibrate.add_argument(
        "--memory-mb", type=float, metavar="N", help="its memory (default: this machine's; with --from none)"
    )
    calibrate.add_argument("--output", metavar="FILE.json", help="write it there (default: where predict looks)")


def add_evaluate(commands: Any) -> None:
    """`fairlead evaluate`."""
    evaluate = command(
        commands,
        "evaluate",
        "tell how far off predictions are of what they have not seen",
        "Leave models, families of models or devices out, fit the rest, and predict them. On the shipped tables, or\n"
        "on models that are timed here: these are also predicted by this machine's calibration.",
        _EVALUATE_EXAMPLES,
    )
    evaluate.add_argument("what", nargs="*", default=["cpu", "gpu"], metavar="cpu|gpu|MODEL.onnx")
    evaluate.add_argument(
        "--leave-out", action="append", choices=("model", "family", "device", "both"), help="only this (default: all)"
    )
    evaluate.add_argument("--json", action="store_true", help="all figures, for programs")
