"""Models that were timed on this machine, kernel by kernel, and how well they are predicted from each other.

Used by `fairlead evaluate` and the benchmark of prediction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.profile.kernels import Kernel, measure_runs
from fairlead.profile.onnx_file import analyse
from fairlead.profile.predict.calibration import fit_machine
from fairlead.profile.predict.cross_validation import Errors, family_of
from fairlead.profile.predict.layer_work import Work, works_of
from fairlead.profile.predict.speeds import KernelSpeed, PredictedTime, Speed


@dataclass(frozen=True)
class Measured:
    """A model: what it asks for, computed without a run, and what was timed."""

    name: str
    family: str
    works: tuple[Work, ...]
    kernels: tuple[Kernel, ...]
    ms: float  # of a run: the least time of the calling thread on the CPU

    @property
    def macs(self) -> int:
        """Of a run."""
        return sum(work.macs for work in self.works)


def measure_model(path: Path, sizes: Mapping[str, int] | None = None, family: str | None = None) -> Measured:
    """Time it, on one thread; its name shows its family."""
    timed = measure_runs(path, sizes)
    works = works_of(analyse(path, sizes))
    return Measured(path.stem, family or family_of(path.stem), works, timed.kernels, min(timed.thread_ms))


def leave_measured_out(measured: Sequence[Measured], way: str = "family") -> Errors:
    """Each model, or family, from the kernels of all others."""
    groups = [one.name if way == "model" else one.family for one in measured]
    if len(set(groups)) < 2:
        raise UserError(f"all of these models are of one {way}, {groups[0]!r}: no other is left to fit")
    speeds = {}
    for group in sorted(set(groups)):
        others = [kernel for one, its in zip(measured, groups, strict=True) if its != group for kernel in one.kernels]
        speeds[group] = KernelSpeed(*fit_machine(others))
    told = [speeds[group].time_of(one.works) for one, group in zip(measured, groups, strict=True)]
    return _errors(measured, groups, told)


def calibrated(measured: Sequence[Measured], speed: Speed) -> Errors:
    """Each model by rates that were fitted to the probes."""
    return _errors(measured, [one.name for one in measured], [speed.time_of(one.works) for one in measured])


def flops_only(measured: Sequence[Measured]) -> Errors:
    """Each family by the time of a MAC in the others: what is to be beaten."""
    times = []
    for one in measured:
        others = [other for other in measured if other.family != one.family] or [m for m in measured if m is not one]
        per_mac = float(np.exp(np.median([np.log(other.ms / max(1, other.macs)) for other in others])))
        spread = [other.ms / (per_mac * max(1, other.macs)) for other in others]
        low, high = np.quantile(spread, (0.05, 0.95))
        ms = per_mac * one.macs
        times.append(PredictedTime(ms, ms * float(low), ms * float(high)))
    return _errors(measured, [one.family for one in measured], times)


def _errors(measured: Sequence[Measured], groups: Sequence[str], times: Sequence[PredictedTime]) -> Errors:
    return Errors(
        np.array([one.ms for one in times]),
        np.array([one.ms for one in measured]),
        tuple(groups),
        np.array([one.low_ms for one in times]),
        np.array([one.high_ms for one in times]),
    )
