"""The analyser on real architectures: what is published of them, what a fresh process takes, what ONNX Runtime runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.architectures import FAMILIES, Architecture

from fairlead.profile.kernels import measure_runs
from fairlead.profile.memory import measure_memory
from fairlead.profile.onnx_file import analyse

pytestmark = pytest.mark.slow

#: One of each family but those of hundreds of megabytes (AlexNet, VGG), and some more.
NAMES = (
    "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "mnasnet0_5", "mobilenet_v2",
    "mobilenet_v3_small", "mobilenet_v3_large", "regnet_y_400mf", "resnet18", "resnext50_32x4d",
    "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t",
)  # fmt: skip
AUXILIARY = {"inception_v3": 27_161_264 - 23_834_568}  # published with a head that inference drops


def test_families_are_covered() -> None:
    assert {Architecture(name).family for name in NAMES} == set(FAMILIES) - {"alexnet", "vgg"}
    assert len(NAMES) >= 12


@pytest.mark.parametrize("name", NAMES)
def test_parameters_macs_and_memory(name: str, architectures: Path) -> None:
    about = Architecture(name)
    path = about.onnx(architectures)
    found = analyse(path)
    measured = measure_memory(path, found.inputs)
    if found.memory_bytes != pytest.approx(measured, rel=0.15):  # processes differ by as much: the middle of three
        measured = sorted([measured, *(measure_memory(path, found.inputs) for _ in range(2))])[1]
    print(f"{name}: MACs {found.macs / about.macs - 1:+.1%}, memory {found.memory_bytes / measured - 1:+.1%}")
    assert found.parameters == about.parameters - AUXILIARY.get(name, 0)
    assert found.macs == pytest.approx(about.macs, rel=0.02)
    assert found.memory_bytes == pytest.approx(measured, rel=0.25)


@pytest.mark.parametrize("name", ["densenet121", "mobilenet_v3_small", "shufflenet_v2_x0_5", "swin_t"])
def test_kernels_have_the_arithmetic_of_the_model_and_the_time_of_a_run(name: str, architectures: Path) -> None:
    path = Architecture(name).onnx(architectures)
    runs = measure_runs(path, runs=5)
    assert sum(one.macs for one in runs.kernels) == analyse(path).macs
    assert runs.kernels_ms == pytest.approx(min(runs.thread_ms), rel=0.4)
