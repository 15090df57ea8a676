"""Processes that run a module of this package: they find it, and nothing that lies in the working directory."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bundles
import fairlead
from fairlead.cli.trace.command import _program
from fairlead.domain.python_child import python_child
from fairlead.experiments import workers
from fairlead.policies.model_trial import _Process
from fairlead.profile.analysis import Tensor
from fairlead.profile.degradation.process_pool import ProcessPool, RunnableModel
from fairlead.profile.memory import measure_memory
from fairlead.profile.shape_run import run_for_shapes

INPUTS = (Tensor("observations", (2, 3), "float32", 4.0),)


def tried(path: Path) -> Any:
    process = _Process()
    try:
        return process.ask(path.read_bytes(), [{"observations": ((2, 3), "float32")}]) == ""
    finally:
        process.end()


def run_beside_others(path: Path) -> Any:
    with ProcessPool([RunnableModel("model", path, INPUTS)]) as pool:
        return pool.memory(0).process_mb > 0


STARTS: dict[str, Callable[[Path], Any]] = {
    "a trial": tried,
    "a run for shapes": lambda path: run_for_shapes(path.read_bytes(), path.parent, INPUTS, 1.0)["values"],
    "a measurement of memory": lambda path: measure_memory(path, INPUTS) > 0,
    "models side by side": run_beside_others,
}


@pytest.mark.parametrize("what", STARTS)
def test_a_module_in_the_working_directory_is_not_run(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(bundles.linear(np.ones((3, 2)), np.zeros(2)))
    monkeypatch.chdir(tmp_path)
    Path("onnxruntime.py").write_text("open('ran', 'w')\nraise SystemExit(1)\n")
    assert STARTS[what](model)
    assert not Path("ran").exists()


def test_tasks_that_ship_are_started_alike() -> None:
    assert _program("convnet")[0] == python_child("fairlead.learn.trace_tasks.convnet")


def test_a_worker_runs_no_module_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "run_trial", abs)
    Path("pickle.py").write_text("open('ran', 'w')\nraise SystemExit(1)\n")
    before = dict(os.environ)
    assert sorted(workers.local([-1, -2, -3], jobs=2)) == [1, 2, 3]  # type: ignore[type-var, list-item]
    assert not Path("ran").exists()
    assert dict(os.environ) == before


@pytest.mark.parametrize(("path", "code"), [([Path(fairlead.__file__).parents[1]], 0), ([], 1)])
def test_the_package_is_found_by_pythonpath_alone_but_not_where_one_stands(path: list[Path], code: int) -> None:
    """-S hides what is installed, which this package most often is."""
    python, *rest = python_child("fairlead.domain.python_child")
    paths = os.pathsep.join(map(str, [*path, sysconfig.get_path("purelib")]))
    here, env = Path(fairlead.__file__).parents[1], os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([python, "-S", *rest], cwd=here, env=env, capture_output=True, timeout=60)
    assert done.returncode == code
