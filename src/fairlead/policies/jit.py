"""How code is compiled here: Numba, kept on disk (`compile_cache`), exact arithmetic, no Python lock held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from fairlead.policies.compile_cache import cached
from fairlead.policies.record_writes import refuse_writes

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit  # its stubs know neither `_nrt` nor that a compiled function is called like the original

#: Makes a number an array index that is known not to be negative; see `fairlead.sim.serving.world_arrays`.
index: Any = np.uint32

_EXACT = {"nogil": True, "error_model": "numpy"}

# Reference counting of arrays costs far more than the engine's own work (docs/decisions/0003), so kernels do without:
# they may read and write the arrays that they are given, and allocate none.
_KERNEL = {**_EXACT, "_nrt": False}


def jit(function: F) -> F:
    """Compile `function` on first call, cached."""
    compiled: F = cached(_njit(**_EXACT)(function))
    return compiled


def kernel(function: F) -> F:
    """Compile a function that allocates nothing, for use inside other compiled code."""
    compiled: F = cached(_njit(**_KERNEL)(function))
    return compiled


def inlined(function: F) -> F:
    """A kernel that the optimiser always copies into its callers: for hot paths with many arrays."""
    compiled: F = _njit(forceinline=True, **_KERNEL)(function)
    return compiled


def compiled_rule(function: F, signature: Any, kept: bool = True) -> F:
    """A policy compiled at once for the interface's signature, usable as a function pointer; `kept` on disk if ours.

    Raises TypeError for a third party's that writes to the records that it is shown.
    """
    if kept:
        return _for(signature, cached(_njit(**_EXACT)(function)))
    compiled = _for(signature, _njit(**_EXACT)(function))
    refuse_writes(compiled)
    return compiled


def typed_kernel(function: F, *arguments: Any) -> F:
    """A kernel compiled at once for these argument types, which it must be given exactly.

    It is the bare entry point: looking at the types of a world's arrays would cost ten times the call.
    """
    compiled = _for(arguments, cached(_njit(**_KERNEL)(function)))
    entry: F = next(iter(compiled.overloads.values())).entry_point
    return entry


def _for(signature: Any, compiled: Any) -> Any:
    """The function compiled for this signature, and for no other."""
    compiled.compile(signature)
    compiled.disable_compile()
    return compiled
