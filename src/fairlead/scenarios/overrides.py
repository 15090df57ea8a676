"""`--set key=value`: one field of a scenario's data replaced by what the user typed. Called by the loader."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.domain.errors import UserError, as_typed, nearest, shown
from fairlead.inputs.plain_yaml import DataPath, Lines, parse_yaml
from fairlead.scenarios.data_paths import at, dotted, matching
from fairlead.scenarios.extends import without


@dataclasses.dataclass(frozen=True)
class Short:
    """What a short name for `--set` stands for."""

    path: str
    among: tuple[str, ...] = ()  # only fields that have one of these values


def option_of(override: str) -> str:
    """An override as messages name it."""
    return f"--set {as_typed(override)}"


def apply_override(noun: type, short: Mapping[str, Short], data: dict[str, Any], lines: Lines, override: str) -> None:
    """Apply one `key=value` to the data of a `noun`. A key without dots is a field of the workload or the rules."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"{option_of(override)}: expected key=value, for example --set rate=80")
    path, among = _key_path(noun, short, key), short[key].among if key in short else ()
    found = list(matching(data, path)) if "*" in path else [path]
    if among:
        found = [one for one in found if at(data, one) in among]
        if not found:
            needed = f"{dotted(path)} where it is {' or '.join(among)}"
            raise UserError(f"{option_of(override)}: {key} is short for {needed}, which this scenario does not have")
    if not found:
        raise UserError(f"{option_of(override)}: no entry has such a field")
    changed = {_set(data, one, parse_yaml(text, option_of(override)), override) for one in found}
    kept = without(lines, changed) | dict.fromkeys(changed, option_of(override))
    lines.clear()
    lines.update(kept)


def _key_path(noun: type, short: Mapping[str, Short], key: str) -> DataPath:
    if "." in (full := short[key].path if key in short else key):
        return tuple(full.split("."))
    hints = {name: typing.get_type_hints(noun)[name] for name in ("workload", "rules")}
    for section, noun_of in hints.items():
        if full in {f.name for f in dataclasses.fields(noun_of)}:
            return (section, full)
    known = [f.name for one in hints.values() for f in dataclasses.fields(one)]
    raise UserError(
        f"{option_of(key)}: unknown field{nearest(key, [*known, *short])}; others are written section.name.field"
    )


def _set(data: dict[str, Any], path: Sequence[str | int], value: Any, override: str) -> DataPath:
    """Put a value there; the path with the numbers of entries as numbers."""
    place: Any = data
    real: list[str | int] = []
    for i, part in enumerate(path):
        last = i == len(path) - 1
        if isinstance(place, list):
            real.append(_entry(place, str(part), real, override))
        elif isinstance(place, dict) and (last or part in place):
            real.append(part)
        else:
            near = nearest(str(part), place) if isinstance(place, dict) else ""
            raise UserError(f"{option_of(override)}: nothing at {shown(part)}{near}")
        if last:
            place[real[-1]] = value
        else:
            place = place[real[-1]]
    return tuple(real)


def _entry(place: list[Any], part: str, path: DataPath | list[str | int], override: str) -> int:
    if part not in map(str, range(len(place))):
        entries = f"the entries 0..{len(place) - 1}" if place else "no entries"
        raise UserError(f"{option_of(override)}: {dotted(path)} has {entries}, not {as_typed(part)}")
    return int(part)
