"""A bound on the memory that a library may take inside this process, for those that allocate what a file asks for."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairlead.inputs.read_files import MB

_TURN: Final = threading.Lock()


@contextmanager
def bounded_memory(mb: int) -> Iterator[None]:
    """Within it, what takes more than so many MB beyond the present gets a MemoryError, in other threads too.

    Threads take turns. Linux alone tells how much a process has; elsewhere nothing is bounded.
    """
    with _TURN:
        if (data := _data_bytes()) is None:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = data + mb * MB
        if soft != resource.RLIM_INFINITY:
            limit = min(limit, soft)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int | None:
    """What counts against RLIMIT_DATA."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    kilobytes = next((line.split()[1] for line in lines if line.startswith("VmData:")), None)
    return None if kilobytes is None else int(kilobytes) * 1024
