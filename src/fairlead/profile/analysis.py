"""What a model is made of: its layers by type, with their arithmetic, their weights and what they move.

The nouns that the analyser makes and prediction reads; no I/O, no ONNX here. A MAC is a multiplication with its
addition, of convolutions, matrix products and recurrent layers alone, as published counts have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

#: Types of layers; those of one type take time alike. What only gives a tensor another shape is `free`.
LAYER_TYPES = (
    "conv1x1", "conv3x3", "convkxk", "depthwise", "grouped", "gemm", "gemv", "recurrent",
    "elementwise", "normalise", "pool", "move", "other", "free",
)  # fmt: skip

CONVOLUTIONS = LAYER_TYPES[:5]

# What a process grows by that loads a model with ONNX Runtime and runs it, beside the tensors of the run: while it is
# loaded, weights are there as read and as they are run (packed), those of convolutions also as fused and in blocks, and
# not all of what is freed goes back. Fitted to 32 architectures (ONNX Runtime 1.31, x86-64, memory arena off).
_COPIES_OF_CONVOLUTIONS, _COPIES_OF_OTHERS = 2.85, 1.85
_BYTES_A_LAYER, _BYTES_OF_RUNTIME = 16_000, 9_500_000


@dataclass(frozen=True)
class Tensor:
    """A tensor between layers, or a weight."""

    name: str
    shape: tuple[int, ...]
    type: str  # as NumPy names it
    item_bytes: float  # half a byte for four bits

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Its size."""
        return round(self.elements * self.item_bytes)


@dataclass(frozen=True)
class Layer:
    """One operator with its sizes."""

    name: str
    operator: str
    layer_type: str  # of LAYER_TYPES
    macs: int
    inputs: tuple[Tensor, ...]  # without the weights
    weights: tuple[Tensor, ...]  # constants, learnt or not
    outputs: tuple[Tensor, ...]
    learnt: frozenset[str] = frozenset()  # names of the weights that training changes

    @property
    def moved_bytes(self) -> int:
        """All that it reads and writes, once."""
        return sum(tensor.bytes for tensor in (*self.inputs, *self.weights, *self.outputs))


@dataclass(frozen=True)
class LayerTypeSums:
    """The layers of one type, summed up."""

    layer_type: str
    layers: int
    macs: int
    parameters: int
    moved_bytes: int

    @property
    def intensity(self) -> float:
        """MACs for each byte that is moved."""
        return self.macs / self.moved_bytes if self.moved_bytes else 0.0


@dataclass(frozen=True)
class Analysis:
    """A model with its sizes, layers in the order in which they run."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    sized_by_running: bool  # whether some sizes had to be found by a run

    @property
    def macs(self) -> int:
        """Of one run."""
        return sum(layer.macs for layer in self.layers)

    @property
    def weights(self) -> dict[str, Tensor]:
        """All constants by name, each once."""
        return {weight.name: weight for layer in self.layers for weight in layer.weights}

    @property
    def parameters(self) -> int:
        """Numbers that training changes; a weight that several layers share counts once."""
        learnt = {name for layer in self.layers for name in layer.learnt}
        return sum(weight.elements for name, weight in self.weights.items() if name in learnt)

    @property
    def weight_bytes(self) -> int:
        """Of all constants."""
        return sum(weight.bytes for weight in self.weights.values())

    @property
    def activation_bytes(self) -> int:
        """Of all tensors between layers together, as training keeps them."""
        return sum(tensor.bytes for layer in self.layers if layer.layer_type != "free" for tensor in layer.outputs)

    @property
    def peak_activation_bytes(self) -> int:
        """The most that is alive at once: a tensor from the layer that makes it to the last that reads it."""
        last = {tensor.name: n for n, layer in enumerate(self.layers) for tensor in layer.inputs}
        last |= {tensor.name: len(self.layers) for tensor in self.outputs}
        memory = {tensor.name: tensor.name for tensor in self.inputs}  # whose memory a tensor is in
        until = {tensor.name: last.get(tensor.name, 0) for tensor in self.inputs}  # when that may go
        alive = {tensor.name: tensor.bytes for tensor in self.inputs}
        given, peak = set(alive), sum(alive.values())
        for n, layer in enumerate(self.layers):
            for tensor in layer.outputs:
                mine = _taken_over(layer, tensor, n, memory, until, given)
                memory[tensor.name] = mine
                until[mine] = max(until.get(mine, n), last.get(tensor.name, n))
                alive.setdefault(mine, tensor.bytes)
            peak = max(peak, sum(alive.values()))
            alive = {name: size for name, size in alive.items() if until[name] > n}
        return peak

    @property
    def memory_bytes(self) -> int:
        """What a fresh process grows by at most that loads it in ONNX Runtime and runs it: an estimate."""
        convolutions = [layer for layer in self.layers if layer.layer_type in CONVOLUTIONS]
        convolved = {w.name: w.bytes for layer in convolutions for w in layer.weights}
        first, others = sum(convolved.values()), self.weight_bytes - sum(convolved.values())
        loaded = _COPIES_OF_CONVOLUTIONS * first + _COPIES_OF_OTHERS * others
        return round(loaded + self.peak_activation_bytes + _BYTES_A_LAYER * len(self.layers) + _BYTES_OF_RUNTIME)

    @property
    def precisions(self) -> tuple[str, ...]:
        """Types of the numbers that its products are made of."""
        made_by = {tensor.name: layer.operator for layer in self.layers for tensor in layer.outputs}
        return tuple(sorted({_computes_in(layer, made_by) for layer in self.layers if layer.macs}))

    def by_layer_type(self) -> list[LayerTypeSums]:
        """Sums over the layers of each type, in the order of LAYER_TYPES."""
        found: dict[str, list[Layer]] = {name: [] for name in LAYER_TYPES}
        for layer in self.layers:
            found[layer.layer_type].append(layer)
        return [_sum(name, layers) for name, layers in found.items() if layers]


def _taken_over(
    layer: Layer, tensor: Tensor, n: int, memory: dict[str, str], until: dict[str, int], given: set[str]
) -> str:
    """The tensor in whose memory layer `n` puts another: its own, or one of its inputs.

    What is free looks at its first input. What works number by number writes over an input that is not read later, as
    does a batch normalisation, which is most often part of the layer before; a model's own inputs are left alone.
    """
    inputs = [memory[one.name] for one in layer.inputs if one.name in memory]
    if layer.layer_type == "free" and inputs:
        return inputs[0]
    if layer.layer_type == "elementwise" or layer.operator == "BatchNormalization":
        sizes = {memory.get(one.name): one.bytes for one in layer.inputs}
        for name in inputs:
            if until[name] == n and sizes[name] == tensor.bytes and name not in given:
                return name
    return tensor.name


def _computes_in(layer: Layer, made_by: Mapping[str, str]) -> str:
    """A product's type: eight bits where its weight has them and what it is given was quantised too."""
    given = layer.inputs[0] if layer.inputs else max(layer.weights, key=lambda one: one.elements)
    weight = max(layer.weights, key=lambda one: one.elements, default=given)
    quantised = given.type in ("int8", "uint8") or made_by.get(given.name) == "DequantizeLinear"
    return weight.type if quantised and weight.type in ("int8", "uint8") else given.type


def _sum(layer_type: str, layers: Sequence[Layer]) -> LayerTypeSums:
    learnt = {weight.name: weight.elements for one in layers for weight in one.weights if weight.name in one.learnt}
    macs, moved = sum(one.macs for one in layers), sum(one.moved_bytes for one in layers)
    return LayerTypeSums(layer_type, len(layers), macs, sum(learnt.values()), moved)
