"""The folder of a training: what may be in it, which process works in it, whose checkpoint it has."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairlead import __version__
from fairlead.domain.errors import UserError, as_typed
from fairlead.measure.write_files import check_folder, writing


@contextmanager
def alone(out: Path, resume: bool) -> Iterator[None]:
    """One training at a time in a folder, which has a checkpoint if it is to go on, and is its own if it begins."""
    checkpoint = out / "checkpoint"
    if resume and not checkpoint.exists():
        raise UserError(f"{out}: there is no checkpoint to resume; without --resume, training starts new")
    there = {file.name for file in out.iterdir()} if out.is_dir() else set()
    if there - {".lock", "logs"} and not there & {"checkpoint", "manifest.json"}:
        raise UserError(f"{out}: the folder has other files in it; give --out a new folder")
    check_folder(out)
    with writing(out), _silent_threads(), (out / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"{out}: another training runs in this folder (give another --out)") from None
        if not resume and checkpoint.exists():
            raise UserError(f"{out}: the folder already has a training; continue with --resume, or give another --out")
        if not resume and (out / "manifest.json").exists():
            raise UserError(f"{out}: the folder has a bundle without its training; give another --out")
        yield


@contextmanager
def _silent_threads() -> Iterator[None]:
    """TensorBoard writes in a thread; a disk that is full it tells there, at length, and us when we next write."""
    before = threading.excepthook
    threading.excepthook = lambda told: None if issubclass(told.exc_type, OSError) else before(told)
    try:
        yield
    finally:
        threading.excepthook = before


def check_same(file: Path, saved: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another question, or of another version."""
    if saved["fairlead"] != __version__:
        raise UserError(
            f"{file}: made by fairlead {as_typed(str(saved['fairlead']))}, this is {__version__}; give another --out"
        )
    for name, value in identity.items():
        before = saved["identity"].get(name)
        if before != value:
            was = f"{as_typed(str(before))}, now {value}" if name != "scenarios" else "another"
            raise UserError(
                f"{file}: made with other settings ({name} was {was}); resume with the same, or give another --out"
            )
