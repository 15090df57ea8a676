"""Where compiled code is kept between runs, so that it is compiled once. Called by `jit`.

Numba notices a change of the file that holds a function, not of the files whose functions it calls. So all compiled
code of this package is cached in a folder named after a hash of its sources: a changed helper can never leave a
stale caller behind.

What is read from a cache is run, so the folder must be closed to others: ours (or root's), and nobody else can write
there. Where there is no such folder, as without a home or on a read-only disk, compiled code lies in a private
temporary folder until the process ends, and where that can't be, nowhere. `NUMBA_CACHE_DIR` overrides the place; the
user who sets it is responsible for who can write there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

from fairlead.measure.user_folders import temporary_folder, user_cache

_config: Any = numba.config
_numbas_cache: Any = FunctionCache

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
    return bool(_config.CACHE_DIR) and any(Path(_config.CACHE_DIR).glob("*/handle._advance_worlds-*.nbi"))


def cached(dispatcher: Any) -> Any:
    """The same compiled function, kept in the cache where there is one."""
    if _config.CACHE_DIR:
        with suppress(RuntimeError):  # Numba can make no folder in it, as on a disk that has become full
            dispatcher._cache = _Cache(dispatcher.py_func)
    return dispatcher


class _Cache:
    """Numba's cache of a function, but one that can't be read or written costs time, and no run."""

    def __init__(self, function: Any) -> None:
        self._numbas = _numbas_cache(function)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return self._numbas.load_overload(signature, target_context)
        except Exception:  # of unpickling what a power cut has left, which has many ways to say no
            with suppress(OSError):
                self._numbas.flush()
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        with suppress(OSError):
            self._numbas.save_overload(signature, compiled)


def _open_cache() -> tuple[Path | None, str]:
    """The folder to use, and why it does not outlive this process; empty where it does."""
    kept: Path | None = None
    try:
        given = os.environ.get("NUMBA_CACHE_DIR")
        kept = _made(Path(given)) if given else _own_folder()
        tempfile.TemporaryFile(dir=kept).close()
        return kept, ""
    except OSError as error:
        where = kept or error.filename
        why = f"{where}: {error.strerror}" if where else str(error.strerror)
    try:
        return _temporary(kept), why
    except OSError:
        return None, why


def _own_folder() -> Path:
    """Ours in the user's cache, made if need be; OSError where it can't be made or trusted."""
    home = user_cache()
    if home is None:
        raise OSError(None, "there is no home folder")
    _check_closed(_made(home))
    folder = home / f"compiled-{code_hash(*_COMPILED_ROOMS)}"
    if not folder.exists():
        _made(folder)
        _forget_old(home)
    _check_closed(folder)
    with suppress(OSError):  # read-only
        os.utime(folder)
    return folder


def _made(folder: Path) -> Path:
    if not folder.is_dir():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _check_closed(folder: Path) -> None:
    about = folder.stat()
    if about.st_uid not in (0, os.geteuid()):
        raise OSError(None, f"{folder} belongs to another user")
    if about.st_mode & 0o022:
        raise OSError(None, f"others can write to {folder}; `chmod go-w {folder}` prevents that")


def _forget_old(home: Path) -> None:
    """Remove all but the last used caches of other versions."""
    old = sorted(home.glob("compiled-*"), key=lambda p: p.stat().st_mtime, reverse=True)
    for folder in old[_KEPT_VERSIONS:]:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary(kept: Path | None) -> Path:
    """A folder of this process and those that it starts, with what is `kept` in one that can only be read."""
    folder = temporary_folder()
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if kept is not None:
        with suppress(OSError):
            shutil.copytree(kept, folder, dirs_exist_ok=True)
    return folder


_folder, why_not_kept = _open_cache()
_config.CACHE_DIR = str(_folder or "")
