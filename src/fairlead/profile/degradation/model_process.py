"""A process that runs one model again and again. `process_pool` starts it and talks to it by pipes.

Lines of JSON in, lines of JSON out. It loads the model, warms up and reports its memory; then it rests until `run`,
and runs until `rest`. In between, `mark` makes it count anew, and `tell` makes it report the times of its runs since
then. When its input ends, as when the parent dies in whatever way, it ends too.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_WARM_UP: Final = 3  # runs; memory and times settle
_read = bytearray()  # of our input, and not yet taken


def main() -> None:
    """Serve one parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    asked = _next()
    try:
        once, memory = _open(**asked)
    except Exception as error:
        _tell(error=" ".join(str(error).split()) or type(error).__name__)
        return
    _tell(**memory)
    while True:
        _next()  # at rest there is only one command
        _run(once)


def _run(once: Callable[[], Any]) -> None:
    """Run until `rest`; the first run is not counted."""
    once()
    _tell(running=True)
    times_ms: list[float] = []
    while True:
        while not _asked():
            start = time.perf_counter()
            once()
            times_ms.append(1000 * (time.perf_counter() - start))
        match _next()["do"]:
            case "mark":
                times_ms.clear()
            case "tell":
                _tell(times_ms=times_ms)
            case "rest":
                _tell(resting=True)
                return


def _open(model: str, inputs: list[dict[str, Any]], threads: int) -> tuple[Callable[[], Any], dict[str, float]]:
    """What one run is, and memory in MB: of this process without the model, with it, and after some runs."""
    from fairlead.profile.analysis import Tensor
    from fairlead.profile.runtime import make_inputs, onnx_runtime, open_session

    onnx_runtime()
    bare = _memory_mb()
    session = open_session(Path(model), threads)
    loaded = _memory_mb()
    given = make_inputs(Tensor(one["name"], tuple(one["shape"]), one["type"], 0.0) for one in inputs)

    def once() -> Any:
        return session.run(None, given)

    for _ in range(_WARM_UP):
        once()
    return once, {"bare_mb": bare, "loaded_mb": loaded, "warm_mb": _memory_mb()}


def _memory_mb() -> float:
    """What this process holds of its own: not code that is shared, nor files that can be read again."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) / 1024


def _asked() -> bool:
    """Whether the parent has said something, or is gone."""
    return b"\n" in _read or bool(select.select([0], [], [], 0)[0])


def _next() -> dict[str, Any]:
    while b"\n" not in _read:
        part = os.read(0, 65536)  # not by lines of `sys.stdin`, which would hide from `select` what it has read ahead
        if not part:
            sys.exit(0)
        _read.extend(part)
    line, _, rest = _read.partition(b"\n")
    _read[:] = rest
    return dict(json.loads(line))


def _tell(**words: Any) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    main()
