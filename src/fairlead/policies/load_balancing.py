"""Load balancing: the (variant, node) pair with the least load.

ASET (slides, 2025): (v*, n*) = argmin_{v,n} L_vn(t). The slides warn that it can be unfair when latency-sensitive work
is in the minority: relaxed streams fill the near nodes too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy


@policy("load-balancing", source="ASET")
def load_balancing(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        key = candidates[c].load
        if key < best_key:
            best, best_key = c, key
    return best
