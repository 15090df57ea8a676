"""Tiny bundles for tests: one linear layer, so that what the model wants is plain arithmetic."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairlead.domain.decision import RequestSnapshot
from fairlead.policies.decider import Decider
from fairlead.policies.observe import DISPATCH_VERSION, SLOT, WINDOW_VERSION, dispatch_size, window_size


def linear(weights: Any, bias: Any) -> bytes:
    """`values` = `observations` (B, F) @ weights (F, A) + bias (A,)."""
    weights, bias = np.asarray(weights, np.float32), np.asarray(bias, np.float32)
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size])
        for name, size in zip(("observations", "values"), weights.shape, strict=True)
    ]
    layer = helper.make_node("Gemm", ["observations", "weights", "bias"], ["values"])
    stored = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")]
    graph = helper.make_graph([layer], "linear", ends[:1], ends[1:], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def write(folder: Path, model: bytes, inputs: int, **about: Any) -> Path:
    """A bundle in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model)
    manifest = {
        "format": 1, "name": folder.name, "summary": "a test's", "low": [0.0] * inputs, "high": [10.0] * inputs,
        "typical": [1.0] * inputs, "fallback": "closest", "budget_us": 1000.0, "seed": 1, "steps": 1,
        "scenarios": [{"name": "ecsrl", "overrides": []}], "settings": {}, "fairlead": "0", "reproduce": "",
        "validation": {}, "sha256": hashlib.sha256(model).hexdigest(),
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest | about))
    return folder


def selector(
    folder: Path,
    actions: Sequence[str] = ("load-balancing", "farthest"),
    *,
    nodes: int = 4,
    mix: bool = False,
    window_ms: float = 250.0,
    **about: Any,
) -> Path:
    """Picks the second rule while more than half of the capacity is asked for, else the first."""
    inputs = window_size(nodes, mix)
    weights, bias = np.zeros((inputs, len(actions))), np.zeros(len(actions))
    weights[0, 1], bias[1] = 1.0, -0.5
    shape = {"kind": "selector", "features": WINDOW_VERSION, "actions": list(actions), "sizes": {"nodes": nodes}}
    about = {**shape, "mix": mix, "window_ms": window_ms, **about}
    return write(folder, linear(weights, bias), inputs, **about)


def dispatcher(folder: Path, *, candidates: int = 4, reject: float = -1e6, bias: Any = None, **about: Any) -> Path:
    """Prefers the least processing time, then the fewest in flight; `reject` is what a rejection is worth."""
    inputs = dispatch_size(candidates)
    weights = np.zeros((inputs, candidates + 1))
    for c in range(candidates):
        weights[4 + c * SLOT + 4, c] = -100.0  # proc_ms
        weights[4 + c * SLOT + 14, c] = -1.0  # in_flight
    bias = [*([0.0] * candidates if bias is None else bias), reject]
    shape = {"kind": "dispatcher", "features": DISPATCH_VERSION, "sizes": {"candidates": candidates}}
    about = {**shape, "settings": {"energy_weight": 0.5, "degradation_weight": 0.25}, **about}
    return write(folder, linear(weights, bias), inputs, **about)


def edit(folder: Path, **changes: Any) -> Path:
    """Change fields of the manifest; None takes one out."""
    file = folder / "manifest.json"
    manifest = {k: v for k, v in (json.loads(file.read_text()) | changes).items() if v is not None}
    file.write_text(json.dumps(manifest))
    return folder


def ask(live: Decider, request: Any, candidates: Any, excluded: Any, u: float) -> int:
    """What a decider chooses for a request."""
    return live.decide(RequestSnapshot(request, candidates, excluded), u).choice
