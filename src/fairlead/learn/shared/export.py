"""Makes a bundle of a network: `model.onnx`, `manifest.json` and the curve of its training in one folder.

What runs a bundle needs no torch (fairlead.policies). Called by `training`. The manifest is written last, with the hash
of the model, so that a reader notices a manifest of another model.
"""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch
from torch import nn

from fairlead.measure.write_files import write_whole
from fairlead.policies.bundle import FORMAT

_AGREE: Final = 1e-5  # ONNX Runtime and torch


def write_bundle(folder: Path, network: nn.Module, observations: Any, manifest: dict[str, Any], curve: str) -> None:
    """Write the bundle; `observations` (n, F) are examples that the exported network is checked with."""
    model = as_onnx(network, observations.shape[1])
    _check(model, network, observations)
    write_whole(folder / "model.onnx", model)
    write_whole(folder / "curve.csv", curve)
    whole = {"format": FORMAT} | manifest | {"sha256": hashlib.sha256(model).hexdigest()}
    write_whole(folder / "manifest.json", json.dumps(whole, indent=1, allow_nan=False) + "\n")


def as_onnx(network: nn.Module, features: int) -> bytes:
    """The network as a model from `observations` (B, F) to `values` (B, A), for any B."""
    shapes = ({0: torch.export.Dim("batch")},)
    return model_bytes(network, (torch.zeros(2, features),), shapes, ["observations"], ["values"])


def model_bytes(network: nn.Module, example: Any, shapes: Any, inputs: list[str], outputs: list[str]) -> bytes:
    """A network as an ONNX file, without what the exporter notes beside the computation."""
    content = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, which no user can do anything about
        for name in ("torch.onnx", "onnxscript"):
            logging.getLogger(name).setLevel(logging.ERROR)
        program = torch.onnx.export(
            network.eval(),
            example,
            dynamo=True,
            verbose=False,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
        )
    assert program is not None
    model = program.model_proto
    _forget_sources(model)
    onnx.save(model, content)
    return content.getvalue()


def _forget_sources(model: Any) -> None:
    """Take out what the exporter notes beside the computation: lines and paths of the sources on this machine."""
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""


def _check(model: bytes, network: nn.Module, observations: Any) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    got = session.run(["values"], {"observations": observations})[0]
    with torch.no_grad():
        wanted = network(torch.as_tensor(observations)).numpy()
    if not np.allclose(got, wanted, rtol=_AGREE, atol=_AGREE * max(1.0, float(np.abs(wanted).max()))):
        raise RuntimeError("the exported network does not compute what torch computes")
