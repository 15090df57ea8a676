"""Plans and worlds as rows of 64-bit words, as `fairlead.policies.addresses` says."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.records import CANDIDATE, DECISION, REQUEST, WINDOW
from fairlead.policies.addresses import tuple_at, tuple_in_rows, words_of
from fairlead.policies.snapshot.fleet_arrays import FILLED, FLEET_ARRAYS, LINK
from fairlead.sim.serving.world_arrays import (
    CLOCK,
    DRAWS,
    EVENT,
    JOB,
    LINK_CHANGE,
    NODE_STATE,
    SERVER,
    STATION_STATE,
    STREAM,
    Plan,
    World,
)

#: The type and the number of axes of every array, in the order of the fields.
_PLAN: Final = (*FLEET_ARRAYS, (LINK_CHANGE, 1))
_WORLD: Final = (
    (CLOCK, 1), (REQUEST, 1), (DRAWS, 1), (DECISION, 1), (np.dtype(np.uint16), 2), (JOB, 1),
    (STREAM, 1), (np.dtype(np.int64), 1), (CANDIDATE, 1), (FILLED, 1), (np.dtype(np.uint16), 1),
    (np.dtype(np.uint16), 1), (LINK, 2), (np.dtype(np.uint16), 2), (STATION_STATE, 1), (SERVER, 1),
    (np.dtype(np.int64), 2), (np.dtype(np.int64), 1), (EVENT, 1), (np.dtype(np.float64), 1),
    (np.dtype(np.uint32), 1), (NODE_STATE, 1), (WINDOW, 1), (np.dtype(np.int64), 2),
)  # fmt: skip


def plan_words(plan: Plan) -> Any:
    """Where the plan's arrays are."""
    return words_of(plan, _PLAN)


def world_words(world: World) -> Any:
    """Where the world's arrays are: a row of words."""
    return words_of(world, _WORLD)


#: Inside compiled code: the plan that words describe, and world `b` of those that rows of words describe.
plan_at: Any = tuple_at(Plan, _PLAN)
world_at: Any = tuple_in_rows(World, _WORLD)
