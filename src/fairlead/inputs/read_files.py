"""Reading files that a user names: regular files alone, no larger than what they hold can be, one line when it fails.

Every reader of scenarios, traces, models, results, calibrations and worlds opens its files here. So a pipe never
blocks, a device such as /dev/zero never fills the memory, and a link that leads to itself is a fault like any other.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from fairlead.domain.errors import UserError, one_line

MB = 2**20
_MOST_VALUES = 15_000_000  # of a JSON file
_NO_FILES = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class UnreadableFile(UserError):
    """A file that can't be read; `why` says it without the file's name."""

    def __init__(self, path: str | Path, why: str, missing: bool = False) -> None:
        super().__init__(f"{path}: can't read it: {why}")
        self.why, self.missing = why, missing


def open_file(path: str | Path, most_mb: float) -> BinaryIO:
    """The file, open for reading. Raises UnreadableFile for all but a regular file of at most `most_mb`."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            words = next((words for is_one, words in _NO_FILES if is_one(found.st_mode)), "something else")
            raise UnreadableFile(path, f"it is {words}, not a file")
        if found.st_size > most_mb * MB:
            raise UnreadableFile(path, f"it has {found.st_size / MB:,.0f} MB, at most {most_mb:,.0f} MB are read")
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # it may be a pipe by now
    except OSError as error:
        why = error.strerror or str(error)
        raise UnreadableFile(path, why, error.errno in (errno.ENOENT, errno.ENOTDIR)) from None
    except ValueError:  # a NUL in its name
        raise UnreadableFile(path, "this can't be the name of a file") from None


def read_bytes(path: str | Path, most_mb: float) -> bytes:
    """All that is in a file."""
    with open_file(path, most_mb) as file:
        try:
            content = file.read(int(most_mb * MB) + 1)
        except OSError as error:  # of a broken disk
            raise UnreadableFile(path, error.strerror or str(error)) from None
    if len(content or b"") > most_mb * MB:  # it grew, or its size was not told, as in /proc
        raise UnreadableFile(path, f"it has more than the {most_mb:,.0f} MB that are read")
    return content or b""


def read_text(path: str | Path, most_mb: float) -> str:
    """The same as text."""
    try:
        return read_bytes(path, most_mb).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file: {error.reason} at byte {error.start}") from None


def read_json(path: str | Path, most_mb: float) -> Any:
    """What a JSON file holds."""
    text = read_text(path, most_mb)
    if sum(map(text.count, ",[{")) > _MOST_VALUES:  # empty ones take sixteen times as much as they are long
        raise UserError(f"{path}: it has more than {_MOST_VALUES:,} values, which don't fit into memory")
    try:
        return json.loads(text)
    except RecursionError:
        raise UserError(f"{path}: not valid JSON: nested too deeply") from None
    except ValueError as error:  # numbers of too many digits too
        raise UserError(f"{path}: not valid JSON: {one_line(error).partition(': ')[2]}") from None
