"""Closest: the node with the lowest network delay.

ASET (slides, 2025): n* = argmin_n (d_n + 2 sigma_n). The slides name no variant; we take the least loaded feasible
one on n* (assumption).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy


@policy("closest", source="ASET")
def closest(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_delay, best_load = -1, np.inf, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        delay, load = candidates[c].net_ms + 2.0 * candidates[c].net_sd_ms, candidates[c].load
        if delay < best_delay or (delay == best_delay and load < best_load):
            best, best_delay, best_load = c, delay, load
    return best
