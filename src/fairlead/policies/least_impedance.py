"""Least impedance: the pair with the lowest nominal end-to-end time.

ASET (slides, 2025): (v*, n*) = argmin_{v,n} 2 (d_n + 2 sigma_n) + D_v(zeta). Blind to load, as written. To that we
add `transfer_ms`, the time that the input takes over the link, which the slides leave out (assumption).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.expected_times import end_to_end_ms
from fairlead.policies.interface import policy


@policy("least-impedance", source="ASET")
def least_impedance(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        key = end_to_end_ms(candidates[c])
        if key < best_key:
            best, best_key = c, key
    return best
