"""How a run was decided: what `run_policy` notes while it runs a policy, and `log` writes into the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.domain.decision_log import LoggedPolicy


@dataclass(frozen=True)
class Account:
    """Who decided, how often a rule had to. Of a request each: a number for all, or an array in the order of time."""

    decisions: int  # of requests or streams; of a selector: windows
    fallbacks: Mapping[str, int] = field(default_factory=dict)  # how often a learned policy fell back, by reason
    active: Sequence[str] = ()  # selectors: the rule that decided in each window; the last goes on to the end
    policies: Sequence[LoggedPolicy] = ()  # all that decided
    decided_by: Any = 0  # of each decided request: which of the policies
    probability: Any = math.nan  # of each: how likely the policy was to choose so; NaN: unknown
    fallback: Any = 0  # of each: `fallback_code`

    @property
    def fallback_share(self) -> float:
        """The share of decisions that the fallback rule made."""
        return sum(self.fallbacks.values()) / max(1, self.decisions)
