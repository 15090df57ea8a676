"""What accelerators can't run: the lists, and what follows for a model."""

from __future__ import annotations

from fnmatch import fnmatch

import onnx
import pytest

from fairlead.detect.catalog import read_catalog
from fairlead.domain.errors import UserError
from fairlead.profile.analysis import Analysis, Layer, Tensor
from fairlead.profile.operator_support import Family, families, family_of, share_of_macs, unsupported

FAMILIES = families()


def tensor(name: str, *shape: int, dtype: str = "int8") -> Tensor:
    return Tensor(name, shape, dtype, 1.0)


def layer(operator: str, given: str, made: str, macs: int = 0, layer_type: str = "other", *, rank: int = 4) -> Layer:
    """On a tensor that has so many dimensions greater than 1, the batch left out."""
    shape = (1, *[8] * (rank - 1))
    weights = (tensor(f"{made}-w", 8, 8),) if macs else ()
    return Layer(made, operator, layer_type, macs, (tensor(given, *shape),), weights, (tensor(made, *shape),))


def model(*layers: Layer, batch: int = 1) -> Analysis:
    return Analysis("m", (tensor("x", batch, 8, 8, 8),), layers[-1].outputs, layers, sized_by_running=False)


MIXED = model(
    layer("Conv", "x", "a", 60, "conv3x3"),
    layer("HardSwish", "a", "b"),
    layer("Conv", "b", "c", 30, "conv1x1"),
    layer("NonZero", "c", "d"),
    layer("Conv", "c", "e", 10, "conv1x1"),
)


def whys(found: Analysis, name: str, precision: str | None = None) -> list[tuple[str, str]]:
    return [(one.layer, one.why) for one in unsupported(found, FAMILIES[name], precision)]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_list_names_its_source_and_knows_its_operators(name: str) -> None:
    family = FAMILIES[name]
    assert family.source
    assert family.title
    for operator in (*(family.operators or ()), *family.operators_not, *family.weighted):
        assert onnx.defs.has(operator), operator
    assert set(family.weighted) <= set(family.operators or family.weighted)
    for pattern in family.devices:
        assert any(fnmatch(entry.name, pattern) for entry in read_catalog().entries), pattern


def test_a_device_is_of_one_family_at_most() -> None:
    for entry in read_catalog().entries:
        mine = [one for one in FAMILIES.values() if any(fnmatch(entry.name, pattern) for pattern in one.devices)]
        assert len(mine) <= 1
        if mine:
            assert family_of(entry.name) is mine[0]
        else:
            with pytest.raises(
                UserError, match="there is no list of its operators yet; there are lists for cpu, ncnn, edgetpu"
            ):
                family_of(entry.name)
    assert family_of("coral-usb").name == "edgetpu"
    assert family_of("jetson-orin-nano-8gb").name == family_of("nvidia-gpu").name == "tensorrt"


def test_unknown_accelerators_are_told_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"coral-ubs: unknown accelerator \(did you mean 'coral-usb'\?\)"):
        family_of("coral-ubs")


def test_operators_that_are_not_listed_can_not_run() -> None:
    assert whys(MIXED, "cpu") == []
    assert whys(MIXED, "edgetpu") == [("b", "not among its operators"), ("d", "not among its operators")]
    assert [name for name, _ in whys(MIXED, "rockchip")] == ["d"]  # it has HardSwish
    assert [name for name, _ in whys(MIXED, "tensorrt")] == ["d"]


@pytest.mark.parametrize(
    ("rest", "share"),
    [("cpu", 1.0), ("cpu-from-there", 0.6), ("refused", 0.0)],
)
def test_what_becomes_of_the_rest(rest: str, share: float) -> None:
    """60 of 100 MACs come before the first that can't run; what can't run has none itself."""
    family = Family(name="f", title="F", takes=("int8",), operators=("Conv",), rest=rest, source="none")
    problems = unsupported(MIXED, family)
    assert [one.layer for one in problems] == ["b", "d"]
    assert share_of_macs(MIXED, family, problems) == share
    assert share_of_macs(MIXED, family, []) == 1.0


def test_an_edge_tpu_needs_int8() -> None:
    floats = model(layer("Relu", "x", "a"), layer("Conv", "a", "b", 10, "conv1x1"))
    assert whys(floats, "edgetpu") == []
    inputs, weights = (tensor("a", 1, 8, 8, 8, dtype="float32"),), (tensor("w", 8, 8, dtype="float32"),)
    floats = model(layer("Relu", "x", "a"), Layer("b", "Conv", "conv1x1", 10, inputs, weights, (tensor("b", 1, 8),)))
    assert whys(floats, "edgetpu") == [("", "computes in float32; takes int8 or uint8")]
    assert whys(floats, "edgetpu", precision="int8") == []  # once it is quantised
    assert share_of_macs(floats, FAMILIES["edgetpu"], unsupported(floats, FAMILIES["edgetpu"])) == 1.0
    assert whys(floats, "hailo") == []  # whose compiler quantises


def test_an_edge_tpu_takes_small_shapes_one_at_a_time_and_constant_weights() -> None:
    assert whys(model(layer("Relu", "x", "a"), batch=4), "edgetpu") == [("", "a batch of 4; takes 1")]
    assert whys(model(layer("Reshape", "x", "a", rank=5)), "edgetpu") == [("a", "a tensor of 4 dimensions; takes 3")]
    assert whys(model(layer("MatMul", "x", "a")), "edgetpu") == [("a", "needs a constant weight")]
    grouped = layer("Conv", "x", "a", 10, "grouped")
    assert whys(model(grouped), "edgetpu") == [("a", "grouped convolutions are not among its operators")]


def test_a_quantised_operator_is_its_own_kind_unless_it_is_left_out() -> None:
    quantised = model(layer("QLinearConv", "x", "a", 10, "conv3x3"))
    assert whys(quantised, "edgetpu") == []
    assert whys(quantised, "tensorrt") == [("a", "not among its operators")]


def test_what_is_computed_of_sizes_alone_needs_no_accelerator() -> None:
    sizes = model(
        layer("Shape", "x", "s"), layer("Gather", "s", "g"), layer("Range", "g", "r"), layer("Relu", "x", "y"),
    )  # fmt: skip
    assert whys(sizes, "edgetpu") == []
    assert [name for name, _ in whys(model(layer("Gather", "x", "g")), "edgetpu")] == ["g"]


def test_sizes_that_depend_on_values_are_told_as_such() -> None:
    family = Family(name="f", title="F", takes=("int8",), operators=None, rest="cpu", source="none", fixed_sizes=True)
    found = unsupported(model(layer("NonZero", "x", "a")), family)
    assert [one.why for one in found] == ["the size of its output depends on its input, and all sizes must be fixed"]
