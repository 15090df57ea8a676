"""The kernels that ONNX Runtime makes of a model's layers: what they are, their MACs and bytes, their times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairlead.domain.errors import UserError
from fairlead.profile.kernels import Kernel, measure, measure_runs
from fairlead.profile.onnx_file import analyse


def weight(name: str, *shape: int) -> Any:
    drawn = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    return numpy_helper.from_array(np.asarray(0.1 + abs(drawn), np.float32), name)


def info(name: str, shape: list[Any] | None, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def saved(path: Path, nodes: list[Any], weights: list[Any], shape: list[Any]) -> Path:
    graph = helper.make_graph(nodes, "g", [info("x", shape)], [info("y", None)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def normalisation(given: str, made: str, channels: int) -> tuple[Any, list[Any]]:
    names = [f"{made}-{part}" for part in ("scale", "bias", "mean", "variance")]
    return helper.make_node("BatchNormalization", [given, *names], [made]), [weight(name, channels) for name in names]


def by_layer_type(kernels: list[Kernel]) -> dict[str, Kernel]:
    assert len({one.layer_type for one in kernels}) == len(kernels), [(one.operator, one.layer_type) for one in kernels]
    return {one.layer_type: one for one in kernels}


def test_what_is_fused_is_one_kernel_with_the_models_macs(tmp_path: Path) -> None:
    """24 channels are filled up to whole blocks, of 8 or 16; the MACs are those of 24."""
    norm, weights = normalisation("a", "b", 24)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        norm,
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w2"], ["d"], group=24, pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["d", "w3"], ["y"]),
    ]
    weights += [weight("w", 24, 5, 3, 3), weight("w2", 24, 1, 3, 3), weight("w3", 20, 24, 1, 1)]
    path = saved(tmp_path / "m.onnx", nodes, weights, ["N", 5, 20, 20])
    kernels = measure(path, batch=2, runs=2)
    found = by_layer_type([one for one in kernels if one.layer_type != "move"])  # puts channels into blocks, and back
    assert {layer_type: one.macs for layer_type, one in found.items()} == {
        "conv3x3": 2 * 400 * 24 * 45,
        "depthwise": 2 * 400 * 24 * 9,
        "conv1x1": 2 * 400 * 20 * 24,
    }
    assert sum(one.macs for one in kernels) == analyse(path, batch=2).macs
    assert [tensor.elements for tensor in found["conv3x3"].inputs] == [2 * 5 * 400]


def test_a_normalisation_by_itself_has_no_macs(tmp_path: Path) -> None:
    """Behind an activation it can't be joined with a convolution; it becomes one of its own."""
    norm, weights = normalisation("b", "c", 16)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        norm,
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "w2"], ["y"]),
    ]
    weights += [weight("w", 16, 16, 3, 3), weight("w2", 16, 16, 1, 1)]
    found = measure(saved(tmp_path / "m.onnx", nodes, weights, [1, 16, 10, 10]), runs=1)
    told = {one.layer_type: one.macs for one in found if one.layer_type not in ("move", "elementwise")}
    assert told == {"conv3x3": 64 * 256 * 9, "normalise": 0, "conv1x1": 64 * 256}


def test_weights_that_were_packed_before_the_run_count(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["y"])]
    (found,) = measure(saved(tmp_path / "m.onnx", nodes, [weight("w", 40, 30), weight("b", 30)], [7, 40]), runs=1)
    assert (found.operator, found.layer_type, found.macs) == ("Gemm", "gemm", 7 * 40 * 30)
    assert sorted(tensor.bytes for tensor in found.weights) == [4 * 30, 4 * 1200]
    assert found.moved_bytes == 4 * (7 * 40 + 1200 + 30 + 7 * 30)


def test_quantised_layers(tmp_path: Path) -> None:
    def quantise(name: str, given: str) -> list[Any]:
        made = [f"{name}-q", f"{name}-d"]
        return [
            helper.make_node("QuantizeLinear", [given, "scale", "zero"], made[:1]),
            helper.make_node("DequantizeLinear", [made[0], "scale", "zero"], made[1:]),
        ]

    constants = [numpy_helper.from_array(np.float32(0.1), "scale"), numpy_helper.from_array(np.uint8(128), "zero")]
    constants.append(numpy_helper.from_array(np.full((8, 4, 3, 3), 100, np.uint8), "w-q"))
    nodes = [
        *quantise("x", "x"),
        helper.make_node("DequantizeLinear", ["w-q", "scale", "zero"], ["w"]),
        helper.make_node("Conv", ["x-d", "w"], ["a"]),
        *quantise("a", "a"),
        helper.make_node("Sigmoid", ["a-d"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, constants, [1, 4, 10, 10])
    (heavy,) = (one for one in measure(path, runs=1) if one.macs)
    assert (heavy.operator, heavy.layer_type, heavy.macs) == ("QLinearConv", "conv3x3", 64 * 8 * 36)
    assert {tensor.name: tensor.type for tensor in heavy.weights}["w-q"] == "uint8"
    assert analyse(path).macs == heavy.macs


def loop(passes: int) -> tuple[list[Any], list[Any]]:
    """y = x times w, that often."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["next"]), helper.make_node("Identity", ["go"], ["still"])],
        "body",
        [info("n", [], TensorProto.INT64), info("go", [], TensorProto.BOOL), info("state", [100, 100])],
        [info("still", [], TensorProto.BOOL), info("next", [100, 100])],
    )
    often = numpy_helper.from_array(np.int64(passes), "often")
    return [helper.make_node("Loop", ["often", "", "x"], ["y"], body=body)], [often, weight("w", 100, 100)]


def test_a_loops_body_is_called_often_and_its_time_is_not_the_loops(tmp_path: Path) -> None:
    kernels = measure(saved(tmp_path / "m.onnx", *loop(20), [100, 100]), runs=3)
    found = {one.operator: one for one in kernels}
    assert (found["MatMul"].calls, found["MatMul"].macs) == (20, 20 * 100**3)
    assert found["Loop"].calls == 1
    assert found["Loop"].min_ms < found["MatMul"].min_ms


def test_the_sum_over_kernels_is_the_time_of_a_run(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", [f"t{n}" if n else "x", "w"], [f"t{n + 1}"]) for n in range(4)]
    nodes.append(helper.make_node("Relu", ["t4"], ["y"]))
    found = measure_runs(saved(tmp_path / "m.onnx", nodes, [weight("w", 400, 400)], [400, 400]), runs=15)
    assert len(found.wall_ms) == len(found.thread_ms) == 15
    assert found.kernels_ms == pytest.approx(min(found.thread_ms), rel=0.4)
    assert all(0 <= one.min_ms <= one.median_ms for one in found.kernels)


def test_weights_in_other_files_and_nodes_without_names(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    path = saved(tmp_path / "m.onnx", nodes, [weight("w", 64, 64)], [3, 64])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="apart", size_threshold=100)
    assert [one.macs for one in measure(path, runs=1)] == [3 * 64 * 64] * 2


def test_a_model_that_cannot_run_is_told_in_one_line(tmp_path: Path) -> None:
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
    to = numpy_helper.from_array(np.array([7, 7], np.int64), "to")
    path = saved(tmp_path / "m.onnx", nodes, [to], ["N", 10])
    with pytest.raises(UserError, match=r"m.onnx: ONNX Runtime can't run it: ") as told:
        measure(path, runs=1)
    assert "\n" not in str(told.value)
