"""Least outstanding: the candidate with the fewest requests in flight.

The rule of Envoy's and nginx's least-request balancers with every backend looked at. Knows nothing of speed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy


@policy("least-outstanding", source="common practice")
def least_outstanding(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        key = candidates[c].in_flight
        if key < best_key:
            best, best_key = c, key
    return best
