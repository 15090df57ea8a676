"""What a model takes on a device: time with an interval, energy, memory, and whether it can run there at all.

Joins an analysis with a device; called by the cli, and by whoever decides where models go.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairlead.profile.analysis import Analysis
from fairlead.profile.predict.devices import Device
from fairlead.profile.predict.speeds import Estimate, KernelSpeed
from fairlead.profile.predict.work import works_of
from fairlead.profile.support import family_of, share_of_macs, unsupported

_BYTES = {"float32": 4.0, "float16": 2.0, "int8": 1.0}
PRECISIONS = tuple(_BYTES)


@dataclass(frozen=True)
class Prediction:
    """A model on a device."""

    device: Device
    precision: str
    estimate: Estimate | None  # None: it can't be told
    energy_mj: float | None
    memory_mb: float
    against: tuple[str, ...]  # why it can't run there; empty: it can
    notes: tuple[str, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether it can run there."""
        return not self.against


def predict(analysis: Analysis, device: Device, precision: str | None = None) -> Prediction:
    """`precision`: as if the model were of it; else that of the device's times, or its own."""
    own = "int8" if any("int8" in kind for kind in analysis.precisions) else "float32"
    meant = precision or device.precision or own
    against, notes = _reasons(analysis, device, meant)
    memory_mb = _memory_mb(analysis, device, meant, own)
    if device.memory_mb is not None and memory_mb > device.memory_mb:
        against.append(f"needs {memory_mb:,.0f} MB of memory, it has {device.memory_mb:,.0f}")
    if device.precision and precision and precision != device.precision:
        against.append(f"was timed in {device.precision} only")
        return Prediction(device, meant, None, None, memory_mb, tuple(against), tuple(notes))
    works = works_of(analysis, eight_bit=meant == "int8")
    if isinstance(device.speed, KernelSpeed) and (unknown := device.speed.unknown(works)):
        notes.append(f"nothing was timed of kind {', '.join(unknown)}: its time is not in it")
    estimate = device.speed.estimate(works)
    energy_mj = device.power_busy_w * estimate.ms if device.power_busy_w is not None else None
    return Prediction(device, meant, estimate, energy_mj, memory_mb, tuple(against), tuple(notes))


def _reasons(analysis: Analysis, device: Device, precision: str) -> tuple[list[str], list[str]]:
    """Why it can't run there, and what of it would run on the CPU beside it."""
    family = family_of(device.support)
    problems = unsupported(analysis, family, precision)
    against = [problem.why for problem in problems if not problem.layer]
    by_reason: dict[str, dict[str, None]] = {}
    for problem in problems:
        if problem.layer:
            by_reason.setdefault(problem.why, {})[problem.operator] = None
    stopped = [f"{', '.join(operators)}: {why}" for why, operators in by_reason.items()]
    if family.rest == "refused" or not stopped:
        return against + stopped, []
    share = share_of_macs(analysis, family, problems)
    return against, [f"{share:.0%} of the MACs run on it ({'; '.join(stopped)}); the time is as if all did"]


def _memory_mb(analysis: Analysis, device: Device, precision: str, own: str) -> float:
    """With ONNX Runtime on the CPU what its process takes; elsewhere weights and tensors, at their precision."""
    if isinstance(device.speed, KernelSpeed):
        return analysis.memory_bytes / 1e6
    smaller = _BYTES[precision] / _BYTES[own]
    return smaller * (analysis.weight_bytes + analysis.peak_activation_bytes) / 1e6
