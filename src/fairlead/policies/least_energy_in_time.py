"""Least energy in time: of those expected to be accurate and in time, the one that takes least energy.

Where none is expected to be both, the least expected completion. The greedy form of ECSRL's objective with the
deadline as a constraint; energy is what the request itself adds above idle.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.interface import policy
from fairlead.policies.nominal import completion_ms


@policy("least-energy-in-time", source="ECSRL")
def least_energy_in_time(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_energy = -1, np.inf
    fastest, fastest_ms = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        expected_ms = completion_ms(candidates[c])
        if expected_ms < fastest_ms:
            fastest, fastest_ms = c, expected_ms
        good = expected_ms <= request.deadline_ms and candidates[c].accuracy >= request.min_accuracy
        if good and candidates[c].energy_mj < best_energy:
            best, best_energy = c, candidates[c].energy_mj
    return best if best >= 0 else fastest
