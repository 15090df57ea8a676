"""What a traced task can be given on this machine: CPUs and GPUs, and how a process gets them.

Called by `allocation_grid` and the command; starts nothing. CPUs come by affinity, GPUs by CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.detect.nvml import Nvml
from fairlead.domain.errors import UserError, how_to_install
from fairlead.profile.machine import Limits

_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM", "RAYON")  # libraries that read NAME_NUM_THREADS
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True, order=True)
class Allocation:
    """So many CPUs and GPUs."""

    cpu: int
    gpu: int = 0

    def __str__(self) -> str:
        gpus = f" and {self.gpu} GPU{'s' if self.gpu > 1 else ''}" if self.gpu else ""
        return f"{self.cpu} CPU{'s' if self.cpu > 1 else ''}{gpus}"


@dataclass(frozen=True)
class Machine:
    """Where tasks are traced."""

    cpu_name: str
    gpu_names: Sequence[str]
    cpus: Sequence[int]  # that we may use; those of different cores come first
    gpus: Sequence[str]  # as CUDA_VISIBLE_DEVICES names them

    @property
    def name(self) -> str:
        """Its processor, and its GPUs where some are used."""
        return " and ".join([self.cpu_name, *dict.fromkeys(self.gpu_names)])

    def check(self, allocations: Sequence[Allocation]) -> None:
        """Refuse what is not there."""
        cpu, gpu = max(a.cpu for a in allocations), max(a.gpu for a in allocations)
        if cpu > len(self.cpus):
            raise UserError(f"--cpu {cpu}: this process may use {_few(len(self.cpus), 'CPU')} here")
        if gpu > len(self.gpus):
            nvml = f"; NVML finds them: {how_to_install('nvml')}; or set CUDA_VISIBLE_DEVICES"
            hint = "" if self.gpus else nvml
            raise UserError(f"--gpu {gpu}: {_few(len(self.gpus), 'GPU')} can be seen here{hint}")

    def given(self, allocation: Allocation) -> list[int]:
        """The CPUs that an allocation means."""
        return list(self.cpus[: allocation.cpu])

    def environment(self, allocation: Allocation) -> dict[str, str]:
        """What a process with these amounts finds around itself, on top of ours."""
        threads = {f"{name}_NUM_THREADS": str(allocation.cpu) for name in _THREADS}
        gpus = {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus[: allocation.gpu]), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        return {**threads, **gpus, "PYTHONUNBUFFERED": "1"}  # a line is timed when it arrives


def this_machine(nvml: Nvml | None, environment: Mapping[str, str], with_gpus: bool) -> Machine:
    """The one that we run on."""
    if not hasattr(os, "sched_getaffinity"):
        raise UserError("tracing needs CPU affinity, which this system does not have; Linux does")
    gpus, titles = _gpus(nvml, environment) if with_gpus else ([], [])
    return Machine(Limits().processor(), titles, _cores_first(os.sched_getaffinity(0)), gpus)


def _gpus(nvml: Nvml | None, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Their numbers and names; of those that we are shown, where we are."""
    found = nvml.gpus() if nvml else ()
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    numbers = shown.split(",") if shown else [] if shown == "" else [str(n) for n in range(len(found))]
    return [number.strip() for number in numbers], [gpu.title for gpu in found]


def _cores_first(cpus: set[int]) -> list[int]:
    """One CPU of each core, then their siblings: two threads of a core are less than two CPUs."""
    seen: dict[str, int] = {}
    turn = {}
    for cpu in sorted(cpus):
        try:
            core = Path(_TOPOLOGY.format(cpu)).read_text().strip()
        except OSError:
            core = str(cpu)
        turn[cpu] = seen[core] = seen.get(core, -1) + 1
    return sorted(cpus, key=lambda cpu: (turn[cpu], cpu))


def _few(count: int, noun: str) -> str:
    return f"only {count} {noun}{'s' if count > 1 else ''}" if count else f"no {noun}"
