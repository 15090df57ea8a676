"""Models that a bundle may bring and that must do no harm: `corrupt_model(number, inputs, outputs)` makes any."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

_TYPES = (TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING, TensorProto.FLOAT16)


def _model(nodes: list[Any], stored: list[Any], inputs: int, output: Any = None, **more: Any) -> bytes:
    asked = helper.make_tensor_value_info("observations", TensorProto.FLOAT, ["batch", inputs])
    answer = output or helper.make_tensor_value_info("values", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [asked], [answer], stored)
    opsets = [helper.make_opsetid("", 17), *more.pop("opsets", [])]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9, **more).SerializeToString())


def _whole(values: Any, name: str) -> Any:
    return numpy_helper.from_array(np.asarray(values, np.int64), name)


def _linear(inputs: int, outputs: int, bias: Any = 0.0, to: str = "values") -> tuple[list[Any], list[Any]]:
    weights = np.zeros((inputs, outputs), np.float32)
    rows = np.full(outputs, bias, np.float32)
    stored = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(rows, "bias")]
    return [helper.make_node("Gemm", ["observations", "weights", "bias"], [to])], stored


def _columns(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """Too few or too many columns."""
    return _model(*_linear(inputs, rng.choice([1, outputs - 1, outputs + 1, 10 * outputs])), inputs)


def _rank(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """Another rank, up to 60."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    shape = [1] * rng.randint(0, 58) + [-1, outputs]
    return _model(
        [*nodes, helper.make_node("Reshape", ["flat", "s"], ["values"])], [*stored, _whole(shape, "s")], inputs
    )


def _late_shape(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """The right shape for zeros, and another one once the first input is above a limit."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    what = rng.choice(["rank", "columns"])
    column = numpy_helper.from_array(np.array([[[0]]], np.int64)[0, 0], "first")
    nodes += [
        helper.make_node("Gather", ["observations", "first"], ["column"], axis=1),
        helper.make_node("ReduceMax", ["column"], ["most"], keepdims=0),
        helper.make_node("Mul", ["most", "scale"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["number"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["number", "one"], ["more"]),
    ]
    stored += [column, numpy_helper.from_array(np.float32(rng.choice([1.0, 10.0, 50.0])), "scale"), _whole([1], "one")]
    if what == "rank":
        nodes += [
            helper.make_node("ConstantOfShape", ["more"], ["ones"], value=_whole([1], "v")),
            helper.make_node("Concat", ["ones", "shape"], ["whole"], axis=0),
            helper.make_node("Reshape", ["flat", "whole"], ["values"]),
        ]
        stored.append(_whole([-1, outputs], "shape"))
    else:
        nodes += [
            helper.make_node("Sub", ["all", "more"], ["end"]),
            helper.make_node("Slice", ["flat", "start", "end", "axis"], ["values"]),
        ]
        stored += [_whole([outputs], "all"), _whole([0], "start"), _whole([1], "axis")]
    return _model(nodes, stored, inputs)


def _type(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """Another type."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    value_type = rng.choice(_TYPES)
    answer = helper.make_tensor_value_info("values", value_type, None)
    return _model([*nodes, helper.make_node("Cast", ["flat"], ["values"], to=value_type)], stored, inputs, answer)


def _no_number(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """NaN or infinite, in one column or all."""
    bias = np.zeros(outputs, np.float32)
    bias[rng.randrange(outputs) :] = rng.choice([np.nan, np.inf, -np.inf])
    return _model(*_linear(inputs, outputs, bias), inputs)


def _endless(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """A loop of 2^62 rounds, bare, in a branch or in a function."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    state = [helper.make_tensor_value_info(n, t, s) for n, t, s in
             (("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("x", TensorProto.FLOAT, None))]  # fmt: skip
    ends = [helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]  # fmt: skip
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Sin", ["x"], ["y"])], "body", state, ends
    )
    loop = helper.make_node("Loop", ["rounds", "yes", "flat"], ["values"], body=body)
    stored += [_whole(1 << 62, "rounds"), numpy_helper.from_array(np.array(True), "yes")]
    if rng.random() < 0.5:
        return _model([*nodes, loop], stored, inputs)
    inner = helper.make_node("Loop", ["rounds", "yes", "flat"], ["out"], body=body)
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    branch = helper.make_graph([inner], "branch", [], [out])
    either = helper.make_node("If", ["yes"], ["values"], then_branch=branch, else_branch=branch)
    return _model([*nodes, either], stored, inputs)


def _bomb(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """More memory than there is."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    size = rng.choice([1 << 28, 1 << 32, 1 << 40, 1 << 61])
    nodes += [
        helper.make_node("ConstantOfShape", ["size"], ["large"]),
        helper.make_node("ReduceMax", ["large"], ["most"], keepdims=0),
        helper.make_node("Add", ["flat", "most"], ["values"]),
    ]
    return _model(nodes, [*stored, _whole([size], "size")], inputs)


def _outside(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """Weights in another file: what it holds would be told by what is decided."""
    nodes, stored = _linear(inputs, outputs)
    set_external_data(stored[0], rng.choice(["/etc/passwd", "../../secret", "weights.bin", "/dev/zero"]), 0)
    stored[0].ClearField("raw_data")
    return _model(nodes, stored, inputs)


def _foreign(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """An operator of a third party."""
    node = helper.make_node("Mine", ["observations"], ["values"], domain=rng.choice(["my.own", "ai.onnx.contrib"]))
    return _model([node], [], inputs, opsets=[helper.make_opsetid(node.domain, 1)])


def _no_tensor(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """A sequence in the place of a tensor."""
    nodes, stored = _linear(inputs, outputs, to="flat")
    value_type = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    made = helper.make_node("SequenceConstruct", ["flat"] * rng.randint(1, 3), ["values"])
    return _model([*nodes, made], stored, inputs, helper.make_value_info("values", value_type))


def _bytes(rng: random.Random, inputs: int, outputs: int) -> bytes:
    """A sound model with bytes changed, cut out or cut off."""
    content = bytearray(_model(*_linear(inputs, outputs), inputs))
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(content))
        what = rng.random()
        if what < 0.7:
            content[at] = rng.randrange(256)
        elif what < 0.9:
            del content[at : at + rng.randint(1, 16)]
        else:
            del content[at:]
        if not content:
            break
    return bytes(content)


MAKERS = (_columns, _rank, _late_shape, _type, _no_number, _endless, _bomb, _outside, _foreign, _no_tensor, _bytes)


def corrupt_model(number: int, inputs: int, outputs: int) -> bytes:
    """Model `number` for a bundle with so many inputs and outputs."""
    return MAKERS[number % len(MAKERS)](random.Random(number), inputs, outputs)
