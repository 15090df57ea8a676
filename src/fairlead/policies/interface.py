"""The interface every policy has, and the registry that finds them, ours and third parties'.

    decide(request, candidates, excluded, u) -> int

`request` is a REQUEST record, `candidates` an array of CANDIDATE records, `excluded` reason bits per candidate
(0 = feasible), `u` a uniform number of this decision. It returns the index of a feasible candidate, or -1 to reject.
Fields are read as attributes (`candidates[c].net_ms`). A decision is a pure function of these arguments.

The simulator, the gateway and the controller call policies through this module; it calls none of them.
"""

from __future__ import annotations

import hashlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module, metadata
from typing import Any, Literal

from fairlead.domain.errors import UserError, nearest, one_line

#: `compiled` and `python` are functions as above. `batch` and `selector` are learned (`fairlead.policies.learned`): the
#: one decides requests, the other which compiled rule decides in the next window.
Kind = Literal["compiled", "python", "batch", "selector"]
ENTRY_POINT_GROUP = "fairlead.policies"


@dataclass(frozen=True)
class Policy:
    """A named decision rule."""

    name: str
    function: Callable[[Any, Any, Any, float], int]
    kind: Kind = "compiled"
    source: str = ""  # the system or paper that it comes from
    summary: str = ""
    package: str = field(default="fairlead", compare=False)

    @cached_property
    def compiled(self) -> Any:
        """The function as Numba code of exactly the interface's signature, usable as a function pointer."""
        import numba

        from fairlead.policies.numba_signature import decide_signature

        # Third parties' code is compiled anew by each process: a cache would not notice a change of its helpers.
        ours = self.package == "fairlead"
        return numba.njit(decide_signature(), cache=ours, nogil=True, error_model="numpy")(self.function)

    @cached_property
    def hash(self) -> str:
        """Identifies the code that decided, for the decision log."""
        try:
            code = inspect.getsource(self.function).encode()
        except (OSError, TypeError):  # typed at a prompt
            code = self.function.__code__.co_code
        return hashlib.sha256(code).hexdigest()[:12]


def policy(
    name: str, *, source: str = "", kind: Literal["compiled", "python"] = "compiled"
) -> Callable[[Callable[..., int]], Policy]:
    """Make a function a policy. `compiled` functions must be Numba code; `python` ones can do anything, slower."""

    def wrap(function: Callable[..., int]) -> Policy:
        doc = inspect.getdoc(function) or inspect.getdoc(inspect.getmodule(function)) or ""
        package = function.__module__.partition(".")[0]
        return Policy(name, function, kind, source, doc.strip().split("\n")[0], package)

    return wrap


def _builtin() -> dict[str, Policy]:
    import fairlead.policies as package

    found: dict[str, Policy] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        for value in vars(import_module(f"{package.__name__}.{module}")).values():
            if isinstance(value, Policy):
                found[value.name] = value
    return found


@cache
def registry() -> tuple[dict[str, Policy], dict[str, str]]:
    """All policies by name, and what went wrong with third-party ones that did not load (entry point -> one line)."""
    from fairlead.policies.bundle_registry import shipped

    found = _builtin() | shipped()
    broken: dict[str, str] = {}
    for entry in sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
        package = entry.dist.name if entry.dist else entry.value
        try:
            value = entry.load()
        except (Exception, SystemExit) as error:  # third-party code: whatever it raises is reported, ours goes on
            broken[entry.name] = f"policy {entry.name!r} of {package!r} did not load: {one_line(error)}"
            continue
        if not isinstance(value, Policy):
            broken[entry.name] = f"policy {entry.name!r} of {package!r} is a {type(value).__name__}, not a @policy"
        elif value.name in found:
            broken[entry.name] = f"policy {value.name!r} of {package!r} has a name that is taken"
        else:
            found[value.name] = Policy(value.name, value.function, value.kind, value.source, value.summary, package)
    return found, broken


def rules() -> dict[str, Policy]:
    """All policies but the learned ones, by name."""
    return {name: found for name, found in registry()[0].items() if found.kind in ("compiled", "python")}


def find(name: str, also: Iterable[str] = ()) -> Policy:
    """The policy of that name, or the bundle in that folder; else a UserError with the nearest of them and `also`."""
    from fairlead.policies.bundle_registry import from_folder, is_path

    found, broken = registry()
    if name in found:
        return found[name]
    if name in broken:
        raise UserError(broken[name])
    if is_path(name):
        return from_folder(name)
    raise UserError(f"unknown policy {name!r}{nearest(name, [*found, *also])}")
