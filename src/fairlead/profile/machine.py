"""This machine: its processor's name, and what a process may use of it, by its own limits and its control groups'.

Versions 1 and 2 of the groups; the tightest of a group and those above it counts. Called for measurements. Reads only.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fairlead.detect.host_tree import HostTree

_UNLIMITED = 2**60  # version 1 says so with a number that no machine has
_GROUPS = "/sys/fs/cgroup"
_MEMORY_FILES = {  # by controller: limit, use, and in memory.stat what of it can be read again from files
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@dataclass(frozen=True)
class Limits:
    """Asks the files of a host; `tree` is another one's in tests."""

    tree: HostTree = field(default_factory=HostTree)

    def cores(self) -> int:
        """As many processes of one thread can run without waiting."""
        allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min([allowed, *(math.ceil(quota) for quota in self._quotas())]))

    def processor(self) -> str:
        """The name that the processor gives itself."""
        text = (self.tree.read("/proc/cpuinfo") or b"").decode("ascii", "replace")
        found = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(\S.*)$", text, re.MULTILINE)
        return re.sub(r"\s+", " ", found[1]).strip() if found else platform.machine() or "this machine"

    def total_mb(self) -> float:
        """The memory of the machine; infinite when it is unknown."""
        return min(self._meminfo_mb("MemTotal"), *(most for most, _ in self._groups_mb()), math.inf)

    def available_mb(self) -> float:
        """Memory that can still be taken; files that can be read again don't count as taken."""
        return min(self._meminfo_mb("MemAvailable"), *(most - used for most, used in self._groups_mb()), math.inf)

    def _meminfo_mb(self, name: str) -> float:
        text = (self.tree.read("/proc/meminfo") or b"").decode("ascii", "replace")
        found = re.search(rf"^{name}: +(\d+) kB$", text, re.MULTILINE)
        return int(found[1]) / 1024 if found else math.inf

    def _groups_mb(self) -> Iterator[tuple[float, float]]:
        """The most, and what is used, of each group that limits memory."""
        for controller, (limit, usage, again) in _MEMORY_FILES.items():
            for folder in self._folders(controller):
                most, used = self.tree.number(f"{folder}/{limit}"), self.tree.number(f"{folder}/{usage}")
                if most is None or used is None or most >= _UNLIMITED:
                    continue
                told = (self.tree.read(f"{folder}/memory.stat") or b"").decode("ascii", "replace")
                files = re.search(rf"^{again} (\d+)$", told, re.MULTILINE)
                yield most / 2**20, max(0.0, used - (int(files[1]) if files else 0)) / 2**20

    def _quotas(self) -> Iterator[float]:
        """Cores that groups grant."""
        for folder in self._folders(""):
            words = (self.tree.text(f"{folder}/cpu.max") or "").split()
            if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
                yield int(words[0]) / int(words[1])
        for folder in self._folders("cpu"):
            quota, period = (self.tree.number(f"{folder}/cpu.cfs_{one}_us") for one in ("quota", "period"))
            if quota is not None and period and quota > 0:
                yield quota / period

    def _folders(self, controller: str) -> Iterator[str]:
        """The group of this process and those above it, in the tree of a controller; '' is version 2."""
        own = ""
        for line in (self.tree.read("/proc/self/cgroup") or b"").decode("ascii", "replace").splitlines():
            _, names, path = line.split(":", 2) if line.count(":") >= 2 else ("", "?", "")
            if controller in names.split(","):
                own = path.strip("/")
        base = f"{_GROUPS}/{controller}" if controller else _GROUPS
        parts = own.split("/") if own else []
        for count in range(len(parts), -1, -1):  # inside a container its own group is the top, whatever the path says
            yield "/".join([base, *parts[:count]])
