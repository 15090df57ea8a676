"""Refuses compiled code that writes to the records that it is shown: a policy decides, it changes nothing.

Numba knows read-only arrays but no read-only records, so the typed code is looked through, and that of the functions
that it calls. Called by `jit` for policies of third parties.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba
from numba import from_dtype
from numba.core import ir, types

from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies.policy_code import package_of


def refuse_writes(compiled: Any) -> None:
    """Raise TypeError when a compiled function, or one that it calls, writes to a REQUEST or CANDIDATE."""
    for field, line in _writes(compiled, set()):
        raise TypeError(f"it writes to {field!r} of a record that it is shown, which is read-only (line {line})")


def _writes(dispatcher: Any, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Field and line of each write."""
    if id(dispatcher) in seen:
        return
    seen.add(id(dispatcher))
    shown = from_dtype(REQUEST), from_dtype(CANDIDATE)
    for typed in _typed(dispatcher):
        for statement in (statement for block in typed.blocks.values() for statement in block.body):
            if isinstance(statement, ir.SetAttr | ir.StaticSetItem | ir.SetItem):
                if typed.typemap[statement.target.name] in shown:
                    yield str(getattr(statement, "attr", getattr(statement, "index", ""))), statement.loc.line
            elif isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                function = typed.typemap.get(statement.value.func.name) if statement.value.op == "call" else None
                if isinstance(function, types.Dispatcher) and package_of(function.dispatcher.py_func) != "fairlead":
                    yield from _writes(function.dispatcher, seen)


def _typed(dispatcher: Any) -> Iterator[Any]:
    """The typed code of each compiled form. What comes from a cache has none, and is compiled anew without."""
    for arguments, found in list(dispatcher.overloads.items()):
        if not hasattr(found.type_annotation, "blocks"):
            fresh = numba.jit(**dispatcher.targetoptions)(dispatcher.py_func)
            fresh.compile(arguments)
            found = fresh.overloads[arguments]
        yield found.type_annotation
