"""Paths into the data of a scenario: what matches a pattern, what is there, how it is written. Called by the loader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.inputs.plain_yaml import DataPath, Lines


def matching(place: Any, pattern: DataPath) -> Iterator[DataPath]:
    """The paths that are there along a pattern, in which `*` is any entry of a map or a list."""
    if not pattern:
        yield ()
        return
    here = dict(enumerate(place)) if isinstance(place, list) else place if isinstance(place, dict) else {}
    for key, inner in here.items():
        if pattern[0] in ("*", str(key)):
            yield from ((str(key), *rest) for rest in matching(inner, pattern[1:]))


def at(place: Any, path: Sequence[str | int]) -> Any:
    """What is there along a path that is known to be there."""
    for part in path:
        place = place[int(part) if isinstance(place, list) else part]
    return place


def where(lines: Lines, path: Sequence[str | int]) -> str:
    """The file and line of a path, or of what it is in."""
    for n in range(len(path), -1, -1):
        if tuple(path[:n]) in lines:
            return lines[tuple(path[:n])]
    return "scenario"


def dotted(path: Sequence[str | int]) -> str:
    """A path as `--set` has it."""
    return ".".join(map(str, path)) or "scenario"
