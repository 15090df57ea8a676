"""Least expected completion: the candidate that should answer first, queue and degradation counted.

argmin 2 d + transfer + queue + D * suffered. Candidates that should be accurate enough come before those that should
not, since a second inference would follow. Strong where every request is decided; myopic where streams are bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy
from fairlead.policies.nominal import completion_ms


@policy("least-expected-completion", source="common practice")
def least_expected_completion(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_key, best_accurate = -1, np.inf, False
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        accurate = candidates[c].accuracy >= request.min_accuracy
        key = completion_ms(candidates[c])
        if (accurate and not best_accurate) or (accurate == best_accurate and key < best_key):
            best, best_key, best_accurate = c, key, accurate
    return best
