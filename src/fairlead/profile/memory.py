"""The memory that a model really takes: a fresh process loads it, runs it once, and says what it grew by at most.

`measure_memory` starts that process, which is this file run as a program. Linux only, from whose /proc it is read.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from fairlead.domain.errors import RunError, UserError
from fairlead.domain.python_child import python_child
from fairlead.profile.analysis import Tensor
from fairlead.profile.runtime import make_inputs, onnx_runtime, open_session, run_once

_STATUS = Path("/proc/self/status")


def measure_memory(path: Path, inputs: Iterable[Tensor], threads: int = 1) -> int:
    """Bytes that a process grows by from before it loads the model to its peak, with ONNX Runtime's arena off."""
    if not _STATUS.exists():
        raise UserError("the memory of a process can be measured only on Linux: run without --measure")
    asked = {"path": str(path), "inputs": [asdict(one) for one in inputs], "threads": threads}
    command = python_child("fairlead.profile.memory")
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    if done.returncode < 0:
        raise RunError(f"{path}: the process that ran it was ended (signal {-done.returncode}): out of memory?")
    if done.returncode:
        raise UserError(done.stderr.strip().splitlines()[-1])
    return int(done.stdout)


def _main() -> int:
    asked = json.loads(sys.stdin.read())
    inputs = make_inputs(Tensor(**one | {"shape": tuple(one["shape"])}) for one in asked["inputs"])
    onnx_runtime()
    before = _kilobytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    try:
        run_once(asked["path"], open_session(Path(asked["path"]), asked["threads"], arena=False), inputs)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(1024 * (_kilobytes("VmHWM") - before))
    return 0


def _kilobytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(_main())
