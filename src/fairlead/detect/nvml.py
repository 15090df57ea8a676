"""NVIDIA's management library, where it is there: what the driver knows of its GPUs.

A port with one adapter (`load_nvml`, by the package nvidia-ml-py) and a fake for tests and for trying things out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Gpu:
    """A GPU as NVML describes it."""

    address: str  # on PCI, as sysfs writes it: 0000:01:00.0
    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, float] = field(default_factory=dict)


class Nvml(Protocol):
    """Where GPUs are asked for."""

    def gpus(self) -> Sequence[Gpu]:
        """All of them, with what they do now; empty when the driver does not answer."""
        ...


@dataclass(frozen=True)
class FakeNvml:
    """Returns what it was given."""

    found: Sequence[Gpu]

    def gpus(self) -> Sequence[Gpu]:
        """What it was given."""
        return self.found


def load_nvml() -> Nvml | None:
    """The library of this machine; None where there is none, or no package to ask it with."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # not installed, no library, no driver: all of these mean that it is not there
        return None
    return _Real(pynvml)


class _Real:
    def __init__(self, library: Any) -> None:
        self._nvml = library

    def gpus(self) -> Sequence[Gpu]:
        try:
            handles = [self._nvml.nvmlDeviceGetHandleByIndex(i) for i in range(self._nvml.nvmlDeviceGetCount())]
            return [self._gpu(handle) for handle in handles]
        except self._nvml.NVMLError:
            return []

    def _gpu(self, handle: Any) -> Gpu:
        nvml, ask = self._nvml, self._ask
        major_minor = ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        busy = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        power = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        facts = {
            "compute_capability": major_minor and f"{major_minor[0]}.{major_minor[1]}",
            "memory_mb": memory and round(memory.total / 2**20),
            "driver_version": _words(ask(nvml.nvmlSystemGetDriverVersion)),
            "uuid": _words(ask(nvml.nvmlDeviceGetUUID, handle)),
        }
        figures = {
            "load_percent": busy and float(busy.gpu),
            "memory_used_mb": memory and memory.used / 2**20,
            "temperature_c": ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "power_w": None if power is None else power / 1000,
            "clock_mhz": ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        }
        # NVML writes eight digits of the domain, sysfs four.
        address = str(_words(nvml.nvmlDeviceGetPciInfo(handle).busId)).lower()
        address = address.removeprefix("0000") if len(address) > 12 else address
        title = str(_words(ask(nvml.nvmlDeviceGetName, handle)) or "NVIDIA GPU")
        return Gpu(address, title, _known(facts), _known(figures))

    def _ask(self, question: Callable[..., Any], *about: Any) -> Any:
        try:
            return question(*about)
        except self._nvml.NVMLError:  # not every GPU answers every question
            return None


def _words(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
