"""YAML with line numbers: plain data, and for every path into it the file and line where it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from fairlead.domain.errors import UserError

DataPath = tuple[str | int, ...]
Lines = dict[DataPath, str]  # 'file:line'
_DEEPEST = 20


class Loader(yaml.SafeLoader):
    """YAML 1.2's floats: 1e3 is a number."""


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """The data of a YAML file and where each piece stands."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: can't read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file: {error.reason} at byte {error.start}") from error
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        lines: Lines = {(): str(path)}
        return (None if root is None else _plain(loader, root, (), path, lines)), lines
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from error
    finally:
        loader.dispose()


def _plain(loader: Loader, node: yaml.Node, path: DataPath, file: Path, lines: Lines) -> Any:
    lines.setdefault(path, f"{file}:{node.start_mark.line + 1}")
    if len(path) > _DEEPEST:
        raise UserError(f"{lines[path]}: more than {_DEEPEST} levels deep (an alias that contains itself?)")
    if isinstance(node, yaml.MappingNode):
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(loader.construct_object(key_node))
            line = key_node.start_mark.line + 1
            if key in data:
                raise UserError(f"{file}:{line}: {'.'.join(map(str, (*path, key)))} is given twice")
            lines[(*path, key)] = f"{file}:{line}"
            data[key] = _plain(loader, value_node, (*path, key), file, lines)
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_plain(loader, item, (*path, i), file, lines) for i, item in enumerate(node.value)]
    return loader.construct_object(node)


def merge(base: Any, base_lines: Lines, data: Any, lines: Lines) -> tuple[Any, Lines]:
    """`data` over `base`: maps merge key by key, everything else is replaced."""
    merged, where = _merge(base, data), dict(base_lines)
    for path in _replaced(base, data, ()):
        where = {p: line for p, line in where.items() if p[: len(path)] != path}
    return merged, where | lines


def _merge(base: Any, data: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(data, dict)):
        return data
    return base | {k: _merge(base[k], v) if k in base else v for k, v in data.items()}


def _replaced(base: Any, data: Any, path: DataPath) -> list[DataPath]:
    if isinstance(base, dict) and isinstance(data, dict):
        return [p for k in data if k in base for p in _replaced(base[k], data[k], (*path, k))]
    return [path]
