"""Probe models: networks made here, small and unlike each other, that calibration measures a machine with.

Between them they have every type of layer at the sizes of real models: blocks in the manner of the well-known families,
with random weights, since speed does not depend on them. Nothing is downloaded and nothing trained.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fairlead.profile.onnx_file import import_onnx

_OPSET = 20


class _Net:
    """A network that grows operator by operator; each method returns the name of what it made.

    No shape inside of it says the size of the batch, so that it can be trained with any.
    """

    def __init__(self, *shape: int) -> None:
        self._helper = import_onnx().helper
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._shape = shape
        self._draw = np.random.default_rng(0)
        self.channels = {"x": shape[1]}

    def add(self, operator: str, *inputs: str, channels: int | None = None, **attributes: Any) -> str:
        """Any operator; by default it has as many channels as its first input."""
        name = f"{operator.lower()}{len(self._nodes)}"
        self._nodes.append(self._helper.make_node(operator, inputs, [name], name=name, **attributes))
        self.channels[name] = channels if channels is not None else self.channels.get(inputs[0], 0)
        return name

    def weight(self, *shape: int, positive: bool = False) -> str:
        """Small random numbers; or some around 1."""
        name = f"w{len(self._weights)}"
        values = self._draw.standard_normal(shape, dtype=np.float32) * 0.05
        values = 1.0 + np.abs(values) if positive else values
        self._weights.append(import_onnx().numpy_helper.from_array(values, name))
        return name

    def numbers(self, *values: int) -> str:
        """Whole numbers, such as a shape."""
        name = f"w{len(self._weights)}"
        self._weights.append(import_onnx().numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def conv(
        self, x: str, out: int, size: int | tuple[int, int] = 1, stride: int = 1, groups: int = 1, act: str = "Relu",
        normal: bool = True,
    ) -> str:  # fmt: skip
        """A convolution, normalised, with an activation; an empty one is none."""
        high, wide = (size, size) if isinstance(size, int) else size
        weights = [self.weight(out, self.channels[x] // groups, high, wide), *([] if normal else [self.weight(out)])]
        pads = [high // 2, wide // 2] * 2
        made = self.add("Conv", x, *weights, channels=out, strides=[stride, stride], group=groups, pads=pads)
        made = self.normal(made) if normal else made
        return self.add("Relu", made) if act == "Relu" else self.swish(made) if act == "swish" else made

    def swish(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def join(self, *inputs: str) -> str:
        return self.add("Concat", *inputs, channels=sum(self.channels[one] for one in inputs), axis=1)

    def pool(self, x: str, operator: str = "MaxPool", stride: int = 2) -> str:
        return self.add(operator, x, kernel_shape=[3, 3], strides=[stride, stride], pads=[1, 1, 1, 1])

    def normal(self, x: str) -> str:
        n = self.channels[x]
        return self.add("BatchNormalization", x, *(self.weight(n, positive=True) for _ in range(4)))

    def classes(self, x: str, *widths: int) -> str:
        """Mean over the picture, then products."""
        x = self.add("Flatten", self.add("GlobalAveragePool", x))
        for width in widths:
            x = self.add("Gemm", x, self.weight(width, self.channels[x]), self.weight(width), channels=width, transB=1)
        return x

    def excite(self, x: str, squeezed: int) -> str:
        """Channels weighed by what all of the picture says."""
        mean = self.conv(self.add("GlobalAveragePool", x), squeezed, normal=False)
        return self.add("Mul", x, self.add("Sigmoid", self.conv(mean, self.channels[x], act="", normal=False)))

    def model(self, last: str) -> bytes:
        """The file of it."""
        onnx = import_onnx()
        number = onnx.TensorProto.FLOAT
        inputs = [self._helper.make_tensor_value_info("x", number, self._shape)]
        outputs = [self._helper.make_tensor_value_info(last, number, None)]
        graph = self._helper.make_graph(self._nodes, "probe", inputs, outputs, self._weights)
        made = self._helper.make_model(graph, opset_imports=[self._helper.make_opsetid("", _OPSET)], ir_version=9)
        return bytes(made.SerializeToString())


def _residual() -> bytes:
    """Two 3x3 convolutions and a shortcut, as in ResNet-18."""
    net = _Net(1, 3, 224, 224)
    x = net.pool(net.conv("x", 64, 7, 2))
    for width, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (192, 1), (256, 2), (512, 2)):
        short = x if net.channels[x] == width else net.conv(x, width, 1, stride, act="")
        inner = net.conv(net.conv(x, width, 3, stride), width, 3, act="")
        x = net.add("Relu", net.add("Add", inner, short))
    return net.model(net.classes(x, 1000))


def _bottleneck() -> bytes:
    """Narrow in the middle, with groups of several widths there, as in ResNeXt and RegNet."""
    net = _Net(1, 3, 224, 224)
    x = net.pool(net.conv("x", 32, 3, 2))
    for width, inner, per_group, stride in (
        (64, 64, 8, 1), (256, 128, 4, 1), (256, 64, 64, 1), (512, 128, 128, 2), (120, 120, 24, 1), (512, 256, 8, 1),
        (336, 336, 24, 1), (1024, 256, 256, 2), (440, 440, 8, 1), (1024, 512, 16, 1), (888, 888, 24, 1),
        (2048, 512, 512, 2), (784, 784, 16, 1), (2048, 1024, 32, 1),
    ):  # fmt: skip
        middle = net.conv(net.conv(x, inner), inner, 3, stride, inner // per_group)
        middle = net.excite(middle, max(8, inner // 8)) if per_group in (8, 24) else middle
        x = net.add("Relu", net.add("Add", net.conv(middle, width, act=""), net.conv(x, width, 1, stride, act="")))
    return net.model(net.classes(x, 1000))


def _inverted() -> bytes:
    """Wide in the middle, where each channel is by itself, as in MobileNet and EfficientNet."""
    net = _Net(1, 3, 224, 224)
    x = net.conv("x", 16, 3, 2)
    for out, wide, size, stride, act in (
        (16, 16, 3, 1, "Relu"), (24, 96, 3, 2, "Relu"), (24, 72, 3, 1, "Relu"), (40, 144, 5, 2, "swish"),
        (40, 240, 5, 1, "Relu"), (80, 240, 3, 2, "swish"), (80, 480, 3, 1, "Relu"), (112, 480, 5, 1, "swish"),
        (96, 576, 3, 1, "Relu"), (192, 672, 5, 2, "swish"), (160, 960, 3, 1, "Relu"), (320, 1152, 3, 1, "swish"),
    ):  # fmt: skip
        middle = net.conv(net.conv(x, wide, act=act), wide, size, stride, wide, act)
        middle = net.excite(middle, max(8, wide // 24)) if act == "swish" else middle
        x = net.conv(middle, out, act="")
    return net.model(net.classes(net.conv(x, 1280, act="swish"), 1000))


def _dense() -> bytes:
    """Every layer reads all before it, as in DenseNet."""
    net = _Net(1, 3, 224, 224)
    x = net.pool(net.conv("x", 64, 7, 2))
    for layers, width in ((3, 128), (4, 256), (4, 512), (3, 0)):
        for _ in range(layers):
            inner = net.conv(net.add("Relu", net.normal(x)), 128)
            x = net.join(x, net.conv(inner, 32, 3, act=""))
        if width:
            x = net.conv(net.add("Relu", net.normal(x)), width, act="")
            x = net.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.classes(net.add("Relu", net.normal(x)), 1000))


def _branches() -> bytes:
    """Several sizes side by side, as in Inception, and narrow ones before wide ones, as in SqueezeNet."""
    net = _Net(1, 3, 256, 256)
    x = net.pool(net.conv(net.conv("x", 32, 3, 2), 64, 3))
    for narrow, wide in ((16, 64), (32, 128), (48, 192), (64, 256)):
        thin = net.conv(x, narrow)
        x = net.join(net.conv(thin, wide), net.conv(thin, wide, 3))
        x = net.pool(x) if narrow == 32 else x
    for out, size in ((64, 5), (96, 3)):
        pooled = net.conv(net.pool(x, "AveragePool", 1), out)
        x = net.join(net.conv(x, out), net.conv(net.conv(x, 48), out, size), pooled)
    x = net.pool(x)
    for out in (128, 192):
        long = net.conv(net.conv(net.conv(x, out), out, (1, 7)), out, (7, 1))
        x = net.join(net.conv(x, out), long, net.conv(net.pool(x, "MaxPool", 1), out))
    return net.model(net.classes(net.pool(x), 1000))


def _shuffled() -> bytes:
    """Half of the channels go past the rest and are mixed in, as in ShuffleNet."""
    net = _Net(1, 3, 224, 224)
    x = net.pool(net.conv("x", 24, 3, 2))
    for width, side, blocks in ((116, 28, 3), (232, 14, 3), (464, 7, 2)):
        half = width // 2
        for block in range(blocks):
            if block == 0:
                kept = net.conv(net.conv(x, net.channels[x], 3, 2, net.channels[x], ""), half)
                rest = x
            else:
                cut = [net.numbers(n) for n in (0, half, width, 1)]
                kept = net.add("Slice", x, cut[0], cut[1], cut[3], channels=half)
                rest = net.add("Slice", x, cut[1], cut[2], cut[3], channels=half)
            inner = net.conv(net.conv(rest, half), half, 3, 2 if block == 0 else 1, half, "")
            x = net.join(kept, net.conv(inner, half))
            pairs = net.add("Reshape", x, net.numbers(0, 2, half, side, side))
            turned = net.add("Transpose", pairs, perm=[0, 2, 1, 3, 4])
            x = net.add("Reshape", turned, net.numbers(0, width, side, side), channels=width)
    return net.model(net.classes(net.conv(x, 1024), 1000))


def _attention() -> bytes:
    """Words that look at each other, of three widths, with windows for the last, as in ViT, BERT and Swin."""
    net = _Net(1, 3, 224, 224)
    parts = []
    for width, patch, windows in ((192, 16, 1), (384, 32, 1), (96, 8, 16)):
        words = (224 // patch) ** 2
        x = net.add("Conv", "x", net.weight(width, 3, patch, patch), strides=[patch, patch], channels=width)
        x = net.add("Reshape", x, net.numbers(0, width, words))
        x = net.add("Transpose", x, perm=[0, 2, 1], channels=width)
        for _ in range(2):
            x = net.add("Add", x, _attend(net, x, width, words, windows))
            x = net.add("Add", x, _forward(net, x, width))
        parts.append(net.add("ReduceMean", x, net.numbers(1), keepdims=0))
    return net.model(net.add("Gemm", net.add("Concat", *parts, axis=1), net.weight(672, 1000), channels=1000))


def _product(net: _Net, x: str, width: int, out: int) -> str:
    made = net.add("MatMul", x, net.weight(width, out), channels=out)
    return net.add("Add", made, net.weight(out), channels=out)


def _attend(net: _Net, x: str, width: int, words: int, windows: int) -> str:
    heads = max(1, width // 64)
    x = net.add("LayerNormalization", x, net.weight(width), net.weight(width), axis=-1)
    split, back = net.numbers(-1, words // windows, heads, width // heads), net.numbers(-1, words, width)
    query, key, value = (net.add("Reshape", _product(net, x, width, width), split) for _ in range(3))
    scores = net.add(
        "MatMul", net.add("Transpose", query, perm=[0, 2, 1, 3]), net.add("Transpose", key, perm=[0, 2, 3, 1])
    )
    mixed = net.add("MatMul", net.add("Softmax", scores, axis=-1), net.add("Transpose", value, perm=[0, 2, 1, 3]))
    joined = net.add("Reshape", net.add("Transpose", mixed, perm=[0, 2, 1, 3]), back)
    return _product(net, joined, width, width)


def _forward(net: _Net, x: str, width: int) -> str:
    x = net.add("LayerNormalization", x, net.weight(width), net.weight(width), axis=-1)
    return _product(net, net.add("Gelu", _product(net, x, width, 4 * width)), 4 * width, width)


def _plain() -> bytes:
    """3x3 convolutions one after the other and large products, as in VGG and AlexNet."""
    net = _Net(1, 3, 160, 160)
    conv = partial(net.conv, normal=False)
    x = net.pool(conv(conv("x", 64, 11, 4), 192, 5))
    for width in (256, 384):
        x = net.pool(conv(conv(x, width, 3), width, 3))
    y = conv(conv("x", 32, 3), 64, 3)
    for width in (64, 128, 256):
        y = conv(net.pool(y), width, 3)
    x = net.add("Concat", net.classes(x, 2048), net.classes(y, 2048), axis=1, channels=4096)
    for width in (4096, 1000):
        x = net.add("Gemm", x, net.weight(width, 4096), net.weight(width), channels=width, transB=1)
    return net.model(x)


#: By name, what makes the file of each.
PROBES: dict[str, Callable[[], bytes]] = {
    "attention": _attention,
    "bottleneck": _bottleneck,
    "branches": _branches,
    "dense": _dense,
    "inverted": _inverted,
    "plain": _plain,
    "residual": _residual,
    "shuffled": _shuffled,
}
