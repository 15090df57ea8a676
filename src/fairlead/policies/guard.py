"""Stands around every call of a policy's code: what it raises becomes a PolicyError that names policy and place, and so
does a choice that is impossible.

    with Guard(policy.name, policy.function):
        choice = policy.function(...)

So a third party's fault costs the runs of its policy, and never those of others. Used by deciders, and by hosts that
call compiled rules themselves. Ctrl-C goes through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fairlead.domain.errors import PolicyError, nearest, one_line
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies.fault_place import meant_field, miscompiled_at, raised_at
from fairlead.policies.policy_code import place_of

if TYPE_CHECKING:
    from fairlead.policies.interface import Policy
    from fairlead.policies.tasks.interface import TaskPolicy

#: The fields of what a policy for requests is shown.
REQUEST_FIELDS = (*(REQUEST.names or ()), *(CANDIDATE.names or ()))


class Guard:
    """Around a call of a policy's code. `passed` are exceptions that mean what they say."""

    __slots__ = "_doing", "_fields", "_function", "_name", "_passed"

    def __init__(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        doing: str = "failed",
        passed: tuple[type[BaseException], ...] = (),
        fields: Sequence[str] = REQUEST_FIELDS,
    ) -> None:
        self._name, self._function, self._doing, self._fields = name, function, doing, fields
        self._passed: tuple[type[BaseException], ...] = (KeyboardInterrupt, *passed)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, raised: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, self._passed):
            raise failure(self._name, error, self._function, self._doing, self._fields) from error


def failure(
    name: str,
    error: BaseException,
    function: Callable[..., Any] | None = None,
    doing: str = "failed",
    fields: Sequence[str] = REQUEST_FIELDS,
) -> PolicyError:
    """What to raise in the place of a policy's own error. `fields` are those of the records that it is shown."""
    line, place = one_line(error), raised_at(error, function) or (place_of(function) if function else "")
    return PolicyError(f"policy {name!r} {doing}: {line}{meant_field(line, fields)}{f' at {place}' if place else ''}")


def compiled(policy: Policy | TaskPolicy, fields: Sequence[str]) -> Any:
    """The policy's compiled code. What Numba does not take is a PolicyError; for an unknown field with the nearest."""
    try:
        return policy.compiled
    except (Exception, SystemExit) as error:  # Numba has many ways to say no
        line = one_line(error)
        key = isinstance(error, KeyError) and error.args
        hint = nearest(str(error.args[0]), fields) if key else meant_field(line, fields)
        where = miscompiled_at(error, policy.function)
        raise PolicyError(f"policy {policy.name!r} does not compile: {line}{hint} at {where}") from error


def check_choice(policy: str, choice: int, excluded: Any, request: int) -> None:
    """Raise a PolicyError when a choice is neither a feasible candidate nor a rejection."""
    if choice == -1 or (0 <= choice < len(excluded) and excluded[choice] == 0):
        return
    what = f"of {len(excluded)} candidates" if not 0 <= choice < len(excluded) else "which is excluded"
    raise PolicyError(f"policy {policy!r} chose index {choice}, {what}, for request {request}")
