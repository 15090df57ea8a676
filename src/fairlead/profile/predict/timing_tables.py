"""Times of models on devices that others have measured, as they ship in `data/`.

ncnn's table has whole models on a hundred devices, CPUs and GPUs (data/SOURCES.md says where from). Read once; called
by `timed_devices` and by the evaluation.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from fairlead.profile.predict.layer_work import Amounts, Work, by_model, summed

_DATA = "fairlead.profile.predict"
_INT8 = "_int8"


@dataclass(frozen=True)
class BenchmarkRun:
    """A benchmark of many models on one unit of a device."""

    device: str
    title: str
    unit: str  # cpu or gpu
    threads: int


@dataclass(frozen=True)
class TimingTable:
    """Runs by models."""

    runs: tuple[BenchmarkRun, ...]
    models: tuple[str, ...]
    times_ms: Any  # (runs, models), nan where one was not run

    @property
    def amounts(self) -> list[Amounts]:
        """What each model asks for."""
        return [amounts_of(model) for model in self.models]

    def architectures(self) -> list[str]:
        """Of each model, what it is without its precision: a model and its quantised form are no strangers."""
        return [architecture(model) for model in self.models]


def architecture(model: str) -> str:
    """The name without its precision."""
    return model.removesuffix(_INT8)


@cache
def read_table(unit: str) -> TimingTable:
    """The runs on CPUs, or on GPUs. On GPUs without models in eight bits: ncnn runs these on the CPU beside them."""
    rows = [row for row in _rows("ncnn-times.csv") if row["unit"] == unit]
    models = [name for name in rows[0] if name not in ("device", "title", "unit", "threads")]
    models = [name for name in models if unit == "cpu" or not name.endswith(_INT8)]
    runs = [BenchmarkRun(row["device"], row["title"], row["unit"], int(row["threads"])) for row in rows]
    times = [[float(row[model] or "nan") for model in models] for row in rows]
    return TimingTable(tuple(runs), tuple(models), np.array(times))


@cache
def amounts_of(model: str) -> Amounts:
    """What a model of the table asks for, by `by_model`."""
    return summed(works_in_table()[architecture(model)][model.endswith(_INT8)], by_model)


@cache
def works_in_table() -> dict[str, tuple[tuple[Work, ...], tuple[Work, ...]]]:
    """By architecture: its layers, and the same in eight bits."""
    found: dict[str, list[dict[str, str]]] = {}
    for row in (*_rows("ncnn-layers.csv"), *_rows("more-layers.csv")):
        found.setdefault(row["model"], []).append(row)
    return {
        model: (tuple(_work(row, False) for row in rows), tuple(_work(row, True) for row in rows))
        for model, rows in found.items()
    }


def _work(row: dict[str, str], eight_bit: bool) -> Work:
    size, stride, channels, macs, weights, inputs, outputs = (
        int(row[name]) for name in ("size", "stride", "channels", "macs", "weights", "inputs", "outputs")
    )
    depth = max(1, weights // max(1, channels))
    groups = 1
    layer_type = row["layer_type"]
    if layer_type == "grouped":  # as many as the channels that came in are more than those that one output reads
        came_in = inputs / max(1.0, stride**2 * outputs / channels)
        groups = max(1, round(came_in / (depth / size**2)))
    return Work(layer_type, macs, inputs, outputs, weights, max(1, channels // groups), depth, stride, eight_bit)


def _rows(name: str) -> Iterator[dict[str, str]]:
    text = (files(_DATA) / "data" / name).read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())
