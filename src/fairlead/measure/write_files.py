"""Writing files whole or not at all, under names that will do, and saying beforehand in one line why it won't work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fairlead.domain.errors import RunError, UserError


def check_writable(path: Path) -> None:
    """Refuse an output path that can't be written, before any work is done."""
    path = path.resolve()
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a file name")
    if not path.parent.is_dir():
        raise UserError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent if _replaceable(path) else path, os.W_OK):
        raise UserError(f"{path}: no permission to write there")


def check_folder(path: Path) -> None:
    """Refuse a folder for output that can't be made or written to, before any work is done. It is made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: can't make this folder: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UserError(f"{path}: no permission to write there")


def check_different(files: Mapping[str, str | Path | None]) -> None:
    """Refuse two files that are the same one: option -> its file, if it has one."""
    found: dict[Path, str] = {}
    for option, file in files.items():
        path = None if file in (None, "-") else Path(str(file)).resolve()
        if path in found:
            raise UserError(f"{file}: {found[path]} and {option} need a file each")
        if path is not None:
            found[path] = option


def _replaceable(path: Path) -> bool:
    return path.is_file() or not path.exists()  # not so: a terminal, a pipe, /dev/null


def safe_names(labels: Sequence[str]) -> list[str]:
    """The labels as names of files, all different, also where capitals don't count."""
    names: list[str] = []
    for label in labels:
        name = re.sub(r"[^\w.=+-]+", "_", label, flags=re.ASCII).strip("._")[:80] or "unnamed"
        taken = {n.lower() for n in names}
        names.append(next(n for n in (name, *(f"{name}-{i}" for i in range(2, 9999))) if n.lower() not in taken))
    return names


def write_whole(path: Path, content: str | bytes) -> None:
    """Write all of it or nothing."""
    with whole_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, whole or not at all: a temporary one beside it, then renamed. Links are followed."""
    temporary = None
    try:
        whole = path.resolve()
        if _replaceable(whole):
            temporary = whole.with_name(f".{whole.name}.{os.getpid()}.tmp")
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, whole)
        else:
            with whole.open("wb") as file:
                yield file
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        if temporary:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> RunError:
    """The error in words that name the file; the system's do not where a disk is full."""
    return RunError(f"{path}: can't write it: {error.strerror or error}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """For what libraries write into a folder: an error names the file if it is known, else the folder."""
    try:
        yield
    except OSError as error:
        raise not_written(Path(error.filename or path), error) from error
