"""What a model takes on a device: time with an interval, energy, memory, and whether it can run there at all.

Joins an analysis with a device; called by the cli, and for placing models.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.profile.analysis import Analysis
from fairlead.profile.operator_support import family_of, share_of_macs, unsupported
from fairlead.profile.predict.layer_work import works_of
from fairlead.profile.predict.speeds import KernelSpeed, PredictedTime
from fairlead.profile.predict.timed_devices import TimedDevice

_BYTES = {"float32": 4.0, "float16": 2.0, "int8": 1.0}
PRECISIONS = tuple(_BYTES)
_MB = 2**20  # as memories are sold
_MOST_OF_IT = 0.5  # of its MACs must run on a device, or it does not run there


@dataclass(frozen=True)
class Prediction:
    """A model on a device."""

    device: TimedDevice
    precision: str
    time: PredictedTime | None  # None: unknown
    energy_mj: float | None
    memory_mb: float
    against: tuple[str, ...]  # why it can't run there; empty: it can
    notes: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether it can run there."""
        return not self.against


def predict(analysis: Analysis, device: TimedDevice, precision: str | None = None) -> Prediction:
    """`precision`: as if the model were of it; else its own where the device was timed in that, or the device's."""
    own = _own(analysis)
    meant = precision or (own if own in device.precisions else device.precisions[0])
    against, notes = _reasons(analysis, device, meant)
    memory_mb = _memory_mb(analysis, device, meant)
    if device.memory_mb is not None and memory_mb > device.memory_mb:
        against.append(f"needs {memory_mb:,.0f} MB of memory, it has {device.memory_mb:,.0f}")
    if meant == "int8" and own != "int8":
        notes.append("must be quantised to int8 first")
    elif own == "int8" and meant != own:
        notes.append(f"was timed in {meant}, which its int8 is taken for")
    if analysis.inputs and analysis.inputs[0].shape[:1] > (1,) and not isinstance(device.speed, KernelSpeed):
        notes.append("was timed at batch 1")
    time = None
    if meant in device.precisions:
        time = _time(analysis, device, meant, notes)
    else:
        notes.append(f"was not timed in {meant}, but in {' and '.join(device.precisions)}")
    energy_mj = device.power_busy_w * time.ms if time and device.power_busy_w is not None else None
    return Prediction(device, meant, time, energy_mj, memory_mb, tuple(against), tuple(notes))


def _own(analysis: Analysis) -> str:
    """The precision of the model as it is."""
    types = analysis.precisions
    return "int8" if any("int8" in one for one in types) else "float16" if "float16" in types else "float32"


def _time(analysis: Analysis, device: TimedDevice, precision: str, notes: list[str]) -> PredictedTime | None:
    works = works_of(analysis, eight_bit=precision == "int8")
    unknown = device.speed.unknown(works) if isinstance(device.speed, KernelSpeed) else []
    if unknown:
        notes.append(f"no layer was timed of type {', '.join(unknown)}")
        if any(work.macs for work in works if work.layer_type in unknown):
            return None
    return device.speed.time_of(works)


def _reasons(analysis: Analysis, device: TimedDevice, precision: str) -> tuple[list[str], list[str]]:
    """Why it can't run there, and what of it would run on the CPU beside it."""
    family = family_of(device.support)
    problems = unsupported(analysis, family, precision)
    against = [problem.why for problem in problems if not problem.layer]
    by_reason: dict[str, dict[str, None]] = {}
    for problem in problems:
        if problem.layer:
            by_reason.setdefault(problem.why, {})[problem.operator] = None
    stopped = "; ".join(f"{', '.join(operators)}: {why}" for why, operators in by_reason.items())
    if not stopped:
        return against, []
    share = share_of_macs(analysis, family, problems)
    if family.rest == "refused" or share < _MOST_OF_IT:
        return [*against, f"{share:.0%} of its MACs can run ({stopped})"], []
    return against, [f"{share:.0%} of its MACs run on it ({stopped}); the time assumes that all do"]


def _memory_mb(analysis: Analysis, device: TimedDevice, precision: str) -> float:
    """With ONNX Runtime on the CPU what its process takes; elsewhere weights and tensors, at their precision."""
    if isinstance(device.speed, KernelSpeed):
        return analysis.memory_bytes / _MB
    item = next((layer.outputs[0].item_bytes for layer in analysis.layers if layer.macs and layer.outputs), 4.0)
    weights = sum(weight.elements for weight in analysis.weights.values()) * _BYTES[precision]
    return (weights + analysis.peak_activation_bytes * _BYTES[precision] / item) / _MB
