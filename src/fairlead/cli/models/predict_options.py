"""The options of `predict`, `calibrate` and `evaluate`. Imports nothing that `fairlead --help` can do without."""

from __future__ import annotations

from typing import Any

from fairlead.cli.options import (
    MOST_BATCH,
    MOST_EPOCHS,
    MOST_SAMPLES,
    MOST_THREADS,
    command,
    number,
    whole_number,
)

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
        "Predict time, energy and memory of a model on devices, and whether it can run there. The interval of a time\n"
        "holds nine of ten true times. Known devices are those of the shipped tables and the calibrated machines.",
        _PREDICT_EXAMPLES,
    )
    predict.add_argument("model", metavar="MODEL", help="an ONNX file, or a name of `fairlead models`")
    which = predict.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--device", action="append", metavar="NAME|FILE", help="a device that --all lists, or a calibration file"
    )
    which.add_argument("--all", action="store_true", help="all known devices, the fastest first")
    predict.add_argument("--feasible", action="store_true", help="only devices that can run the model")
    predict.add_argument("--precision", metavar="P", help="predict for this precision: float32, float16 or int8")
    predict.add_argument(
        "--batch", type=whole_number(1, MOST_BATCH), metavar="N", help="batch size (default 1; with --train 32)"
    )
    predict.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="size of a dimension that the model file leaves open",
    )
    predict.add_argument("--train", action="store_true", help="predict a training job instead of one inference")
    predict.add_argument(
        "--samples", type=whole_number(1, MOST_SAMPLES), metavar="N", help="with --train: samples in the data set"
    )
    predict.add_argument(
        "--epochs",
        type=whole_number(1, MOST_EPOCHS),
        metavar="E",
        help="with --train: passes over the data set (default 1)",
    )
    predict.add_argument("--json", action="store_true", help="print everything as JSON")


def add_calibrate(commands: Any) -> None:
    """`fairlead calibrate`."""
    calibrate = command(
        commands,
        "calibrate",
        "measure this machine, for predictions",
        "Time a few probe models on this machine, kernel by kernel, and fit its rates to them; this takes less than a\n"
        "minute. With --from, fit another device to times of three models of ncnn's benchmark, measured there.",
        _CALIBRATE_EXAMPLES,
    )
    calibrate.add_argument(
        "--name", default="here", metavar="NAME", help="name of the machine for `fairlead predict` (default here)"
    )
    calibrate.add_argument(
        "--threads",
        type=whole_number(1, MOST_THREADS),
        default=1,
        metavar="N",
        help="threads of ONNX Runtime (default 1)",
    )
    calibrate.add_argument("--train", action="store_true", help="also time training steps, in torch")
    calibrate.add_argument("--probes", action="store_true", help="only list the models whose times --from needs")
    calibrate.add_argument(
        "--from",
        dest="timed",
        action="append",
        default=[],
        metavar="MODEL=MS",
        help="time of a model with ncnn on the other device",
    )
    calibrate.add_argument(
        "--unit", choices=("cpu", "gpu"), default="cpu", help="with --from: the unit that ran the models"
    )
    calibrate.add_argument(
        "--busy-w", type=number, metavar="W", help="power of the machine when busy, for predictions of energy"
    )
    calibrate.add_argument(
        "--memory-mb",
        type=number,
        metavar="N",
        help="memory of the machine (default: this machine's; with --from unknown)",
    )
    calibrate.add_argument(
        "--output",
        metavar="FILE.json",
        help="write the calibration to FILE.json (default: where `fairlead predict` finds it)",
    )


def add_evaluate(commands: Any) -> None:
    """`fairlead evaluate`."""
    evaluate = command(
        commands,
        "evaluate",
        "show how far off predictions are for unseen models and devices",
        "Leave out models, families of models or devices, fit the rest, and predict what was left out: on the shipped\n"
        "tables, or on models timed on this machine, which are also predicted by its calibration.",
        _EVALUATE_EXAMPLES,
    )
    evaluate.add_argument("what", nargs="*", default=["cpu", "gpu"], metavar="cpu|gpu|MODEL.onnx")
    evaluate.add_argument(
        "--leave-out",
        action="append",
        choices=("model", "family", "device", "both"),
        help="leave out only these (default: each in turn)",
    )
    evaluate.add_argument("--json", action="store_true", help="print all figures as JSON")
