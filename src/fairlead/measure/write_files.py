"""Writing files whole or not at all, under names that will do, and saying beforehand in one line why it won't work."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from fairlead.domain.errors import NO_WORKING_FOLDER, RunError, UserError

_NAME_KEPT = 48  # characters, of up to 4 bytes each: a temporary file has a name of 255 bytes at most


def without_links(path: Path) -> Path:
    """Where the path leads, absolute. Raises UserError for links in a circle, and for what can't be a path."""
    try:
        found = path.resolve()
        with suppress(FileNotFoundError):
            found.stat()  # from Python 3.13 on, a circle is left as it is, and fails here
    except FileNotFoundError:  # of the working folder: the path itself need not exist
        raise UserError(f"{path}: {NO_WORKING_FOLDER}") from None
    except RuntimeError:  # up to Python 3.12, a circle
        raise UserError(f"{path}: this path can't be used: {os.strerror(errno.ELOOP)}") from None
    except OSError as error:
        raise UserError(f"{path}: this path can't be used: {error.strerror or error}") from None
    except ValueError:  # a NUL in it
        raise UserError(f"{path}: this can't be the name of a file") from None
    return found


def check_writable(path: Path) -> None:
    """Refuse an output path that can't be written, before any work is done."""
    path = without_links(path)
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
        path = None if file in (None, "-") else without_links(Path(str(file)))
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
    whole, temporary = without_links(path), None
    try:
        if _replaceable(whole):
            temporary = whole.with_name(f".{whole.name[:_NAME_KEPT]}.{os.getpid()}.tmp")
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
