"""Task policies at work: in goes a snapshot, out come placements and a Decision that counts them.

    decider = policy.decider(policy.parameters(facts))
    decision = decider.decide(snapshot, u, out)      writes `decision.choice` placements into `out`

Hosts ask for abilities, not for kinds: whether it wants the world in the place of a snapshot (`plans`), and whether
there is a compiled rule that they may call by themselves with its parameters (`rule`). For one thread.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from fairlead.domain.decision import Decision
from fairlead.domain.outcomes import Fallback
from fairlead.domain.task_records import PENDING, PLACEMENT, RUNNING, Placements, Snapshot
from fairlead.policies.guard import Guard, compiled

if TYPE_CHECKING:
    from fairlead.policies.tasks.interface import TaskPolicy


#: The fields of what a task policy is shown, and of its answer.
_FIELDS = (*Snapshot._fields, *(name for record in (PENDING, RUNNING, PLACEMENT) for name in record.names or ()))


class TaskDecider(ABC):
    """A task policy at work. `decisions` and `fallbacks` count what a learned one did."""

    plans = False  #: It is given the world itself, to try things on copies of it.
    rule: TaskPolicy | None = None  #: A compiled rule that decides everything.

    def __init__(self, policy: TaskPolicy, parameters: Any) -> None:
        self.name, self.hash, self.known = policy.name, policy.hash, policy.known
        self.parameters = parameters
        self.decisions, self.fallbacks = 0, Counter[Fallback]()

    @abstractmethod
    def decide(self, snapshot: Snapshot, u: float, out: Placements) -> Decision:
        """Write placements; the choice is how many. `u` is a uniform number of this decision."""

    def account(self) -> dict[str, Any]:
        """How many decisions a model was asked for, and how often a rule made them, by reason."""
        reasons = {reason.value: self.fallbacks[reason] for reason in Fallback if self.fallbacks[reason]}
        return {"decisions": self.decisions, "fallbacks": reasons}


class TaskRuleDecider(TaskDecider):
    """A compiled rule, a policy in Python or a planner. What it raises is a PolicyError."""

    def __init__(self, policy: TaskPolicy, parameters: Any) -> None:
        super().__init__(policy, parameters)
        self.plans = policy.kind == "planner"
        self.rule = policy if policy.kind == "compiled" else None
        self._function = compiled(policy, _FIELDS) if self.rule else policy.function
        self._copies = policy.kind == "python" and policy.package != "fairlead"  # it can't change the world
        self._guard = Guard(self.name, policy.function, fields=_FIELDS)
        self._probability = math.nan if policy.draws else 1.0

    def decide(self, snapshot: Snapshot, u: float, out: Placements) -> Decision:
        """As TaskDecider has it."""
        if self._copies:
            parts: tuple[Any, ...] = snapshot
            snapshot = Snapshot(*(part.copy() for part in parts))
        with self._guard:
            count = operator.index(self._function(snapshot, self.parameters, u, out))
        return Decision(count, self._probability, self.name, self.hash)
