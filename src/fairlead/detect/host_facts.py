"""The host itself: what it is, and how busy."""

from __future__ import annotations

import re
from typing import Any

from fairlead.detect.bus_probes import device_tree_root
from fairlead.detect.host_tree import HostTree


def read_host(tree: HostTree) -> dict[str, Any]:
    """What stays as long as the host runs; what is not known is left out."""
    base = device_tree_root(tree)
    model = tree.text(f"{base}/model") if base else None
    known = {
        "model": model or tree.text("/sys/class/dmi/id/product_name"),
        "kernel": tree.text("/proc/sys/kernel/osrelease"),
        "cpus": _cpus(tree.text("/sys/devices/system/cpu/present")),
        "memory_mb": _memory(tree).get("MemTotal"),
    }
    return {name: value for name, value in known.items() if value}


def read_load(tree: HostTree) -> dict[str, Any]:
    """What changes all the time, power rails included."""
    zones = [tree.number(path) for path in tree.glob("/sys/class/thermal/thermal_zone*/temp")]
    hottest = max((zone / 1000 for zone in zones if zone is not None and zone < 1e6), default=None)
    known = {
        "load_1m": tree.number("/proc/loadavg"),
        "memory_free_mb": _memory(tree).get("MemAvailable"),
        "hottest_c": hottest,
        "rails_mw": power_rails(tree),
    }
    return {name: value for name, value in known.items() if value not in (None, {})}


def power_rails(tree: HostTree) -> dict[str, float]:
    """Milliwatts by the name of the rail: INA3221 and the like tell millivolts and milliamperes of each channel."""
    rails = {}
    for label in tree.glob("/sys/class/hwmon/hwmon*/in*_label"):
        folder, _, file = label.rpartition("/")
        channel = file.removeprefix("in").removesuffix("_label")
        volts, amperes = tree.number(f"{folder}/in{channel}_input"), tree.number(f"{folder}/curr{channel}_input")
        if volts is not None and amperes is not None and (name := tree.text(label)):
            rails[name[:40]] = round(volts * amperes / 1000, 1)
    return rails


def _cpus(text: str | None) -> int | None:
    """How many a list such as 0-3,6 names."""
    count = 0
    for part in (text or "").split(","):
        if not (ends := re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())):
            return None
        count += int(ends[2] or ends[1]) - int(ends[1]) + 1
    return count if count > 0 else None


def _memory(tree: HostTree) -> dict[str, float]:
    content = (tree.read("/proc/meminfo") or b"").decode("ascii", "replace")
    found = re.findall(r"^(MemTotal|MemAvailable): +(\d{1,15}) kB$", content, flags=re.MULTILINE)
    return {name: round(int(kilobytes) / 1024) for name, kilobytes in found}
