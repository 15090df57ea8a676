"""Tiresias: minimum amounts, to those first that have had least; who no longer fits is pre-empted.

Gu et al., NSDI 2019, as TapFinger (section 5.1) has it: two queues, a task moves to the second when the GPUs that it
has been given times steps (CPUs where tasks get none) reach a threshold, the median of what tasks take; inside a queue
by the step of the first start. Tasks that have not started yet follow, by arrival, so no task is pre-empted for one of
the same queue that never ran. Tasks keep their cluster while they run; one that was
pre-empted may start again anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_facts import TaskFacts, main_resources
from fairlead.domain.task_records import Placements, Snapshot
from fairlead.policies.tasks.allocations import by_amounts
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import emit, gather, settle

_NEVER = 1 << 40  # later than any start


def _threshold(facts: TaskFacts) -> Any:
    """The median over tasks of units x steps at the minimum."""
    table = by_amounts(facts.steps, facts.most, facts.elastic)
    units = facts.minimum[:, main_resources(facts.role, facts.elastic)].sum(axis=1)
    service = np.array([table[(j, *least)] * units[j] for j, least in enumerate(facts.minimum[:, facts.elastic])])
    order = np.argsort(service)
    total = np.cumsum(facts.shares[order])
    low, high = (service[order[np.searchsorted(total, 0.5, side=side)]] for side in ("left", "right"))
    return [(low + high) / 2.0]


@task_policy("tiresias", source="Tiresias", knows=("speed",), preempts=True, prepare=_threshold)
def tiresias(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    tasks = gather(snapshot)
    keys = np.empty(len(tasks.row), np.int64)
    for t in range(len(keys)):
        if tasks.was[t] >= 0:
            service, started = snapshot.running[tasks.row[t]].service, snapshot.running[tasks.row[t]].started
        else:
            service, started = snapshot.pending[tasks.row[t]].service, snapshot.pending[tasks.row[t]].started
        keys[t] = (2 * _NEVER if service >= parameters[0] else 0) + (started if started >= 0 else _NEVER)
    taken = np.zeros(len(snapshot.free), np.bool_)
    for t in np.argsort(keys, kind="mergesort"):  # it keeps equals as they stand, by arrival
        settle(snapshot, tasks, t, taken)
    return emit(snapshot, tasks, out)
