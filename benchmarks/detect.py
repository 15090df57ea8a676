"""How long a detection takes, and what it costs to watch.

    python -m benchmarks.detect [--json]

`detect_ms`: all of it on this machine after imports, the reading of the catalog included, median. `labels_ms` with the
labels. `watch_mb` and `watch_percent` of one core: a watcher at its default periods, after its start. The yardstick is
`lsusb_lspci_ms`, the two commands that an administrator would type, where they are installed (else 0).
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import figures
from fairlead.detect.catalog import read_catalog
from fairlead.detect.detector import Detection, detect
from fairlead.detect.host_tree import HostTree
from fairlead.detect.labels import labels
from fairlead.detect.nvml import load_nvml

REPEATS = 20
WATCHED_S = 20.0


def _median_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def _once() -> Detection:
    return detect(HostTree(), read_catalog(), load_nvml())


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9  # of its one thread


def _watched() -> dict[str, float]:
    command = [sys.executable, "-m", "fairlead", "detect", "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        start, before = time.monotonic(), _cpu_s(process.pid)
        while time.monotonic() - start < WATCHED_S:
            process.stdout.readline()
        percent = 100 * (_cpu_s(process.pid) - before) / (time.monotonic() - start)
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        process.terminate()
    return {"watch_mb": int(peak[1]) / 1024 if peak else 0.0, "watch_percent": percent}


def _by_hand() -> None:
    for name in ("lsusb", "lspci"):
        subprocess.run([name], capture_output=True, check=False)


def measure() -> dict[str, float]:
    there = all(shutil.which(name) for name in ("lsusb", "lspci"))
    return {
        "detect_ms": _median_ms(_once),
        "labels_ms": _median_ms(lambda: labels(_once())),
        "lsusb_lspci_ms": _median_ms(_by_hand) if there else 0.0,
        **_watched(),
    }


if __name__ == "__main__":
    figures.main(__doc__, measure)
