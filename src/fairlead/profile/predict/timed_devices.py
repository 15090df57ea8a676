"""The devices that predictions are made for, by name, each with its speed, memory and power.

They come from three places: ncnn's table of many devices, whose fastest benchmark of a unit counts; `devices.yaml`,
boards of which a few models were timed elsewhere; and files that `fairlead calibrate` has written. Called by the cli.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fairlead.domain.errors import UserError, nearest
from fairlead.measure.user_folders import user_data
from fairlead.profile.predict.calibration import Calibration, read_calibration
from fairlead.profile.predict.cross_validation import shipped_factors
from fairlead.profile.predict.new_device import Newcomers
from fairlead.profile.predict.rates import Population, fit_near, fit_population
from fairlead.profile.predict.speeds import ModelSpeed, Speed, edge_tpu_counts, fit_edge_tpu
from fairlead.profile.predict.timing_tables import TimingTable, read_table, works_in_table

_MOST_NAMED = 20  # devices in a message
FEW = 0.05  # of the models of a table: an entry that has less is no benchmark


@dataclass(frozen=True, kw_only=True)
class TimedDevice:
    """A device with all that a prediction needs. Unknown values are None."""

    name: str
    title: str
    runtime: str  # what ran the models that it was timed with
    precisions: tuple[str, ...]  # that it was timed in; where there are several, the model's own is meant
    speed: Speed
    support: str  # the family of accelerators whose operators it has (support.yaml)
    memory_mb: float | None = None
    power_busy_w: float | None = None
    source: str = ""
    assumed: tuple[str, ...] = ()  # fields that no source gives
    training: Mapping[str, Any] | None = None  # of steps that were timed there


def calibrations_folder() -> Path | None:
    """Where `fairlead calibrate` keeps what it measured; None where there is no home."""
    data = user_data()
    return data / "devices" if data else None


def own_calibrations() -> dict[str, Path]:
    """The files that `fairlead calibrate` has kept, by the name of their device."""
    folder = calibrations_folder()
    try:
        found = sorted(folder.iterdir()) if folder else []
    except OSError:  # there are none, or none that we may see
        return {}
    return {path.stem: path for path in found if path.suffix == ".json"}


def find_device(name: str) -> TimedDevice:
    """By its name, or by the file of a calibration. A plain name of ncnn's table means the CPU there."""
    if name.endswith(".json"):
        return _calibrated(read_calibration(Path(name)))
    if name in (own := own_calibrations()):
        return _calibrated(read_calibration(own[name]))
    for known in (name, f"{name}-cpu", f"{name}-gpu"):
        if known in shipped_devices():
            return _make(known)
    if name == "here":
        raise UserError(
            "--device here: this machine is not calibrated yet: run `fairlead calibrate` (about half a minute)"
        )
    begun = [known for known in known_devices() if known.startswith(name)]
    if 1 < len(begun) <= _MOST_NAMED:
        raise UserError(f"unknown device {name!r} (these begin so: {', '.join(begun)})")
    near = nearest(name, begun or known_devices())
    raise UserError(f"unknown device {name!r}{'' if near.startswith(' (known') else near}; --all shows them")


def all_devices() -> Iterator[TimedDevice | UserError]:
    """Every device that is known; for a calibration that can't be read, the reason instead."""
    for name in known_devices():
        try:
            yield find_device(name)
        except UserError as error:
            yield error


def known_devices() -> list[str]:
    """All names, those of calibrations first."""
    own = own_calibrations()
    return [*own, *(name for name in shipped_devices() if name not in own)]


def _calibrated(made: Calibration) -> TimedDevice:
    return TimedDevice(
        name=made.name, title=made.title, runtime=made.runtime, precisions=made.precisions,
        speed=made.speed(), support="cpu" if made.kernels else "ncnn", memory_mb=made.memory_mb,
        power_busy_w=made.power_busy_w, source=f"fairlead calibrate, {made.date}", training=made.training,
    )  # fmt: skip


@cache
def _entries() -> Mapping[str, Mapping[str, Any]]:
    text = (files("fairlead.profile.predict") / "devices.yaml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text)["devices"])


@dataclass(frozen=True)
class _Shipped:
    boards: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    runs: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # unit, and the run's place in its table


@cache
def _places() -> _Shipped:
    boards = {name: entry for name, entry in _entries().items() if "title" in entry}
    runs = {}
    for unit in ("cpu", "gpu"):
        table = read_table(unit)
        for n in _fastest(table):
            runs[f"{table.runs[n].device}-{unit}"] = unit, n
    return _Shipped(boards, dict(sorted(runs.items())))


def shipped_devices() -> list[str]:
    """Names of those that need no calibration."""
    return [*_places().boards, *_places().runs]


@cache
def _make(name: str) -> TimedDevice:
    places = _places()
    if name in places.boards:
        return _board(name, places.boards[name])
    return _benchmarked(name, *places.runs[name])


def _fastest(table: TimingTable) -> list[int]:
    """Of each device the run that is the fastest on what all of its runs have timed."""
    by_device: dict[str, list[int]] = {}
    for n, run in enumerate(table.runs):
        if (~np.isnan(table.times_ms[n])).mean() > FEW:
            by_device.setdefault(run.device, []).append(n)
    best = []
    for runs in by_device.values():
        common = ~np.isnan(table.times_ms[runs]).any(axis=0)
        best.append(min(runs, key=lambda n: float(np.log(table.times_ms[n][common]).sum())))
    return best


@cache
def population(unit: str) -> Population:
    """What the CPUs, or the GPUs, of ncnn's table have in common."""
    table = read_table(unit)
    return fit_population(table.amounts, table.times_ms)


@cache
def newcomers(unit: str) -> Newcomers:
    """What ncnn's table says of devices that it does not have."""
    return Newcomers(read_table(unit))


def _benchmarked(name: str, unit: str, n: int) -> TimedDevice:
    table = read_table(unit)
    run, times = table.runs[n], table.times_ms[n]
    timed = np.flatnonzero(~np.isnan(times))
    rates = fit_near(population(unit), [table.amounts[i] for i in timed], times[timed])
    entry = _entries().get(name, {})
    how = f"ncnn, {run.threads} thread{'s' * (run.threads > 1)}" if unit == "cpu" else "ncnn, Vulkan"
    return TimedDevice(
        name=name, title=run.title, runtime=how, precisions=("float32", "int8") if unit == "cpu" else ("float16",),
        speed=ModelSpeed(rates, shipped_factors(unit), unit == "cpu"), support="ncnn", **_about(entry),
    )  # fmt: skip


def _about(entry: Mapping[str, Any]) -> dict[str, Any]:
    names = ("memory_mb", "power_busy_w", "source")
    return {name: entry[name] for name in names if name in entry} | {"assumed": tuple(entry.get("assumed", ()))}


def _board(name: str, entry: Mapping[str, Any]) -> TimedDevice:
    return TimedDevice(
        name=name, title=entry["title"], runtime=entry["runtime"], precisions=(entry["precision"],),
        speed=_edge_tpu(entry) if "edge_tpu" in entry else _of_points(entry), support=entry["support"],
        **_about({**entry, "assumed": [*entry.get("assumed", ()), "interval"]}),
    )  # fmt: skip


def _of_points(entry: Mapping[str, Any]) -> Speed:
    """As GPUs in general, whatever the precision, with these times: few models were timed."""
    return ModelSpeed(newcomers("gpu").rates(entry["times_ms"]), shipped_factors("few"), eight_bit=False)


def _edge_tpu(entry: Mapping[str, Any]) -> Speed:
    """Behind its own interface, with the call and the MACs of the device that was timed."""
    about, timed = entry["edge_tpu"], _entries()[entry["like"]] if "like" in entry else entry
    cache_mb = timed["edge_tpu"]["cache_mb"]
    counts = [_counts(model, one, cache_mb) for model, one in timed["times_ms"].items()]
    times_ms = [_ms(one) for one in timed["times_ms"].values()]
    made = fit_edge_tpu(counts, times_ms, **timed["edge_tpu"], factors=shipped_factors("few"))
    return replace(made, **about)


def _ms(one: Any) -> float:
    return float(one["ms"] if isinstance(one, dict) else one)


def _counts(model: str, one: Any, cache_mb: float) -> tuple[float, float]:
    """GMACs and megabytes over the interface."""
    if isinstance(one, dict):
        return one["macs"] / 1e9, max(0.0, one["weights"] / 1e6 - cache_mb) + one["ends"] / 1e6
    return edge_tpu_counts(works_in_table()[model][0], cache_mb)
