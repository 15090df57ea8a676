"""The process in which cases run: one after the other, by their numbers, until its input ends. Started by `runner`.

It says of each case how it went, as a line of JSON. It may die of a case, or be killed: another goes on with the next.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Any

from .targets import TARGETS
from .targets.planted import PlantedTarget

_MOST_DATA = 6 << 30  # so that a case that asks for everything harms nobody else


def main() -> None:
    """Read numbers, run their cases, say how they went."""
    name, seed, home, answers = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA, _MOST_DATA))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    home.joinpath("seeds").mkdir(exist_ok=True)
    target = (TARGETS | {PlantedTarget.name: PlantedTarget})[name](home / "seeds")
    with os.fdopen(answers, "w") as told:
        print(json.dumps({"ready": True}), file=told, flush=True)
        for line in sys.stdin:
            folder = home / "case"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.chdir(folder)
            _forget_peak()
            print(json.dumps(_case(target, f"{name} {seed} {int(line)}", folder)), file=told, flush=True)


def _case(target: Any, key: str, folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = {"word": "", "error": ""}
    random = Random(key)
    try:
        target.make(random, folder)
        made["word"] = target.run(random, folder)
    except BaseException as error:  # also SystemExit and KeyboardInterrupt, which nothing should raise
        made["error"] = f"{type(error).__name__}: {error}"[:500]
        made["traceback"] = "".join(traceback.format_exception(error))[-8000:]
    return made | {"peak_mb": _peak_mb()}


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    """The most memory of this case, or of any process that was started so far."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    own = int(status["VmHWM"].split()[0])
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


if __name__ == "__main__":
    main()
