"""How far off predictions are of models, families and devices that were left out when the rates were fitted.

Pure evaluation on the shipped tables and on kernels that were timed. The intervals of predictions come from here: they
are kept in data/errors.json, which `python -m fairlead.profile.predict.cross_validation` makes anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from fairlead.profile.predict.layer_work import time_ms
from fairlead.profile.predict.matrix_completion import best_probes, fit_together
from fairlead.profile.predict.new_device import PROBES, Newcomers
from fairlead.profile.predict.rates import fit_near, fit_population
from fairlead.profile.predict.timing_tables import TimingTable, architecture, read_table

Array = Any
_LEAST = 5  # models that a run must have beside the one left out
_NINETY = (0.05, 0.95)
_FOLDS = 10


@dataclass(frozen=True)
class Errors:
    """Predicted and true times of what was left out."""

    predicted_ms: Array  # (n,)
    true_ms: Array  # (n,)
    groups: tuple[str, ...]  # what was left out each time
    low_ms: Array | None = None  # (n,) intervals, where predictions have one of their own
    high_ms: Array | None = None

    @property
    def relative(self) -> Array:
        """Predicted over true, less one."""
        return self.predicted_ms / self.true_ms - 1.0

    def figures(self) -> dict[str, float]:
        """Errors in percent, the rank correlation, and how many are in their interval."""
        off = np.abs(self.relative)
        low, high = self.intervals()
        inside = (low <= self.true_ms) & (self.true_ms <= high)
        return {
            "predictions": float(len(off)),
            "mape_percent": float(100 * off.mean()),
            "median_percent": float(100 * np.median(off)),
            "within_10_percent": float(100 * (off <= 0.1).mean()),
            "spearman": float(spearmanr(self.predicted_ms, self.true_ms)[0]),
            "covered_percent": float(100 * inside.mean()),
        }

    def factors(self, without: str | None = None) -> tuple[float, float]:
        """Between which multiples of the prediction nine of ten true times are."""
        keep = np.array([group != without for group in self.groups])
        low, high = np.quantile((self.true_ms / self.predicted_ms)[keep], _NINETY)
        return float(low), float(high)

    def intervals(self) -> tuple[Array, Array]:
        """Of each prediction; made of the errors of other groups where they have none of their own."""
        if self.low_ms is not None and self.high_ms is not None:
            return self.low_ms, self.high_ms
        by_group = {group: self.factors(group) for group in set(self.groups)}
        bounds = np.array([by_group[group] for group in self.groups])
        return self.predicted_ms * bounds[:, 0], self.predicted_ms * bounds[:, 1]


def family_of(model: str) -> str:
    """The letters that its name begins with: resnet18 and resnet50 are of one family, mobilenetv2 and mobilenet too."""
    return re.split(r"[^a-z]", model.lower(), maxsplit=1)[0].rstrip("v") or model


def leave_models_out(table: TimingTable, group_of: Callable[[str], str] | None = None) -> Errors:
    """Each model, with its quantised form, predicted on every device from all others; or each family."""
    amounts = table.amounts
    named = table.architectures()
    groups = [group_of(name) for name in named] if group_of else named
    found = [
        (predicted, true, group)
        for group in sorted(set(groups))
        for predicted, true in _without(table, amounts, np.array([one == group for one in groups]))
    ]
    return _errors(found)


def _without(table: TimingTable, amounts: Sequence[dict[str, float]], out: Array) -> Iterator[tuple[float, float]]:
    kept = [n for n, one in enumerate(out) if not one]
    common = fit_population([amounts[n] for n in kept], table.times_ms[:, kept])
    for times in table.times_ms:
        timed = [n for n in kept if not np.isnan(times[n])]
        if len(timed) >= _LEAST:
            rates = fit_near(common, [amounts[n] for n in timed], times[timed])
            left = [n for n, one in enumerate(out) if one and not np.isnan(times[n])]
            yield from ((time_ms(amounts[n], rates), times[n]) for n in left)


def leave_devices_out(table: TimingTable, probes: int = PROBES) -> Errors:
    """Each device as a new one of which some probes were timed, the other models from how they go on other devices.

    Which models are probes is decided without it.
    """
    found: list[tuple[float, ...]] = []
    groups: list[str] = []
    for device, test in _devices(table):
        together = fit_together(table.times_ms[~test])
        given = best_probes(together, probes)
        for times in table.times_ms[test]:
            if np.isnan(times[given]).any():
                continue
            timed = np.full(len(times), np.nan)
            timed[given] = times[given]
            whole, deviations = together.complete(timed)
            rest = [n for n in np.flatnonzero(~np.isnan(times)) if n not in given]
            low, high = together.interval(whole, deviations)
            found += [(whole[n], times[n], low[n], high[n]) for n in rest]
            groups += [device] * len(rest)
    predicted, true, low_ms, high_ms = np.array(found).T
    return Errors(predicted, true, tuple(groups), low_ms, high_ms)


def new_on_new(table: TimingTable, given: Sequence[str] | None = None) -> Errors:
    """Each model on each device, where the table has neither: by rates from a few models that were timed on the device.

    These are `given`, or the best three by all others. Devices are left out in ten groups, to end within a minute.
    """
    found: list[tuple[float, float, str]] = []
    named = table.architectures()
    names = sorted({run.device for run in table.runs})
    for fold in range(_FOLDS):
        out = np.array([names.index(run.device) % _FOLDS == fold for run in table.runs])
        for group in sorted(set(named)):
            kept = [n for n, one in enumerate(named) if one != group]
            others = replace(table, models=tuple(table.models[n] for n in kept), times_ms=table.times_ms[~out][:, kept])
            found += _newcomers(table, Newcomers(others), out, group, given)
    return _errors(found)


def _newcomers(
    table: TimingTable, others: Newcomers, out: Array, group: str, given: Sequence[str] | None
) -> Iterator[tuple[float, float, str]]:
    probes = [model for model in given or others.probes() if architecture(model) != group]
    left = [n for n, name in enumerate(table.architectures()) if name == group]
    for run, times in zip(np.array(table.runs, object)[out], table.times_ms[out], strict=True):
        timed = {model: float(times[table.models.index(model)]) for model in probes}
        if not any(np.isnan(list(timed.values()))):
            rates = others.rates(timed)
            yield from (
                (time_ms(table.amounts[n], rates), times[n], run.device) for n in left if not np.isnan(times[n])
            )


def _devices(table: TimingTable) -> Iterator[tuple[str, Array]]:
    names = np.array([run.device for run in table.runs])
    for device in sorted(set(names)):
        yield str(device), names == device


def _errors(found: Sequence[tuple[float, float, str]]) -> Errors:
    predicted, true, groups = zip(*found, strict=True)
    return Errors(np.array(predicted), np.array(true), tuple(groups))


def measured_factors() -> dict[str, tuple[float, float]]:
    """The factors of intervals, as errors.json has them."""
    return {
        "cpu": leave_models_out(read_table("cpu")).factors(),
        "gpu": leave_models_out(read_table("gpu")).factors(),
        "few": new_on_new(read_table("gpu"), ("resnet18", "resnet50")).factors(),
        "probes": new_on_new(read_table("cpu")).factors(),
    }


@cache
def shipped_factors(which: str) -> tuple[float, float]:
    """Of errors.json: how far off predictions are that are made so."""
    text = (files("fairlead.profile.predict") / "data" / "errors.json").read_text(encoding="utf-8")
    low, high = json.loads(text)[which]
    return float(low), float(high)


if __name__ == "__main__":
    path = Path(__file__).parent / "data" / "errors.json"
    factors = {name: [round(one, 3) for one in both] for name, both in measured_factors().items()}
    path.write_text(json.dumps(factors, indent=1) + "\n", encoding="utf-8")
