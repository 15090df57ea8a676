"""Labels of a node: what its accelerators are, as Kubernetes wants it, and as a file for Node Feature Discovery.

All under one prefix of ours, so that stale ones can be recognised and removed. Only what stays is a label: load and
temperature are not. Names and values are cut to what Kubernetes takes (letters, digits, '-', '_', '.', 63 at most).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.detect.detector import Detection

PREFIX = "fairlead.io"
LONGEST = 63  # characters of a name, or of a value
MOST_BYTES = 64 * 1024  # of a feature file, as NFD has it
_FACTS = ("compute_capability", "architecture", "compute_units", "memory_mb", "cores", "interface", "interface_mbps",
          "driver", "driver_version", "soc")  # fmt: skip


def labels(found: Detection) -> dict[str, str]:
    """Name -> value: counts by category and device, and of each device the facts that placement asks for."""
    made: dict[str, str] = {}
    for category, count in Counter(one.category for one in found.accelerators).items():
        made[f"{PREFIX}/{category}.count"] = str(count)
    for one in found.accelerators:
        about = f"{PREFIX}/{one.device}"
        made[f"{about}.count"] = str(int(made.get(f"{about}.count", "0")) + 1)
        for fact in _FACTS:
            if fact not in one.facts:
                continue
            name = f"{about}.{fact.replace('_', '-')}"
            value = _value(one.facts[fact])
            made[name] = _least(made.get(name), value) if fact != "architecture" else _same(made.get(name), value)
    if model := _value(found.host.get("model", "")):
        made[f"{PREFIX}/host.model"] = model
    return dict(sorted(made.items()))


def feature_file(made: Mapping[str, str], keep_s: float | None = None, now: datetime | None = None) -> str:
    """The labels as NFD reads them from features.d; with `keep_s` they are dropped unless they are written anew."""
    lines = [f"{name}={value}" for name, value in made.items()]
    if keep_s is not None:
        end = (now or datetime.now(UTC)) + timedelta(seconds=keep_s)
        lines.insert(0, f"# +expiry-time={end:%Y-%m-%dT%H:%M:%SZ}")
    text = "".join(f"{line}\n" for line in lines)
    return text if len(text.encode()) <= MOST_BYTES else text.encode()[:MOST_BYTES].decode().rpartition("\n")[0] + "\n"


def _value(value: Any) -> str:
    """As a label may have it: begins and ends with a letter or a digit."""
    words = f"{value:g}" if isinstance(value, float) else str(value)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", words, flags=re.ASCII).strip("-_.")[:LONGEST].strip("-_.")


def _same(there: str | None, here: str) -> str:
    """Of two devices of one name what both are, if they are the same: there is no lesser one."""
    return here if there in (None, here) else "mixed"


def _least(there: str | None, here: str) -> str:
    """Of two devices of one name the lesser figure: what every one of them has."""
    if there is None:
        return here
    try:
        return min(there, here, key=float)
    except ValueError:
        return min(there, here)
