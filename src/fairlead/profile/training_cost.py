"""What training a model costs: arithmetic of a step forward and backward, memory, and the whole job.

Pure arithmetic on an `Analysis`; called by `fairlead profile --train` and by prediction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairlead.profile.analysis import Analysis, Layer, Tensor

#: Numbers that an optimiser keeps for each parameter.
OPTIMIZERS = {"sgd": 0, "momentum": 1, "adam": 2}

_NEED_OUTPUTS = {"Relu", "LeakyRelu", "Elu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Exp", "Sqrt"}
_NEED_NOTHING = {"Add", "Sub", "Sum", "Neg", "Cast", "Mean", "Floor", "Ceil", "Round", "Sign"}


@dataclass(frozen=True, kw_only=True)
class Training:
    """A step, and how many there are."""

    forward_macs: int
    backward_macs: int
    weight_bytes: int  # with what is not learnt
    gradient_bytes: int
    optimizer_bytes: int
    kept_bytes: int  # of tensors that the way back needs
    batch: int
    samples: int  # of an epoch; 0: not given
    epochs: int

    @property
    def step_macs(self) -> int:
        """Forward and backward."""
        return self.forward_macs + self.backward_macs

    @property
    def steps(self) -> int:
        """Of the whole job; the last batch of an epoch may be smaller."""
        return self.epochs * math.ceil(self.samples / self.batch)

    @property
    def job_macs(self) -> int:
        """Of the whole job."""
        return round(self.step_macs * self.samples * self.epochs / self.batch)

    @property
    def memory_bytes(self) -> int:
        """Of a step, without what the framework itself takes."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes + self.kept_bytes


def training(found: Analysis, optimizer: str, batch: int, samples: int = 0, epochs: int = 1) -> Training:
    """Training with that batch. What grows with the batch is scaled, where the analysis is of another one."""
    learnt = {weight.name: weight for layer in found.layers for weight in layer.weights if weight.name in layer.learnt}
    parameters = sum(weight.bytes for weight in learnt.values())
    scale = batch / found.inputs[0].shape[0] if found.inputs and found.inputs[0].shape else 1
    return Training(
        forward_macs=round(found.macs * scale),
        backward_macs=round(backward_macs(found) * scale),
        weight_bytes=found.weight_bytes,
        gradient_bytes=parameters,
        optimizer_bytes=OPTIMIZERS[optimizer] * parameters,
        kept_bytes=round(kept_bytes(found) * scale),
        batch=batch,
        samples=samples,
        epochs=epochs,
    )


def backward_macs(found: Analysis) -> int:
    """A product of two takes one as large for the gradient of each, where it is wanted: not of what was given."""
    total = 0
    for layer, inputs in _followed(found):
        total += layer.macs * min(2, len(inputs) + bool(layer.learnt))
    return total


def _followed(found: Analysis) -> list[tuple[Layer, list[Tensor]]]:
    """The layers, each with those of its inputs that depend on a parameter: through these gradients go on."""
    depends: set[str] = set()
    made = []
    for layer in found.layers:
        inputs = [tensor for tensor in layer.inputs if tensor.name in depends]
        if inputs or layer.learnt:
            depends |= {tensor.name for tensor in layer.outputs}
            made.append((layer, inputs))
    return made


def kept_bytes(found: Analysis) -> int:
    """Of tensors that the way back needs, each once: as PyTorch keeps them.

    Products, normalisations and most of what works number by number need what they were given, activations such as
    Relu what they made, sums nothing; x * sigmoid(x) is one activation, and needs x. Of the largest in a window it is
    noted where it was (eight bytes each).
    """
    looked_at: dict[str, Tensor] = {}  # what is free looks at another's memory
    kept: dict[str, int] = {}
    noted = 0
    gates = _gates(found)
    followed = {layer.name for layer, _ in _followed(found)}
    for layer in found.layers:
        if layer.layer_type == "free":
            looked_at |= {one.name: looked_at.get(layer.inputs[0].name, layer.inputs[0]) for one in layer.outputs}
        if layer.name not in followed:
            continue
        for tensor in _needed(layer):
            tensor = looked_at.get(tensor.name, tensor)
            if tensor.name not in gates:
                kept[tensor.name] = tensor.bytes
        if layer.operator == "MaxPool":
            noted += 8 * layer.outputs[0].elements
    return sum(kept.values()) + noted


def _needed(layer: Layer) -> tuple[Tensor, ...]:
    if layer.operator in _NEED_OUTPUTS:
        return layer.outputs[:1]
    if layer.macs or layer.layer_type == "normalise" or layer.operator == "MaxPool":
        return layer.inputs
    if layer.layer_type == "elementwise" and layer.operator not in _NEED_NOTHING:
        return layer.inputs
    return ()


def _gates(found: Analysis) -> set[str]:
    """The tensors sigmoid(x) of an x * sigmoid(x)."""
    given = {
        one.outputs[0].name: one.inputs[0].name for one in found.layers if one.operator == "Sigmoid" and one.inputs
    }
    gates = set()
    for layer in found.layers:
        if layer.operator == "Mul":
            names = {one.name for one in layer.inputs}
            gates |= {name for name in names if given.get(name) in names}
    return gates
