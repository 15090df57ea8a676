"""The tables of `fairlead profile`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairlead.cli.console import console
from fairlead.measure.numerals import counted
from fairlead.profile.analysis import LAYER_TYPES, Analysis, Layer
from fairlead.profile.kernels import Kernel, Measurement
from fairlead.profile.operator_support import Family, Problem
from fairlead.profile.training_cost import Training

if TYPE_CHECKING:
    from fairlead.cli.models.profile import Profile

_RESTS = {
    "cpu": "the other layers run on the CPU",
    "cpu-from-there": "all layers from the first unsupported one on run on the CPU",
    "refused": "it refuses a model with an unsupported layer",
}


def show(profile: Profile, layers: bool) -> None:
    """Everything that there is, one table after the other."""
    out = console()
    _show_analysis(out, profile.analysis, layers and not profile.measured)
    if profile.measured:
        _show_runs(out, *profile.measured, layers)
    if profile.support:
        _show_support(out, profile.support)
    if profile.training:
        _show_training(out, profile.training)


def _show_analysis(out: Console, found: Analysis, layers: bool) -> None:
    inputs = ", ".join(f"{tensor.name} {_size(tensor.shape)}" for tensor in found.inputs)
    out.print(f"[bold]{escape(found.name)}[/bold]: {escape(inputs)}; computes in {', '.join(found.precisions)}")
    out.print(
        f"{_millions(found.macs)} million MACs, {found.parameters:,} parameters, {_mb(found.weight_bytes)} of weights, "
        f"{_mb(found.peak_activation_bytes)} of tensors alive at once"
    )
    out.print(f"memory of a run in ONNX Runtime: about {_mb(found.memory_bytes)}")
    if found.sized_by_running:
        out.print("some sizes depend on computed values and were found by a run on zeros")
    if layers:
        table = _table("layer", "operator", "layer type", "output", "million MACs", "MB moved")
        for one in found.layers:
            table.add_row(*map(escape, _row(one)))
    else:
        table = _table("layer type", "layers", "million MACs", "parameters", "MB moved", "MACs a byte")
        for sums in found.by_layer_type():
            macs, moved = _millions(sums.macs), f"{sums.moved_bytes / 1e6:,.1f}"
            counts = str(sums.layers), macs, f"{sums.parameters:,}"
            table.add_row(sums.layer_type, *counts, moved, f"{sums.intensity:.1f}")
    out.print(table)


def _show_runs(out: Console, runs: Measurement, memory: int, layers: bool) -> None:
    best, median, thread = min(runs.wall_ms), statistics.median(runs.wall_ms), min(runs.thread_ms)
    out.print(
        f"\n{counted(len(runs.wall_ms), 'run')}: {best:.2f} ms the best, {median:.2f} ms the median; "
        f"{thread:.2f} ms of the calling thread, {runs.kernels_ms:.2f} ms in kernels; "
        f"a fresh process grew by {_mb(memory)}"
    )
    total = runs.kernels_ms or 1.0
    if layers:
        table = _table("kernel", "operator", "layer type", "output", "million MACs", "MB moved", "ms", "median ms")
        for one in runs.kernels:
            table.add_row(*map(escape, _row(one)), f"{one.min_ms:.3f}", f"{one.median_ms:.3f}")
    else:
        table = _table("layer type", "kernels", "million MACs", "MB moved", "ms", "% of time", "billion MACs a second")
        for layer_type in LAYER_TYPES:
            if some := [one for one in runs.kernels if one.layer_type == layer_type]:
                table.add_row(layer_type, *_sums(some, total))
    out.print(table)


def _sums(kernels: Sequence[Kernel], total_ms: float) -> list[str]:
    macs, time_ms = sum(one.macs for one in kernels), sum(one.min_ms for one in kernels)
    moved = sum(one.moved_bytes * one.calls for one in kernels)
    rate = f"{macs / time_ms / 1e6:.1f}" if macs and time_ms else ""
    times = [f"{time_ms:.2f}", f"{100 * time_ms / total_ms:.0f}", rate]
    return [str(len(kernels)), _millions(macs), f"{moved / 1e6:,.1f}", *times]


def _show_support(out: Console, support: Sequence[tuple[Family, list[Problem], float]]) -> None:
    out.print()
    table = _table("accelerator", "% of MACs there", "can't run", "layers", "why")
    for family, problems, share in support:
        reasons: dict[tuple[str, str], int] = {}
        for one in problems:
            reasons[one.operator, one.why] = reasons.get((one.operator, one.why), 0) + 1
        rows = [
            (operator or "the model as it is", str(n) if operator else "", why)
            for (operator, why), n in reasons.items()
        ]
        for n, row in enumerate(rows or [("", "", "all of it runs there")]):
            table.add_row(*((family.name, f"{100 * share:.1f}") if n == 0 else ("", "")), *row)
    table.columns[2].justify = table.columns[4].justify = "left"
    out.print(table)
    for family, problems, _ in support:
        if any(one.layer for one in problems):
            out.print(f"{family.name}: {_RESTS[family.rest]}")
    for family, _, _ in support:
        assumed = f"; assumed: {family.assumed}" if family.assumed else ""
        out.print(escape(f"{family.name}: {family.title}, after {family.source}{assumed}"), style="dim")


def _show_training(out: Console, one: Training) -> None:
    out.print(
        f"\na step of training with a batch of {one.batch}: {_millions(one.forward_macs)} million MACs forward, "
        f"{_millions(one.backward_macs)} backward"
    )
    out.print(
        f"memory of a step: {_mb(one.memory_bytes)}: {_mb(one.weight_bytes)} of weights, {_mb(one.gradient_bytes)} of "
        f"gradients, {_mb(one.optimizer_bytes)} of the optimiser, {_mb(one.kept_bytes)} kept for the backward pass"
    )
    if one.samples:
        out.print(
            f"the job: {counted(one.samples, 'sample')}, {counted(one.epochs, 'epoch')}, {counted(one.steps, 'step')}: "
            f"{one.job_macs / 1e12:,.1f} trillion MACs"
        )


def _row(one: Layer) -> tuple[str, ...]:
    shape = _size(one.outputs[0].shape) if one.outputs else ""
    return one.name, one.operator, one.layer_type, shape, f"{one.macs / 1e6:,.2f}", f"{one.moved_bytes / 1e6:,.2f}"


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _millions(number: int) -> str:
    return f"{number / 1e6:,.1f}"


def _mb(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"


def _table(*headings: str) -> Table:
    table = Table(header_style="bold")
    for n, heading in enumerate(headings):
        table.add_column(heading, justify="left" if n == 0 else "right", overflow="fold")
    return table
