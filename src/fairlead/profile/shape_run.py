"""The sizes of a model's tensors by a run on zeros, in a process of its own with bounds on time and memory.

A model is a program: it may loop without end or ask for all memory there is. `run_for_shapes` starts that process,
which is this file run as a program. Called by `onnx_file` for sizes that are not known otherwise.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, one_line
from fairlead.domain.python_child import python_child
from fairlead.inputs.read_files import MB
from fairlead.profile.analysis import Tensor
from fairlead.profile.runtime import open_session

_SECONDS, _SECONDS_A_MB = 6.0, 0.05  # of a processor; a MB of weights: they are read and packed first
_WAIT_S = 60.0  # where processors are busy with other things
_MEMORY_MB, _MEMORY_OF_WEIGHTS = 1500, 4

Sizes = dict[str, tuple[tuple[int, ...], str]]  # by name: shape and NumPy's name of the type


def run_for_shapes(content: bytes, folder: Path, inputs: Sequence[Tensor], weights_mb: float) -> Sizes:
    """Of each output of a model, whose weights may lie in files of `folder`. Raises UserError without a file's name."""
    memory_mb = round(_MEMORY_MB + _MEMORY_OF_WEIGHTS * weights_mb)
    seconds = math.ceil(_SECONDS + _SECONDS_A_MB * weights_mb)
    with tempfile.NamedTemporaryFile(prefix="fairlead-", suffix=".onnx") as file:
        file.write(content)
        file.flush()
        asked = {"model": file.name, "folder": str(folder), "inputs": [asdict(one) for one in inputs]}
        command = python_child("fairlead.profile.shape_run")
        told, wait_s = json.dumps(asked | {"memory_mb": memory_mb, "seconds": seconds}), _WAIT_S + seconds
        try:
            done = subprocess.run(command, input=told, capture_output=True, text=True, check=False, timeout=wait_s)
        except subprocess.TimeoutExpired:
            raise UserError(f"a run takes more than {wait_s:.0f} s") from None
    if done.returncode == 0:
        return {name: (tuple(shape), dtype) for name, (shape, dtype) in json.loads(done.stdout).items()}
    if done.returncode == -signal.SIGXCPU:
        raise UserError(f"a run takes more than {seconds} s of processor time")
    if done.returncode < 0:
        raise UserError(f"a run ends its process (signal {-done.returncode})")
    lines = done.stderr.strip().splitlines()
    raise UserError(lines[-1] if lines else "a run fails")


def _main() -> int:
    asked = json.loads(sys.stdin.read())
    most = asked["memory_mb"] * MB
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = math.ceil(time.process_time() + asked["seconds"])  # without what it took to get here
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    try:
        session = open_session(Path(asked["model"]).read_bytes(), optimise="no", weights_in=Path(asked["folder"]))
        inputs = {one["name"]: _zeros(one) for one in asked["inputs"]}
        given = {one.name: inputs[one.name] for one in session.get_inputs()}
        names = [one.name for one in session.get_outputs()]
        found = dict(zip(names, session.run(names, given), strict=True))
    except MemoryError:
        print(f"a run takes more than {asked['memory_mb']:,} MB of memory", file=sys.stderr)
        return 2
    except Exception as error:  # ONNX Runtime's own, mostly
        print(error if isinstance(error, UserError) else one_line(error), file=sys.stderr)
        return 2
    sizes = {name: (value.shape, value.dtype.str) for name, value in found.items() if hasattr(value, "shape")}
    print(json.dumps(sizes))
    return 0


def _zeros(tensor: dict[str, Any]) -> Any:
    return np.zeros(tensor["shape"], np.dtype(tensor["type"] if tensor["type"] != "string" else "object"))


if __name__ == "__main__":
    sys.exit(_main())
