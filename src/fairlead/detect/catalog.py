"""The catalog: which ids are which device, and where its figures are read. Data, so that a new device is a few lines.

`catalog.yaml` ships; `fairlead detect --catalog FILE` puts a user's devices before it. The first entry that matches a
thing on a bus is what the thing is: so the special comes before the general.
"""

from __future__ import annotations

import fnmatch
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fairlead.domain.errors import UserError, nearest
from fairlead.inputs.plain_yaml import read_yaml

SHIPPED = Path(__file__).parent / "catalog.yaml"
BUSES = ("compatible", "node", "usb", "pci")
CATEGORIES = ("gpu", "tpu", "npu", "vpu")  # of accelerators
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")  # goes into the names of labels


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Where a figure is read: in a file beside the device, or by a path from the root of the host."""

    files: tuple[str, ...]  # patterns; the first that is there counts
    scale: float = 1.0  # figure = what is read * scale
    pattern: str | None = None  # a regular expression with one group, which is the figure
    where: Mapping[str, str] = field(default_factory=dict)  # only where a file beside it holds this (a pattern)
    text: bool = False  # words, no number
    counter: bool = False  # goes up; the figure is its growth a second

    def __post_init__(self) -> None:
        if isinstance(self.scale, bool) or not isinstance(self.scale, int | float):
            raise ValueError(f"scale: expected a number, not {self.scale!r}")
        if self.pattern is not None:
            try:
                with warnings.catch_warnings(action="error"):  # of what a later Python may read otherwise
                    groups = re.compile(self.pattern).groups
            except (re.error, FutureWarning, DeprecationWarning) as error:
                raise ValueError(f"pattern: {error}") from error
            if groups != 1:
                raise ValueError("pattern: takes exactly one group, in parentheses")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A device of the catalog."""

    name: str
    title: str
    vendor: str
    category: str  # of CATEGORIES
    compatible: tuple[str, ...] = ()  # of the host's device tree, as a whole; patterns, as are the next three
    node: tuple[str, ...] = ()  # of a node in the device tree
    usb: tuple[str, ...] = ()  # vendor:product
    pci: tuple[str, ...] = ()  # vendor:device
    pci_class: str = "*"  # and of this class, six hexadecimal digits
    facts: Mapping[str, Any] = field(default_factory=dict)  # what is known of every such device
    static: Mapping[str, Reading] = field(default_factory=dict)  # read once in a while
    dynamic: Mapping[str, Reading] = field(default_factory=dict)  # read often
    source: str = ""  # of ids and facts

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > 40:
            raise ValueError("a name has small letters, digits, '-' and '.', 40 at most: it becomes a label")
        if self.category not in CATEGORIES:
            raise ValueError(f"category: {self.category!r}{nearest(self.category, CATEGORIES)}")
        for key in ("title", "vendor", "source", "pci_class"):
            if not isinstance(getattr(self, key), str):
                raise ValueError(f"{key}: expected words, not {getattr(self, key)!r}")
        if not any(getattr(self, bus) for bus in BUSES):
            raise ValueError(f"needs one of {', '.join(BUSES)} to be known by")
        for bus in ("usb", "pci"):
            for pattern in getattr(self, bus):
                if not re.fullmatch(r"[0-9a-f*?\[\]-]+:[0-9a-f*?\[\]-]+", pattern):
                    raise ValueError(f"{bus}: {pattern!r}: expected vendor:device, as in 1ac1:089a, in small letters")

    def matches(self, bus: str, ids: Sequence[str], pci_class: str = "") -> str | None:
        """The first of these ids by which a thing on that bus is this device."""
        if bus == "pci" and not fnmatch.fnmatchcase(pci_class, self.pci_class):
            return None
        patterns = getattr(self, bus)
        return next((one for one in ids if any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)), None)


@dataclass(frozen=True)
class Catalog:
    """All devices that can be recognised, in the order in which they are tried."""

    entries: tuple[Entry, ...]

    def find(self, bus: str, ids: Sequence[str], pci_class: str = "") -> tuple[Entry, str] | None:
        """What a thing on a bus is, and by which of its ids."""
        for entry in self.entries:
            if found := entry.matches(bus, ids, pci_class):
                return entry, found
        return None


def read_catalog(*also: Path) -> Catalog:
    """The catalog that ships, after the user's own: of two entries of one name the first counts."""
    entries: dict[str, Entry] = {}
    for path in (*also, SHIPPED):
        for entry in _entries(path):
            entries.setdefault(entry.name, entry)
    return Catalog(tuple(entries.values()))


def _entries(path: Path) -> list[Entry]:
    data, _ = read_yaml(path)
    devices = data.get("devices") if isinstance(data, dict) else None
    if not isinstance(devices, dict):
        raise UserError(f"{path}: expected `devices:` with an entry for each device")
    return [_entry(path, str(name), content) for name, content in devices.items()]


def _entry(path: Path, name: str, content: Any) -> Entry:
    where = f"{path}: {name}"
    values = dict(_fields(where, content, Entry))
    for bus in BUSES:
        if bus in values:
            values[bus] = _words(f"{where}: {bus}", values[bus])
    for key in ("facts", "static", "dynamic"):
        if not isinstance(values.get(key, {}), dict):
            raise UserError(f"{where}: {key}: expected names with values")
    for key in ("static", "dynamic"):
        values[key] = {k: _reading(f"{where}: {key}: {k}", v) for k, v in values.get(key, {}).items()}
    return _made(where, Entry, values | {"name": name})


def _reading(where: str, content: Any) -> Reading:
    values = dict(_fields(where, content, Reading)) if isinstance(content, dict) else {"files": content}
    values["files"] = _words(f"{where}: files", values.get("files"))
    return _made(where, Reading, values)


def _words(where: str, value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
        raise UserError(f"{where}: expected words (in quotes, if they look like numbers), not {value!r}")
    return tuple(words)


def _fields(where: str, content: Any, record: Any) -> Mapping[str, Any]:
    known = [one.name for one in fields(record) if one.name != "name"]
    if not isinstance(content, dict):
        raise UserError(f"{where}: expected fields ({', '.join(known)})")
    for key in content:
        if key not in known:
            raise UserError(f"{where}: unknown field {key!r}{nearest(str(key), known)}")
    return content


def _made(where: str, record: Any, values: dict[str, Any]) -> Any:
    try:
        return record(**values)
    except TypeError as error:  # a field is missing
        missing = re.findall(r"'(\w+)'", str(error))
        raise UserError(f"{where}: lacks {', '.join(missing)}") from error
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
