"""What is on the buses of a host: things with their ids, not yet identified. One generator per bus.

A thing is looked at whether or not the others are: a Jetson with a Coral on its USB port is two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fairlead.detect.host_tree import HostTree

DEVICE_TREE = ("/proc/device-tree", "/sys/firmware/devicetree/base")
_DEEPEST, _MOST_NODES = 4, 20_000
_USB_NAME = re.compile(r"\d+-[\d.]+")  # a device; interfaces have a colon, root hubs no dash
_PCI_NAME = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_HEX4 = re.compile(r"(?:0x)?([0-9a-fA-F]{4})")


@dataclass(frozen=True)
class Thing:
    """Something on a bus."""

    bus: str  # of catalog.BUSES
    ids: tuple[str, ...]  # by which the catalog may know it, best first
    path: str  # its folder, or that of its first part
    place: str  # where it is plugged in: the same after it was unplugged, or the host restarted
    pci_class: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def device_tree_root(tree: HostTree) -> str | None:
    """The folder of the host's device tree, if it has one."""
    return next((folder for folder in DEVICE_TREE if tree.is_folder(folder)), None)


def host_board(tree: HostTree) -> Iterator[Thing]:
    """The board as a whole, by the `compatible` of its device tree: the special before the general."""
    if base := device_tree_root(tree):
        if ids := tree.strings(f"{base}/compatible"):
            yield Thing("compatible", tuple(ids), base, "soc", facts={"interface": "soc"})


def tree_nodes(tree: HostTree) -> Iterator[Thing]:
    """The nodes of the device tree that are switched on."""
    base = device_tree_root(tree)
    left = [(base, 0)] if base else []
    seen = 0
    while left and seen < _MOST_NODES:
        at, depth = left.pop()
        seen += 1
        if depth and (ids := tree.strings(f"{at}/compatible")):
            if tree.text(f"{at}/status") in (None, "", "okay", "ok"):
                yield Thing("node", tuple(ids), at, at.rpartition("/")[2], facts={"interface": "soc"})
        if depth < _DEEPEST:
            inside = [(f"{at}/{name}", depth + 1) for name in tree.names(at) if _is_node(tree, at, name, depth)]
            left += reversed(inside)


def _is_node(tree: HostTree, at: str, name: str, depth: int) -> bool:
    """Whether a name in a device tree's folder is a node: those have an address, or are buses near the root."""
    return ("@" in name or depth == 0) and tree.is_folder(f"{at}/{name}")


def usb_devices(tree: HostTree) -> Iterator[Thing]:
    """What is on USB, with the speed that it came up with."""
    for name in tree.names("/sys/bus/usb/devices"):
        at = f"/sys/bus/usb/devices/{name}"
        vendor, product = (_hex4(tree.text(f"{at}/{file}")) for file in ("idVendor", "idProduct"))
        if not (_USB_NAME.fullmatch(name) and vendor and product):
            continue
        facts: dict[str, Any] = {}
        if speed := tree.number(f"{at}/speed"):
            facts |= {"interface": "usb2" if speed <= 480 else "usb3", "interface_mbps": speed}
        facts |= {"serial": serial} if (serial := tree.text(f"{at}/serial")) else {}
        # Bus numbers change from start to start, device numbers with every plugging; controller and port do not. A
        # serial number would follow a device to another port, but many sticks of one make have the same.
        folders = (tree.resolve(at) or at).split("/")
        root = next((i for i, part in enumerate(folders) if re.fullmatch(r"usb\d+", part)), 0)
        place = f"usb:{folders[root - 1] if root else 'hub'}:{name.partition('-')[2]}"
        yield Thing("usb", (f"{vendor}:{product}",), at, place, facts=facts)


def pci_devices(tree: HostTree) -> Iterator[Thing]:
    """What is on PCI, with the link that it came up with."""
    for name in tree.names("/sys/bus/pci/devices"):
        at = f"/sys/bus/pci/devices/{name}"
        vendor, device = (_hex4(tree.text(f"{at}/{file}")) for file in ("vendor", "device"))
        if not (_PCI_NAME.fullmatch(name) and vendor and device):
            continue
        pci_class = (tree.text(f"{at}/class") or "").removeprefix("0x").lower()
        facts: dict[str, Any] = {"pci_address": name}
        facts |= {"driver": driver} if (driver := tree.link_name(f"{at}/driver")) else {}
        rate, width = tree.number(f"{at}/current_link_speed"), tree.number(f"{at}/current_link_width")
        if rate and width and 0 < rate < 1000 and 0 < width <= 64:
            coding = 0.8 if rate < 8 else 128 / 130
            facts |= {"interface": f"pcie-x{width:.0f}", "interface_mbps": round(rate * width * coding * 1000)}
        yield Thing("pci", (f"{vendor}:{device}",), at, f"pci:{name}", pci_class, facts)


def _hex4(text: str | None) -> str | None:
    found = _HEX4.fullmatch(text or "")
    return found[1].lower() if found else None
