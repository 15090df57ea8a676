"""One run of a task that is traced: a process of its own with its CPUs and GPUs, its lines timed as they arrive.

Called by `allocation_grid`. Whatever happens here, the process and all in its group have ended when it is over.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fairlead.domain.errors import UserError
from fairlead.measure.write_files import writing
from fairlead.profile.trace import launch
from fairlead.profile.trace.allocations import Allocation, Machine
from fairlead.profile.trace.progress_lines import Telling

_LONGEST_LINE = 100_000
_LOOK_S = 0.5  # how often a process that says nothing is looked at
_GRACE_S = 3.0  # to end by itself after a signal


@dataclass(frozen=True)
class Start:
    """What is run, where, for how long."""

    command: Sequence[str]
    machine: Machine
    allocation: Allocation
    folder: Path  # its output goes there, but for what is meant for us
    timeout_s: float


def run_task(start: Start, reached: Callable[[Telling], bool], told: Callable[[Telling], None]) -> Telling:
    """Run it until `reached`, or until it ends by itself; `told` is called for each line. UserError when it fails."""
    errors = start.folder / "stderr.log"
    telling = Telling()
    with writing(start.folder):
        start.folder.mkdir(parents=True, exist_ok=True)
    with writing(start.folder), errors.open("wb") as stderr, (start.folder / "stdout.log").open("wb") as other:
        process = _started(start, stderr)
        try:
            for now_s, line in _lines(process, time.monotonic() + start.timeout_s):
                if not telling.take(line, now_s):
                    other.write(line)
                elif telling.points:
                    told(telling)
                    if reached(telling):
                        return telling
            code = process.wait()
        except _Late:
            far = f", after {_far(telling)}" if telling.points else ""
            raise UserError(f"not done in {start.timeout_s:g} s (--timeout){far}") from None
        finally:
            _end(process)
    if code:
        raise UserError(f"{_code(code)}{_last_line(errors)} (its output: {start.folder})")
    if not telling.points:
        raise UserError(
            'it reported nothing: expected lines such as {"epoch": 0, "loss": 2.3} or {"done": 1, "of": 9} on its '
            f"standard output (its output: {start.folder})"
        )
    return telling


def _started(start: Start, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    cpus = ",".join(map(str, start.machine.given(start.allocation)))
    launcher = [sys.executable, "-I", "-S", str(launch.__file__), str(os.getpid()), cpus]
    return subprocess.Popen(
        [*launcher, *start.command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=os.environ | start.machine.environment(start.allocation),
        start_new_session=True,  # so that all of it can be ended; and a terminal's Ctrl-C is ours alone
    )


class _Late(Exception):
    """The time is over."""


def _lines(process: subprocess.Popen[bytes], deadline_s: float) -> Iterator[tuple[float, bytes]]:
    """Its lines with the time at which they came, until it ends; what it leaves behind may hold its output open."""
    assert process.stdout is not None
    pipe, rest = process.stdout.fileno(), b""
    while True:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise _Late
        ended = process.poll() is not None
        if not select.select([pipe], [], [], 0.0 if ended else min(left_s, _LOOK_S))[0]:
            if ended:
                break
            continue
        part = os.read(pipe, 65536)
        now_s = time.monotonic()
        if not part:
            if not ended:  # it has closed its output, and goes on
                with suppress(subprocess.TimeoutExpired):
                    process.wait(min(left_s, _LOOK_S))
                continue
            break
        *whole, rest = (rest + part).split(b"\n")
        yield from ((now_s, line + b"\n") for line in whole)
        if len(rest) > _LONGEST_LINE:  # not for us
            yield now_s, rest
            rest = b""
    if rest:
        yield time.monotonic(), rest


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it has started."""
    try:
        if process.poll() is None:
            _tell(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
    finally:  # also when one does not want to wait for that
        _tell(process, signal.SIGKILL)
        process.wait()
        if process.stdout:
            process.stdout.close()


def _tell(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _far(telling: Telling) -> str:
    """How far it came, in words."""
    last = telling.points[-1].count
    if telling.of is not None:
        return f"{last} of {telling.of} samples"
    return f"{last} epochs, with a loss of {telling.best_loss():g} at best"


def _code(code: int) -> str:
    if code > 0:
        return f"it failed with exit code {code}"
    with suppress(ValueError):
        return f"it was killed by {signal.Signals(-code).name}{' (out of memory?)' if code == -signal.SIGKILL else ''}"
    return f"it was killed by signal {-code}"


def _last_line(errors: Path) -> str:
    text = errors.read_bytes()[-10_000:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""
