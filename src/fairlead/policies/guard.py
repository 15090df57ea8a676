"""Stands around every call of a policy's code: what it raises becomes a PolicyError that names policy and place, and so
does a choice that is impossible.

    with Guard(policy.name, policy.function):
        choice = policy.function(...)

So a third party's fault costs the runs of its policy, and never those of others. Used by deciders, and by hosts that
call compiled rules themselves. Ctrl-C goes through.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fairlead.domain.errors import PolicyError, nearest, one_line
from fairlead.policies.policy_code import place_of

if TYPE_CHECKING:
    from fairlead.policies.interface import Policy
    from fairlead.policies.tasks.interface import TaskPolicy

_OURS = os.path.join(Path(__file__).parents[1], "")  # the folder of this package


class Guard:
    """Around a call of a policy's code. `passed` are exceptions that mean what they say."""

    __slots__ = "_doing", "_function", "_name", "_passed"

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        doing: str = "failed",
        passed: tuple[type[BaseException], ...] = (),
    ) -> None:
        self._name, self._function, self._doing = name, function, doing
        self._passed: tuple[type[BaseException], ...] = (KeyboardInterrupt, *passed)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, raised: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self._passed):
            raise failure(self._name, error, self._function, self._doing) from error


def failure(
    name: str, error: BaseException, function: Callable[..., Any] | None = None, doing: str = "failed"
) -> PolicyError:
    """What to raise in the place of a policy's own error."""
    return PolicyError(f"policy {name!r} {doing}: {one_line(error)}{_at(_raised_at(error) or _defined_at(function))}")


def compiled(policy: Policy | TaskPolicy, fields: Sequence[str] = ()) -> Any:
    """The policy's compiled code. What Numba does not take is a PolicyError; for an unknown field with the nearest."""
    try:
        return policy.compiled
    except (Exception, SystemExit) as error:  # Numba has many ways to say no
        hint = nearest(str(error.args[0]), fields) if isinstance(error, KeyError) and error.args else ""
        where = _at(_defined_at(policy.function))  # the error comes from inside Numba
        raise PolicyError(f"policy {policy.name!r} does not compile: {one_line(error)}{hint}{where}") from error


def check_choice(policy: str, choice: int, excluded: Any, request: int) -> None:
    """Raise a PolicyError when a choice is neither a feasible candidate nor a rejection."""
    if choice == -1 or (0 <= choice < len(excluded) and excluded[choice] == 0):
        return
    what = f"of {len(excluded)} candidates" if not 0 <= choice < len(excluded) else "which is excluded"
    raise PolicyError(f"policy {policy!r} chose index {choice}, {what}, for request {request}")


def _raised_at(error: BaseException) -> str:
    """File and line of the innermost call outside this package; Numba notes them for compiled code, too."""
    outside = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_OURS)]
    return f"{outside[-1].filename}:{outside[-1].lineno}" if outside else ""


def _defined_at(function: Callable[..., Any] | None) -> str:
    return place_of(function) if function else ""


def _at(place: str) -> str:
    return f" at {place}" if place else ""
