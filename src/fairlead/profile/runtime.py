"""Running a model in ONNX Runtime in a way that can be measured: one session, inputs of its sizes, few threads.

Profiling, calibration and degradation open models here, so that all measure the same thing: threads that don't spin,
telemetry off. No timing here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, one_line
from fairlead.profile.analysis import Tensor

#: How far a graph is made over before it is run: "extended" fuses, "all" also puts channels into blocks for the CPU.
LEVELS = {"no": "ORT_DISABLE_ALL", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
_INTEGERS = ("int", "uint", "bool")


@cache
def onnx_runtime() -> Any:
    """ONNX Runtime, without telemetry and without its warnings: what is wrong is raised."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    onnxruntime.disable_telemetry_events()
    return onnxruntime


def open_session(
    model: Path | bytes,
    threads: int = 1,
    *,
    arena: bool = True,
    optimise: str = "all",
    profile_to: Path | None = None,
    save_to: Path | None = None,
    weights_in: Path | None = None,
) -> Any:
    """A session on the CPU.

    `arena`: memory is kept for the next run; `optimise`: of LEVELS.
    `profile_to`: the beginning of a file's name; `save_to`: a file for the graph as it is run, weights beside it.
    `weights_in`: the folder of the weights that a model from memory keeps in other files.
    """
    runtime = onnx_runtime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # spinning costs those beside it
    options.enable_cpu_mem_arena = options.enable_mem_pattern = arena
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[optimise])
    if profile_to is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile_to)
    if save_to is not None:
        options.optimized_model_filepath = str(save_to)
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
    if weights_in is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights_in))
    content = str(model) if isinstance(model, Path) else model
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of several classes, all ONNX Runtime's own
        name = model if isinstance(model, Path) else "the model"
        raise UserError(f"{name}: ONNX Runtime can't load it: {one_line(error)}") from None


def run_once(name: Any, session: Any, inputs: dict[str, Any]) -> None:
    """A run whose results are not used."""
    try:
        session.run(None, inputs)
    except Exception as error:  # ONNX Runtime's own
        raise UserError(f"{name}: ONNX Runtime can't run it: {one_line(error)}") from None


def make_inputs(tensors: Iterable[Tensor], seed: int = 0) -> dict[str, Any]:
    """Inputs of these sizes: small numbers drawn anew from the seed; whole numbers are 0 or 1, which most can be."""
    draw = np.random.default_rng(seed)
    return {tensor.name: _values(draw, tensor) for tensor in tensors}


def _values(draw: np.random.Generator, tensor: Tensor) -> Any:
    if tensor.type == "string":
        return np.full(tensor.shape, "", dtype=object)
    if tensor.type.startswith(_INTEGERS) and tensor.item_bytes >= 1:
        return draw.integers(0, 2, tensor.shape).astype(tensor.type)
    if not tensor.type.startswith("float"):
        raise UserError(f"input {tensor.name!r} is of type {tensor.type}, which can't be made here")
    return draw.standard_normal(tensor.shape, dtype=np.float32).astype(tensor.type)
