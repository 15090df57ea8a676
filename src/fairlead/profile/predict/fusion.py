"""What is left of a model's layers when a runtime has joined those that every runtime joins.

A batch normalisation goes into the convolution or product before it, and so do an activation and the addition of a
shortcut; x * sigmoid(x) is one step. The tensors between them are never written. Works on an analysis, without a run;
prediction reads the result.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fairlead.profile.analysis import Analysis, Layer

_HOSTS = ("conv1x1", "conv3x3", "convkxk", "depthwise", "grouped", "gemm", "gemv")
_ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish")
_SUMS = ("Add", "Sum")


def fused(analysis: Analysis) -> tuple[Layer, ...]:
    """The layers that are run, in order; those that only give a tensor another shape are left out."""
    readers = Counter(tensor.name for layer in analysis.layers for tensor in layer.inputs)
    readers.update(tensor.name for tensor in analysis.outputs)
    made: dict[str, Layer] = {}  # by the name of the first output, in order
    for layer in analysis.layers:
        if layer.layer_type == "free":
            continue
        host = next((made[t.name] for t in layer.inputs if t.name in made and readers[t.name] == 1), None)
        if host is not None and _joins(host, layer):
            del made[host.outputs[0].name]
            layer = _joined(host, layer)
        made[layer.outputs[0].name if layer.outputs else layer.name] = layer
    return tuple(made.values())


def _joins(host: Layer, layer: Layer) -> bool:
    if not layer.outputs or layer.outputs[0].shape != host.outputs[0].shape:
        return False
    if host.layer_type in _HOSTS:
        return layer.operator in ("BatchNormalization", *_ACTIVATIONS, *_SUMS)
    if host.operator == "BatchNormalization":
        return layer.operator in _ACTIVATIONS
    return host.operator == "Sigmoid" and layer.operator == "Mul" and set(host.inputs) <= set(layer.inputs)  # a swish


def _joined(host: Layer, layer: Layer) -> Layer:
    """The host with what the layer reads beside it, writing what the layer writes."""
    own = {tensor.name for tensor in (*host.inputs, *host.outputs)}
    beside = tuple(tensor for tensor in layer.inputs if tensor.name not in own)
    folded = layer.operator == "BatchNormalization"  # into weights that are there anyway
    return replace(
        host,
        inputs=(*host.inputs, *beside),
        weights=host.weights if folded else (*host.weights, *layer.weights),
        outputs=layer.outputs,
        learnt=host.learnt | layer.learnt,
    )
