"""Writes the generated part of the reference pages; run it after changing help, fields, records or docstrings.

`make reference` runs it, and tests/test_docs.py fails when a page is not current. Help comes from the commands
themselves, fields from the dataclasses and record layouts with the comments beside them, and the pages on Python
(`python_pages`) from signatures and docstrings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from python_pages import filled

from fairlead.cli.main import main
from fairlead.domain import records, task_records
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.provenance import Sourced
from fairlead.domain.scenario import Scenario
from fairlead.domain.tasks import TaskScenario

_PLAIN = {float: "number", int: "whole number", str: "text", bool: "true or false"}


_MARKER = "<!-- generated from here on by `make reference` -->\n"
OF_PYTHON = ("policies", "simulator", "gym", "scenarios", "experiments")  # see python_pages
FOLDER = Path(__file__).parent


def pages() -> dict[Path, str]:
    """Each page with a generated part, as it should be."""
    parts = {"command-line": command_line, "scenario-fields": scenario_fields, "records": layouts}
    written = {page: _renewed(page, write()) for name, write in parts.items() for page in [FOLDER / f"{name}.md"]}
    return written | {page: filled(page.read_text()) for page in (FOLDER / f"{name}.md" for name in OF_PYTHON)}


def _renewed(page: Path, generated: str) -> str:
    written = page.read_text().split(_MARKER)[0]
    return f"{written}{_MARKER}\n{generated}\n"


# ---- the command line


def command_line() -> str:
    """Help of `fairlead`, of each of its commands and of their commands, as they print it."""
    return "\n\n".join(f"## {' '.join(['fairlead', *command])}\n\n```text\n{text}```" for command, text in _helps())


def _helps(*command: str) -> Iterator[tuple[tuple[str, ...], str]]:
    text = _help(*command)
    yield command, text
    for name in re.findall(r"^    (\w+)(?: |$)", text, re.MULTILINE):
        yield from _helps(*command, name)


def _help(*command: str) -> str:
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # the same page on every machine
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return out.getvalue()


# ---- the fields of a scenario file


def scenario_fields() -> str:
    """A section for every noun that can stand in a scenario file."""
    places: dict[type, list[str]] = {}
    for whole in (Scenario, TaskScenario):
        for kind, place in _nouns(whole, ""):
            places.setdefault(kind, []).append(place)
    common = _table(Sourced, {f.name for f in dataclasses.fields(Sourced)})
    sections = [_section(kind, where) for kind, where in places.items()]
    return f"## Everywhere\n\nEntries with numbers say where these come from:\n\n{common}\n\n" + "\n\n".join(sections)


def _nouns(kind: type, place: str) -> Iterator[tuple[type, str]]:
    """Every dataclass that a file can hold, with its path there."""
    yield kind, place
    for name, hint in typing.get_type_hints(kind).items():
        for inner, suffix in _inside(hint):
            yield from _nouns(inner, f"{place}.{name.rstrip('_')}{suffix}".lstrip("."))


def _inside(hint: Any) -> Iterator[tuple[type, str]]:
    """The dataclasses in a type, with what leads from the field to them."""
    if dataclasses.is_dataclass(hint):
        yield typing.cast(type, hint), ""
        return
    arguments = typing.get_args(hint)
    suffix = ".NAME" if typing.get_origin(hint) is Mapping else "[]" if typing.get_origin(hint) is tuple else ""
    for argument in arguments:
        for inner, rest in _inside(argument):
            yield inner, suffix + rest


def _section(kind: type, places: list[str]) -> str:
    where = f"At {', '.join(f'`{p}`' for p in places)}. " if places[0] and len(places) <= 3 else ""
    title = {Scenario: "A file of serving", TaskScenario: "A file of tasks"}.get(kind, kind.__name__)
    own = {f.name for f in dataclasses.fields(kind)} - {f.name for f in dataclasses.fields(Sourced)} - {"name"}
    return f"## {title}\n\n{where}{inspect.getdoc(kind)}\n\n{_table(kind, own)}"


def _table(kind: Any, names: set[str]) -> str:
    hints, comments = typing.get_type_hints(kind), _comments(inspect.getsource(kind), r"    (\w+): ")
    rows = ["| field | is | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):
        if field.name in names:
            shown = field.name.rstrip("_")  # `from` is a word of Python's
            rows.append(f"| `{shown}` | {_words(hints[field.name])} | {_default(field)} | {comments[field.name]} |")
    return "\n".join(rows)


def _comments(source: str, name: str) -> dict[str, str]:
    """The comment at the end of each line that declares something."""
    found = re.finditer(rf"^{name}.*?(?:  # (.*))?$", source, re.MULTILINE)
    return {match[1]: (match[2] or "").replace("|", "\\|") for match in found}


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "**needed**"
    if field.default in (None, (), "") or dataclasses.is_dataclass(field.default):
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _words(hint: Any) -> str:
    """A type in words, with a link to the section of a noun."""
    arguments, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if dataclasses.is_dataclass(hint):
        name = typing.cast(type, hint).__name__
        return f"[{name}](#{name.lower()})"
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(a) for a in arguments if a is not type(None))
    if origin is Mapping:
        return f"map of name to {_words(arguments[1])}"
    if arguments[-1] is Ellipsis:
        return f"list of {_words(arguments[0])}"
    return f"list of {len(arguments)} x {_words(arguments[0])}"


# ---- record layouts


def layouts() -> str:
    """A section for every record layout, then for the words that stand in them as numbers."""
    sections = []
    for module in (records, task_records):
        source = Path(module.__file__).read_text()
        parts = re.findall(r"#: ([^\n]*)\n(\w+): Final = np\.dtype\(\n(.*?)\n\)\n", source, re.DOTALL)
        sections += [f"## {name}\n\n{about}\n\n{_layout(module, name, lines)}" for about, name, lines in parts]
    return "\n\n".join([*sections, _members(Outcome), _members(Reason)])


def _layout(module: types.ModuleType, name: str, lines: str) -> str:
    comments, layout = _comments(lines, r" +\(\"(\w+)\""), getattr(module, name)
    rows = [f"| `{field}` | {layout[field].name} | {comments[field]} |" for field in layout.names]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])


def _members(kind: type[Outcome] | type[Reason]) -> str:
    comments = _comments(inspect.getsource(kind), r"    (\w+) = \d+")
    rows = [f"| `{kind[name]:d}` | `{name}` | {said} |" for name, said in comments.items()]
    return "\n".join(
        [f"## {kind.__name__}\n\n{inspect.getdoc(kind)}\n", "| value | name | meaning |", "|---|---|---|", *rows]
    )


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
