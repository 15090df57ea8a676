"""ONNX operators: of what type a layer is, how many MACs it takes, and which of its constants are learnt.

Pure functions of an operator's name, attributes and shapes; called by `onnx_file` and, with the operators that ONNX
Runtime makes of them by fusing, by `kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

Shape = tuple[int, ...]

_FREE = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Size", "Constant"}
_POOL = {"MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool", "ReduceMean", "ReduceMax",
         "ReduceSum", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare",
         "ArgMax", "ArgMin", "TopK", "CumSum", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean",
         "NhwcMaxPool"}  # fmt: skip
_NORMALISE = {"BatchNormalization", "LayerNormalization", "InstanceNormalization", "GroupNormalization",
              "RMSNormalization", "LpNormalization", "MeanVarianceNormalization", "LRN", "Softmax", "LogSoftmax",
              "SimplifiedLayerNormalization", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
              "EmbedLayerNormalization", "BiasSoftmax", "QLinearSoftmax"}  # fmt: skip
_MOVE = {"Concat", "Split", "Slice", "Transpose", "Pad", "Gather", "GatherElements", "GatherND", "Scatter",
         "ScatterElements", "ScatterND", "Expand", "Tile", "Resize", "Upsample", "DepthToSpace", "SpaceToDepth",
         "ReverseSequence", "ConstantOfShape", "Range", "OneHot", "NonZero", "Compress", "EyeLike", "Trilu",
         "NonMaxSuppression", "RoiAlign", "GridSample", "Unique", "Where", "ReorderInput", "ReorderOutput",
         "QLinearConcat", "QLinearWhere"}  # fmt: skip
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1, "DynamicQuantizeLSTM": 4}
_CONV = {"Conv", "ConvInteger", "QLinearConv", "ConvTranspose", "FusedConv", "NhwcFusedConv"}
_GEMM = {"Gemm", "FusedGemm", "QGemm"}
_PRODUCT = _GEMM | {"MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul", "MatMulIntegerToFloat",
                    "DynamicQuantizeMatMul", "MatMulNBits"}  # fmt: skip
_ATTENTION = {"Attention", "QAttention", "MultiHeadAttention"}
_QUANTISE = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"}
_ELEMENTWISE = {"Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Abs", "Neg", "Reciprocal", "Floor", "Ceil",
                "Round", "Sign", "Mod", "Min", "Max", "Mean", "Sum", "Clip", "Relu", "LeakyRelu", "PRelu", "Elu",
                "Selu", "Celu", "Gelu", "Sigmoid", "HardSigmoid", "HardSwish", "Swish", "Mish", "Tanh", "Softplus",
                "Softsign", "ThresholdedRelu", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
                "And", "Or", "Xor", "Not", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN",
                "IsInf", "Cast", "CastLike", "BitShift", "QuickGelu", "FastGelu", "BiasGelu",
                "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"}  # fmt: skip

#: Constants of these are sizes, limits and the like.
_NOT_LEARNT = _FREE | _MOVE - {"Gather", "Concat"} | {"Clip", "Pow", "TopK", "CumSum", "Cast", "QuantizeLinear", "Mod"}


def layer_type_of(
    operator: str, attributes: Mapping[str, Any], inputs: Sequence[Shape], outputs: Sequence[Shape]
) -> str:
    """One of `analysis.LAYER_TYPES`."""
    if operator in _CONV:
        return _type_of_convolution(operator, attributes, inputs)
    if operator in _PRODUCT:
        return "gemv" if prod(outputs[0][:-1]) == 1 else "gemm"
    if operator in _ATTENTION | {"Einsum"}:
        return "gemm"
    for layer_type, names in (
        ("recurrent", _GATES), ("free", _FREE), ("pool", _POOL), ("normalise", _NORMALISE), ("move", _MOVE),
        ("elementwise", _ELEMENTWISE | _QUANTISE),
    ):  # fmt: skip
        if operator in names:
            return layer_type
    return "other"


def _type_of_convolution(operator: str, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> str:
    weight = inputs[_weight_at(operator)]
    group = int(attributes.get("group", 1))
    if group > 1:
        per_group = weight[1] if operator != "ConvTranspose" else weight[0] // group
        return "depthwise" if per_group == 1 else "grouped"
    size = set(weight[2:])
    return "conv1x1" if size == {1} else "conv3x3" if size == {3} and len(weight) == 4 else "convkxk"


def _weight_at(operator: str) -> int:
    return 3 if operator.startswith("QLinear") else 1


def macs_of(operator: str, attributes: Mapping[str, Any], inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Multiplications with an addition each; 0 for what is no product."""
    if operator == "ConvTranspose":
        return prod(inputs[0]) * prod(inputs[1][1:])
    if operator in _CONV:
        return prod(outputs[0]) * prod(inputs[_weight_at(operator)][1:])
    if operator in _GEMM:
        return prod(outputs[0]) * inputs[0][0 if attributes.get("transA") else 1]
    if operator in _PRODUCT:
        inner = inputs[0][-2] if attributes.get("transA") else inputs[0][-1]
        return prod(outputs[0]) * inner
    if operator in _GATES:
        steps, batch, width = inputs[0]
        if attributes.get("layout"):
            steps, batch = batch, steps
        directions, hidden = inputs[2][0], int(attributes.get("hidden_size", inputs[2][2]))
        return steps * batch * directions * _GATES[operator] * hidden * (width + hidden)
    if operator in _ATTENTION:
        return _attention_macs(inputs, outputs)
    if operator == "Einsum":
        return _einsum_macs(str(attributes.get("equation", "")), inputs)
    return 0


def _attention_macs(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """Each asks each, then sums up what they answer; before that, three projections where the weights are here too."""
    first, second = inputs[0], inputs[1]
    if len(second) == 2:  # weights: queries, keys and values are all made of the first
        return prod(first) * second[1] + 2 * prod(outputs[0]) * first[1]
    length = second[-2]
    return prod(first) * length + prod(outputs[0]) * length


def _einsum_macs(equation: str, inputs: Sequence[Shape]) -> int:
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").split("->")[0].split(","), inputs, strict=False):
        letters = term.replace("...", "")
        sizes |= dict(zip(letters, shape[len(shape) - len(letters) :], strict=False))
        for n, size in enumerate(shape[: len(shape) - len(letters)]):
            sizes[f".{n}"] = size
    return prod(sizes.values()) if len(inputs) > 1 else 0


def learnt_inputs(operator: str, count: int) -> set[int]:
    """Which inputs of an operator are learnt where they are constants."""
    if operator in ("QLinearConv", "QLinearMatMul"):
        return {3, 8}
    if operator in ("ConvInteger", "MatMulInteger"):
        return {1}
    if operator == "BatchNormalization":
        return {1, 2}  # scale and bias; mean and variance are only followed
    if operator in _NOT_LEARNT:
        return set()
    if operator in ("Gather", "DequantizeLinear"):
        return {0}  # an embedding; a weight that is kept in few bits
    return set(range(count))
