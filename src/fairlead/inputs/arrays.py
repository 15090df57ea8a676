"""Reads archives of arrays (.npz), and has the checks and messages with which arrays are refused.

NumPy tells damage, and takes no objects, whose unpickling would run code. What is checked here beside: how much an
archive unpacks to. What is in the arrays is for the reader to check, before compiled code walks by them.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.inputs.read_files import MB, open_file

_MOST_MB = 1024
_MOST_ARRAYS = 1000


def read_npz(path: str | Path) -> dict[str, Any]:
    """The arrays of an archive by name. Raises UserError, ValueError or what NumPy and zipfile have for damage."""
    with open_file(path, _MOST_MB) as file:
        members = zipfile.ZipFile(file).infolist()
        unpacked = sum(member.file_size for member in members)
        if len(members) > _MOST_ARRAYS or unpacked > _MOST_MB * MB:
            raise UserError(f"{path}: it unpacks to {unpacked / MB:,.0f} MB, at most {_MOST_MB:,} MB are read")
        file.seek(0)
        with np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}


def require(holds: Any, otherwise: str) -> None:
    """Raise ValueError unless it holds."""
    if not holds:
        raise ValueError(otherwise)


def within(what: str, numbers: Any, least: float, most: float) -> None:
    """Raise unless all lie between these, both included; so NaN is refused."""
    require(bool(np.all((numbers >= least) & (numbers <= most))), f"{what} is out of range")


def is_array(what: str, array: Any, dtype: Any, *shape: int | None) -> None:
    """Raise unless it is an array of this type and shape, of which None is any length, laid out row by row."""
    fits = len(array.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    require(array.dtype == dtype, f"{what} has another type")
    require(fits and array.flags.c_contiguous, f"{what} has another shape")
