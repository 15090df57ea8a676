"""`fairlead profile`: what an ONNX model is made of, as tables or JSON."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.markup import escape
from rich.table import Table

from fairlead.cli.console import console
from fairlead.domain.errors import UserError
from fairlead.profile.analysis import Analysis, Layer
from fairlead.profile.onnx_file import analyse
from fairlead.profile.zoo import find_model


def run_profile(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.batch < 1:
        raise UserError(f"--batch {args.batch}: expected a whole number from 1 on")
    path, sizes = find_model(args.model)
    found = analyse(path, sizes | _sizes(args.size), args.batch)
    if args.json:
        print(json.dumps(_document(found), indent=1))
    else:
        _show(found, args.layers)
    return 0


def _sizes(options: list[str]) -> dict[str, int]:
    sizes = {}
    for option in options:
        name, equals, text = option.rpartition("=")
        if not (equals and name and text.isdecimal() and int(text) > 0):
            raise UserError(f"--size {option}: expected NAME=N, as in height=224")
        sizes[name] = int(text)
    return sizes


def _document(found: Analysis) -> dict[str, Any]:
    return {
        "name": found.name,
        "inputs": {tensor.name: list(tensor.shape) for tensor in found.inputs},
        "outputs": {tensor.name: list(tensor.shape) for tensor in found.outputs},
        "macs": found.macs,
        "parameters": found.parameters,
        "weight_bytes": found.weight_bytes,
        "activation_bytes": found.activation_bytes,
        "peak_activation_bytes": found.peak_activation_bytes,
        "precisions": list(found.precisions),
        "sized_by_running": found.sized_by_running,
        "kinds": {
            one.kind: {
                "layers": one.layers, "macs": one.macs, "parameters": one.parameters, "moved_bytes": one.moved_bytes,
                "macs_per_byte": one.intensity,
            }
            for one in found.by_kind()
        },
        "layers": [_layer(one) for one in found.layers],
    }  # fmt: skip


def _layer(one: Layer) -> dict[str, Any]:
    shapes = {"inputs": [t.shape for t in one.inputs], "outputs": [t.shape for t in one.outputs]}
    about = {"name": one.name, "operator": one.operator, "kind": one.kind, "macs": one.macs}
    return about | {"moved_bytes": one.moved_bytes} | shapes


def _show(found: Analysis, layers: bool) -> None:
    out = console()
    inputs = ", ".join(f"{tensor.name} {'x'.join(map(str, tensor.shape))}" for tensor in found.inputs)
    out.print(f"[bold]{escape(found.name)}[/bold]: {escape(inputs)}; computes in {', '.join(found.precisions)}")
    out.print(
        f"{found.macs / 1e6:,.1f} million MACs, {found.parameters:,} parameters, {found.weight_bytes / 1e6:,.1f} MB of "
        f"weights, {found.peak_activation_bytes / 1e6:,.1f} MB of tensors alive at once"
    )
    if found.sized_by_running:
        out.print("some sizes are computed on the way, and were found by a run on zeros")
    if layers:
        table = _table("layer", "operator", "kind", "output", "million MACs", "MB moved")
        for one in found.layers:
            shape = "x".join(map(str, one.outputs[0].shape)) if one.outputs else ""
            row = one.name, one.operator, one.kind, shape, f"{one.macs / 1e6:,.2f}", f"{one.moved_bytes / 1e6:,.2f}"
            table.add_row(*map(escape, row))
    else:
        table = _table("kind", "layers", "million MACs", "parameters", "MB moved", "MACs a byte")
        for kind in found.by_kind():
            macs, moved = f"{kind.macs / 1e6:,.1f}", f"{kind.moved_bytes / 1e6:,.1f}"
            table.add_row(kind.kind, str(kind.layers), macs, f"{kind.parameters:,}", moved, f"{kind.intensity:.1f}")
    out.print(table)


def _table(*headings: str) -> Table:
    table = Table(header_style="bold")
    for n, heading in enumerate(headings):
        table.add_column(heading, justify="left" if n == 0 else "right", overflow="fold")
    return table
