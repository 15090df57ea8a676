"""Reading the files of a host, below a root that may be another host's: a mounted disk, a container's /host, a test.

All file access of the detector is here. Nothing outside of the root is ever read: links are followed as they would be
on that host. What is there but can't be read is noted in `problems`, so that it is told apart from what is absent.
A hostile tree (loops, pipes, endless files, bytes that are no text) costs a value, never the program.
"""

from __future__ import annotations

import errno
import fnmatch
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

_MOST_BYTES = 64 * 1024  # of a file; what we read is short, and sysfs gives a page at most
_MOST_ENTRIES = 20_000  # of a folder
_MOST_LINKS = 40  # as the kernel
_TOLD = {  # else it is absent, or has no value now: a device may go away while it is looked at
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.EIO: "input/output error",
    errno.ELOOP: "too many links",
}


@dataclass
class HostTree:
    """The files below `root`. Paths are as on that host, with or without their leading slash."""

    root: Path = Path("/")
    problems: dict[str, str] = field(default_factory=dict)  # path -> why it can't be read

    def __post_init__(self) -> None:
        self._root = os.path.realpath(self.root)

    def resolve(self, path: str) -> str | None:
        """The path without links, all inside of the root; None where it does not exist."""
        left, at, links = path.split("/")[::-1], "", 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                at = at.rpartition("/")[0]
                continue
            try:
                target = os.readlink(f"{self._root}{at}/{part}")
            except OSError as error:
                if error.errno == errno.EINVAL:  # no link
                    at = f"{at}/{part}"
                    continue
                self._note(path, error)
                return None
            except ValueError:  # a NUL in the name
                return None
            links += 1
            if links > _MOST_LINKS:
                self._note(path, OSError(errno.ELOOP, ""))
                return None
            if target.startswith("/"):
                at = ""
            left += target.split("/")[::-1]
        return at or "/"

    def read(self, path: str) -> bytes | None:
        """The content of a file, as far as it is of use; None where there is none."""
        real = self.resolve(path)
        if real is None:
            return None
        try:
            handle = os.open(self._root + real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    return None  # a pipe, a device, a folder
                return os.read(handle, _MOST_BYTES)
            finally:
                os.close(handle)
        except OSError as error:
            self._note(path, error)
            return None

    def text(self, path: str) -> str | None:
        """The first line of a file; None where it is damaged: what is no text is no value."""
        line = (self.read(path) or b"").split(b"\n")[0].rstrip(b"\0")
        try:
            words = line.decode().strip()
        except UnicodeDecodeError:
            return None
        return words if words and words.isprintable() else None

    def strings(self, path: str) -> list[str]:
        """The strings of a device tree's property: each ends in a NUL. What is damaged is left out."""
        parts = (self.read(path) or b"").split(b"\0")
        return [words for part in parts if part.isascii() and (words := part.decode()) and words.isprintable()]

    def number(self, path: str) -> float | None:
        """The number that a file begins with; what is no finite one is none."""
        words = (self.text(path) or "").split()
        try:
            value = float(words[0]) if words else math.nan
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted."""
        real = self.resolve(folder)
        if real is None:
            return []
        try:
            with os.scandir(self._root + real) as entries:
                return sorted(entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False))
        except OSError as error:
            self._note(folder, error)
            return []

    def is_folder(self, path: str) -> bool:
        """Whether a folder is there."""
        real = self.resolve(path)
        return real is not None and os.path.isdir(self._root + real)

    def glob(self, pattern: str) -> list[str]:
        """The paths that match, sorted; `*` and `?` stand for what is between two slashes."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if not any(c in part for c in "*?["):
                found = [f"{at}/{part}" for at in found]
                continue
            found = [
                f"{at}/{name}" for at in found for name in self.names(at or "/") if fnmatch.fnmatchcase(name, part)
            ]
        return [path for path in found if self.resolve(path) is not None]

    def link_name(self, path: str) -> str | None:
        """The last part of what a link points to, which is how sysfs names a driver."""
        real = self.resolve(path)
        return None if real is None or real == "/" else real.rpartition("/")[2]

    def _note(self, path: str, error: OSError) -> None:
        if error.errno in _TOLD:
            self.problems[_plain(path)] = _TOLD[error.errno]


def _plain(path: str) -> str:
    """A path that can be printed: names of files may be any bytes."""
    return path.encode("utf-8", "replace").decode()
