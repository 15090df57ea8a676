"""Finished trials in a file, so that a comparison that was killed can resume.

One JSON line per trial, appended when it is finished. A line is used again only for a trial of the same key (see
`fingerprint`); a last line that was torn by a kill is cut off. One process at a time: the file is locked while in use.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from fairlead.domain.errors import UserError
from fairlead.experiments.trial import TrialResult
from fairlead.measure.write_files import not_written

_HEADER = b'{"fairlead": "checkpoint"}\n'  # so that no other file is taken for one, and written to

_OTHER = "--checkpoint FILE uses another file, --checkpoint none keeps nothing"


class Checkpoint:
    """An open checkpoint; use it in a `with`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._nothing_in_it = not path.exists()
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: can't keep the checkpoint there: not a file ({_OTHER})")
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise UserError(f"{path}: can't keep the checkpoint there: {error.strerror} ({_OTHER})") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            if not isinstance(error, BlockingIOError):  # a file system without locks
                raise UserError(f"{path}: can't lock the checkpoint: {error.strerror} ({_OTHER})") from error
            raise UserError(f"{path}: another fairlead process uses this checkpoint ({_OTHER})") from error
        self._mend()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, what: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._nothing_in_it:  # made here, for work that did not begin
            self.path.unlink()
        with suppress(OSError):  # a full disk, which `add` has reported
            self._file.close()

    def finished(self, keys: Container[str]) -> dict[str, TrialResult]:
        """The results that are there for these keys."""
        found: dict[str, TrialResult] = {}
        self._file.seek(len(_HEADER))
        for line in self._file:
            try:
                record = json.loads(line)
                if (key := record.pop("key")) in keys:
                    found[key] = TrialResult(**record)
            except (ValueError, TypeError, AttributeError, KeyError):
                continue  # damaged: that trial is run again
        return found

    def add(self, key: str, result: TrialResult) -> None:
        """Append a result; it is on the disk when this returns, so it outlives the process and the power."""
        self._nothing_in_it = False
        try:
            self._file.write(json.dumps({"key": key} | vars(result)).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise not_written(self.path, error) from error

    def _mend(self) -> None:
        """Cut off what a kill left of the last line."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if not content.startswith(_HEADER) and not _HEADER.startswith(content):
            self._file.close()
            raise UserError(f"{self.path}: not a checkpoint, so it is not changed (give another --checkpoint)")
        try:
            if whole < len(content):
                self._file.truncate(whole)
            if not whole:
                self._file.write(_HEADER)
                self._file.flush()
        except OSError as error:
            raise not_written(self.path, error) from error
