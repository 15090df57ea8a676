"""How long training a model takes on a machine whose training steps were timed (`fairlead calibrate --train`).

A step goes forward and back and changes the parameters; nothing is fused. Its time is the sum over parts, each with its
own rates for MACs, bytes moved and calls, fitted to the parts of steps of the probe models in torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.profile.analysis import Analysis
from fairlead.profile.predict.layer_work import Amounts, time_ms
from fairlead.profile.predict.rates import fit_kernels
from fairlead.profile.predict.speeds import PredictedTime
from fairlead.profile.predict.timed_devices import TimedDevice
from fairlead.profile.training_cost import training

_NINETY = 1.645
_CONVOLUTIONS = ("conv1x1", "conv3x3", "convkxk", "depthwise", "grouped")
_PART = {name: name for name in _CONVOLUTIONS} | {
    "gemm": "gemm", "gemv": "gemm", "recurrent": "gemm", "normalise": "normalise", "pool": "pool",
}  # fmt: skip
#: What the time of a step is made of; `other`: what works number by number, or moves.
PARTS = (*_CONVOLUTIONS, "gemm", "normalise", "pool", "other", "parameters")


@dataclass(frozen=True)
class Job:
    """A training job."""

    batch: int
    samples: int  # of an epoch
    epochs: int

    @property
    def steps(self) -> int:
        """In all; the last batch of an epoch may be smaller."""
        return self.epochs * math.ceil(self.samples / self.batch)


@dataclass(frozen=True, kw_only=True)
class TrainingPrediction:
    """A job on a device."""

    device: TimedDevice
    job: Job
    runtime: str
    step: PredictedTime | None  # None: nothing is known
    memory_mb: float  # weights, gradients, the optimiser's numbers and what is kept for the way back
    against: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        step = self.step
        times = (
            {f"{name}_s": getattr(step, f"{name}_ms") * self.job.steps / 1e3 for name in ("low", "high")}
            if step
            else {}
        )
        return {
            "device": self.device.name, "runtime": self.runtime, **asdict(self.job), "steps": self.job.steps,
            "step_ms": step.ms if step else None, "time_s": step.ms * self.job.steps / 1e3 if step else None, **times,
            "memory_mb": self.memory_mb, "against": list(self.against),
        }  # fmt: skip


def training_amounts(analysis: Analysis, batch: int) -> Amounts:
    """What a step asks for. All but parameters and layers grows with the batch, whatever that of the analysis is."""
    scale = batch / analysis.inputs[0].shape[0] if analysis.inputs and analysis.inputs[0].shape else 1.0
    total: Amounts = {"parameters.mb": 4 * analysis.parameters / 1e6, "parameters.calls": 0.0}
    for layer in analysis.layers:
        if layer.layer_type == "free":
            continue
        part = _PART.get(layer.layer_type, "other")
        moved = sum(tensor.bytes for tensor in (*layer.inputs, *layer.outputs)) / 1e6
        for name, amount in (("mmacs", scale * layer.macs / 1e6), ("moved_mb", scale * moved), ("calls", 1.0)):
            total[f"{part}.{name}"] = total.get(f"{part}.{name}", 0.0) + amount
        total["parameters.calls"] += len(layer.learnt)
    return total


def fit_training(amounts: Sequence[Amounts], parts_ms: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Rates of each part, from its times in several models. They are not negative; sums come out right."""
    rates: dict[str, float] = {}
    for part in PARTS:
        mine = [(one, times[part]) for one, times in zip(amounts, parts_ms, strict=True) if times[part] > 0]
        if mine:
            own = [{name: value for name, value in one.items() if name.startswith(f"{part}.")} for one, _ in mine]
            rates |= fit_kernels(own, [ms for _, ms in mine])
    return rates


def deviation(amounts: Sequence[Amounts], parts_ms: Sequence[Mapping[str, float]], groups: Sequence[str]) -> float:
    """Of the logarithm of a step's time, of probes that were left out."""
    off = []
    for group in sorted(set(groups)):
        kept = [n for n, one in enumerate(groups) if one != group]
        rates = fit_training([amounts[n] for n in kept], [parts_ms[n] for n in kept])
        for n, one in enumerate(groups):
            if one == group:
                off.append(math.log(sum(parts_ms[n].values()) / max(time_ms(amounts[n], rates), 1e-6)))
    return math.sqrt(sum(one**2 for one in off) / len(off))


def predict_training(analysis: Analysis, device: TimedDevice, job: Job) -> TrainingPrediction:
    """The job on the device."""
    memory_mb = training(analysis, "momentum", job.batch, job.samples, job.epochs).memory_bytes / 2**20
    against = []
    if device.training is None:
        against.append("no training steps were timed there: `fairlead calibrate --train` on it")
    if device.memory_mb is not None and memory_mb > device.memory_mb:
        against.append(f"needs {memory_mb:,.0f} MB of memory, it has {device.memory_mb:,.0f}")
    step = _step(analysis, job.batch, device.training) if device.training else None
    runtime = str(device.training["runtime"]) if device.training else ""
    return TrainingPrediction(
        device=device, job=job, runtime=runtime, step=step, memory_mb=memory_mb, against=tuple(against)
    )


def _step(analysis: Analysis, batch: int, known: Mapping[str, Any]) -> PredictedTime:
    ms = time_ms(training_amounts(analysis, batch), known["rates"])
    factor = math.exp(_NINETY * known["deviation"])
    return PredictedTime(ms, ms / factor, ms * factor)
