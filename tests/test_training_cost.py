"""What training costs, by hand and against torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.architectures import Architecture

from fairlead.profile.analysis import Analysis, Layer, Tensor
from fairlead.profile.onnx_file import analyse
from fairlead.profile.training_cost import OPTIMIZERS, backward_macs, kept_bytes, training


def tensor(name: str, elements: int = 100) -> Tensor:
    return Tensor(name, (1, elements), "float32", 4.0)


def layer(
    operator: str, given: list[str], made: str, macs: int = 0, layer_type: str = "elementwise", *, learns: bool = False
) -> Layer:
    weights = (tensor(f"{made}-w", 50),) if learns else ()
    learnt = frozenset(one.name for one in weights)
    inputs = tuple(tensor(name) for name in given)
    return Layer(made, operator, layer_type, macs, inputs, weights, (tensor(made),), learnt)


def model(*layers: Layer) -> Analysis:
    return Analysis("m", (tensor("x"),), layers[-1].outputs, layers, sized_by_running=False)


NET = model(
    layer("Conv", ["x"], "a", 1000, "conv3x3", learns=True),  # for its weights alone: x has no gradient
    layer("BatchNormalization", ["a"], "b", layer_type="normalise", learns=True),
    layer("Relu", ["b"], "c"),
    layer("Gemm", ["c"], "d", 10, "gemm", learns=True),  # both
    layer("MatMul", ["d", "c"], "y", 7, "gemm"),  # no weights, but both of its inputs
)


def test_a_product_takes_one_more_for_each_gradient_that_is_wanted() -> None:
    assert backward_macs(NET) == 1000 + 2 * 10 + 2 * 7


def test_what_comes_before_all_weights_has_no_gradient() -> None:
    frozen = model(layer("MatMul", ["x", "x"], "a", 1000, "gemm"), layer("Gemm", ["a"], "y", 10, "gemm", learns=True))
    assert backward_macs(frozen) == 10


def test_tensors_are_kept_that_the_way_back_needs() -> None:
    """x for the convolution, a for the normalisation, c for both Relu and product, d; not b, which Relu writes over."""
    assert kept_bytes(NET) == 4 * 400
    pooled = model(layer("Conv", ["x"], "a", 9, "conv3x3", learns=True), layer("MaxPool", ["a"], "y", 0, "pool"))
    assert kept_bytes(pooled) == 2 * 400 + 100 * 8  # x, a, and where the largest was
    swish = model(
        layer("Conv", ["x"], "a", 9, "conv3x3", learns=True),
        layer("Sigmoid", ["a"], "s"),
        layer("Mul", ["a", "s"], "y"),
    )
    assert kept_bytes(swish) == 2 * 400  # x and a
    looked = model(
        layer("Conv", ["x"], "a", 9, "conv3x3", learns=True), layer("Relu", ["a"], "b"),
        layer("Reshape", ["b"], "v", layer_type="free"), layer("Gemm", ["v"], "y", 9, "gemm", learns=True),
    )  # fmt: skip
    assert kept_bytes(looked) == 2 * 400  # x, and b once


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_memory_and_job(optimizer: str) -> None:
    found = training(NET, optimizer, batch=8, samples=20, epochs=3)
    assert found.step_macs == 8 * (1017 + 1034)
    assert (found.gradient_bytes, found.optimizer_bytes) == (600, OPTIMIZERS[optimizer] * 600)
    assert found.kept_bytes == 8 * 1600
    assert found.memory_bytes == 600 + 600 + found.optimizer_bytes + 8 * 1600
    assert found.steps == 3 * 3  # the last of three has four samples
    assert found.job_macs == 3 * 20 * (1017 + 1034)


# Without grouped convolutions: of these torch's counter takes the gradient of the weights for that of an ungrouped one.
ARCHITECTURES = ("resnet18", "densenet121", "squeezenet1_1", "googlenet", "swin_t")


def in_torch(name: str, batch: int = 2) -> tuple[int, int]:
    import torch
    from torch.autograd.graph import saved_tensors_hooks
    from torch.utils.flop_counter import FlopCounterMode

    about = Architecture(name)
    module = about.module().train()
    own = {one.untyped_storage()._cdata for one in (*module.parameters(), *module.buffers())}
    kept: dict[int, Any] = {}

    def keep(one: Any) -> Any:
        kept[one.untyped_storage()._cdata] = one  # held, so that no other takes its place
        return one

    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(keep, lambda one: one):
        made = module(torch.zeros(batch, 3, about.side, about.side))
        (made if isinstance(made, torch.Tensor) else made[0]).sum().backward()
    sizes = {key: one.untyped_storage().nbytes() for key, one in kept.items() if key not in own}
    return counter.get_total_flops() // 2 // batch, sum(sizes.values()) // batch


@pytest.mark.slow
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_arithmetic_and_memory_are_those_of_torch(name: str, architectures: Path) -> None:
    macs, kept = in_torch(name)
    ours = training(analyse(Architecture(name).onnx(architectures)), "sgd", batch=1)
    print(f"{name}: MACs {ours.step_macs / macs - 1:+.2%}, kept {ours.kept_bytes / kept - 1:+.1%}")
    assert ours.step_macs == pytest.approx(macs, rel=0.02)
    assert ours.kept_bytes == pytest.approx(kept, rel=0.1)
