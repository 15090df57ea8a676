"""`fairlead profile`: what an ONNX model is made of and costs, as tables or JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.cli.console import console
from fairlead.cli.models import profile_tables
from fairlead.cli.options import MOST_SIZE, as_whole_number
from fairlead.domain.errors import UserError, nearest
from fairlead.profile.analysis import Analysis, Layer
from fairlead.profile.kernels import Kernel, Measurement, measure_runs
from fairlead.profile.memory import measure_memory
from fairlead.profile.onnx_file import analyse
from fairlead.profile.operator_support import Family, Problem, families, family_of, share_of_macs, unsupported
from fairlead.profile.training_cost import OPTIMIZERS, Training, training
from fairlead.profile.zoo.models import find_model


@dataclass(frozen=True)
class Profile:
    """All that was asked for."""

    analysis: Analysis
    measured: tuple[Measurement, int] | None  # with the memory, in bytes
    support: list[tuple[Family, list[Problem], float]]  # with the share of MACs that can run
    training: Training | None


def run_profile(args: argparse.Namespace) -> int:
    """Run the command."""
    _check(args)
    asked = list(families().values()) if args.family == "all" else [family_of(args.family)] if args.family else []
    path, sizes = find_model(args.model)
    sizes |= given_sizes(args.size)
    found = replace(analyse(path, sizes, args.batch), name=Path(args.model).stem)
    measured = None
    if args.measure:
        with console(stderr=True).status("running it"):
            runs = measure_runs(path, sizes, args.batch, args.runs, args.threads or 1)
            measured = runs, measure_memory(path, found.inputs, args.threads or 1)
    support = [(family, wrong := unsupported(found, family), share_of_macs(found, family, wrong)) for family in asked]
    trained = None
    if args.train:
        trained = training(found, args.optimizer or "sgd", args.batch, args.samples or 0, args.epochs or 1)
    profile = Profile(found, measured, support, trained)
    if args.json:
        print(json.dumps(_document(profile), indent=1))
    else:
        profile_tables.show(profile, args.layers)
    return 0


def _check(args: argparse.Namespace) -> None:
    for name, needs in (("runs", "measure"), ("threads", "measure")):
        if getattr(args, name) is not None and not getattr(args, needs):
            raise UserError(f"--{name}: needs --{needs}")
    for name in ("optimizer", "samples", "epochs"):
        if getattr(args, name) is not None and not args.train:
            raise UserError(f"--{name}: needs --train")
    if args.epochs and not args.samples:
        raise UserError("--epochs needs --samples, the number of samples in an epoch")
    if args.optimizer and args.optimizer not in OPTIMIZERS:
        raise UserError(f"--optimizer {args.optimizer}: unknown{nearest(args.optimizer, OPTIMIZERS)}")


def given_sizes(options: list[str]) -> dict[str, int]:
    """What `--size` says."""
    sizes = {}
    for option in options:
        name, equals, text = option.rpartition("=")
        size = as_whole_number(text, 1, MOST_SIZE)
        if not (equals and name) or size is None:
            raise UserError(f"--size {option}: expected NAME=N, as in height=224")
        sizes[name] = size
    return sizes


def _document(profile: Profile) -> dict[str, Any]:
    found = profile.analysis
    made = {
        "name": found.name,
        "inputs": {tensor.name: list(tensor.shape) for tensor in found.inputs},
        "outputs": {tensor.name: list(tensor.shape) for tensor in found.outputs},
        "macs": found.macs,
        "parameters": found.parameters,
        "weight_bytes": found.weight_bytes,
        "activation_bytes": found.activation_bytes,
        "peak_activation_bytes": found.peak_activation_bytes,
        "memory_bytes": found.memory_bytes,
        "precisions": list(found.precisions),
        "sized_by_running": found.sized_by_running,
        "layer_types": {
            one.layer_type: {
                "layers": one.layers, "macs": one.macs, "parameters": one.parameters, "moved_bytes": one.moved_bytes,
                "macs_per_byte": one.intensity,
            }
            for one in found.by_layer_type()
        },
        "layers": [_layer(one) for one in found.layers],
    }  # fmt: skip
    if profile.measured:
        runs, memory = profile.measured
        times = {"wall_ms": runs.wall_ms, "thread_ms": runs.thread_ms, "kernels_ms": runs.kernels_ms}
        made["measured"] = times | {"memory_bytes": memory, "kernels": [_kernel(one) for one in runs.kernels]}
    if profile.support:
        made["support"] = {
            family.name: {"share_of_macs": share, "problems": [asdict(one) for one in problems]}
            for family, problems, share in profile.support
        }
    if profile.training:
        one = profile.training
        sums = {"step_macs": one.step_macs, "memory_bytes": one.memory_bytes}
        job = {"steps": one.steps, "job_macs": one.job_macs} if one.samples else {}
        made["training"] = asdict(one) | sums | job
    return made


def _layer(one: Layer) -> dict[str, Any]:
    shapes = {"inputs": [t.shape for t in one.inputs], "outputs": [t.shape for t in one.outputs]}
    about = {"name": one.name, "operator": one.operator, "layer_type": one.layer_type, "macs": one.macs}
    return about | {"moved_bytes": one.moved_bytes} | shapes


def _kernel(one: Kernel) -> dict[str, Any]:
    return _layer(one) | {"calls": one.calls, "median_ms": one.median_ms, "min_ms": one.min_ms}
