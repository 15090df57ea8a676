"""Processes of tests: none outlives the block that started it, and signals arrive as the test says."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_libc = ctypes.CDLL(None)


@contextmanager
def started(command: Sequence[str], sigint_ignored: bool = False, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in a group of its own, its output as pipes of text; in the end the whole group is killed.

    It is killed too when the tests are, which then end nothing. A shell has what a script, or `nohup make test &`,
    starts ignore SIGINT; so does `sigint_ignored`.
    """

    def before_it_runs() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN if sigint_ignored else signal.SIG_DFL)

    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": before_it_runs}
    with subprocess.Popen(command, start_new_session=True, **(pipes | options)) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    """Whether it still runs; one that has ended and is not yet fetched by its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as state:
            return state.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def ends(pid: int) -> bool:
    """Whether it ends: a signal is sent in no time, and obeyed a little later."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def children(pid: int) -> list[int]:
    """The processes that it has started and that have not ended."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]
