"""Farthest: the node with the highest network delay that is still feasible.

ASET (slides, 2025): n* = argmax_n (d_n + 2 sigma_n). It keeps the near nodes free for those who need them. The variant
on n* is the least loaded feasible one (assumption, as for closest).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy


@policy("farthest", source="ASET")
def farthest(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_delay, best_load = -1, -np.inf, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        delay, load = candidates[c].net_ms + 2.0 * candidates[c].net_sd_ms, candidates[c].load
        if delay > best_delay or (delay == best_delay and load < best_load):
            best, best_delay, best_load = c, delay, load
    return best
