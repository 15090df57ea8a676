"""The analysis of ONNX models: hand-computed layers, sizes, memory, and files that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.profile.analysis import LAYER_TYPES, Analysis, Tensor
from fairlead.profile.memory import measure_memory
from fairlead.profile.onnx_file import analyse


def weight(name: str, *shape: int, dtype: Any = np.float32) -> Any:
    return numpy_helper.from_array(np.zeros(shape, dtype), name)


def saved(
    path: Path, nodes: list[Any], weights: list[Any], shape: list[Any], names: tuple[str, str] = ("x", "y")
) -> Path:
    given = helper.make_tensor_value_info(names[0], TensorProto.FLOAT, shape)
    made = helper.make_tensor_value_info(names[1], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [given], [made], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def one_layer(tmp_path: Path, node: Any, weights: list[Any], shape: list[int]) -> Analysis:
    return analyse(saved(tmp_path / "m.onnx", [node], weights, shape))


@pytest.mark.parametrize(
    ("attributes", "shape", "layer_type", "macs"),
    [
        ({}, (8, 4, 1, 1), "conv1x1", 8 * 10 * 10 * 4),
        ({"pads": [1, 1, 1, 1]}, (8, 4, 3, 3), "conv3x3", 8 * 10 * 10 * 4 * 9),
        ({"pads": [2, 2, 2, 2]}, (8, 4, 5, 5), "convkxk", 8 * 10 * 10 * 4 * 25),
        ({"pads": [1, 1, 1, 1], "group": 4}, (4, 1, 3, 3), "depthwise", 4 * 10 * 10 * 9),
        ({"pads": [1, 1, 1, 1], "group": 2}, (8, 2, 3, 3), "grouped", 8 * 10 * 10 * 2 * 9),
        ({"pads": [1, 1, 1, 1], "strides": [2, 2]}, (8, 4, 3, 3), "conv3x3", 8 * 5 * 5 * 4 * 9),
    ],
)
def test_convolutions_by_hand(
    attributes: Any, shape: tuple[int, ...], layer_type: str, macs: int, tmp_path: Path
) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    found = one_layer(tmp_path, node, [weight("w", *shape), weight("b", shape[0])], [1, 4, 10, 10])
    (layer,) = found.layers
    assert (layer.layer_type, layer.macs, found.macs) == (layer_type, macs, macs)
    assert found.parameters == int(np.prod(shape)) + shape[0]
    assert layer.moved_bytes == 4 * (400 + found.parameters + layer.outputs[0].elements)


@pytest.mark.parametrize(
    ("operator", "attributes", "weights", "shape", "layer_type", "macs"),
    [
        ("ConvTranspose", {"strides": [2, 2]}, {"w": (4, 8, 2, 2)}, [1, 4, 10, 10], "convkxk", 400 * 8 * 4),
        ("Gemm", {"transB": 1}, {"w": (7, 20), "b": (7,)}, [1, 20], "gemv", 20 * 7),
        ("MatMul", {}, {"w": (20, 7)}, [3, 5, 20], "gemm", 15 * 20 * 7),
        ("LSTM", {"hidden_size": 6}, {"w": (1, 24, 10), "r": (1, 24, 6)}, [5, 2, 10], "recurrent", 5 * 2 * 4 * 6 * 16),
        ("GRU", {"hidden_size": 6}, {"w": (1, 18, 10), "r": (1, 18, 6)}, [5, 2, 10], "recurrent", 5 * 2 * 3 * 6 * 16),
        ("Einsum", {"equation": "bi,ij->bj"}, {"w": (20, 7)}, [3, 20], "gemm", 3 * 20 * 7),
        ("Relu", {}, {}, [1, 4], "elementwise", 0),
        ("MaxPool", {"kernel_shape": [2, 2]}, {}, [1, 4, 8, 8], "pool", 0),
        ("Transpose", {"perm": [1, 0]}, {}, [3, 4], "move", 0),
        ("Softmax", {}, {}, [3, 4], "normalise", 0),
        ("Flatten", {}, {}, [3, 4, 5], "free", 0),
    ],
)
def test_other_layers_by_hand(
    operator: str, attributes: Any, weights: Any, shape: list[int], layer_type: str, macs: int, tmp_path: Path
) -> None:
    node = helper.make_node(operator, ["x", *weights], ["y"], **attributes)
    found = one_layer(tmp_path, node, [weight(name, *size) for name, size in weights.items()], shape)
    assert [(layer.layer_type, layer.macs) for layer in found.layers] == [(layer_type, macs)]
    assert found.parameters == sum(int(np.prod(size)) for size in weights.values())
    assert layer_type in LAYER_TYPES


def test_what_is_learnt_counts_once_and_statistics_do_not(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Conv", ["a", "w"], ["b"]),  # the same weights
        helper.make_node("BatchNormalization", ["b", "scale", "bias", "mean", "var"], ["c"]),
        helper.make_node("Clip", ["c", "low"], ["y"]),
    ]
    weights = [weight("w", 4, 4, 1, 1), *(weight(name, 4) for name in ("scale", "bias", "mean", "var")), weight("low")]
    found = analyse(saved(tmp_path / "m.onnx", nodes, weights, [1, 4, 10, 10]))
    assert found.parameters == 16 + 8
    assert found.weight_bytes == 4 * (16 + 16 + 1)


def test_what_is_made_of_constants_is_no_layer_and_its_weights_count(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    found = analyse(saved(tmp_path / "m.onnx", nodes, [weight("w", 7, 20)], [3, 20]))
    assert [layer.operator for layer in found.layers] == ["MatMul"]
    assert (found.parameters, found.macs) == (140, 3 * 20 * 7)


def test_tensors_live_from_their_making_to_their_last_reader(tmp_path: Path) -> None:
    """x (400 bytes) -> a -> b, then all side by side: at the end a, b and y are there; reshaping a takes nothing."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"]),
        helper.make_node("Flatten", ["a"], ["view"]),
        helper.make_node("Softmax", ["view"], ["b"]),
        helper.make_node("Concat", ["a", "view", "b"], ["y"], axis=1),
    ]
    assert analyse(saved(tmp_path / "m.onnx", nodes, [], [1, 100])).peak_activation_bytes == (1 + 1 + 3) * 400
    chain = [helper.make_node("Softmax", [f"t{n}" if n else "x"], [f"t{n + 1}"]) for n in range(9)]
    chain.append(helper.make_node("Softmax", ["t9"], ["y"]))
    assert analyse(saved(tmp_path / "m.onnx", chain, [], [1, 100])).peak_activation_bytes == 2 * 400


@pytest.mark.parametrize(
    ("nodes", "tensors"),
    [
        ([("Softmax", ["x"], "a"), ("Relu", ["a"], "y")], 2),  # over a
        ([("Relu", ["x"], "y")], 2),  # x is the caller's
        ([("Softmax", ["x"], "a"), ("Relu", ["a"], "b"), ("Add", ["a", "b"], "y")], 2),  # a is read later; y over one
        ([("Softmax", ["x"], "a"), ("Flatten", ["a"], "view"), ("Relu", ["a"], "b"), ("Sum", ["view", "b"], "y")], 2),
        ([("Softmax", ["x"], "a"), ("Relu", ["a"], "b"), ("Softmax", ["a"], "c"), ("Sum", ["a", "b", "c"], "y")], 3),
    ],
)
def test_what_works_number_by_number_writes_over_what_nobody_reads_later(
    nodes: list[tuple[str, list[str], str]], tensors: int, tmp_path: Path
) -> None:
    made = [helper.make_node(operator, given, [name]) for operator, given, name in nodes]
    found = analyse(saved(tmp_path / "m.onnx", made, [], [1, 100]))
    assert found.peak_activation_bytes == tensors * 400


def test_the_memory_of_a_run_has_weights_more_than_once(tmp_path: Path) -> None:
    """By hand: a convolution of 64 bytes, a product of 800, tensors, two layers, the runtime."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "v"], ["y"])]
    found = analyse(saved(tmp_path / "m.onnx", nodes, [weight("w", 4, 4, 1, 1), weight("v", 10, 20)], [1, 4, 10, 10]))
    assert found.peak_activation_bytes == 4 * (400 + 800)
    assert found.memory_bytes == round(2.85 * 64 + 1.85 * 800) + 4800 + 2 * 16_000 + 9_500_000


def test_a_fresh_process_tells_what_it_grew_by(tmp_path: Path) -> None:
    def growth(width: int) -> int:
        drawn = np.random.default_rng(0).standard_normal((1000, width), dtype=np.float32)
        weights = [numpy_helper.from_array(drawn, "w")]
        path = saved(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], weights, [1, 1000])
        return measure_memory(path, analyse(path).inputs)

    assert 20e6 < growth(10_000) - growth(1000) < 120e6  # for 36 MB more of weights


def test_a_process_that_fails_is_told_in_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [], [1, 100])
    with pytest.raises(UserError, match=r"m.onnx: ONNX Runtime can't run it: .*\bz\b.*$"):
        measure_memory(path, [Tensor("z", (1, 100), "float32", 4.0)])


def test_of_two_branches_the_dearer_counts(tmp_path: Path) -> None:
    def branch(name: str, operator: str, *weights: str) -> Any:
        made = helper.make_tensor_value_info(f"{name}-out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(operator, ["x", *weights], [f"{name}-out"])], name, [], [made])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Cast", ["most"], ["which"], to=TensorProto.BOOL),
        helper.make_node(
            "If", ["which"], ["y"], then_branch=branch("yes", "MatMul", "w"), else_branch=branch("no", "Relu")
        ),
    ]
    found = analyse(saved(tmp_path / "m.onnx", nodes, [weight("w", 20, 20)], [3, 20]))
    assert found.macs == 3 * 20 * 20


def test_sizes_that_are_computed_on_the_way_are_found_by_a_run(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),  # how many there are, nobody knows before
        helper.make_node("Cast", ["where"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["w", "x"], ["z"]),
        helper.make_node("Concat", ["numbers", "z"], ["y"], axis=1),
    ]
    found = analyse(saved(tmp_path / "m.onnx", nodes, [weight("w", 2, 3)], [3, 20]))
    assert found.sized_by_running
    assert found.outputs[0].shape == (2, 20)  # of zeros, none is not


def test_open_sizes_are_given_by_name_or_place(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    path = saved(tmp_path / "m.onnx", [node], [weight("w", 8, 4, 1, 1)], ["N", 4, "height", None])
    found = analyse(path, {"height": 10, "x.3": 20}, batch=2)
    assert found.inputs[0].shape == (2, 4, 10, 20)
    assert found.macs == 2 * 8 * 4 * 200


def test_a_question_mark_is_no_name_and_the_batchs_name_means_the_batch(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    path = saved(tmp_path / "m.onnx", [node], [weight("w", 8, 4, 1, 1)], ["batch", 4, "?", "?"])
    with pytest.raises(UserError, match=r"give --size x.2=N --size x.3=N$"):
        analyse(path)
    path = saved(tmp_path / "m.onnx", [node], [weight("w", 8, 4, 1, 1)], ["batch", 4, "batch", 7])
    assert analyse(path, batch=3).inputs[0].shape == (3, 4, 3, 7)


def test_the_command_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    path = str(saved(tmp_path / "m.onnx", [node], [weight("w", 8, 4, 1, 1)], [1, 4, 10, 10]))
    assert main(["profile", path]) == 0
    assert "conv1x1" in capsys.readouterr().out
    assert main(["profile", path, "--layers"]) == 0
    assert "1x8x10x10" in capsys.readouterr().out
    assert main(["profile", path, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["macs"], told["parameters"], told["precisions"]) == (3200, 32, ["float32"])
    assert told["layer_types"]["conv1x1"]["layers"] == 1
    assert not {"measured", "support", "training"} & set(told)


def test_the_command_tells_all_that_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("HardSwish", ["a"], ["y"])]
    path = str(saved(tmp_path / "m.onnx", nodes, [weight("w", 8, 4, 1, 1)], ["N", 4, 10, 10]))
    asked = ["--measure", "--runs", "2", "--for", "all", "--train", "--batch", "2", "--samples", "5", "--epochs", "2"]
    assert main(["profile", path, *asked]) == 0
    words = capsys.readouterr().out
    assert "2 runs: " in words
    assert "% of MACs there" in words
    assert "all layers from the first unsupported one on run on the CPU" in words
    assert "5 samples, 2 epochs, 6 steps" in words
    assert main(["profile", path, *asked, "--layers"]) == 0
    assert "median ms" in capsys.readouterr().out
    assert main(["profile", path, *asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(one["macs"] for one in told["measured"]["kernels"]) == told["macs"] == 6400
    assert len(told["measured"]["wall_ms"]) == len(told["measured"]["thread_ms"]) == 2
    assert told["measured"]["memory_bytes"] > 1e6
    assert told["support"]["edgetpu"]["share_of_macs"] == 1.0  # all of them come before the HardSwish
    assert {one["operator"] for one in told["support"]["edgetpu"]["problems"]} == {"", "HardSwish"}
    assert (told["training"]["step_macs"], told["training"]["steps"]) == (2 * 6400, 6)


@pytest.mark.parametrize(
    ("which", "options", "words"),
    [
        ("nothing", [], "nothing.onnx: can't read it: No such file"),
        ("text", [], "text.onnx: not an ONNX model"),
        ("empty", [], "empty.onnx: not an ONNX model"),
        ("open", [], "open.onnx: its inputs have open sizes: give --size height=N --size x.3=N"),
        ("open", ["--size", "heigth=3"], "--size height=N"),
        ("fixed", ["--size", "x.9=3"], "--size x.9=3: no input of fixed.onnx has it"),
        ("fixed", ["--size", "x"], "--size x: expected NAME=N"),
        ("fixed", ["--size", "x=0"], "--size x=0: expected NAME=N"),
        ("fixed", ["--size", f"x={9:9<5000}"], "999: expected NAME=N"),
        ("fixed", ["--batch", "0"], "argument --batch: expected a whole number from 1 to 1,000,000, got '0'"),
        ("fixed", ["--measure", "--runs", "0"], "argument --runs: expected a whole number from 1 to 1,000,000, "),
        ("fixed", ["--measure", "--runs", "few"], "argument --runs: expected a whole number from 1 to 1,000,000,"),
        ("fixed", ["--runs", "3"], "--runs: needs --measure"),
        ("fixed", ["--for", "nothing"], "nothing: unknown accelerator (families: cpu, ncnn, edgetpu, hailo, rockchip,"),
        ("fixed", ["--for", "edgtpu"], "edgtpu: unknown accelerator (did you mean 'edgetpu'?)"),
        (
            "fixed",
            ["--for", "memryx-mx3"],
            "memryx-mx3: there is no list of its operators yet; there are lists for cpu, ncnn, edgetpu",
        ),
        ("fixed", ["--train", "--optimizer", "adm"], "--optimizer adm: unknown (did you mean 'adam'?)"),
        ("fixed", ["--optimizer", "adam"], "--optimizer: needs --train"),
        ("fixed", ["--train", "--samples", "0"], "argument --samples: expected a whole number from 1 to 1,000,"),
        ("fixed", ["--train", "--epochs", "2"], "--epochs needs --samples, the number of samples in an epoch"),
        ("unknown", [], "unknown.onnx: unknown operator Frobnicate in layer 'y'"),
        ("foreign", [], "foreign.onnx: unknown operator my.Thing in layer 'y'"),
        ("external", [], "external.onnx: its weights are in weights.bin, which is missing or incomplete"),
        ("unranked", [], "unranked.onnx: input 'x' is not a tensor with a known number of dimensions"),
        ("hidden", [], "hidden.onnx: the sizes of layer 'inside' (MatMul) can't be computed, not even by a run"),
        ("misfit", [], "misfit.onnx: its sizes can't be computed without a run, and a run fails"),
    ],
)
def test_wrong_files_are_told_in_one_line(
    which: str, options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, conv = tmp_path / f"{which}.onnx", helper.make_node("Conv", ["x", "w"], ["y"])
    weights = [weight("w", 8, 4, 1, 1)]
    if which in ("text", "empty"):
        path.write_text("no model" if which == "text" else "")
    elif which == "open":
        saved(path, [conv], weights, ["N", 4, "height", None])
    elif which == "fixed":
        saved(path, [conv], weights, [1, 4, 10, 10])
    elif which == "unranked":
        saved(path, [helper.make_node("Relu", ["x"], ["y"])], [], None)
    elif which == "hidden":  # in a branch that a run on zeros does not take
        product = [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["f"], to=1)]
        product.append(helper.make_node("MatMul", ["f", "w"], ["yes"], name="inside"))
        nothing = [helper.make_node("Relu", ["x"], ["no"])]
        branches = {
            f"{word}_branch": helper.make_graph(
                nodes, word, [], [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
            )
            for word, nodes in (("then", product), ("else", nothing))
        }
        most = helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0)
        cast = helper.make_node("Cast", ["most"], ["which"], to=TensorProto.BOOL)
        saved(path, [most, cast, helper.make_node("If", ["which"], ["y"], **branches)], [weight("w", 9, 9)], [3, 20])
    elif which == "misfit":
        saved(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [weight("w", 7, 20)], [3, 20])
    elif which in ("unknown", "foreign"):
        domain = {"domain": "my"} if which == "foreign" else {}
        saved(path, [helper.make_node("Thing" if domain else "Frobnicate", ["x"], ["y"], **domain)], [], [1, 4])
    elif which == "external":
        model = onnx.load(saved(path, [conv], weights, [1, 4, 10, 10]))
        onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        (tmp_path / "weights.bin").write_bytes(b"")
    assert main(["profile", str(path), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
