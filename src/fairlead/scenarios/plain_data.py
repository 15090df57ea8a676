"""A scenario that was made in Python as the data of a scenario file: the inverse of loading. Called by the loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from fairlead.domain.scenario import Scenario


def as_data(scenario: Scenario) -> dict[str, Any]:
    """Maps, lists, words and numbers, as YAML gives them; without the scenario's name and fields that are empty."""
    return _fields(scenario)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def _fields(noun: Any) -> dict[str, Any]:
    """What is given of a noun. Its name is the key that it stands under."""
    given = ((f.name, getattr(noun, f.name)) for f in fields(noun))
    return {k.rstrip("_"): _plain(v) for k, v in given if k != "name" and v is not None and v not in ("", ())}
