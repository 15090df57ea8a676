"""The tuned rule, but thrifty: a task gets no more than makes it faster.

Nine GPUs may be no faster than seven, as tasks end with a step; what is left over starts another. It knows speeds,
which the tuned rule does not.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.tuned_rule import parameters as of_rule
from fairlead.policies.tasks.tuned_rule import place


@task_policy("thrifty-rule", knows=("speed",), prepare=of_rule)
def thrifty_rule(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    return place(snapshot, parameters, True, out)
