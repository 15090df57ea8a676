"""With what speeds of tasks a bundle was trained: its manifest has a digest of them for each type.

An agent is never shown how fast tasks are: it has learnt that. So it can decide where tasks are faster or slower than
in its training, but not as well. That is no error, and worth a warning. Called by `bundle`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

_DIGITS: Final = 12


def speed_digests(types: Iterable[str], steps: Any) -> dict[str, str]:
    """Of each type: in how many steps its tasks are done with each allocation; `steps` is (J, A), empty if unknown."""
    rows = np.asarray(steps, "<f8")
    if not len(rows):
        return {}
    return {name: hashlib.sha256(row.tobytes()).hexdigest()[:_DIGITS] for name, row in zip(types, rows, strict=True)}


def speed_warning(trained: Any, here: Mapping[str, str]) -> str:
    """What is wrong with the speeds of a manifest, as the end of a sentence; empty when they are those of `here`."""
    if not isinstance(trained, dict):
        return "does not say which task speeds it was trained with"
    other = [name for name, digest in here.items() if trained.get(name) != digest]
    return f"was trained with other speeds of {', '.join(other)}" if other else ""
