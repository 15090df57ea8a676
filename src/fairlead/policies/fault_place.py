"""Where in a third party's code a fault is, and what an unknown field of a record was meant to be.

NumPy and Numba raise inside of themselves, so the file and line of the policy must be looked for. Called by `guard`.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairlead.domain.errors import nearest
from fairlead.policies.policy_code import package_of, place_of

_OURS = os.path.join(Path(__file__).parents[1], "")  # the folder of this package

#: What NumPy, Python and Numba say of a field that a record or a snapshot lacks.
_UNKNOWN_FIELD = re.compile(
    r"AttributeError: (?:recarray|'(?:record|Snapshot)' object) has no attribute '?(\w+)"
    r"|ValueError: no field of name (\w+)"
    r"|TypingError: Unknown attribute '(\w+)' of type .*?(?:Record|Snapshot)\("
    r"|TypingError: Field '(\w+)' was not found in record"
)


def raised_at(error: BaseException, function: Callable[..., Any] | None) -> str:
    """File and line of the innermost call in the policy's package, else of the outermost one outside of ours.

    Numba notes calls for compiled code, too.
    """
    outside = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    own = [f for f in outside if function and _is_own(f.filename, function)]
    frame = own[-1] if own else outside[0] if outside else None
    return f"{frame.filename}:{frame.lineno}" if frame else ""


def miscompiled_at(error: BaseException, function: Callable[..., Any]) -> str:
    """File and line of what Numba does not take, else of the function.

    Numba's own errors have a place. For others, such as the KeyError of a field, Numba's inference of types, in whose
    frames they are raised, has it in its variable `loc`.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places: list[Any] = [getattr(error, "loc", None), *(frame.f_locals.get("loc") for frame in frames)]
    own = [p for p in places if getattr(p, "line", None) and _is_own(str(getattr(p, "filename", "")), function)]
    return f"{own[-1].filename}:{own[-1].line}" if own else place_of(function)


def meant_field(line: str, fields: Sequence[str]) -> str:
    """' (did you mean X?)' where an error in one line is about an unknown field of a record; else nothing."""
    found = _UNKNOWN_FIELD.match(line)
    return nearest(str(found[found.lastindex or 0]), fields) if found else ""


def _is_own(file: str, function: Callable[..., Any]) -> bool:
    """Whether a file is the policy's own or belongs to its package."""
    if file == place_of(function).rpartition(":")[0]:
        return True
    package = sys.modules.get(package_of(function))
    return any(file.startswith(os.path.join(folder, "")) for folder in getattr(package, "__path__", ()))
