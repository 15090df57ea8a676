"""How code is compiled here: Numba, cached on disk, exact arithmetic, no Python lock held.

Numba notices a change of the file that holds a function, not of the files whose functions it calls. So all compiled
code of this package is cached in a folder named after a hash of its sources: a changed helper can never leave a
stale caller behind. `NUMBA_CACHE_DIR` overrides the place.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_njit: Any = numba.njit  # its stubs know neither `_nrt` nor that a compiled function is called like the original
_config: Any = numba.config

#: Makes a number an array index that is known not to be negative; see `fairlead.sim.serving.layout`.
index: Any = np.uint32

_COMPILED_ROOMS = ("domain", "policies", "sim", "experiments/bounds")
_KEPT_VERSIONS = 3


def code_hash(*rooms: str) -> str:
    """Identifies the sources of these rooms of the package, and the Numba that compiles them."""
    package = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(numba.__version__.encode())
    for room in rooms:
        for path in sorted((package / room).rglob("*.py")):
            name = path.relative_to(package).as_posix()
            if not name.startswith("sim/reference/"):  # never compiled, part of no result
                digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def compiled_before() -> bool:
    """Whether the engine is in the cache; if not, the next run compiles it."""
    return any(Path(_config.CACHE_DIR).glob("*/handle._advance_worlds-*.nbi"))


def _cache_dir() -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairlead"
    folder = home / f"compiled-{code_hash(*_COMPILED_ROOMS)}"
    with suppress(OSError):  # read-only or shared with others: the cache then is as it is
        if folder.exists():
            os.utime(folder)
        else:
            _forget_old(home)
    return folder


def _forget_old(home: Path) -> None:
    """Remove all but the last used caches of other versions."""
    old = sorted(home.glob("compiled-*"), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in old[_KEPT_VERSIONS - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


if not os.environ.get("NUMBA_CACHE_DIR"):
    _config.CACHE_DIR = str(_cache_dir())


def jit(function: F) -> F:
    """Compile `function` on first call, cached."""
    compiled: F = _njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


# Reference counting of arrays costs far more than the engine's own work (docs/decisions/0003), so kernels do without:
# they may read and write the arrays that they are given, and allocate none.
_KERNEL = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: F) -> F:
    """Compile a function that allocates nothing, for use inside other compiled code."""
    compiled: F = _njit(cache=True, **_KERNEL)(function)
    return compiled


def inlined(function: F) -> F:
    """A kernel that the optimiser always copies into its callers: for hot paths with many arrays."""
    compiled: F = _njit(forceinline=True, **_KERNEL)(function)
    return compiled


def typed_kernel(function: F, *arguments: Any) -> F:
    """A kernel compiled at once for these argument types, which it must be given exactly.

    It is the bare entry point: looking at the types of a world's arrays would cost ten times the call.
    """
    compiled = _njit(arguments, cache=True, **_KERNEL)(function)
    entry: F = next(iter(compiled.overloads.values())).entry_point
    return entry
