"""What a decider is asked, and what it answers: the same for simulator, gateway and controller.

A snapshot is all that a decision is made of; the world of tasks has its own (`task_records.Snapshot`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fairlead.domain.outcomes import Fallback


class RequestSnapshot(NamedTuple):
    """A request and where it could go."""

    request: Any  # REQUEST (1,)
    candidates: Any  # CANDIDATE (c,)
    excluded: Any  # uint16 (c,): bits of Reason; 0: feasible
    feasible: bool = True  # some candidate is not excluded: without one there is nothing to decide
    first: int = 0  # deployment of the first candidate: candidate c is deployment first + c


class WindowSnapshot(NamedTuple):
    """The window of traffic that has just ended, as a selector sees it."""

    stats: Any  # float32 (1, F), as `fairlead.policies.learned.Selector.stats` makes them


class Decision(NamedTuple):
    """An answer, and the policy that gave it."""

    choice: int  # of a request: a candidate, -1 rejects; of a window: one of the decider's rules; of tasks: placements
    probability: float  # of this choice on this snapshot; NaN: unknown
    policy: str  # who decided: the policy that was asked, the rule that it picked or the one that it fell back to
    hash: str  # of that policy
    fallback: Fallback | None = None  # why a rule decided in the place of a model
