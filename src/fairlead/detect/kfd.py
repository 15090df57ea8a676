"""What the driver of AMD's GPUs knows of them: the kfd topology, a folder for each CPU and GPU in sysfs.

Joined by the PCI address with what was seen on the bus, whatever the catalog calls it; called by `detector`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.detect.host_tree import HostTree

_NODES = "/sys/class/kfd/kfd/topology/nodes/*/properties"
_IN_VRAM = (1, 2)  # heap types of the GPU's own memory: what the CPU may see of it, and the rest


def kfd_facts(tree: HostTree) -> dict[str, dict[str, Any]]:
    """PCI address -> architecture, compute units, memory of a GPU, as far as they are given."""
    found = {}
    for path in tree.glob(_NODES):
        node = _properties(tree, path)
        if node.get("simd_count") and "location_id" in node:  # a CPU has none
            found[_address(node)] = _facts(tree, path.rpartition("/")[0], node)
    return found


def _properties(tree: HostTree, path: str) -> dict[str, int]:
    """The lines `name number` of a file; what is damaged is left out."""
    made = {}
    for line in (tree.read(path) or b"").split(b"\n"):
        name, _, number = line.partition(b" ")
        if name.isascii() and number.isdigit() and len(number) < 21:
            made[name.decode()] = int(number)
    return made


def _address(node: Mapping[str, int]) -> str:
    """As sysfs writes it: the location is the bus and, in the last eight bits, device and function."""
    at = node["location_id"]
    return f"{node.get('domain', 0):04x}:{at >> 8 & 0xFF:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"


def _facts(tree: HostTree, folder: str, node: Mapping[str, int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"compute_units": node["simd_count"] // (node.get("simd_per_cu") or 4)}
    if version := node.get("gfx_target_version"):  # 90010 is 9.0.10: gfx90a
        facts["architecture"] = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    banks = [_properties(tree, path) for path in tree.glob(f"{folder}/mem_banks/*/properties")]
    size = sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _IN_VRAM)
    if size := size or node.get("local_mem_size", 0):
        facts["memory_mb"] = round(size / 2**20)
    return facts
