"""Two policies: one compiled, which costs next to nothing, one in plain Python, which may use anything that Python has.

A decision is a pure function of its arguments: no clock, no state of its own, and for chance the number `u`. It returns
the index of a candidate with `excluded[c] == 0`, or -1 to reject.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from fairlead.policies.expected_times import completion_ms
from fairlead.policies.interface import policy


@policy("most-accurate-in-time", source="example")
def most_accurate_in_time(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    """The most accurate of those expected to answer in time; where none is, the fastest."""
    best, best_accuracy = -1, -np.inf
    fastest, fastest_ms = -1, np.inf
    for c in range(len(candidates)):
        if excluded[c]:
            continue
        expected_ms = completion_ms(candidates[c])
        if expected_ms < fastest_ms:
            fastest, fastest_ms = c, expected_ms
        if expected_ms <= request.deadline_ms and candidates[c].accuracy > best_accuracy:
            best, best_accuracy = c, candidates[c].accuracy
    return best if best >= 0 else fastest


@policy("tenant-affinity", source="rendezvous hashing", kind="python")
def tenant_affinity(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    """Each tenant has nodes of its own preference and takes the first that should answer in time."""
    feasible = [c for c in range(len(candidates)) if not excluded[c]]
    in_time = [c for c in feasible if completion_ms(candidates[c]) <= request.deadline_ms]
    return max(
        in_time or feasible,
        key=lambda c: (_preference(int(request.tenant), int(candidates[c].node)), candidates[c].accuracy),
        default=-1,
    )


def _preference(tenant: int, node: int) -> bytes:
    """How much a tenant likes a node: the same in every process, and a node that goes away moves only its own."""
    return hashlib.blake2b(f"{tenant}/{node}".encode(), digest_size=8).digest()
