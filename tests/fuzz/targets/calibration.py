"""Files of calibrations, and catalogs of devices: predicted with, and detected by."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from ..mutate import changed_text, changed_tree
from ..target import Target, command, word


class CalibrationTarget(Target):
    """See the module."""

    name = "calibration"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        import fairlead.detect.catalog
        from fairlead.profile.predict.probe_models import PROBES

        self._model = seeds / "model.onnx"
        self._model.write_bytes(next(iter(PROBES.values()))())
        self._files = [_of_kernels(), _of_models(seeds)]
        self._catalog = fairlead.detect.catalog.SHIPPED.read_bytes()

    def make(self, random: Random, folder: Path) -> None:
        """A file of either form, changed."""
        if random.random() < 0.2:
            (folder / "case.yaml").write_bytes(changed_text(random, self._catalog))
            return
        text = random.choice(self._files)
        tree = random.random() < 0.6
        content = (
            json.dumps(changed_tree(random, json.loads(text))).encode() if tree else changed_text(random, text.encode())
        )
        (folder / "case.json").write_bytes(content)

    def run(self, random: Random, folder: Path) -> str:
        """Predict a run, or a training."""
        if (folder / "case.yaml").exists():
            (folder / "root").mkdir()
            return word(command(["detect", "--root", "root", "--catalog", "case.yaml"])[0])
        options = random.choice(([], ["--json"], ["--train", "--samples", "100"], ["--precision", "int8"]))
        return word(command(["predict", self._model, "--device", "./case.json", *options])[0])


def _of_kernels() -> str:
    from fairlead.profile.predict.calibration import Calibration

    rates = {
        f"{layer_type}.{what}": 0.5
        for layer_type in ("conv1x1", "conv3x3", "gemm", "pool")
        for what in ("gmacs", "mb", "calls")
    }
    training = {"runtime": "torch", "rates": {"gemm.mmacs": 0.1, "other.calls": 0.2}, "deviation": 0.1}
    made = Calibration(
        name="here", title="a board", runtime="ONNX Runtime 1, 1 thread", date="2026-01-01", rates=rates,
        deviations={"conv1x1": 0.1, "gemm": 0.2}, timed_ms={"probe": 3.0}, training=training, memory_mb=4000.0,
        power_busy_w=10.0,
    )  # fmt: skip
    return made.as_json()


def _of_models(seeds: Path) -> str:
    file = seeds / "board.json"
    times = ["--from", "resnet50=180", "--from", "resnet18=70", "--from", "squeezenet=30"]
    if not file.exists() and command(["calibrate", "--name", "board", *times, "--output", file])[0]:
        raise RuntimeError("no calibration was made")
    return file.read_text()
