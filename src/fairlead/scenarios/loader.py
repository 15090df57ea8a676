"""Loads scenarios: YAML files, merged with what they extend and with overrides, validated into the frozen nouns.
`random:SEED` is loaded as if it were a file.

There are two worlds, of serving and of tasks (`world: tasks`), whose scenarios differ in what they are made of.
Everything wrong with a file becomes one UserError line: file, line, field, what it is and what would be right.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.domain.errors import UserError, nearest, shown
from fairlead.domain.scenario import Problem, Scenario, check
from fairlead.domain.tasks import TaskScenario, check_tasks
from fairlead.inputs.plain_yaml import DataPath, Lines
from fairlead.scenarios.arrival_traces import read_trace
from fairlead.scenarios.data_paths import at, dotted, matching, where
from fairlead.scenarios.extends import read_extended
from fairlead.scenarios.gavel_throughputs import read_throughputs
from fairlead.scenarios.overrides import Short, apply_override, option_of
from fairlead.scenarios.plain_data import as_data
from fairlead.scenarios.progress_curves import read_curves
from fairlead.scenarios.random_edges import edge_named

_FOLDER = Path(__file__).parent
_UNITS = {
    "_ms": "milliseconds",
    "_s": "seconds",
    "_mb": "megabytes",
    "_kb": "kilobytes",
    "_w": "watts",
    "_mbps": "megabits a second",
    "_qps": "requests a second",
    "_per_h": "money an hour",
    "_per_min": "arrivals a minute",
    "_tops": "tera-operations a second",
}


@dataclasses.dataclass(frozen=True)
class _World:
    """What the files of one world are made of."""

    noun: type
    check: Callable[[Any], Iterator[Problem]]
    read_files: Callable[
        [Any], Iterator[tuple[DataPath, Callable[[], object]]]
    ]  # what the scenario names: (path, read)
    named: tuple[DataPath, ...]  # maps whose keys are the names of the nouns in them; `*` is any key
    short: Mapping[str, Short]  # fields with a short name for `--set`


def _arrival_files(s: Scenario) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    for source in s.workload.sources.values():
        if file := source.arrivals.file:
            path = ("workload", "sources", source.name, "arrivals", "file")
            yield path, functools.partial(read_trace, file, s.workload.duration_s, s.workload.sites)


def _speed_files(s: TaskScenario) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    for task_type in s.types.values():
        if task_type.speed.file:
            gavel = task_type.speed.form == "gavel"
            read = (
                functools.partial(read_throughputs, task_type)
                if gavel
                else functools.partial(read_curves, s, task_type)
            )
            yield ("types", task_type.name, "speed", "file"), read


_WORLDS = {
    "serving": _World(
        Scenario,
        check,
        _arrival_files,
        (("devices",), ("nodes",), ("models",), ("models", "*", "variants"), ("workload", "sources")),
        {"rate": Short("workload.rate_per_min")},
    ),
    "tasks": _World(
        TaskScenario,
        check_tasks,
        _speed_files,
        (("resources",), ("clusters",), ("types",)),
        {"rate": Short("workload.rate_per_step"), "speed": Short("types.*.speed.form", ("paper", "released"))},
    ),
}
#: Where files are named, which is relative to the scenario's own.
_FILES: tuple[DataPath, ...] = (("workload", "sources", "*", "arrivals", "file"), ("types", "*", "speed", "file"))


def available() -> dict[str, Path]:
    """The scenarios of serving that ship, by name."""
    return {p.stem: p for p in sorted(_FOLDER.glob("*.yaml")) if not p.stem.startswith("_")}


def available_tasks() -> dict[str, Path]:
    """The scenarios of tasks that ship, by name."""
    return {p.stem: p for p in sorted(_FOLDER.glob("tasks/*.yaml")) if not p.stem.startswith("_")}


def load(name: str, overrides: Sequence[str] = ()) -> Scenario:
    """The scenario of that name, or of that file, with `key=value` overrides applied. One of serving."""
    scenario = load_any(name, overrides)
    if not isinstance(scenario, Scenario):
        raise UserError(f"{name}: this is a scenario of tasks; expected a scenario of requests")
    return scenario


def load_tasks(name: str, overrides: Sequence[str] = ()) -> TaskScenario:
    """The same of tasks."""
    scenario = load_any(name, overrides)
    if not isinstance(scenario, TaskScenario):
        raise UserError(f"{name}: this is a scenario of requests; expected a scenario of tasks (world: tasks)")
    return scenario


def load_any(name: str, overrides: Sequence[str] = ()) -> Scenario | TaskScenario:
    """The same of either world. What goes wrong with an override, and not without it, is the override's fault."""
    try:
        return _loaded(name, overrides)
    except _Unsound as error:
        if error.place.startswith("--set") or (blamed := _blamed(name, overrides)) is None:
            raise
        raise UserError(f"{option_of(blamed)}: {error.words}") from None


class _Unsound(UserError):
    """What is wrong with a scenario, and where: a file and line, or an override."""

    def __init__(self, place: str, words: str) -> None:
        super().__init__(f"{place}: {words}")
        self.place, self.words = place, words


def _blamed(name: str, overrides: Sequence[str]) -> str | None:
    """The override that follows the most of them with which the scenario is sound."""
    for n in reversed(range(len(overrides))):
        with contextlib.suppress(UserError):
            _loaded(name, overrides[:n])
            return overrides[n]
    return None


def _loaded(name: str, overrides: Sequence[str]) -> Scenario | TaskScenario:
    data, lines = _data(name)
    world = _world(data, lines)
    for override in overrides:
        apply_override(world.noun, world.short, data, lines, override)
    scenario: Scenario | TaskScenario = _validate(world, _with_names(world, data, lines), lines)
    for found, problem in world.check(scenario):  # the first of them
        raise _Unsound(where(lines, found), f"{dotted(found)}: {problem}")
    for found, read in world.read_files(scenario):
        try:
            read()
        except UserError as error:
            raise UserError(f"{error} (named in {where(lines, found)})") from None
    return scenario


def _data(name: str) -> tuple[dict[str, Any], Lines]:
    """The data of the scenario of that name, its own name included, and where each piece stands."""
    if (edge := edge_named(name)) is not None:
        return as_data(edge) | {"name": edge.name}, {(): edge.name}
    path = _find(name)
    data, lines = read_extended(path, available() | available_tasks(), _FILES)
    return data | {"name": path.stem}, lines


def _world(data: dict[str, Any], lines: Lines) -> _World:
    name = data.get("world", "serving")
    if not isinstance(name, str) or name not in _WORLDS:
        raise UserError(f"{where(lines, ('world',))}: world: expected {' or '.join(_WORLDS)}, got {shown(name)}")
    if name == "serving":
        data.pop("world", None)
    return _WORLDS[name]


def _find(name: str) -> Path:
    if name in (known := available() | available_tasks()):
        return known[name]
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise UserError(f"unknown scenario {shown(name)}{nearest(name, known)}; a file of your own ends in .yaml or .yml")


# ---- validation


def _with_names(world: _World, data: dict[str, Any], lines: Lines) -> dict[str, Any]:
    """Names move from keys into the nouns; `from` becomes `from_`, which Python allows."""
    data = copy.deepcopy(data)
    for pattern in world.named:
        for *path, key in list(matching(data, (*pattern, "*"))):
            value = at(data, (*path, key))
            if isinstance(value, dict) and "name" in value:
                place = where(lines, (*path, key, "name"))
                raise UserError(
                    f"{place}: {dotted((*path, key, 'name'))}: leave it out, because the key {key!r} is the name"
                )
            if isinstance(value, dict):
                value["name"] = key
    for section in ("links", "link_changes"):
        for item in data[section] if isinstance(data.get(section), list) else ():
            if isinstance(item, dict) and "from" in item:
                item["from_"] = item.pop("from")
    return data


@functools.cache
def _validator(noun: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(noun)


def _validate(world: _World, data: dict[str, Any], lines: Lines) -> Any:
    from pydantic import ValidationError

    try:
        return _validator(world.noun).validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise _explain(world, error.errors(include_url=False), data, lines) from None


def _explain(world: _World, errors: list[Any], data: Any, lines: Lines) -> _Unsound:
    """What to say of one of the things that are wrong: the one that points deepest, missing fields last."""

    def rank(e: Any) -> tuple[bool, int, bool]:
        return e["type"] == "missing", -len(_real_path(data, e["loc"])[0]), e["type"] != "value_error"

    error = min(errors, key=rank)
    path, value = _real_path(data, error["loc"])
    if error["type"] == "value_error" and isinstance(value, dict):  # the nouns' own checks begin with the field's name
        field = str(error["ctx"]["error"]).split(" ")[0]
        path, value = ((*path, field), value[field]) if field in value else (path, value)
    same = [e for e in errors if _real_path(data, e["loc"])[0] == path]
    more = len({_real_path(data, e["loc"])[0] for e in errors}) - 1
    written = tuple("from" if p == "from_" else p for p in path)
    tail = f" (and {more} more)" if more else ""
    return _Unsound(where(lines, written), f"{dotted(written)}: {_message(world, error, same, path, value)}{tail}")


def _real_path(data: Any, location: Sequence[str | int]) -> tuple[DataPath, Any]:
    """The part of pydantic's location that is in the data (it adds the names of union members), and what is there."""
    path: list[str | int] = []
    for part in location:
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path.append(part)
    return tuple(path), data


def _message(world: _World, error: Any, same: list[Any], path: DataPath, value: Any) -> str:
    error_type, field = error["type"], str(path[-1]) if path else ""
    if error_type in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown field{nearest(field, _fields_at(world, path[:-1]))}"
    if error_type == "missing":
        return f"the field {str(error['loc'][-1]).rstrip('_')!r} is missing"
    if error_type == "value_error":
        return str(error["ctx"]["error"])
    if error_type == "literal_error":
        return f"expected {error['ctx']['expected']}, got {shown(value)}"
    unit = next((u for suffix, u in sorted(_UNITS.items(), key=lambda x: -len(x[0])) if field.endswith(suffix)), "")
    if any(e["type"].startswith(("float", "int")) for e in same):
        whole = "whole " if error_type.startswith("int") else ""
        return f"expected a {whole}number{f' in {unit}' if unit else ''}, got {shown(value)}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, got {shown(value)}"


def _fields_at(world: _World, path: DataPath) -> list[str]:
    """The fields that the schema knows at a path."""
    classes: list[Any] = [world.noun]
    for part in path:
        classes = [k for cls in classes for k in _children(cls, part)]
    return [f.name.rstrip("_") for cls in classes if dataclasses.is_dataclass(cls) for f in dataclasses.fields(cls)]


def _children(cls: Any, part: str | int) -> list[Any]:
    if dataclasses.is_dataclass(cls):
        hint = typing.get_type_hints(cls).get(str(part))
        return _members(hint) if hint is not None else []
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin is tuple:
        return _members(arguments[0])
    return _members(arguments[1]) if origin is Mapping else []


def _members(hint: Any) -> list[Any]:
    return list(typing.get_args(hint)) if typing.get_origin(hint) in (typing.Union, types.UnionType) else [hint]
