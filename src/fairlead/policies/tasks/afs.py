"""AFS: unit by unit, each to the winner of pairwise comparisons of who finishes sooner and who gains more.

Apathetic Future Share, Hwang et al., NSDI 2021. Of two tasks, L the one that would finish sooner as things are, with
speeds p and p+ with one unit more: L wins if (pL+ - pL) / pL > (pH+ - pH) / pH+, else H. Everyone has the minimum
first; GPUs are given out before CPUs, then the rest, each until a winner gains nothing. Planned anew at every step.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.jit import inlined
from fairlead.policies.tasks.allocations import by_role
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import Tasks, can_grow, emit, fitted_steps, gather, grow, settle_all, steps_with


@inlined
def _wins(snapshot: Snapshot, tasks: Tasks, steps: Any, a: int, b: int, k: int) -> bool:
    """Whether task `a` gets the unit rather than `b`."""
    left_a, left_b = steps_with(snapshot, tasks, steps, a, -1), steps_with(snapshot, tasks, steps, b, -1)
    with_a, with_b = steps_with(snapshot, tasks, steps, a, k), steps_with(snapshot, tasks, steps, b, k)
    if left_a <= left_b:  # speeds are 1 / steps
        return left_a / with_a - 1.0 > 1.0 - with_b / left_b
    return left_b / with_b - 1.0 <= 1.0 - with_a / left_a


@task_policy("afs", source="AFS", knows=("progress", "speed"), resizes=True, prepare=fitted_steps)
def afs(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    tasks, steps = gather(snapshot), parameters.reshape(snapshot.steps.shape)
    settle_all(snapshot, tasks)
    order = by_role(snapshot.role)
    for n in range(len(snapshot.free)):
        for k in order:
            while True:
                best = -1
                for t in range(len(tasks.row)):
                    if tasks.to[t] == n and can_grow(snapshot, tasks, t, k):
                        if best < 0 or _wins(snapshot, tasks, steps, t, best, k):
                            best = t
                if best < 0:
                    break
                now = steps_with(snapshot, tasks, steps, best, -1)
                if now - steps_with(snapshot, tasks, steps, best, k) <= 1e-9:
                    break
                grow(tasks, best, k)
    return emit(snapshot, tasks, out)
