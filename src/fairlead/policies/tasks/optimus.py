"""Optimus: everyone the minimum, then unit by unit to whom it helps most; planned anew at every step.

Peng et al., EuroSys 2018, with CPUs and GPUs as its two resources, as TapFinger (section 5.1) has it: the gain of a
unit is (steps left now - steps left with it) / the share of the cluster that it is; the largest gets it, until none
gains. Speeds are the curve of `fitted_steps`, with coefficients that are not negative, and CPUs and GPUs in their
places: in TapFinger's own comparison they were swapped.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import can_grow, emit, fitted_steps, gather, grow, settle_all, steps_with


@task_policy("optimus", source="Optimus", knows=("progress", "speed"), resizes=True, prepare=fitted_steps)
def optimus(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    tasks, steps = gather(snapshot), parameters.reshape(snapshot.steps.shape)
    settle_all(snapshot, tasks)
    while True:
        best, of, most = -1, -1, 0.0
        for t in range(len(tasks.row)):
            for k in range(len(snapshot.most)):
                if can_grow(snapshot, tasks, t, k):
                    now = steps_with(snapshot, tasks, steps, t, -1)
                    gain = (now - steps_with(snapshot, tasks, steps, t, k)) * snapshot.capacity[tasks.to[t], k]
                    if gain > most + 1e-9:
                        best, of, most = t, k, gain
        if best < 0:
            return emit(snapshot, tasks, out)
        grow(tasks, best, of)
