"""How long training a model takes on a machine whose training steps were timed (`fairlead calibrate --train`).

A step goes forward and back and changes the parameters; nothing is fused. Its amounts of work are few: MACs by kind,
what is moved, parameters, layers. The rates are fitted to steps of the probe models in torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls

from fairlead.profile.analysis import Analysis
from fairlead.profile.predict.devices import Device
from fairlead.profile.predict.speeds import Estimate
from fairlead.profile.predict.work import Amounts, time_ms
from fairlead.profile.training import training

_NINETY = 1.645
_MACS = {"conv1x1": "conv", "conv3x3": "conv", "convkxk": "conv", "gemv": "gemm", "recurrent": "gemm"}


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

    device: Device
    job: Job
    runtime: str
    step: Estimate | None  # None: nothing is known
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


def training_amounts(analysis: Analysis) -> Amounts:
    """What a step asks for, of an analysis at the batch that is trained with."""
    total: Amounts = {"parameters_mb": 4 * analysis.parameters / 1e6}
    for layer in analysis.layers:
        if layer.kind == "free":
            continue
        if layer.macs:
            name, amount = f"{_MACS.get(layer.kind, layer.kind)}.mmacs", layer.macs / 1e6
        else:
            kind = "normalise" if layer.kind == "normalise" else "other"
            name, amount = f"{kind}.moved_mb", sum(t.bytes for t in (*layer.inputs, *layer.outputs)) / 1e6
        total[name] = total.get(name, 0.0) + amount
        total["calls"] = total.get("calls", 0.0) + 1.0
    return total


def fit_training(amounts: Sequence[Amounts], times_ms: Sequence[float]) -> dict[str, float]:
    """Rates that are not negative, of least relative errors."""
    names = sorted({name for one in amounts for name in one})
    rows = np.array([[one.get(name, 0.0) for name in names] for one in amounts])
    rates, _ = nnls(rows / np.asarray(times_ms)[:, None], np.ones(len(rows)))
    return dict(zip(names, map(float, rates), strict=True))


def deviation(amounts: Sequence[Amounts], times_ms: Sequence[float], groups: Sequence[str]) -> float:
    """Of the logarithm of times, of probes that were left out."""
    off = []
    for group in sorted(set(groups)):
        kept = [n for n, one in enumerate(groups) if one != group]
        rates = fit_training([amounts[n] for n in kept], [times_ms[n] for n in kept])
        off += [
            math.log(times_ms[n] / max(time_ms(amounts[n], rates), 1e-6))
            for n, one in enumerate(groups)
            if one == group
        ]
    return math.sqrt(sum(one**2 for one in off) / len(off))


def predict_training(analysis: Analysis, device: Device, job: Job) -> TrainingPrediction:
    """The job on the device; the analysis is of its batch."""
    memory_mb = training(analysis, "momentum", job.batch, job.samples, job.epochs).memory_bytes / 1e6
    against = []
    if device.training is None:
        against.append("no training steps were timed there: `fairlead calibrate --train` on it")
    if device.memory_mb is not None and memory_mb > device.memory_mb:
        against.append(f"needs {memory_mb:,.0f} MB of memory, it has {device.memory_mb:,.0f}")
    step = _step(analysis, device.training) if device.training else None
    runtime = str(device.training["runtime"]) if device.training else ""
    return TrainingPrediction(
        device=device, job=job, runtime=runtime, step=step, memory_mb=memory_mb, against=tuple(against)
    )


def _step(analysis: Analysis, known: Mapping[str, Any]) -> Estimate:
    ms = time_ms(training_amounts(analysis), known["rates"])
    factor = math.exp(_NINETY * known["deviation"])
    return Estimate(ms, ms / factor, ms * factor)
