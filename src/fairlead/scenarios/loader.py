"""Loads scenarios: YAML files, merged with what they extend and with overrides, validated into the frozen nouns.

There are two kinds, of serving and of tasks (`world: tasks`), which differ in what they are made of.
Everything wrong with a file becomes one UserError line: file, line, field, what it is and what would be right.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.domain.errors import UserError, nearest
from fairlead.domain.scenario import Problem, Scenario, check
from fairlead.domain.tasks import TaskScenario, check_tasks
from fairlead.scenarios.curves import read_curves
from fairlead.scenarios.gavel import read_throughputs
from fairlead.scenarios.traces import read_trace
from fairlead.scenarios.yaml_lines import DataPath, Lines, Loader, merge, read_yaml

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
class _Short:
    """What a short name for `--set` stands for."""

    path: str
    among: tuple[str, ...] = ()  # only fields that have one of these values


@dataclasses.dataclass(frozen=True)
class _World:
    """What the files of one kind of world are made of."""

    noun: type
    check: Callable[[Any], Iterator[Problem]]
    read_files: Callable[
        [Any], Iterator[tuple[DataPath, Callable[[], object]]]
    ]  # what the scenario names: (path, read)
    named: tuple[DataPath, ...]  # maps whose keys are the names of the nouns in them; `*` is any key
    short: Mapping[str, _Short]  # fields with a short name for `--set`


def _arrival_files(s: Scenario) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    for source in s.workload.sources.values():
        if file := source.arrivals.file:
            path = ("workload", "sources", source.name, "arrivals", "file")
            yield path, functools.partial(read_trace, file, s.workload.duration_s, s.workload.sites)


def _speed_files(s: TaskScenario) -> Iterator[tuple[DataPath, Callable[[], object]]]:
    for kind in s.types.values():
        if kind.speed.file:
            gavel = kind.speed.form == "gavel"
            read = functools.partial(read_throughputs, kind) if gavel else functools.partial(read_curves, s, kind)
            yield ("types", kind.name, "speed", "file"), read


_WORLDS = {
    "serving": _World(
        Scenario,
        check,
        _arrival_files,
        (("devices",), ("nodes",), ("models",), ("models", "*", "variants"), ("workload", "sources")),
        {"rate": _Short("workload.rate_per_min")},
    ),
    "tasks": _World(
        TaskScenario,
        check_tasks,
        _speed_files,
        (("resources",), ("clusters",), ("types",)),
        {"rate": _Short("workload.rate_per_step"), "speed": _Short("types.*.speed.form", ("paper", "released"))},
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
        raise UserError(f"{name}: it is a world of tasks, where there are no requests; expected one of serving")
    return scenario


def load_tasks(name: str, overrides: Sequence[str] = ()) -> TaskScenario:
    """The same of tasks."""
    scenario = load_any(name, overrides)
    if not isinstance(scenario, TaskScenario):
        raise UserError(f"{name}: it is a world of requests; expected one of tasks (world: tasks)")
    return scenario


def load_any(name: str, overrides: Sequence[str] = ()) -> Scenario | TaskScenario:
    """The same of either world."""
    data, lines = _read(_find(name), ())
    world = _world(data, lines)
    for override in overrides:
        _override(world, data, lines, override)
    scenario: Scenario | TaskScenario = _validate(world, _with_names(world, data, lines), lines)
    for path, problem in world.check(scenario):  # the first of them
        raise UserError(f"{_where(lines, path)}: {_dotted(path)}: {problem}")
    for path, read in world.read_files(scenario):
        try:
            read()
        except UserError as error:
            raise UserError(f"{error} (named in {_where(lines, path)})") from None
    return scenario


def _world(data: dict[str, Any], lines: Lines) -> _World:
    name = data.get("world", "serving")
    if not isinstance(name, str) or name not in _WORLDS:
        raise UserError(f"{_where(lines, ('world',))}: world: expected {' or '.join(_WORLDS)}, got {name!r}")
    if name == "serving":
        data.pop("world", None)
    return _WORLDS[name]


def _find(name: str) -> Path:
    if name in (known := available() | available_tasks()):
        return known[name]
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    raise UserError(f"unknown scenario {name!r}{nearest(name, known)}; a file of your own ends in .yaml or .yml")


def _read(path: Path, seen: tuple[Path, ...]) -> tuple[dict[str, Any], Lines]:
    """The file's data merged over what it extends."""
    if path.resolve() in seen:
        raise UserError(f"{path}: extends itself")
    data, lines = read_yaml(path)
    if not isinstance(data, dict):
        raise UserError(f"{path}: a scenario is a map of sections (devices, nodes, links, models, workload, rules)")
    for *parents, last in (found for pattern in _FILES for found in _matching(data, pattern)):
        place = _at(data, parents)
        if isinstance(place, dict) and isinstance(place[last], str):
            place[last] = str(path.parent / place[last])
    bases = data.pop("extends", [])
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list) or not all(isinstance(base, str) for base in bases):
        raise UserError(f"{lines[('extends',)]}: extends: expected the name of a scenario, got {bases!r}")
    for base in reversed(bases):
        beside = path.parent / f"{base}.yaml"
        mine = beside.exists() and beside.resolve() != path.resolve()
        if not mine and base not in (known := available() | available_tasks()):
            raise UserError(f"{lines[('extends',)]}: extends: unknown scenario {base!r}{nearest(base, known)}")
        base_data, base_lines = _read(beside if mine else known[base], (*seen, path.resolve()))
        data, lines = merge(base_data, base_lines, data, lines)
    if not seen:
        data["name"] = path.stem
    return data, lines


# ---- overrides


def _override(world: _World, data: dict[str, Any], lines: Lines, override: str) -> None:
    """Apply one `key=value`. A key without dots is a field of the workload or the rules."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise UserError(f"--set {override}: expected key=value, for example --set rate=80")
    path, among = _key_path(world, key), world.short[key].among if key in world.short else ()
    found = list(_matching(data, path)) if "*" in path else [path]
    if among:
        found = [one for one in found if _at(data, one) in among]
        if not found:
            where = f"{_dotted(path)} where it is {' or '.join(among)}"
            raise UserError(f"--set {override}: {key} is short for {where}, which is nowhere in this scenario")
    if not found:
        raise UserError(f"--set {override}: nothing has such a field")
    for one in found:
        _set(data, lines, one, text, override)


def _matching(place: Any, path: DataPath) -> Iterator[DataPath]:
    """The fields that are there along a path in which `*` is any entry of a map or a list."""
    if not path:
        yield ()
        return
    here = dict(enumerate(place)) if isinstance(place, list) else place if isinstance(place, dict) else {}
    for key, inner in here.items():
        if path[0] in ("*", str(key)):
            yield from ((str(key), *rest) for rest in _matching(inner, path[1:]))


def _at(place: Any, path: Sequence[str | int]) -> Any:
    """What is there along a path that is known to be there."""
    for part in path:
        place = place[int(part) if isinstance(place, list) else part]
    return place


def _set(data: dict[str, Any], lines: Lines, path: DataPath, text: str, override: str) -> None:
    *parents, last = path
    place: Any = data
    for i, part in enumerate(parents):
        place = _step(place, part, override, path[:i])
    if isinstance(place, list):
        _step(place, last, override, tuple(parents))
        last = int(last)
    elif not isinstance(place, dict):
        raise UserError(f"--set {override}: {_dotted(tuple(parents))} has no fields")
    try:
        place[last] = yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise UserError(f"--set {override}: {text!r} is not a value: {str(error).splitlines()[0]}") from error
    real: DataPath = tuple(int(p) if isinstance(p, str) and p.isdigit() else p for p in path)
    for known in [p for p in lines if p[: len(real)] == real]:
        del lines[known]
    lines[real] = f"--set {override}"


def _key_path(world: _World, key: str) -> tuple[str | int, ...]:
    if "." in (full := world.short[key].path if key in world.short else key):
        return tuple(full.split("."))
    hints = {name: typing.get_type_hints(world.noun)[name] for name in ("workload", "rules")}
    for section, kind in hints.items():
        if full in {f.name for f in dataclasses.fields(kind)}:
            return (section, full)
    known = [f.name for kind in hints.values() for f in dataclasses.fields(kind)]
    raise UserError(
        f"--set {key}: unknown field{nearest(key, [*known, *world.short])}; others are written section.name.field"
    )


def _step(place: Any, part: str | int, override: str, path: DataPath) -> Any:
    if isinstance(place, list):
        if not str(part).isdigit() or int(part) >= len(place):
            raise UserError(f"--set {override}: {_dotted(path)} has the entries 0..{len(place) - 1}, not {part}")
        return place[int(part)]
    if not isinstance(place, dict) or part not in place:
        raise UserError(
            f"--set {override}: nothing at {part!r}{nearest(str(part), place if isinstance(place, dict) else ())}"
        )
    return place[part]


# ---- validation


def _with_names(world: _World, data: dict[str, Any], lines: Lines) -> dict[str, Any]:
    """Names move from keys into the nouns; `from` becomes `from_`, which Python allows."""
    data = copy.deepcopy(data)
    for pattern in world.named:
        for *path, key in list(_matching(data, (*pattern, "*"))):
            value = _at(data, (*path, key))
            if isinstance(value, dict) and "name" in value:
                where = _where(lines, (*path, key, "name"))
                raise UserError(f"{where}: {_dotted((*path, key, 'name'))}: its name is its key, {key!r}")
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
        return _validator(world.noun).validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        raise UserError(_explain(world, error.errors(include_url=False), data, lines)) from None


def _explain(world: _World, errors: list[Any], data: Any, lines: Lines) -> str:
    """One line for one of the things that are wrong: the one that points deepest, missing fields last."""

    def rank(e: Any) -> tuple[bool, int, bool]:
        return e["type"] == "missing", -len(_real_path(data, e["loc"])[0]), e["type"] != "value_error"

    error = min(errors, key=rank)
    path, value = _real_path(data, error["loc"])
    if error["type"] == "value_error" and isinstance(value, dict):  # the nouns' own checks begin with the field's name
        field = str(error["ctx"]["error"]).split(" ")[0]
        path, value = ((*path, field), value[field]) if field in value else (path, value)
    same = [e for e in errors if _real_path(data, e["loc"])[0] == path]
    more = len({_real_path(data, e["loc"])[0] for e in errors}) - 1
    shown = tuple("from" if p == "from_" else p for p in path)
    tail = f" (and {more} more)" if more else ""
    return f"{_where(lines, shown)}: {_dotted(shown)}: {_message(world, error, same, path, value)}{tail}"


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
    kind, field = error["type"], str(path[-1]) if path else ""
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"unknown field{nearest(field, _fields_at(world, path[:-1]))}"
    if kind == "missing":
        return f"the field {str(error['loc'][-1]).rstrip('_')!r} is missing"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "literal_error":
        return f"expected {error['ctx']['expected']}, got {value!r}"
    unit = next((u for suffix, u in sorted(_UNITS.items(), key=lambda x: -len(x[0])) if field.endswith(suffix)), "")
    if any(e["type"].startswith(("float", "int")) for e in same):
        whole = "whole " if kind.startswith("int") else ""
        return f"expected a {whole}number{f' in {unit}' if unit else ''}, got {value!r}"
    return f"{error['msg'][0].lower()}{error['msg'][1:]}, got {value!r}"


def _fields_at(world: _World, path: DataPath) -> list[str]:
    """The fields that the schema knows at a path."""
    kinds: list[Any] = [world.noun]
    for part in path:
        kinds = [k for kind in kinds for k in _children(kind, part)]
    return [f.name.rstrip("_") for kind in kinds if dataclasses.is_dataclass(kind) for f in dataclasses.fields(kind)]


def _children(kind: Any, part: str | int) -> list[Any]:
    if dataclasses.is_dataclass(kind):
        hint = typing.get_type_hints(kind).get(str(part))
        return _members(hint) if hint is not None else []
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _members(arguments[0])
    return _members(arguments[1]) if origin is Mapping else []


def _members(hint: Any) -> list[Any]:
    return list(typing.get_args(hint)) if typing.get_origin(hint) in (typing.Union, types.UnionType) else [hint]


def _where(lines: Lines, path: Sequence[str | int]) -> str:
    for n in range(len(path), -1, -1):
        if tuple(path[:n]) in lines:
            return lines[tuple(path[:n])]
    return "scenario"


def _dotted(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path)) or "scenario"
