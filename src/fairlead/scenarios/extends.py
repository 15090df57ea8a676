"""A scenario file with what it extends: maps merge key by key, everything else is replaced. Called by the loader."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.domain.errors import UserError, nearest, shown
from fairlead.inputs.plain_yaml import DataPath, Lines, read_yaml
from fairlead.scenarios.data_paths import at, matching, where
from fairlead.scenarios.plain_data import as_data
from fairlead.scenarios.random_edges import edge_named

_MOST_FILES = 50  # one after the other; a base that several extend counts each time


def read_extended(path: Path, known: Mapping[str, Path], files: Sequence[DataPath]) -> tuple[dict[str, Any], Lines]:
    """The data of a file over that of what it extends, and where each piece stands.

    `known` are the scenarios that ship; `files` are patterns of the paths where data names files, relative to its own.
    """
    return _Reading(known, files).read(path, ())


@dataclass
class _Reading:
    """The reading of one scenario."""

    known: Mapping[str, Path]
    files: Sequence[DataPath]
    taken: int = 0  # files so far

    def read(self, path: Path, under: tuple[str, ...]) -> tuple[dict[str, Any], Lines]:
        """One file with all that it extends; `under` are the files on the way to it."""
        data, lines = read_yaml(path)
        if not isinstance(data, dict):
            raise UserError(f"{path}: a scenario is a map of sections (devices, nodes, links, models, workload, rules)")
        for *parents, last in (found for pattern in self.files for found in matching(data, pattern)):
            place = at(data, parents)
            if isinstance(place, dict) and isinstance(place[last], str):
                place[last] = str(path.parent / place[last])
        mine, bases = os.path.realpath(path), data.pop("extends", [])
        for base in reversed(_names(bases, where(lines, ("extends",)))):
            told = f"{lines['extends',]}: extends"
            if (edge := edge_named(base)) is not None:
                data, lines = merge(as_data(edge), {(): edge.name}, data, lines)
                continue
            found = self._find(path, base, told)
            if (real := os.path.realpath(found)) in (mine, *under):
                raise UserError(
                    f"{told}: {'it extends itself' if real == mine else f'{base!r} extends this file in turn'}"
                )
            self.taken += 1
            if self.taken > _MOST_FILES:
                raise UserError(f"{told}: more than {_MOST_FILES} files in all; does one extend another many times?")
            data, lines = merge(*self.read(found, (*under, mine)), data, lines)
        return data, lines

    def _find(self, path: Path, base: str, told: str) -> Path:
        """The file beside it of that name, or the scenario that ships, which a file of the same name may extend."""
        beside = path.parent / f"{base}.yaml"
        own = base in self.known and os.path.realpath(beside) == os.path.realpath(path)
        if os.path.lexists(beside) and not own:
            return beside
        if base in self.known:
            return self.known[base]
        if base.endswith((".yaml", ".yml")):
            raise UserError(f"{told}: expected the name of a scenario without its ending, got {shown(base)}")
        raise UserError(f"{told}: unknown scenario {shown(base)}{nearest(base, self.known)}")


def _names(bases: Any, told: str) -> list[str]:
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise UserError(f"{told}: extends: expected the name of a scenario, got {shown(bases)}")
    if len(set(bases)) < len(bases):
        raise UserError(
            f"{told}: extends: {shown(next(b for i, b in enumerate(bases) if b in bases[:i]))} is named twice"
        )
    return bases


def merge(base: Any, base_lines: Lines, data: Any, lines: Lines) -> tuple[Any, Lines]:
    """`data` over `base`: maps merge key by key, everything else is replaced."""
    return _merge(base, data), without(base_lines, set(_replaced(base, data, ()))) | lines


def without(lines: Lines, paths: set[DataPath]) -> Lines:
    """The lines of all but these pieces and what is in them."""
    lengths = {len(path) for path in paths}
    return {path: line for path, line in lines.items() if not any(path[:n] in paths for n in lengths if n <= len(path))}


def _merge(base: Any, data: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(data, dict)):
        return data
    return base | {k: _merge(base[k], v) if k in base else v for k, v in data.items()}


def _replaced(base: Any, data: Any, path: DataPath) -> list[DataPath]:
    if isinstance(base, dict) and isinstance(data, dict):
        return [p for k in data if k in base for p in _replaced(base[k], data[k], (*path, k))]
    return [path]
