"""The interface of a policy as a Numba type. Apart from `interface`, so that listing policies compiles nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import from_dtype, types

from fairlead.domain.records import CANDIDATE, REQUEST


@cache
def decide_signature() -> Any:
    """int32(REQUEST, CANDIDATE[:], uint16[:], float64), the arrays read-only: a policy decides, it changes nothing."""
    return types.int32(
        from_dtype(REQUEST),
        types.Array(from_dtype(CANDIDATE), 1, "C", readonly=True),
        types.Array(types.uint16, 1, "C", readonly=True),
        types.float64,
    )
