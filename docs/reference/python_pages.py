"""Renders a module of the package as Markdown, from its source alone: for the pages of docs/reference on Python.

Called by make.py. A page names its modules in comments, and what stands between these and `<!-- end -->` is written
here. Markdown without any directive reads the same on a code host and on the site.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
_PART = re.compile(r"(<!-- module ([\w.]+)(?:: ([\w, ]+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_SHOWN_DECORATORS = ("dataclass", "property", "cached_property", "classmethod", "staticmethod")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def filled(page: str) -> str:
    """The page with each of its modules as the source has it now."""
    return _PART.sub(lambda part: f"{part[1]}\n{module(part[2], _names(part[3]))}\n\n{part[4]}", page)


def _names(listed: str | None) -> list[str]:
    return listed.split(", ") if listed else []


def module(name: str, only: list[str]) -> str:
    """A module: what it says of itself, then its public classes and functions, or those of them that are named."""
    path = SOURCES / f"{name.replace('.', '/')}.py"
    source = path.read_text()
    tree = ast.parse(source)
    link = f"Source: [{path.name}](../../{path.relative_to(SOURCES.parent)})"
    lines = source.splitlines()
    parts = [f"## {name}", markdown(ast.get_docstring(tree) or ""), link]
    if not only and (named := list(_constants(tree, lines))):
        parts.append(_block(named))
    shown = [node for node in tree.body if isinstance(node, Function | ast.ClassDef) and _is_public(node.name)]
    if absent := set(only) - {node.name for node in shown}:
        raise ValueError(f"{name} has no {', '.join(sorted(absent))}")
    for node in (node for node in shown if not only or node.name in only):
        parts += _class(node, lines) if isinstance(node, ast.ClassDef) else _function(node, lines)
    return "\n\n".join(parts)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _constants(tree: ast.Module, lines: list[str]) -> Iterator[str]:
    """The types and values of a module that a comment `#:` explains, above them or behind."""
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and _is_public(target.id):
            first = node.lineno - 1
            while lines[first - 1].startswith("#:"):
                first -= 1
            if first < node.lineno - 1 or "  #: " in lines[node.lineno - 1]:
                yield from (re.sub("(^|  )#: ", r"\1# ", line) for line in lines[first : node.end_lineno])


def _function(node: Function, lines: list[str]) -> Iterator[str]:
    yield f"### {node.name}"
    yield _block(_head(node, lines).splitlines())
    yield markdown(ast.get_docstring(node) or "")


def _class(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """Its first lines with its public fields as they are declared, its docstring, and a list of its methods."""
    yield f"### {node.name}"
    fields = [*_fields(node, lines)]
    yield _block([*_decorators(node), f"{_head(node, lines)}{':' if fields else ''}", *fields])
    yield markdown(ast.get_docstring(node) or "")
    methods = [_method(part, lines) for part in node.body if isinstance(part, Function) and _is_public(part.name)]
    if methods:
        yield "\n".join(methods)


def _fields(node: ast.ClassDef, lines: list[str]) -> Iterator[str]:
    """The declarations of a class: fields with what is said behind or below them, or what it is made with."""
    shown = False
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if shown := _is_public(part.target.id):
                yield from lines[part.lineno - 1 : part.end_lineno]
        elif shown and isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            yield from (f"    # {line}" for line in inspect.cleandoc(part.value.value).splitlines())
        elif isinstance(part, Function) and part.name == "__init__":
            yield from (f"    {line}" for line in _head(part, lines).splitlines())


def _method(node: Function, lines: list[str]) -> str:
    """An entry of the list; what its docstring has beyond the first paragraph is indented below."""
    is_property = bool({"property", "cached_property"} & {_name_of(d) for d in node.decorator_list})
    head = re.sub(r"\s+", " ", _head(node, lines)).replace("( ", "(").replace(", )", ")")
    head = re.sub(r"^(async )?def ", r"\1", head)
    head = re.sub(r"\((self|cls)(, )?(\*, )?", r"(\3", head, count=1)
    head = head.replace("()", "", 1) if is_property else head
    said = markdown(ast.get_docstring(node) or "").replace("\n", "\n    ")
    return f"- `{head}`: {said}".replace("\n    \n", "\n\n") if said else f"- `{head}`"


def _head(node: Function | ast.ClassDef, lines: list[str]) -> str:
    """From `def` or `class` to the colon before the body, without the indentation of the first line."""
    head = ""
    for line in lines[node.lineno - 1 : node.end_lineno]:
        head += f"{line[node.col_offset :]}\n"
        whole = all(head.count(opened) == head.count(closed) for opened, closed in ("()", "[]"))
        if whole and (end := re.search(r":(?: +#.*)?\n$", head)):
            return head[: end.start()]
    raise ValueError(f"{node.name} has no head")


def _decorators(node: ast.ClassDef) -> list[str]:
    return [f"@{ast.unparse(d)}" for d in node.decorator_list if _name_of(d) in _SHOWN_DECORATORS]


def _name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _block(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def markdown(docstring: str) -> str:
    """A docstring as Markdown: indented text and examples become blocks, and powers no bold text."""
    written: list[str] = []
    for paragraph in docstring.split("\n\n"):
        lines = paragraph.splitlines()
        if lines and (lines[0].startswith("    ") or lines[0].startswith(">>>")):
            written.append(_block([line.removeprefix("    ") for line in lines]))
        else:
            written.append(re.sub(r"(?<=\w)\*\*(?=\w)", r"\\*\\*", paragraph))
    return "\n\n".join(written)
