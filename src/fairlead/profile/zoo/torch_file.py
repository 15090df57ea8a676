"""Weights out of a file that `torch.save` wrote, without torch: a dictionary of NumPy arrays.

Reads the form of before torch 1.6 (pickles in a row, then the numbers), which the packages of the zoo hold. Nothing but
tensors is unpickled: any other class in the file is refused. Called by the converters of `zoo`.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


@dataclass
class _Storage:
    """A row of numbers that tensors look at; it is filled after the pickles are read."""

    dtype: np.dtype[Any]
    values: Any = None


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    first: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in numbers

    def array(self) -> Any:
        size, numbers = self.storage.dtype.itemsize, (self.first, *self.shape, *self.strides)
        if not all(isinstance(n, int) and n >= 0 for n in numbers) or len(self.shape) != len(self.strides):
            raise ValueError("a tensor has impossible sizes")
        if self.storage.values is None:
            raise ValueError("the numbers of a tensor are missing")
        if 0 in self.shape:
            return np.empty(self.shape, self.storage.dtype)
        end = self.first + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)) + 1
        if max(end, prod(self.shape)) > len(self.storage.values):  # steps of 0 would show a number many times
            raise ValueError("a tensor is larger than its numbers")
        steps = tuple(step * size for step in self.strides)
        return np.lib.stride_tricks.as_strided(self.storage.values[self.first :], self.shape, steps).copy()


class _Reader(pickle.Unpickler):
    """Knows tensors and dictionaries, and refuses all else."""

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file)
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, first, shape, strides, *_: _Tensor(storage, first, tuple(shape), tuple(strides))
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not a tensor")

    def persistent_load(self, told: Any) -> _Storage:
        _, dtype, key, *_ = told
        return self.storages.setdefault(key, _Storage(dtype))


def read_tensors(content: bytes) -> dict[str, Any]:
    """The arrays by their names. Raises ValueError or pickle's error where it is no such file."""
    file = BytesIO(content)
    if _next(file) != _MAGIC:
        raise ValueError("not a file of torch.save's old form")
    _next(file), _next(file)  # the version of the form, and what machine wrote it
    reader = _Reader(file)
    told = reader.load()
    for key in _next(file):
        storage = reader.storages[key]
        count = int.from_bytes(file.read(8), "little", signed=True)
        if not 0 <= count <= len(content):
            raise ValueError("an impossible count of numbers")
        storage.values = np.frombuffer(file.read(count * storage.dtype.itemsize), storage.dtype)
    if not isinstance(told, dict) or not all(isinstance(tensor, _Tensor) for tensor in told.values()):
        raise ValueError("not a dictionary of tensors")
    return {name: tensor.array() for name, tensor in told.items()}


def _next(file: BytesIO) -> Any:
    """The next pickle of the file."""
    return _Reader(file).load()
