"""The interface of a task policy as Numba types. Apart from `interface`, so that listing policies compiles nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import from_dtype, types

from fairlead.domain.task_records import PENDING, PLACEMENT, RUNNING, Placements, Snapshot
from fairlead.policies.tasks.observe import Observations


def tuple_type(tuple_class: Any, *fields: Any) -> Any:
    """The Numba type of a named tuple; of each field (dtype, axes) for an array, or a type."""
    made = [types.Array(from_dtype(np.dtype(f[0])), f[1], "C") if isinstance(f, tuple) else f for f in fields]
    return types.NamedTuple(made, tuple_class)


@cache
def snapshot_type() -> Any:
    """Of `Snapshot`."""
    return tuple_type(
        Snapshot, (np.int32, 2), (np.int32, 2), (np.int32, 1), (PENDING, 1), (np.uint16, 2), (RUNNING, 1),
        (np.int32, 2), (np.int32, 2), (np.int32, 1), (np.bool_, 1), (np.int8, 1), (np.float64, 2), types.boolean,
    )  # fmt: skip


@cache
def placements_type() -> Any:
    """Of `Placements`."""
    return tuple_type(Placements, (PLACEMENT, 1), (np.int32, 2))


@cache
def observations_type() -> Any:
    """Of `Observations`."""
    single, whole = (np.float32, 3), (np.int64, 3)
    return tuple_type(Observations, single, single, single, single, whole, single, single, single)


@cache
def decide_signature() -> Any:
    """int64(Snapshot, float64[:], float64, Placements)."""
    return types.int64(snapshot_type(), types.Array(types.float64, 1, "C"), types.float64, placements_type())
