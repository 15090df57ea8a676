"""Training steps of the probe models in torch, timed: what predictions of training times are fitted to.

Called by `fairlead calibrate --train`. A probe is an ONNX file; the few operators that probes have are done in torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as nn

from fairlead.profile.onnx_file import analyse, attributes_of, import_onnx
from fairlead.profile.predict.probes import PROBES
from fairlead.profile.predict.training_time import deviation, fit_training, training_amounts

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


def step_ms(module: torch.nn.Module, batch: int, shape: tuple[int, ...], steps: int = _STEPS) -> float:
    """The least time of a step with stochastic gradient descent with momentum, after one to warm up."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4, momentum=0.9)
    inputs, wanted = torch.randn(batch, *shape), torch.zeros(batch, dtype=torch.long)
    times = []
    for _ in range(steps + 1):
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss: Any = nn.cross_entropy(module(inputs), wanted)
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    return min(times[1:])


def time_steps(threads: int, tell: Callable[[int, int, str], None]) -> dict[str, Any]:
    """Rates of training steps on this machine, as a calibration keeps them."""
    torch.set_num_threads(threads)
    amounts, times, groups = [], [], []
    with TemporaryDirectory(prefix="fairlead-") as folder:
        for n, (probe, make) in enumerate(PROBES.items()):
            tell(n, len(PROBES), f"training {probe}")
            path = Path(folder) / "probe.onnx"
            path.write_bytes(make())
            module = OnnxModule(path.read_bytes())
            for batch in _BATCHES:
                analysis = analyse(path, {"x.0": batch})
                amounts.append(training_amounts(analysis))
                times.append(step_ms(module, batch, analysis.inputs[0].shape[1:]))
                groups.append(probe)
    return {
        "runtime": f"torch {torch.__version__.split('+')[0]}, {threads} thread{'s' * (threads > 1)}",
        "rates": fit_training(amounts, times),
        "deviation": deviation(amounts, times, groups),
    }
