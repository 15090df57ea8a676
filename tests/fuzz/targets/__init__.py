"""Every target of fuzzing by its name."""

from __future__ import annotations

from ..target import Target
from .bundle import BundleTarget
from .calibration import CalibrationTarget
from .onnx_model import OnnxTarget
from .result import ResultTarget
from .scenario import ScenarioTarget
from .trace import TraceTarget
from .world_file import WorldFileTarget

_ALL: tuple[type[Target], ...] = (
    ScenarioTarget, TraceTarget, OnnxTarget, BundleTarget, CalibrationTarget, ResultTarget, WorldFileTarget,
)  # fmt: skip
TARGETS = {target.name: target for target in _ALL}
