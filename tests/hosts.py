"""Hosts to detect, laid out below a folder as the kernel lays out /proc and /sys; what they are is in hosts.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

HOSTS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "hosts.yaml").read_text())


def lay_out(root: Path, host: dict[str, Any]) -> Path:
    """Make the files and links of a host."""
    write(root, "proc/meminfo", "MemTotal:        7650336 kB\nMemAvailable:    5123456 kB\n")
    write(root, "sys/devices/system/cpu/present", "0-5\n")
    if "compatible" in host:
        base = "sys/firmware/devicetree/base"
        write(root, f"{base}/compatible", strings(host["compatible"]))
        write(root, f"{base}/model", host.get("model", "a board") + "\0")
        for name, content in host.get("nodes", {}).items():
            write(root, f"{base}/{name}/compatible", strings(content["compatible"]))
            if "status" in content:
                write(root, f"{base}/{name}/status", content["status"] + "\0")
        link(root, "proc/device-tree", "/sys/firmware/devicetree/base")  # absolute, as the kernel has it
    for name, content in host.get("usb", {}).items():
        plug_in(root, name, **content)
    for name, content in host.get("pci", {}).items():
        folder = f"sys/devices/pci0000:00/{name}"
        for key in ("vendor", "device", "class"):
            write(root, f"{folder}/{key}", content[key] + "\n")
        if "link" in content:
            rate, width = content["link"]
            write(root, f"{folder}/current_link_speed", f"{rate} GT/s PCIe\n")
            write(root, f"{folder}/current_link_width", f"{width}\n")
        if "driver" in content:
            (root / f"sys/bus/pci/drivers/{content['driver']}").mkdir(parents=True, exist_ok=True)
            link(root, f"{folder}/driver", f"../../../bus/pci/drivers/{content['driver']}")
        for file, text in content.get("files", {}).items():
            write(root, f"{folder}/{file}", text)
        link(root, f"sys/bus/pci/devices/{name}", f"../../../devices/pci0000:00/{name}")
    for file, text in host.get("files", {}).items():
        write(root, file, text)
    return root


def plug_in(root: Path, name: str, **attributes: Any) -> Path:
    """A device into a USB port, such as 1-1.3; returns the link to it."""
    folder = f"sys/devices/pci0000:00/0000:01:00.0/usb{name[0]}/{name}"
    for key, value in attributes.items():
        write(root, f"{folder}/{key}", f"{value}\n")
    return link(root, f"sys/bus/usb/devices/{name}", f"../../../{folder.removeprefix('sys/')}")


def strings(words: list[str]) -> str:
    """As a property of a device tree."""
    return "".join(f"{word}\0" for word in words)


def write(root: Path, path: str, content: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content)


def link(root: Path, path: str, target: str) -> Path:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).symlink_to(target)
    return root / path
