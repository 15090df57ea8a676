"""Training steps of the probe models in torch, timed: what predictions of training times are fitted to.

Called by `fairlead calibrate --train`. A probe is an ONNX file; the few operators that probes have are done in torch.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as nn

from fairlead.profile.onnx_file import analyse, attributes_of, import_onnx
from fairlead.profile.operators import layer_type_of
from fairlead.profile.predict.probe_models import PROBES
from fairlead.profile.predict.training_time import PARTS, deviation, fit_training, training_amounts

_BATCHES = (2, 8)
_STEPS = 3
_Tensors = dict[str, torch.Tensor]


class OnnxModule(torch.nn.Module):
    """A probe as a module that can be trained."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        onnx = import_onnx()
        model = onnx.load_from_string(content)
        self._nodes = [
            (node.op_type, list(node.input), node.output[0], attributes_of(node)) for node in model.graph.node
        ]
        self._last = model.graph.output[0].name
        self._constants: _Tensors = {}
        for one in model.graph.initializer:
            value = torch.from_numpy(onnx.numpy_helper.to_array(one).copy())
            if value.is_floating_point():
                self.register_parameter(one.name, torch.nn.Parameter(value))
            else:
                self._constants[one.name] = value

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run the nodes one after the other."""
        known: _Tensors = dict(self.named_parameters()) | self._constants | {"x": x}
        for operator, inputs, output, attributes in self._nodes:
            known[output] = _OPERATORS[operator](*(known[name] for name in inputs), **attributes)
        return known[self._last]


def _conv(x: Any, weight: Any, bias: Any = None, *, strides: Any, pads: Any = (0, 0, 0, 0), group: int = 1) -> Any:
    return nn.conv2d(x, weight, bias, strides, (pads[0], pads[1]), groups=group)


def _normal(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return nn.batch_norm(x, mean.detach().clone(), variance.detach().clone(), scale, bias, training=True)


def _slice(x: Any, start: Any, end: Any, axis: Any) -> Any:
    return x.narrow(int(axis), int(start), int(end) - int(start))


def _gemm(x: Any, weight: Any, bias: Any = None, *, transB: int = 0) -> Any:
    return nn.linear(x, weight if transB else weight.T, bias)


_OPERATORS: dict[str, Callable[..., torch.Tensor]] = {
    "Add": torch.add,
    "AveragePool": lambda x, kernel_shape, strides, pads=(0, 0, 0, 0): nn.avg_pool2d(
        x, kernel_shape, strides, pads[:2]
    ),
    "BatchNormalization": _normal,
    "Concat": lambda *inputs, axis: torch.cat(inputs, axis),
    "Conv": _conv,
    "Flatten": lambda x: x.flatten(1),
    "Gelu": nn.gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdim=True),
    "LayerNormalization": lambda x, scale, bias, axis: nn.layer_norm(x, x.shape[axis:], scale, bias),
    "MatMul": torch.matmul,
    "MaxPool": lambda x, kernel_shape, strides, pads=(0, 0, 0, 0): nn.max_pool2d(x, kernel_shape, strides, pads[:2]),
    "Mul": torch.mul,
    "ReduceMean": lambda x, axes, keepdims: x.mean(tuple(axes.tolist()), keepdim=bool(keepdims)),
    "Relu": nn.relu,
    "Reshape": lambda x, shape: x.reshape([x.shape[n] if size == 0 else size for n, size in enumerate(shape.tolist())]),
    "Sigmoid": torch.sigmoid,
    "Slice": _slice,
    "Softmax": lambda x, axis: x.softmax(axis),
    "Transpose": lambda x, perm: x.permute(perm),
}


class _Training:
    """A module with what a step needs: stochastic gradient descent with momentum on random pictures."""

    def __init__(self, module: torch.nn.Module, batch: int, shape: tuple[int, ...]) -> None:
        self._module = module
        self._optimizer = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9)
        self._inputs, self._wanted = torch.randn(batch, *shape), torch.zeros(batch, dtype=torch.long)
        self.step()  # to warm up

    def step(self) -> None:
        """Forward, back, and new parameters."""
        self._optimizer.zero_grad(set_to_none=True)
        loss: Any = nn.cross_entropy(self._module(self._inputs), self._wanted)
        loss.backward()
        self._optimizer.step()


def step_ms(module: torch.nn.Module, batch: int, shape: tuple[int, ...], steps: int = _STEPS) -> float:
    """The least time of a step."""
    return _step_ms(_Training(module, batch, shape), steps)


def _step_ms(training: _Training, steps: int) -> float:
    """On one thread it is time on the CPU, which others on the machine don't make longer."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    times = []
    for _ in range(steps):
        began = clock()
        training.step()
        times.append(1e3 * (clock() - began))
    return min(times)


def parts_ms(module: torch.nn.Module, batch: int, shape: tuple[int, ...], steps: int = _STEPS) -> dict[str, float]:
    """The time of a step by its parts (`training_time.PARTS`): shares by a profile, of the time without one."""
    training, found = _Training(module, batch, shape), []
    for _ in range(steps):
        with _quiet(), torch.autograd.profiler.profile(record_shapes=True) as profile:
            training.step()
        parts = dict.fromkeys(PARTS, 0.0)
        for event in profile.key_averages(group_by_input_shape=True):
            parts[_part(event.key, event.input_shapes)] += event.self_cpu_time_total
        found.append(parts)
    best = {part: min(one[part] for one in found) for part in PARTS}
    scale = _step_ms(training, steps) / sum(best.values())
    return {part: scale * one for part, one in best.items()}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's profiler writes to standard error by itself, whatever its log level."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _part(name: str, shapes: list[list[int]]) -> str:
    """Which part an operator of torch belongs to; of a convolution the weight tells."""
    if "_foreach" in name or name.startswith("Optimizer"):
        return "parameters"
    if "norm" in name:
        return "normalise"
    if "mm" in name or "linear" in name:
        return "gemm"
    if "pool" in name:
        return "pool"
    if "conv" in name:
        weights = [shape for shape in shapes[1:3] if len(shape) == 4]
        backward = "backward" in name
        if len(weights) > backward and len(shapes[0]) == 4:
            weight, given = weights[backward], shapes[1] if backward else shapes[0]
            attributes = {"group": given[1] // weight[1]}
            return layer_type_of("Conv", attributes, [tuple(given), tuple(weight)], [()])
    return "other"


def time_steps(threads: int, tell: Callable[[int, int, str], None]) -> dict[str, Any]:
    """Rates of training steps on this machine, as a calibration keeps them."""
    torch.set_num_threads(threads)
    amounts, parts, groups = [], [], []
    with TemporaryDirectory(prefix="fairlead-") as folder:
        for n, (probe, make) in enumerate(PROBES.items()):
            tell(n, len(PROBES), f"training {probe}")
            path = Path(folder) / "probe.onnx"
            path.write_bytes(make())
            module, analysis = OnnxModule(path.read_bytes()), analyse(path)
            for batch in _BATCHES:
                amounts.append(training_amounts(analysis, batch))
                parts.append(parts_ms(module, batch, analysis.inputs[0].shape[1:]))
                groups.append(probe)
    return {
        "runtime": f"torch {torch.__version__.split('+')[0]}, {threads} thread{'s' * (threads > 1)}",
        "rates": fit_training(amounts, parts),
        "deviation": deviation(amounts, parts, groups),
    }
