"""Cheaper: the slowest pair that is still in time, which leaves the fast ones to those who need them.

ASET (slides, 2025) says in words that the expected end-to-end delay is maximised; the printed formula is an argmin.
We follow the words (assumption): argmax_{v,n} 2 (d_n + 2 sigma_n) + D_v over the feasible pairs. To that we add
`transfer_ms`, the time that the input takes over the link, which the slides leave out (assumption).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.expected_times import end_to_end_ms
from fairlead.policies.interface import policy


@policy("cheaper", source="ASET")
def cheaper(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, -np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        key = end_to_end_ms(candidates[c])
        if key > best_key:
            best, best_key = c, key
    return best
