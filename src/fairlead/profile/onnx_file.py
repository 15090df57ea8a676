"""Reading an ONNX file into an `Analysis`: sizes for inputs that have none, shapes of everything between, layers.

Shapes come from ONNX' own inference; what it can't tell (sizes that are computed on the way) is found by one run in
ONNX Runtime. Weights are never read, their shapes suffice. The package `onnx` is imported when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.domain.errors import UserError, as_typed, how_to_install, nearest, one_line, shown
from fairlead.inputs.bounded_memory import bounded_memory
from fairlead.inputs.read_files import MB, read_bytes
from fairlead.profile.analysis import Analysis, Layer, Tensor
from fairlead.profile.operators import layer_type_of, learnt_inputs, macs_of
from fairlead.profile.shape_run import run_for_shapes

_MOST_MB: Final = 2048  # more, protobuf can't hold in one message
_MOST_ELEMENTS: Final = 10**13
_INFERENCE_MB: Final = 1000  # for the inference of shapes, which reads no weights
_WORD, _MESSAGE = 9, 11  # protobuf's types of fields
_OURS = ("", "ai.onnx")
_BITS = {"int4": 0.5, "uint4": 0.5, "float4e2m1": 0.5, "int2": 0.25, "uint2": 0.25, "bfloat16": 2.0}


@dataclass
class _Shapes:
    """What is known of tensors by their names."""

    of: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)  # with the weights that they are made of

    def unknown(self, names: Any) -> list[str]:
        return [name for name in names if name and name not in self.of]


def analyse(path: Path, sizes: Mapping[str, int] | None = None, batch: int = 1) -> Analysis:
    """The analysis of a file; `sizes` are those of dimensions with a name, or INPUT.N for the Nth of an input."""
    onnx = import_onnx()
    model = read_model(path)
    _check_operators(onnx, path, model.graph)
    inputs = size_inputs(path, model, sizes, batch)
    outputs = [one.name for one in model.graph.output]
    shapes = _inferred(onnx, path, model)
    wanted = [name for node in model.graph.node for name in (*node.input, *node.output)]
    by_running = bool(shapes.unknown(wanted))
    if by_running:
        _run_for_shapes(onnx, path, model, inputs, shapes, shapes.unknown(wanted))
    try:
        layers = [layer for node in model.graph.node for layer in _layers(onnx, node, shapes)]
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return Analysis(
        name=path.stem,
        inputs=inputs,
        outputs=tuple(shapes.of[name] for name in outputs if name in shapes.of),
        layers=tuple(layers),
        sized_by_running=by_running,
    )


def size_inputs(path: Path, model: Any, sizes: Mapping[str, int] | None = None, batch: int = 1) -> tuple[Tensor, ...]:
    """The inputs of a model that was read, with all sizes; these are written into the model."""
    constants = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in constants]
    _give_sizes(path, inputs, dict(sizes or {}), batch)
    types = {one.name: one.type.tensor_type for one in inputs}
    shapes = {name: tuple(d.dim_value for d in one.shape.dim) for name, one in types.items()}
    try:
        return tuple(make_tensor(name, shapes[name], one.elem_type) for name, one in types.items())
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def import_onnx() -> Any:
    """The package `onnx`, or one line on how to get it."""
    try:
        import onnx
    except ImportError:
        raise UserError(f"this needs onnx: {how_to_install('profile')}") from None
    return onnx


def read_model(path: Path) -> Any:
    """The model of a file, as `onnx` has it; weights that are kept in other files are not read, but must be there."""
    onnx = import_onnx()
    content = read_bytes(path, _MOST_MB)
    try:
        model = onnx.load_from_string(content)
    except Exception:  # protobuf's own, of which there are several
        model = None
    if model is None or not model.graph.node:
        raise UserError(f"{path}: not an ONNX model")
    _check_message(onnx, path, model)
    return model


def _check_message(onnx: Any, path: Path, message: Any) -> None:
    """Refuse words that are no text, sizes that are none, and weights in files that are not there, also far inside."""
    if isinstance(message, onnx.TensorProto):
        if any(not 0 <= n <= _MOST_ELEMENTS for n in (*message.dims, prod(message.dims))):
            raise UserError(
                f"{path}: tensor {shown(message.name)} has the impossible sizes {shown(list(message.dims))}"
            )
        if message.data_location == onnx.TensorProto.EXTERNAL:
            _check_external(path, {entry.key: entry.value for entry in message.external_data})
    for descriptor, value in message.ListFields():
        if descriptor.type not in (_WORD, _MESSAGE):
            continue
        for one in [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value:
            if isinstance(one, bytes):  # what protobuf makes of words that are not UTF-8
                raise UserError(f"{path}: not an ONNX model: {shown(one)} is not a text")
            if descriptor.type == _MESSAGE:
                _check_message(onnx, path, one)


def _check_external(path: Path, told: Mapping[str, str]) -> None:
    """Whether weights that are kept in another file are there: a plain file in the model's folder."""
    location = told.get("location", "")
    if not location or os.path.isabs(location) or ".." in Path(location).parts:
        raise UserError(f"{path}: its weights are in {shown(location)}, which is outside of its folder")
    file = path.parent / location
    try:
        first, length = int(told.get("offset", 0)), int(told.get("length", 0))
    except ValueError:
        first = length = -1
    if min(first, length) < 0 or not file.is_file() or file.stat().st_size < first + length:
        raise UserError(f"{path}: its weights are in {as_typed(location)}, which is missing or incomplete")


def _check_operators(onnx: Any, path: Path, graph: Any) -> None:
    for node in graph.node:
        ours = node.domain in _OURS
        if (ours and not onnx.defs.has(node.op_type)) or not (ours or node.domain in ("ai.onnx.ml", "com.microsoft")):
            where = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            raise UserError(f"{path}: unknown operator {where} in layer {_name(node)!r}")
        for attribute in node.attribute:
            for inside in (attribute.g, *attribute.graphs):
                _check_operators(onnx, path, inside)


def _give_sizes(path: Path, inputs: list[Any], sizes: dict[str, int], batch: int) -> None:
    """Put sizes where the file has a name or nothing; an open first dimension, and what has its name, is the batch."""
    used, lacking, known, batches = set(), [], set(), set()
    for one in inputs:
        if not one.type.tensor_type.HasField("shape"):
            raise UserError(f"{path}: input {one.name!r} is not a tensor with a known number of dimensions")
        for n, dimension in enumerate(one.type.tensor_type.shape.dim):
            name = dimension.dim_param if dimension.dim_param != "?" else ""  # which is no name
            keys = [f"{one.name}.{n}", *([name] if name else [])]
            known |= set(keys)
            given = [key for key in sizes if key in keys]
            if given:  # what is said last counts: a user's word after a default's
                dimension.dim_value = sizes[given[-1]]
                used |= set(given)
            elif dimension.HasField("dim_value") and dimension.dim_value > 0:
                continue
            elif n == 0 or (name in batches and name):
                dimension.dim_value = batch
                batches.add(name)
            else:
                lacking.append(keys[-1])
    if lacking:
        options = " ".join(f"--size {key}=N" for key in dict.fromkeys(lacking))
        raise UserError(f"{path}: its inputs have open sizes: give {options}")
    for key in sizes:
        if key not in used:
            raise UserError(f"--size {key}={sizes[key]}: no input of {path.name} has it{nearest(key, known)}")


def _inferred(onnx: Any, path: Path, model: Any) -> _Shapes:
    del model.graph.value_info[:]  # what the file says of the inside was said for other sizes
    for one in model.graph.output:
        one.type.tensor_type.ClearField("shape")
    try:
        shapes = _Shapes()
        with bounded_memory(_INFERENCE_MB):  # it makes as many sizes as a list of sizes is said to have
            _note(onnx.shape_inference.infer_shapes(model, data_prop=True).graph, shapes)
    except MemoryError:
        raise UserError(f"{path}: its shapes can't be computed within {_INFERENCE_MB} MB of memory") from None
    except Exception as error:
        raise UserError(f"{path}: its shapes do not fit together: {one_line(error)}") from None
    return shapes


def _note(graph: Any, shapes: _Shapes) -> None:
    """Write down the tensors of a graph whose sizes are known, and of graphs inside of it."""
    for one in graph.initializer:
        shapes.of[one.name] = make_tensor(one.name, tuple(one.dims), one.data_type)
        shapes.constants[one.name] = (shapes.of[one.name],)
    for one in (*graph.input, *graph.value_info, *graph.output):
        tensor = one.type.tensor_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shape = tuple(d.dim_value for d in tensor.shape.dim)
            shapes.of.setdefault(one.name, make_tensor(one.name, shape, tensor.elem_type))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                value = attribute.t
                shapes.of[node.output[0]] = make_tensor(node.output[0], tuple(value.dims), value.data_type)
                shapes.constants[node.output[0]] = (shapes.of[node.output[0]],)
            for inside in (attribute.g, *attribute.graphs):
                if inside.node:
                    _note(inside, shapes)


def make_tensor(name: str, shape: tuple[int, ...], number: int) -> Tensor:
    """A tensor of one of the types that ONNX numbers. Raises ValueError where there is none of such a type or size."""
    onnx = import_onnx()
    known = number in onnx.TensorProto.DataType.values()
    if not known or min(shape, default=0) < 0 or prod(shape) > _MOST_ELEMENTS:
        raise ValueError(f"tensor {shown(name)} has an impossible type or size: {number}, {shown(list(shape))}")
    dtype = onnx.TensorProto.DataType.Name(number).lower() if number else "float"
    dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    if dtype in _BITS:
        return Tensor(name, shape, dtype, _BITS[dtype])
    try:
        return Tensor(name, shape, dtype, float(onnx.helper.tensor_dtype_to_np_dtype(number or 1).itemsize))
    except (KeyError, TypeError):
        return Tensor(name, shape, dtype, 1.0)


def _run_for_shapes(
    onnx: Any, path: Path, model: Any, inputs: tuple[Tensor, ...], shapes: _Shapes, unknown: list[str]
) -> None:
    """Run it once on zeros, and see what sizes come out."""
    outputs = {one.name for one in model.graph.output}
    made = {name for node in model.graph.node for name in node.output}
    model.graph.output.extend(
        onnx.ValueInfoProto(name=name) for name in dict.fromkeys(unknown) if name in made - outputs
    )
    stored = onnx.external_data_helper.ExternalDataInfo
    files = {stored(one).location for one in model.graph.initializer if one.external_data}
    try:
        content = model.SerializeToString()
        weights_mb = (len(content) + sum((path.parent / file).stat().st_size for file in files)) / MB
        sizes = run_for_shapes(content, path.parent, inputs, weights_mb)
        for name, (shape, dtype) in sizes.items():
            number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            shapes.of[name] = make_tensor(name, shape, number)
    except Exception as error:
        why = error if isinstance(error, UserError) else one_line(error)
        raise UserError(f"{path}: its sizes can't be computed without a run, and a run fails: {why}") from None


def _layers(onnx: Any, node: Any, shapes: _Shapes) -> list[Layer]:
    """The layers of a node: itself, or what is inside of it. Of two branches the dearer counts; a loop's body once.

    What is made of constants alone is none: every runtime computes it once, before the first run.
    """
    if node.op_type == "Constant":
        return []
    named = [name for name in node.input if name]
    if named and all(name in shapes.constants for name in named) and not node.op_type.startswith("Random"):
        origins = tuple(dict.fromkeys(weight for name in named for weight in shapes.constants[name]))
        shapes.constants |= {name: origins for name in node.output if name}
        return []
    inside = [attribute.g for attribute in node.attribute if attribute.g.node]
    if inside:
        bodies = [[layer for one in graph.node for layer in _layers(onnx, one, shapes)] for graph in inside]
        return max(bodies, key=lambda layers: (sum(layer.macs for layer in layers), len(layers)))
    attributes = attributes_of(node)
    found = [shapes.of.get(name) for name in node.input]
    outputs = tuple(shapes.of[name] for name in node.output if name in shapes.of)
    ins, outs = [tensor.shape if tensor else () for tensor in found], [tensor.shape for tensor in outputs] or [()]
    try:
        layer_type = layer_type_of(node.op_type, attributes, ins, outs)
        macs = macs_of(node.op_type, attributes, ins, outs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of a branch not taken, say
        raise UserError(
            f"the sizes of layer {_name(node)!r} ({node.op_type}) can't be computed, not even by a run"
        ) from None
    learnt = learnt_inputs(node.op_type, len(found))
    constants = [(n, w) for n, name in enumerate(node.input) if name for w in shapes.constants.get(name, ())]
    return [
        Layer(
            name=_name(node),
            operator=node.op_type,
            layer_type=layer_type,
            macs=macs,
            inputs=tuple(one for one in found if one and one.name not in shapes.constants),
            weights=tuple(one for _, one in constants),
            outputs=outputs,
            learnt=frozenset(one.name for n, one in constants if n in learnt and _may_learn(one)),
        )
    ]


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a node, as Python has them."""
    found = {}
    for one in node.attribute:
        try:
            value = import_onnx().helper.get_attribute_value(one)
        except ValueError:  # of a type that there is not
            continue
        found[one.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found


def _name(node: Any) -> str:
    return node.name or next(iter(node.output), node.op_type)


def _may_learn(tensor: Tensor) -> bool:
    """Whole numbers of many bits are indices; a single number is a setting."""
    return tensor.elements > 1 and not tensor.type.startswith(("int64", "int32", "bool", "uint64", "uint32", "string"))
