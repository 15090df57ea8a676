"""Least expected completion: the candidate that should answer first, queue and degradation counted.

argmin 2 d + transfer + queue + D * suffered. Candidates that should be accurate enough come before those that should
not, since a second inference would follow. Strong where every request is decided; myopic where streams are bound.
"""

from __future__ import annotations

from typing import Any

from fairlead.policies.interface import policy
from fairlead.policies.pick import soonest


@policy("least-expected-completion", source="common practice")
def least_expected_completion(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return soonest(request, candidates, excluded)
