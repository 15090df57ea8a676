"""The checkpoint of a training as one file: tensors and plain data, which reading it can't make run anything.

`torch.load` refuses whatever else is in the file, since a checkpoint may come from another machine. Arrays become
tensors when they are written; readers turn them back with `array_like`. Used by all trainings.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fairlead.domain.errors import UserError, one_line
from fairlead.inputs.read_files import open_file
from fairlead.measure.write_files import write_whole

_MOST_MB = 64_000


def write_checkpoint(file: Path, state: dict[str, Any]) -> None:
    """Write all of it or nothing. `state`: dictionaries, lists, tuples, numbers, words, tensors and arrays."""
    content = BytesIO()
    torch.save(_plain(state), content)
    write_whole(file, content.getvalue())


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value


def read_checkpoint(file: Path, whose: str, device: str = "cpu") -> dict[str, Any]:
    """What is in it; of `whose` training it should be. Raises UserError for a file that is none."""
    with open_file(file, _MOST_MB) as content:
        try:
            saved: dict[str, Any] = torch.load(content, map_location=device, weights_only=True)
            _ = saved["identity"].items(), saved["fairlead"]
        except Exception as error:  # of unpickling, which has many ways to say no
            raise UserError(f"{file}: not a checkpoint of {whose} ({one_line(error)})") from None
    return saved


def broken_checkpoint(file: Path, error: Exception) -> UserError:
    """What to raise when its content does not fit together."""
    return UserError(f"{file}: not a complete checkpoint ({one_line(error)}); give another --out")


def array_like(saved: Any, like: Any) -> Any:
    """The array that was saved, as one or as a tensor: of the type and the shape of another. Raises ValueError."""
    array = saved.cpu().numpy() if isinstance(saved, torch.Tensor) else saved
    if not isinstance(array, np.ndarray) or array.dtype != like.dtype or array.shape != like.shape:
        raise ValueError(f"expected an array of {like.dtype}, {like.shape}")
    return array
