"""Least energy in time: of those expected to be accurate and in time, the one that takes least energy.

Where none is expected to be both, the least expected completion. The greedy form of ECSRL's objective with the
deadline as a constraint; energy is what the request itself adds above idle. Where two take the same (slices of one
device do: half the speed at half the power), the one that should answer first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.policies.expected_times import completion_ms, in_time
from fairlead.policies.interface import policy


@policy("least-energy-in-time", source="ECSRL")
def least_energy_in_time(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best, best_energy, best_ms = -1, np.inf, np.inf
    fastest, fastest_ms = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        energy, expected_ms = candidates[c].energy_mj, completion_ms(candidates[c])
        if expected_ms < fastest_ms:
            fastest, fastest_ms = c, expected_ms
        if not in_time(expected_ms, request.deadline_ms) or candidates[c].accuracy < request.min_accuracy:
            continue
        if energy < best_energy * (1.0 - 1e-9) or (energy <= best_energy * (1.0 + 1e-9) and expected_ms < best_ms):
            best, best_energy, best_ms = c, energy, expected_ms
    return best if best >= 0 else fastest
