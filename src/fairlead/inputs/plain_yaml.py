"""YAML as plain data with line numbers: maps, lists, words and numbers, bounded so that no text of it can do harm.

Scenarios, `--set`, `--values` and catalogs of devices are read here. Refused, each with its line: aliases that contain
themselves or multiply, deep nesting, control characters, tags, and whole numbers of more than 18 digits. A date is a
word. Uses libyaml's parser where it is there: it is eighteen times as fast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import yaml

from fairlead.domain.errors import UserError, shown
from fairlead.inputs.read_files import read_text

DataPath = tuple[str | int, ...]
Lines = dict[DataPath, str]  # 'file:line'
_MOST_MB = 4
_DEEPEST = 20
_MOST_VALUES = 200_000  # once aliases stand for what they mean
_LONGEST_NUMBER = 100
_LONGEST_KEY = 200
_MERGE = object()  # the key <<
_CORE = "tag:yaml.org,2002:"
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
_NOT_IN_TEXT = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_WORDS = re.compile(r"[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_KEYS = re.compile(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Parses, and knows what a plain word means: null, a boolean, a number or itself, but no date."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith((":timestamp", ":value"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(f"{_CORE}float", _FLOAT, list("-+.0123456789"))  # YAML 1.2's: 1e3 is a number


@dataclass
class _Node:
    """A piece of the text."""

    line: int
    form: Literal["map", "list", "scalar"]
    value: Any = None  # of a scalar
    inner: list[_Node] = field(default_factory=list)  # a list's items; of a map keys and values in turn
    ended: bool = True  # until it has, an alias of it would contain itself


@dataclass
class _Reader:
    """One text, while it is read."""

    name: str  # of the file, or the option
    numbered: bool  # whether messages name its lines
    lines: Lines = field(default_factory=dict)
    anchors: dict[str, _Node] = field(default_factory=dict)
    values: int = 0

    def where(self, line: int) -> str:
        return f"{self.name}:{line}" if self.numbered else self.name

    def refused(self, line: int, why: str) -> UserError:
        return UserError(f"{self.where(line)}: {why}")

    def _checked(self, line: int, depth: int) -> None:
        """Raise where there is too much of it."""
        self.values += 1
        if self.values > _MOST_VALUES:
            raise self.refused(line, f"more than {_MOST_VALUES:,} values (do aliases multiply?)")
        if depth > _DEEPEST:
            raise self.refused(line, f"more than {_DEEPEST} levels deep")

    # ---- from events to pieces

    def compose(self, loader: Any, depth: int = 0) -> _Node:
        """The piece that begins with the next event."""
        event = loader.get_event()
        line = event.start_mark.line + 1
        self._checked(line, depth)
        if isinstance(event, yaml.AliasEvent):
            return self._meant(event.anchor, line)
        scalar = isinstance(event, yaml.ScalarEvent)
        node = _Node(line, "scalar" if scalar else "map" if isinstance(event, yaml.MappingStartEvent) else "list")
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        if scalar:
            node.value = self._scalar(loader, event, line)
            return node
        if event.tag not in (None, "!", _CORE + {"map": "map", "list": "seq"}[node.form]):
            raise self.refused(line, f"the tag {shown(event.tag)} is not known here")
        node.ended = False
        while not loader.check_event(yaml.MappingEndEvent, yaml.SequenceEndEvent):
            node.inner.append(self.compose(loader, depth + 1))
        loader.get_event()
        node.ended = True
        return node

    def _meant(self, alias: Any, line: int) -> _Node:
        if alias not in self.anchors:
            raise self.refused(line, f"the alias *{alias} is not defined: no &{alias} is before it")
        if not self.anchors[alias].ended:
            raise self.refused(line, f"the alias *{alias} contains itself")
        return self.anchors[alias]

    def _scalar(self, loader: Any, event: Any, line: int) -> Any:
        text, tag = event.value, event.tag
        if found := _NOT_IN_WORDS.search(text):
            raise self.refused(line, f"a control character ({found[0]!r}) is in the text")
        if tag in (None, "!"):
            tag = loader.resolve(yaml.ScalarNode, text, event.implicit)
        type_name = tag.removeprefix(_CORE)
        if type_name == "merge":
            return _MERGE
        if type_name not in ("null", "bool", "int", "float", "str"):
            raise self.refused(line, f"the tag {shown(tag)} is not known here")
        if type_name == "int" and len(text) > _LONGEST_NUMBER:  # before it is computed, which can take long
            raise self.refused(line, f"{shown(text)} has too many digits: whole numbers have 18 at most")
        try:
            value = getattr(loader, f"construct_yaml_{type_name}")(yaml.ScalarNode(tag, text))
        except (ArithmeticError, LookupError, ValueError):  # a tag that says what it is not
            raise self.refused(line, f"{shown(text)} can't be read as {type_name}") from None
        if isinstance(value, int) and abs(value) >= 10**18:
            raise self.refused(line, f"{shown(text)} has too many digits: whole numbers have 18 at most")
        return value

    # ---- from pieces to data

    def plain(self, node: _Node, path: DataPath = ()) -> Any:
        """The data of a piece, in which every alias is a copy."""
        self._checked(node.line, len(path))
        self.lines.setdefault(path, self.where(node.line))
        if node.value is _MERGE:
            raise self.refused(node.line, "<< is a key")
        if node.form == "scalar":
            return node.value
        if node.form == "list":
            return [self.plain(item, (*path, i)) for i, item in enumerate(node.inner)]
        data: dict[str, Any] = {}
        for key_node, inner in self._entries(node, len(path)):
            key = self._key(key_node)
            if key in data:
                raise self.refused(key_node.line, f"{'.'.join(map(str, (*path, key)))} is given twice")
            self.lines[*path, key] = self.where(key_node.line)
            data[key] = self.plain(inner, (*path, key))
        return data

    def _entries(self, node: _Node, depth: int) -> list[tuple[_Node, _Node]]:
        """Keys and values of a map. What `<<` merges into it comes first, without the keys that it has itself."""
        given = list(zip(node.inner[::2], node.inner[1::2], strict=True))
        if not any(key.value is _MERGE for key, _ in given):
            return given
        self._checked(node.line, depth)
        own = [(key, inner) for key, inner in given if key.value is not _MERGE]
        taken, merged = {key.value for key, _ in own if key.form == "scalar"}, []
        for key, inner in given:
            for one in (inner.inner if inner.form == "list" else [inner]) if key.value is _MERGE else ():
                if one.form != "map":
                    raise self.refused(key.line, "<< takes a map, or a list of maps")
                for entry in self._entries(one, depth + 1):
                    self._checked(one.line, depth)
                    if entry[0].value not in taken:
                        merged.append(entry)
                        taken.add(entry[0].value)
        return [*merged, *own]

    def _key(self, node: _Node) -> str:
        key = str(node.value)
        if node.form != "scalar":
            raise self.refused(node.line, f"a key is a word, not a {node.form}")
        if len(key) > _LONGEST_KEY or _NOT_IN_KEYS.search(key):
            raise self.refused(node.line, f"{shown(key)} is no key: a key is a word, of {_LONGEST_KEY} letters at most")
        return key


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """The data of a YAML file and where each piece stands."""
    return _parsed(read_text(path, _MOST_MB), _Reader(str(path), numbered=True))


def parse_yaml(text: str, name: str) -> Any:
    """The data of some text that `name` was given."""
    return _parsed(text, _Reader(name, numbered=False))[0]


def _parsed(text: str, reader: _Reader) -> tuple[Any, Lines]:
    reader.lines[()] = reader.name
    if found := _NOT_IN_TEXT.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise reader.refused(line, f"a control character ({found[0]!r}) is in the text")
    loader = _Loader(text)
    try:
        while loader.check_event(yaml.StreamStartEvent, yaml.DocumentStartEvent):
            loader.get_event()
        if loader.check_event(yaml.StreamEndEvent):
            return None, reader.lines
        root = reader.compose(loader)
        loader.get_event()  # the end of the document
        if not loader.check_event(yaml.StreamEndEvent):
            raise reader.refused(loader.peek_event().start_mark.line + 1, "a second document begins; one is allowed")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise reader.refused(mark.line + 1 if mark else 1, f"not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{reader.name}: not valid YAML: {str(error).splitlines()[0]}") from None
    finally:
        loader.dispose()
    reader.values = 0
    return reader.plain(root), reader.lines
