"""How well predictions do: on this machine against MACs alone, and on the shipped tables.

This machine: torchvision's architectures are timed kernel by kernel; each family is predicted from all others, and all
of them from a calibration on the probe models. Yardstick: the time of a MAC in the other families. Training steps: in
torch, from the same calibration. Tables: models and devices of ncnn's benchmark that were left out. Takes six minutes.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.architectures import NAMES, Architecture
from benchmarks.figures import main
from fairlead.learn.timed_training_steps import step_ms, time_steps
from fairlead.profile.onnx_file import analyse
from fairlead.profile.predict.calibration import calibrate_here
from fairlead.profile.predict.cross_validation import Errors, leave_devices_out, leave_models_out
from fairlead.profile.predict.layer_work import time_ms
from fairlead.profile.predict.prediction import predict
from fairlead.profile.predict.timed_devices import find_device
from fairlead.profile.predict.timed_models import calibrated, flops_only, leave_measured_out, measure_model
from fairlead.profile.predict.timing_tables import read_table
from fairlead.profile.predict.training_time import training_amounts

TRAINED = ("resnet18", "mobilenet_v2", "squeezenet1_1", "shufflenet_v2_x1_0", "efficientnet_b0", "regnet_y_400mf",
           "mnasnet1_0", "densenet121", "googlenet", "mobilenet_v3_large")  # fmt: skip
_BATCH = 4


def measure(models: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="fairlead-") as made:
        folder = Path(models or made)
        figures = _tables() | _order(folder)
        began = time.perf_counter()
        machine = calibrate_here("here")
        figures["calibrate_s"] = time.perf_counter() - began
        found = [measure_model(Architecture(name).onnx(folder), family=Architecture(name).family) for name in NAMES]
        figures |= _named("family_out", leave_measured_out(found, "family"))
        figures |= _named("calibrated", calibrated(found, machine.speed()))
        figures |= _named("macs_alone", flops_only(found))
        return figures | _training(folder)


def _named(name: str, errors: Errors) -> dict[str, float]:
    return {f"{name}_{key}": value for key, value in errors.figures().items()}


def _tables() -> dict[str, float]:
    figures: dict[str, float] = {}
    for unit in ("cpu", "gpu"):
        figures |= _named(f"ncnn_{unit}_model_out", leave_models_out(read_table(unit)))
    return figures | _named("ncnn_cpu_three_probes", leave_devices_out(read_table("cpu")))


def _order(folder: Path) -> dict[str, float]:
    """The accelerator-aware scheduler's motivation: small models on an Edge TPU, large ones on a GPU module."""
    figures = {}
    modules = ("jetson-nano", "jetson-tx2-tf-trt")
    for model in ("mobilenet_v2", "inception_v3"):
        analysis = analyse(Architecture(model).onnx(folder))
        told = {name: predict(analysis, find_device(name)).time for name in ("coral-dev-board", *modules)}
        figures[f"{model}_edge_tpu_ms"] = told["coral-dev-board"].ms if told["coral-dev-board"] else np.nan
        figures[f"{model}_best_gpu_module_ms"] = min(one.ms for name in modules if (one := told[name]))
    return figures


def _training(folder: Path) -> dict[str, float]:
    rates = time_steps(1, lambda done, of, what: None)["rates"]
    off = []
    for name in TRAINED:
        one = Architecture(name)
        path, shape = one.onnx(folder), (3, one.side, one.side)
        module = one.module().train()
        if hasattr(module, "aux_logits"):  # which the file does not have
            module.aux_logits = False
        true = step_ms(module, _BATCH, shape, steps=3)
        off.append(abs(time_ms(training_amounts(analyse(path), _BATCH), rates) / true - 1))
    return {"training_models": len(off), "training_mape_percent": 100 * float(np.mean(off)),
            "training_worst_percent": 100 * float(np.max(off))}  # fmt: skip


if __name__ == "__main__":
    main(__doc__, measure, models="")
