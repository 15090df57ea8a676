"""Detection: the things on a host's buses x the catalog -> its accelerators, with their facts.

`detect` looks at everything; `measure` reads again what changes all the time of what was found. Called by the
command, by `watch`, and by what labels nodes of a cluster. Reads only, through `HostTree` and NVML.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.detect import bus_probes
from fairlead.detect.bus_probes import Thing
from fairlead.detect.catalog import Catalog, Entry, Reading
from fairlead.detect.host_facts import read_host, read_load
from fairlead.detect.host_tree import HostTree
from fairlead.detect.kfd import kfd_facts
from fairlead.detect.nvml import Nvml

_PROBES = (bus_probes.host_board, bus_probes.tree_nodes, bus_probes.usb_devices, bus_probes.pci_devices)
_LONGEST = 200  # characters of a text


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """An accelerator of this host."""

    device: str  # its name in the catalog
    id: str  # on this host; stays when it is plugged in again, or the host restarts
    title: str
    vendor: str
    category: str  # of catalog.CATEGORIES
    matched: str  # the id by which it was recognised, such as 'usb 18d1:9302'
    path: str  # its folder
    facts: Mapping[str, Any] = field(default_factory=dict)  # what stays
    figures: Mapping[str, float] = field(default_factory=dict)  # what changes all the time
    counters: Mapping[str, float] = field(default_factory=dict)  # readings that grow, for `watch`


@dataclass(frozen=True, kw_only=True)
class Detection:
    """What a host has."""

    host: Mapping[str, Any]
    accelerators: tuple[Accelerator, ...]
    load: Mapping[str, Any]  # of the host, now
    problems: Mapping[str, str]  # path -> why it could not be read


def detect(tree: HostTree, catalog: Catalog, nvml: Nvml | None = None) -> Detection:
    """Everything, from the beginning."""
    tree.problems.clear()
    found: dict[str, Accelerator] = {}
    for probe in _PROBES:
        for thing in probe(tree):
            if told := catalog.find(thing.bus, thing.ids, thing.pci_class):
                _add(found, _accelerator(tree, thing, *told))
    known = kfd_facts(tree)
    found = {key: replace(one, facts={**known.get(_address(one), {}), **one.facts}) for key, one in found.items()}
    if nvml:
        for gpu in nvml.gpus():
            _join(found, gpu)
    made = Detection(host=read_host(tree), accelerators=tuple(found.values()), load={}, problems={})
    return measure(made, tree, catalog, nvml)


def measure(known: Detection, tree: HostTree, catalog: Catalog, nvml: Nvml | None = None) -> Detection:
    """The same hardware with what it does now."""
    entries = {entry.name: entry for entry in catalog.entries}
    now = {gpu.address: gpu.figures for gpu in nvml.gpus()} if nvml else {}
    made = []
    for one in known.accelerators:
        readings = entries[one.device].dynamic if one.device in entries else {}
        figures = {k: read(tree, one.path, r) for k, r in readings.items() if not r.counter}
        counters = {k: read(tree, one.path, r) for k, r in readings.items() if r.counter}
        figures |= now.get(_address(one), {})
        made.append(replace(one, figures=_known(figures), counters=_known(counters)))
    return replace(known, accelerators=tuple(made), load=read_load(tree), problems=dict(tree.problems))


def read(tree: HostTree, folder: str, reading: Reading) -> Any:
    """A figure or words, from the first file that has them; None where there are none."""
    for pattern in reading.files:
        for path in tree.glob(pattern if pattern.startswith("/") else f"{folder}/{pattern}"):
            beside = path.rpartition("/")[0]
            if all(fnmatch.fnmatchcase(tree.text(f"{beside}/{k}") or "", v) for k, v in reading.where.items()):
                if (value := _value(tree.text(path), reading)) is not None:
                    return value
    return None


def _value(text: str | None, reading: Reading) -> Any:
    if text and reading.pattern:
        found = re.search(reading.pattern, text)
        text = found[1] if found else None
    if not text:
        return None
    if reading.text:
        return text[:_LONGEST]
    try:
        value = float(text.split()[0]) * reading.scale
    except (ValueError, IndexError):
        return None
    return round(value, 4) if abs(value) < 1e15 else None  # also no number at all


def _accelerator(tree: HostTree, thing: Thing, entry: Entry, matched: str) -> Accelerator:
    found = {name: read(tree, thing.path, reading) for name, reading in entry.static.items()}
    return Accelerator(
        device=entry.name,
        id=f"{entry.name}@{thing.place}",
        title=entry.title,
        vendor=entry.vendor,
        category=entry.category,
        matched=f"{thing.bus} {matched}",
        path=thing.path,
        facts={**entry.facts, **thing.facts, **_known(found)},
    )


def _add(found: dict[str, Accelerator], one: Accelerator) -> None:
    """One more; but nodes of a device tree that are the same device are its cores."""
    cores = one.matched.startswith("node ")
    if cores and any(other.device == one.device and other.matched == one.matched for other in found.values()):
        return
    found[one.id] = one


def _address(one: Accelerator) -> str:
    """On PCI; empty where it is on another bus."""
    return str(one.facts.get("pci_address", ""))


def _join(found: dict[str, Accelerator], gpu: Any) -> None:
    """What NVML knows of a GPU, with what was seen of it on the bus, if that was visible."""
    ours = next((one for one in found.values() if _address(one) == gpu.address), None)
    if ours is None and any(one.matched.startswith("compatible nvidia,") for one in found.values()):
        return  # a Jetson's own GPU
    if ours is None:
        ours = Accelerator(
            device="nvidia-gpu", id=f"nvidia-gpu@pci:{gpu.address}", title="NVIDIA GPU", vendor="nvidia",
            category="gpu", matched=f"nvml {gpu.address}", path="", facts={"pci_address": gpu.address},
        )  # fmt: skip
    found[ours.id] = replace(ours, title=gpu.title, facts={**ours.facts, **gpu.facts})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
