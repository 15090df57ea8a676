"""The share of our cores that other processes used while we measured: what the kernel counts as busy, less our own.

Time that a hypervisor took from us counts as other use. Called by `timed_mix`. Where the kernel gives no counts, the
share is 0.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

_IDLE, _WAITING, _COLUMNS = 3, 4, 8  # columns of /proc/stat: user nice system idle iowait irq softirq steal


class Outside:
    """Counts from when it is made."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = [*pids, os.getpid()]
        self._start, self._busy, self._own = time.monotonic(), _busy_s(), self._own_s()

    def share(self) -> float:
        """Of all our cores' time until now, what went to others."""
        seconds = (time.monotonic() - self._start) * len(_cores())
        return max(0.0, (_busy_s() - self._busy) - (self._own_s() - self._own)) / seconds

    def _own_s(self) -> float:
        return sum(_ran_s(pid) for pid in self._pids)


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _busy_s() -> float:
    names = {f"cpu{core}" for core in _cores()}
    ticks = 0
    try:
        for line in Path("/proc/stat").read_text().splitlines():
            name, *counts = line.split()
            if name in names:
                ticks_of = list(map(int, counts[:_COLUMNS]))
                ticks += sum(ticks_of) - ticks_of[_IDLE] - ticks_of[_WAITING]
    except (OSError, ValueError, IndexError):
        return 0.0
    return ticks / os.sysconf("SC_CLK_TCK")


def _ran_s(pid: int) -> float:
    """What a process ran on the processor, all its threads."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
