"""Second inference: where a request goes whose answer was not accurate enough (ECSRL).

The simulator's engine calls these kernels on its plan and world, a gateway by `builder`. They choose, and send nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.expected_times import completion_ms
from fairlead.policies.jit import kernel
from fairlead.policies.snapshot.candidates import fill, hard_bits


@kernel
def second_choice(fleet: Any, state: Any, request: Any, answered: int, row: int) -> Any:
    """The better cloud variant that should answer first when sent from a link row, -1 when there is none."""
    model, source = request.model, request.source
    fill(fleet, state, model, row, request.size_kb)
    best: Any = np.int64(-1)
    best_ms = np.inf
    own = fleet.deployments[answered].accuracy
    for d in range(fleet.models[model].first, fleet.models[model].last):
        deployment = fleet.deployments[d]
        if hard_bits(fleet, state, row, source, d) or not deployment.cloud or deployment.accuracy <= own:
            continue
        expected_ms = completion_ms(state.candidates[d])
        if expected_ms < best_ms:
            best, best_ms = d, expected_ms
    return best
