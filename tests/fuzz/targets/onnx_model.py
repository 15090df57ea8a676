"""ONNX files: bytes, and the fields of their messages, changed; profiled and predicted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..mutate import changed_bytes
from ..target import Target, command, word

_INTEGERS = (0, 1, -1, 2, 3, 7, 99, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))
_WORDS = ("", "x", "y", "w0", "a" * 1000, "\x00", "a\nb", "Loop", "Conv", "MatMul", "N", "?", "../../etc/passwd", "[x]")
_STRING, _BYTES, _MESSAGE, _FLOATING = 9, 12, 11, (1, 2)


class OnnxTarget(Target):
    """See the module."""

    name = "onnx"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        self._models = [model.SerializeToString() for model in _small_models()]
        import fairlead.policies

        for path in sorted(Path(fairlead.policies.__file__).parent.rglob("model.onnx")):
            if path.stat().st_size < 300_000:
                self._models.append(path.read_bytes())

    def make(self, random: Random, folder: Path) -> None:
        """A model, changed."""
        content = random.choice(self._models)
        if random.random() < 0.3:
            content = changed_bytes(random, content)
        else:
            model = onnx.load_from_string(content)
            for _ in range(random.choice((1, 1, 2, 3, 6))):
                change(random, random.choice(list(messages(model))))
            if random.random() < 0.1:
                _make_external(random, model)
            content = model.SerializeToString()
        (folder / "case.onnx").write_bytes(content)
        (folder / "weights").write_bytes(bytes(random.choice((0, 10, 4096))))

    def run(self, random: Random, folder: Path) -> str:
        """Profile it or predict with it, with random options."""
        sizes = [f"--size={random.choice(('x', 'N', 'x.0', 'x.1', 'batch'))}={random.choice((1, 2, 64))}"]
        options = sizes * random.choice((0, 0, 1))
        asked = random.randrange(4)
        if asked == 0:
            device = random.choice(("raspberry-pi-5-cpu", "coral-usb", "jetson-nano-gpu"))
            return word(command(["predict", "case.onnx", "--device", _known(device), *options])[0])
        if asked == 1:
            return word(command(["profile", "case.onnx", "--for", "all", "--train", "--samples", "10", *options])[0])
        return word(command(["profile", "case.onnx", *options, *random.choice(([], ["--layers"], ["--json"]))])[0])


def _known(device: str) -> str:
    from fairlead.profile.predict.timed_devices import shipped_devices

    names = shipped_devices()
    return device if device in names else names[0]


def messages(message: Any) -> Iterator[Any]:
    """A message and all that are inside of it."""
    yield message
    for field, value in message.ListFields():
        if field.type == _MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from messages(inner)


def change(random: Random, message: Any) -> None:
    """Change a field of a message: one that it has, or one that it could have."""
    given = [field for field, _ in message.ListFields()]
    field = random.choice(given or list(message.DESCRIPTOR.fields)) if random.random() < 0.8 else None
    field = field or random.choice(list(message.DESCRIPTOR.fields))
    value = getattr(message, field.name)
    if not hasattr(value, "append") and not hasattr(value, "add"):
        if random.random() < 0.2:
            message.ClearField(field.name)
        elif field.type != _MESSAGE:
            setattr(message, field.name, _scalar(random, field))
        return
    action = random.randrange(4)
    if action == 0 and len(value):
        del value[random.randrange(len(value))]
    elif action == 1 and len(value):
        value.extend([value[random.randrange(len(value))]] * random.choice((1, 1, 3, 100)))
    elif field.type == _MESSAGE:
        if len(value) > 1:
            value[0].CopyFrom(value[random.randrange(len(value))])
    elif len(value) and random.random() < 0.7:
        value[random.randrange(len(value))] = _scalar(random, field)
    else:
        value.append(_scalar(random, field))


def _scalar(random: Random, field: Any) -> Any:
    if field.type == _STRING:
        return random.choice(_WORDS)
    if field.type == _BYTES:
        return random.choice((b"", b"\xff\xfe\x00", random.randbytes(16), b"a" * 10_000))
    if field.type in _FLOATING:
        return random.choice((0.0, -1.0, 1e30, float("inf"), float("nan")))
    if field.enum_type is not None:
        return random.choice([value.number for value in field.enum_type.values])
    number = random.choice(_INTEGERS)
    return (
        number
        if field.type in (3, 16, 18)
        else max(-(2**31), min(number, 2**31 - 1))
        if field.type == 5
        else abs(number) % 2**31
    )


def _make_external(random: Random, model: Any) -> None:
    for one in model.graph.initializer[:1]:
        one.data_location = TensorProto.EXTERNAL
        for key, values in {
            "location": ("weights", "../case.onnx", "/dev/zero", "/etc/passwd", "", "nowhere"),
            "offset": ("0", "-1", "4096", "many", str(2**70)),
            "length": ("0", "4096", "-1", "1e3"),
        }.items():
            if random.random() < 0.8:
                one.external_data.add(key=key, value=random.choice(values))
        one.ClearField("raw_data")


def _small_models() -> Iterator[Any]:
    """Graphs with the types of layers that the analyser looks at."""

    def weight(name: str, *shape: int, dtype: Any = np.float32) -> Any:
        return numpy_helper.from_array(np.ones(shape, dtype), name)

    def model(nodes: list[Any], weights: list[Any], *shape: Any, dtype: int = TensorProto.FLOAT) -> Any:
        ends = (
            [helper.make_tensor_value_info("x", dtype, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        )
        graph = helper.make_graph(nodes, "g", *ends, weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    node = helper.make_node
    conv = node("Conv", ["x", "w0", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2], group=1)
    pool = [node("Relu", ["c"], ["r"]), node("GlobalAveragePool", ["r"], ["p"]), node("Flatten", ["p"], ["f"])]
    dense = node("Gemm", ["f", "w1"], ["y"], transB=1, alpha=1.0)
    yield model([conv, *pool, dense], [weight("w0", 8, 3, 3, 3), weight("b", 8), weight("w1", 10, 8)], "N", 3, 16, 16)
    attention = [
        node("MatMul", ["x", "w0"], ["q"]), node("Transpose", ["q"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]), node("Softmax", ["s"], ["a"], axis=-1), node("MatMul", ["a", "q"], ["y"]),
    ]  # fmt: skip
    yield model(attention, [weight("w0", 16, 16)], 1, "length", 16)
    yield model(
        [node("LSTM", ["x", "w0", "w1"], ["o", "y"], hidden_size=4)],
        [weight("w0", 1, 16, 8), weight("w1", 1, 16, 4)],
        5,
        1,
        8,
    )
    yield model([node("Einsum", ["x", "w0"], ["y"], equation="ij,jk->ik")], [weight("w0", 4, 4)], 2, 4)
    computed = [
        node("Shape", ["x"], ["n"]), node("Cast", ["x"], ["k"], to=TensorProto.INT64), node("NonZero", ["x"], ["z"]),
        node("Cast", ["z"], ["f"], to=TensorProto.FLOAT), node("ReduceSum", ["f"], ["y"], keepdims=0),
    ]  # fmt: skip
    yield model(computed, [], 4)
    sized = [
        node("Cast", ["x"], ["k"], to=TensorProto.INT64),
        node("Add", ["k", "w0"], ["m"]),
        node("ConstantOfShape", ["m"], ["y"]),
    ]
    yield model(sized, [weight("w0", 2, dtype=np.int64)], 2)
    yield _looping(model, weight)
    branch = helper.make_graph(
        [node("Relu", ["x"], ["one"])], "b", [], [helper.make_tensor_value_info("one", TensorProto.FLOAT, None)]
    )
    which = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Cast", ["m"], ["c"], to=TensorProto.BOOL)]
    yield model([*which, node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)], [], 3)


def _looping(model: Any, weight: Any) -> Any:
    node, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["v", "v"], ["v2"])], "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, None)],
        [info("on", TensorProto.BOOL, []), info("v2", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return model([node("Loop", ["w0", "", "x"], ["y"], body=body)], [numpy_helper.from_array(np.array(3), "w0")], 2)
