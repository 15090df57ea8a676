"""EfficientNet-Lite as an ONNX graph, from its weights: a converter of `zoo`.

Tan and Le 2019, without squeeze and excitation and with ReLU6 (TensorFlow's Lite variants). Widths and depths are read
off the weights; what they don't tell, strides, is by stage. Batch normalisation stays in the graph: so its parameters
are those that are published and can be trained, and a runtime folds it into the convolutions before the first run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STAGES = ((3, 1), (3, 2), (5, 2), (3, 2), (5, 1), (5, 2), (3, 1))  #: kernel and stride of each stage's first block
_EXPAND = 6  # times the channels, but in the first stage
_EPSILON = 1e-3  # as TensorFlow trained it; the default of torch is another
_OPSET, _IR = 17, 8


def efficientnet_lite(weights: Mapping[str, Any], size: int) -> bytes:
    """The ONNX file for images of `size` x `size`; the batch is open. Raises ValueError where weights don't fit."""
    graph = _Graph(dict(weights), size)
    x = graph.clip(graph.conv("images", "_conv_stem", "_bn0", stride=2))
    for prefix, kernel, stride in _blocks(weights):
        x = _block(graph, x, prefix, kernel, stride)
    x = graph.clip(graph.conv(x, "_conv_head", "_bn1"))
    x = graph.node("Flatten", [graph.node("GlobalAveragePool", [x])])
    graph.node("Gemm", [x, graph.weight("_fc.weight"), graph.weight("_fc.bias")], name="logits", transB=1)
    return graph.model(size)


def _blocks(weights: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Prefix, kernel and stride of each block: a stage begins where the channels change."""
    found: list[tuple[str, int, int]] = []
    stage, channels = -1, 0
    while (name := f"_blocks.{len(found)}._project_conv.weight") in weights:
        begins = weights[name].shape[0] != channels
        stage, channels = stage + begins, weights[name].shape[0]
        if stage == len(STAGES):
            raise ValueError(f"{name}: more than {len(STAGES)} stages")
        kernel, stride = STAGES[stage]
        found.append((f"_blocks.{len(found)}.", kernel, stride if begins else 1))
    if stage + 1 != len(STAGES):
        raise ValueError(f"{stage + 1} stages of blocks where {len(STAGES)} are expected")
    return found


def _block(graph: _Graph, given: str, prefix: str, kernel: int, stride: int) -> str:
    """Widen, look around in each channel, narrow; and add what came in where the sizes allow."""
    wide, narrow = graph.shape(f"{prefix}_depthwise_conv.weight"), graph.shape(f"{prefix}_project_conv.weight")
    x = given
    if f"{prefix}_expand_conv.weight" in graph.weights:
        incoming = graph.shape(f"{prefix}_expand_conv.weight")[1]
        x = graph.clip(graph.conv(x, f"{prefix}_expand_conv", f"{prefix}_bn0"))
    else:
        incoming = wide[0]
    if wide[2] != kernel or wide[0] not in (incoming, incoming * _EXPAND):
        raise ValueError(f"{prefix}_depthwise_conv.weight: {wide}, where a kernel of {kernel} is expected")
    x = graph.clip(graph.conv(x, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride, group=wide[0]))
    x = graph.conv(x, f"{prefix}_project_conv", f"{prefix}_bn2")
    return graph.node("Add", [x, given]) if stride == 1 and incoming == narrow[0] else x


class _Graph:
    """Nodes and weights so far; the size of the image goes down with each stride."""

    def __init__(self, weights: dict[str, Any], size: int) -> None:
        import onnx

        self.weights, self._onnx, self._size = weights, onnx, size
        self._nodes: list[Any] = []
        self._used: dict[str, Any] = {}

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a weight."""
        if name not in self.weights:
            raise ValueError(f"{name} is missing")
        return tuple(self.weights[name].shape)

    def weight(self, name: str) -> str:
        """Take a weight into the graph."""
        self.shape(name)
        self._used[name] = self.weights[name]
        return name

    def node(self, operator: str, inputs: list[str], name: str = "", **attributes: Any) -> str:
        """Add a node; what it makes."""
        output = name or f"{operator}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def conv(self, x: str, name: str, norm: str, stride: int = 1, group: int = 1) -> str:
        """A convolution as TensorFlow pads it (SAME: what is odd goes to the end), and its normalisation."""
        kernel = self.shape(f"{name}.weight")[2]
        made = -(-self._size // stride)
        pad = max((made - 1) * stride + kernel - self._size, 0)
        before, self._size = pad // 2, made
        pads = [before, before, pad - before, pad - before]
        inputs = [x, self.weight(f"{name}.weight")]
        x = self.node("Conv", inputs, strides=[stride] * 2, pads=pads, kernel_shape=[kernel] * 2, group=group)
        parts = [self.weight(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        return self.node("BatchNormalization", [x, *parts], epsilon=_EPSILON)

    def clip(self, x: str) -> str:
        """ReLU6."""
        return self.node("Clip", [x, "zero", "six"])

    def model(self, size: int) -> bytes:
        """The file. What the weights hold and no layer uses is an error: the structure would be another."""
        unused = sorted(name for name in set(self.weights) - set(self._used) if "num_batches_tracked" not in name)
        if unused:
            raise ValueError(f"{unused[0]} belongs nowhere")
        import numpy as np

        onnx, floats = self._onnx, self._onnx.TensorProto.FLOAT
        bounds = {"zero": np.float32(0), "six": np.float32(6)}
        constants = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in (self._used | bounds).items()]
        given = onnx.helper.make_tensor_value_info("images", floats, ["batch", 3, size, size])
        made = onnx.helper.make_tensor_value_info("logits", floats, ["batch", self._used["_fc.bias"].shape[0]])
        graph = onnx.helper.make_graph(self._nodes, "efficientnet-lite", [given], [made], constants)
        opsets = [onnx.helper.make_opsetid("", _OPSET)]
        model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=_IR, producer_name="fairlead")
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())
