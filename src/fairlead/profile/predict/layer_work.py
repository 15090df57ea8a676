"""What the layers of a model ask of a device, as amounts that its rates are multiplied with.

A prediction is a sum of amounts times rates: so many MACs in 3x3 convolutions, so many bytes through pooling, so many
layers to start. There are two ways to count. `by_kernel` is fine, a few amounts for each type of layer: for machines
whose kernels were timed one by one. `by_model` is coarse: for devices of which only whole models were timed.
Pure functions; fitted by `rates`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from fairlead.profile.analysis import Analysis, Layer
from fairlead.profile.predict.fusion import fused

DENSE = ("conv1x1", "conv3x3", "convkxk", "grouped", "gemm", "recurrent")
_BYTES = 4  # of a number, where sizes are counted in numbers


@dataclass(frozen=True)
class Work:
    """One layer, as far as its time depends on it. Sizes are counts of numbers."""

    layer_type: str  # of analysis.LAYER_TYPES
    macs: int
    inputs: int  # numbers read, without the weights
    outputs: int  # numbers written
    weights: int
    channels: int = 1  # outputs that share their inputs: of a convolution in groups, those of one
    depth: int = 1  # how many products each output is the sum of
    stride: int = 1
    eight_bit: bool = False
    item_bytes: float = _BYTES  # of a number


Amounts = dict[str, float]
Count = Callable[[Work], Amounts]


def works_of(analysis: Analysis, eight_bit: bool | None = None) -> tuple[Work, ...]:
    """What an analysed model asks for, layer by layer; `eight_bit`: as if it were quantised, or were not."""
    return tuple(work_of(layer, eight_bit) for layer in fused(analysis))


def work_of(layer: Layer, eight_bit: bool | None = None) -> Work:
    """What one layer asks for."""
    outputs = layer.outputs[0].shape if layer.outputs else ()
    weight = max(layer.weights, key=lambda one: one.elements).shape if layer.weights else ()
    of_inputs = layer.inputs[0].shape if layer.inputs else ()
    own = bool(layer.weights) and max(layer.weights, key=lambda one: one.elements).type in ("int8", "uint8")
    written = sum(tensor.elements for tensor in layer.outputs)
    groups = max(1, of_inputs[1] // weight[1]) if layer.layer_type == "grouped" and len(of_inputs) > 2 else 1
    return Work(
        layer_type=layer.layer_type,
        macs=layer.macs,
        inputs=sum(tensor.elements for tensor in layer.inputs),
        outputs=written,
        weights=sum(tensor.elements for tensor in layer.weights),
        channels=max(1, _channels(layer.layer_type, outputs) // groups),
        depth=max(1, layer.macs // max(1, prod(outputs))),
        stride=_stride(of_inputs, outputs),
        eight_bit=own if eight_bit is None else eight_bit,
        item_bytes=layer.outputs[0].item_bytes if layer.outputs else _BYTES,
    )


def _channels(layer_type: str, outputs: tuple[int, ...]) -> int:
    if not outputs:
        return 1
    return outputs[-1] if layer_type in ("gemm", "gemv", "recurrent") or len(outputs) < 3 else outputs[1]


def _stride(inputs: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    """How much smaller a picture comes out."""
    if len(inputs) < 4 or len(outputs) < 4 or not outputs[2]:
        return 1
    return max(1, round(inputs[2] / outputs[2]))


def by_kernel(work: Work) -> Amounts:
    """By type of layer: millions of MACs, megabytes of tensors, megabytes of weights, and one for the call itself."""
    if work.layer_type == "free":
        return {}
    moved = (work.inputs + work.outputs) * work.item_bytes / 1e6
    amounts = {f"{work.layer_type}.moved_mb": moved, f"{work.layer_type}.calls": 1.0}
    if work.macs:
        amounts |= {
            f"{work.layer_type}.mmacs": work.macs / 1e6,
            f"{work.layer_type}.weights_mb": work.weights * work.item_bytes / 1e6,
        }
    return amounts


def by_model(work: Work) -> Amounts:
    """Few amounts, since few models are timed on a device.

    MACs of 3x3 convolutions of stride 1 (for which there are fast algorithms), of other convolutions and products, and
    of depthwise ones; each in eight bits too. `packing`, MACs by channel: inputs are arranged anew for every few
    outputs. `depth`: long sums, that many cores can't share. Bytes of a vector's weights, and of what only moves.
    """
    if work.layer_type == "free":
        return {}
    bits = "8" if work.eight_bit else ""
    moved = (work.inputs + work.outputs) * _BYTES / 1e6
    if work.layer_type in DENSE:
        fast = work.layer_type == "conv3x3" and work.stride == 1
        return {
            f"{'fast' if fast else 'dense'}{bits}.mmacs": work.macs / 1e6,
            "packing": work.macs / work.channels / 1e6,
            "depth": work.depth / 1e3,
            "calls": 1.0,
        }
    if work.layer_type == "depthwise":
        return {f"depthwise{bits}.mmacs": work.macs / 1e6, "calls": 1.0}
    if work.layer_type == "gemv":
        return {"vector.weights_mb": work.weights * (1 if work.eight_bit else _BYTES) / 1e6, "calls": 1.0}
    name = work.layer_type if work.layer_type in ("pool", "move") else "elementwise"
    return {f"{name}.moved_mb": moved, "calls": 1.0}


def summed(works: Iterable[Work], count: Count) -> Amounts:
    """The amounts of a whole model."""
    total: Amounts = {}
    for work in works:
        for name, amount in count(work).items():
            total[name] = total.get(name, 0.0) + amount
    return total


def time_ms(amounts: Amounts, rates: Mapping[str, float]) -> float:
    """Amounts times rates; an amount without a rate takes no time."""
    return sum(amount * rates.get(name, 0.0) for name, amount in amounts.items())
