"""The arrays of the world of tasks as Numba types, for kernels that are compiled once for all scenarios."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from fairlead.domain.task_records import PENDING, RUNNING
from fairlead.policies.tasks.numba_signature import tuple_type
from fairlead.sim.tasks.proposals import Proposals
from fairlead.sim.tasks.snapshot import Room
from fairlead.sim.tasks.world_arrays import LINK_CHANGE, LINK_STATE, TASK, TASK_RULES, WORLD, TaskPlan, TaskWorlds

_I, _F = np.int32, np.float64


@cache
def plan_type() -> Any:
    """Of `TaskPlan`."""
    return tuple_type(
        TaskPlan, (TASK_RULES, 1), (_I, 2), (_I, 2), (_I, 1), (np.bool_, 1), (np.int8, 1), (np.bool_, 1), (_I, 1),
        (_F, 1), (np.uint64, 1), (_I, 1), (_F, 2), (_I, 2), (_F, 1), (_F, 2), (LINK_CHANGE, 1),
    )  # fmt: skip


@cache
def worlds_type() -> Any:
    """Of `TaskWorlds`."""
    return tuple_type(
        TaskWorlds,
        (WORLD, 1),
        (TASK, 2),
        (_I, 3),
        (_I, 2),
        (_I, 2),
        (_I, 3),
        (_I, 2),
        (_I, 2),
        (LINK_STATE, 2),
        (_I, 3),
    )


@cache
def proposals_type() -> Any:
    """Of `Proposals`."""
    return tuple_type(Proposals, (_I, 2), (_I, 3), (_F, 2), (_F, 2))


@cache
def room_type() -> Any:
    """Of `Room`."""
    return tuple_type(Room, (PENDING, 1), (np.uint16, 2), (RUNNING, 1), (_I, 2), (_I, 1), (_F, 2))
