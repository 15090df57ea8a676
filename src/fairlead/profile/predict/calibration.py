"""What `fairlead calibrate` finds out of a machine, and its file: rates that predictions are made with.

Either every kernel of the probe models was timed here (`calibrate_here`), or a few models of ncnn's table were timed
elsewhere (`calibrate_from`). Called by the cli; `timed_devices` reads the files.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from fairlead import __version__
from fairlead.domain.errors import UserError, nearest
from fairlead.inputs.read_files import read_json
from fairlead.profile.kernels import Kernel, measure_runs
from fairlead.profile.machine import Limits
from fairlead.profile.predict.cross_validation import shipped_factors
from fairlead.profile.predict.layer_work import by_kernel, time_ms, work_of
from fairlead.profile.predict.new_device import Newcomers
from fairlead.profile.predict.probe_models import PROBES
from fairlead.profile.predict.rates import fit_kernels
from fairlead.profile.predict.speeds import KernelSpeed, ModelSpeed, Speed
from fairlead.profile.predict.timing_tables import read_table
from fairlead.profile.runtime import onnx_runtime

_DOCUMENT = "calibration"  # what the file says that it is
_MOST_MB = 8
_MOST_DEVIATION = 10  # of logarithms, and so a factor of 22,000


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A machine's rates, and what is known of it."""

    name: str
    title: str
    runtime: str
    date: str
    rates: Mapping[str, float]  # by `by_kernel` where kernels were timed, else by `by_model`
    deviations: Mapping[str, float] = field(default_factory=dict)  # by type of layer; none: whole models were timed
    factors: tuple[float, float] | None = None  # of the interval, where whole models were
    timed_ms: Mapping[str, float] = field(default_factory=dict)  # probes and their times
    training: Mapping[str, Any] | None = None  # runtime, rates and deviation of training steps, where some were timed
    memory_mb: float | None = None
    power_busy_w: float | None = None
    fairlead: str = __version__

    @property
    def kernels(self) -> bool:
        """Whether kernels were timed one by one."""
        return self.factors is None

    @property
    def precisions(self) -> tuple[str, ...]:
        """That it was timed in."""
        return ("float32",) if self.kernels else ("float16",) if "Vulkan" in self.runtime else ("float32", "int8")

    def speed(self) -> Speed:
        """What predictions ask."""
        if self.factors is None:
            return KernelSpeed(self.rates, self.deviations)
        return ModelSpeed(self.rates, self.factors, "int8" in self.precisions)

    def as_json(self) -> str:
        """The file."""
        return json.dumps({"kind": _DOCUMENT} | asdict(self), indent=1) + "\n"


def read_calibration(path: Path) -> Calibration:
    """From its file, checked."""
    document = read_json(path, _MOST_MB)
    if not isinstance(document, dict) or document.pop("kind", None) != _DOCUMENT:
        raise UserError(f"{path}: not a calibration: expected what `fairlead calibrate` writes")
    try:
        factors = document.pop("factors")
        made = Calibration(**document, factors=tuple(factors) if factors else None)
        _check(made)
    except ValueError as error:
        raise UserError(f"{path}: not a complete calibration: {error}") from None
    except (AttributeError, KeyError, TypeError):  # a field that this version has not, or lacks
        raise UserError(f"{path}: not a complete calibration of this version: run `fairlead calibrate` again") from None
    return made


def _check(made: Calibration) -> None:
    """Raise ValueError, or what comes of a wrong type, where predictions could not use it."""
    training = made.training or {"runtime": "", "rates": {"": 0.0}, "deviation": 0.0}
    known = [one for one in (made.memory_mb, made.power_busy_w) if one is not None]
    rates = [*made.rates.values(), *training["rates"].values(), *known]
    if not made.rates or not all(isinstance(one, int | float) and 0 <= one < 1e9 for one in rates):
        raise ValueError("rates should be numbers from 0 on")
    deviations = [*made.deviations.values(), training["deviation"]]
    if not all(isinstance(one, int | float) and 0 <= one <= _MOST_DEVIATION for one in deviations):
        raise ValueError(f"deviations should be numbers from 0 to {_MOST_DEVIATION}")
    factors = made.factors or (1.0, 1.0)
    if len(factors) != 2 or not 0 < factors[0] <= factors[1]:
        raise ValueError("factors should be two numbers, the lower first")
    if not all(isinstance(one, str) for one in (made.name, made.title, made.runtime, made.date, training["runtime"])):
        raise ValueError("names should be words")


def calibrate_here(
    name: str, threads: int = 1, tell: Callable[[int, int, str], None] = lambda done, of, what: None, **about: Any
) -> Calibration:
    """Time every kernel of the probe models on this machine."""
    kernels: list[Kernel] = []
    timed = {}
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        for n, (probe, make) in enumerate(PROBES.items()):
            tell(n, len(PROBES), probe)
            path = Path(folder) / f"{probe}.onnx"
            path.write_bytes(make())
            measured = measure_runs(path, threads=threads)
            path.unlink()
            kernels += measured.kernels
            timed[probe] = min(measured.wall_ms)
    rates, deviations = fit_machine(kernels)
    machine = Limits()
    plural = "s" if threads > 1 else ""
    return Calibration(
        name=name,
        title=f"{machine.processor()}, {machine.cores()} core{'s' * (machine.cores() > 1)}",
        runtime=f"ONNX Runtime {onnx_runtime().__version__}, {threads} thread{plural}",
        date=datetime.now(UTC).date().isoformat(),
        rates=rates,
        deviations=deviations,
        timed_ms=timed,
        **_memory(machine) | about,
    )


def _memory(machine: Limits) -> dict[str, float]:
    return {"memory_mb": round(machine.total_mb())} if math.isfinite(machine.total_mb()) else {}


def fit_machine(kernels: Sequence[Kernel]) -> tuple[dict[str, float], dict[str, float]]:
    """Rates, and by type of layer how far off they are of the kernels: relative errors, weighed by time."""
    works = [work_of(kernel) for kernel in kernels]
    amounts = [by_kernel(work) for work in works]
    rates = fit_kernels(amounts, [kernel.min_ms for kernel in kernels])
    deviations = {}
    for layer_type in sorted({work.layer_type for work in works} - {"free"}):
        mine = [n for n, work in enumerate(works) if work.layer_type == layer_type]
        told = np.maximum([time_ms(amounts[n], rates) for n in mine], 1e-4)
        true = np.array([kernels[n].min_ms for n in mine])
        deviations[layer_type] = float(np.sqrt((told * (true / told - 1.0) ** 2).sum() / told.sum()))
    return rates, deviations


def calibrate_from(name: str, timed_ms: Mapping[str, float], unit: str = "cpu", **about: Any) -> Calibration:
    """A device elsewhere, of which some models of ncnn's table were timed with ncnn."""
    known = read_table(unit).models
    for model in timed_ms:
        if model not in known:
            raise UserError(f"--from: {model!r} is not a model of ncnn's table{nearest(model, known)}")
    return Calibration(
        name=name,
        title=name,
        runtime="ncnn" if unit == "cpu" else "ncnn, Vulkan",
        date=datetime.now(UTC).date().isoformat(),
        rates=Newcomers(read_table(unit)).rates(timed_ms),
        factors=shipped_factors("probes" if unit == "cpu" else "few"),
        timed_ms=dict(timed_ms),
        **about,
    )
