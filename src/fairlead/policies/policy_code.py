"""What can be known of a policy's function without calling it: what it reads, what identifies it, where it comes from.

A third party may give any callable: a function, a method, a `functools.partial`, an object. Code that can't be seen
counts as reading all of its arguments. Called by both registries, by the guard and by fingerprints; calls no policy.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, str, bytes, type(None))  # values that every process writes down alike


def reads_argument(function: Callable[..., Any], number: int) -> bool:
    """Whether a callable may read its argument of this number."""
    code = _code(function)
    if code is None:
        return True
    number += inspect.ismethod(function)  # behind `self`
    if number >= code.co_argcount:  # one of `*arguments`, which come behind all that have names
        number = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[number : number + 1]
    read = (i.argval if isinstance(i.argval, tuple) else (i.argval,) for i in dis.get_instructions(code))
    return any(name in names for found in read for name in found)


def may_read(function: Callable[..., Any], fields: Iterable[str]) -> bool:
    """Whether a callable, or what it calls, may read one of these fields of a record: by name, or as text."""
    function = innermost(function)
    function = getattr(function, "py_func", function)
    if _code(function) is None:
        return True
    words = _all_words(function)
    return any(field in words for field in fields)


def function_hash(function: Callable[..., Any], with_module: bool = False) -> str:
    """Identifies a callable's code, by its source or else by what is known of it; or by that of its whole module.

    The functions and numbers of its own package that it uses belong to it, and what these use in turn.
    """
    content = _content(function)
    module = inspect.getmodule(innermost(function)) if with_module else None
    if module and (source := _source(module)):
        content = source if isinstance(function, FunctionType) else source + content
    used = dict(_used(innermost(function), package_of(function), set()))
    for name in sorted(used):
        content += b"\n" + name.encode() + b" " + used[name]
    return hashlib.sha256(content).hexdigest()[:12]


def innermost(function: Any) -> Any:
    """The function that partials of partials lead to."""
    while isinstance(function, partial):
        function = function.func
    return function


def module_of(function: Callable[..., Any]) -> str:
    """The module that has the code; empty when unknown."""
    return str(getattr(innermost(function), "__module__", None) or "")


def package_of(function: Callable[..., Any]) -> str:
    """The top-level package of that module."""
    return module_of(function).partition(".")[0]


def summary_of(function: Callable[..., Any]) -> str:
    """The first line of its docstring, else of its module's."""
    function = innermost(function)
    doc = inspect.getdoc(function) or inspect.getdoc(inspect.getmodule(function)) or ""
    return doc.strip().split("\n")[0]


def place_of(function: Callable[..., Any]) -> str:
    """The file and line of its definition; else the module, as far as that is known."""
    function = innermost(function)
    code = _code(function) or _code(type(function).__call__)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else module_of(function)


def _code(function: Any) -> CodeType | None:
    """The bytecode. Compiled extensions have a `__code__` without instructions, so only Python's functions count."""
    function = getattr(function, "py_func", function)  # of Numba's dispatchers
    function = getattr(function, "__func__", function)  # of methods
    return function.__code__ if isinstance(function, FunctionType) else None


def _used(function: Any, package: str, seen: set[int]) -> Iterator[tuple[str, bytes]]:
    """The global functions and numbers that a function uses: where each is, and what it is."""
    code = _code(function)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    scope = inspect.unwrap(getattr(function, "py_func", getattr(function, "__func__", function))).__globals__
    for name in _names(code):
        value = scope.get(name)
        if isinstance(value, bool | int | float | str | bytes | np.generic):
            yield f"{scope.get('__name__')}.{name}", repr(value).encode()
        elif _code(value) and package_of(value) == package:
            yield f"{module_of(value)}.{value.__qualname__}", _content(value)
            yield from _used(value, package, seen)


@lru_cache(maxsize=256)  # a run asks once, and can take less time than the answer
def _all_words(function: Any) -> set[str]:
    return _words(function, set())


def _words(function: Any, seen: set[int]) -> set[str]:
    """The names and texts in the code of a function and of all that it can reach."""
    code = _code(function)
    if code is None or id(code) in seen:
        return set()
    seen.add(id(code))
    names = _names(code)
    words = names | _texts(code)
    function = inspect.unwrap(getattr(function, "py_func", getattr(function, "__func__", function)))
    around = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    found = [*around, *(function.__globals__.get(name) for name in names)]
    for value in found:  # grows: what modules have, which may be modules
        if inspect.ismodule(value) and id(value) not in seen:
            seen.add(id(value))
            found.extend(_attribute(value, name) for name in names)
    texts = {text for value in found for text in (value if isinstance(value, tuple) else (value,)) if type(text) is str}
    return words.union(texts, *(_words(value, seen) for value in found))


def _attribute(module: ModuleType, name: str) -> Any:
    """What a module has of this name, if anything. NumPy warns of names that it had, lazy modules fail to load."""
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        return getattr(module, name, None)


def _texts(code: CodeType) -> set[str]:
    """The string constants of code, also in the functions inside of it."""
    inside = (_texts(part) for part in code.co_consts if isinstance(part, CodeType))
    return {part for part in code.co_consts if isinstance(part, str)}.union(*inside)


def _names(code: CodeType) -> set[str]:
    """The names that code looks up, also in the functions inside of it."""
    inside = (_names(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inside)


def _content(value: Any) -> bytes:
    """What a callable, or a value that it is bound to, is known by: nothing that differs between processes."""
    if isinstance(value, partial):
        bound = [part for item in sorted(value.keywords.items()) for part in item]
        return b" ".join(map(_content, (value.func, *value.args, *bound)))
    if isinstance(value, _PLAIN):
        return repr(value).encode()
    if isinstance(value, tuple | list):
        return b"[" + b" ".join(map(_content, value)) + b"]"
    value = getattr(value, "py_func", value)
    seen = value if isinstance(value, FunctionType | MethodType | type) else type(value)
    if source := _source(seen):
        return source
    code = _code(seen)  # typed at a prompt, or not Python at all
    return code.co_code if code else f"{module_of(value)}.{getattr(value, '__qualname__', seen.__qualname__)}".encode()


def _source(thing: Any) -> bytes:
    """The source; empty when it can't be had."""
    try:
        return inspect.getsource(thing).encode()
    except Exception:  # of what a third party brings anything can be wrong
        return b""
