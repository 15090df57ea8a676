"""Tiresias: minimum amounts, to those first that have had least; who no longer fits is pre-empted.

Gu et al., NSDI 2019, as TapFinger (section 5.1) has it: two queues, a task moves to the second when the GPUs that it
has been given times steps (of the last elastic resource) reach a threshold, the median of what tasks take; inside a
queue by the step of the first start. Who has not started yet can't have started before them: they follow, by arrival,
so nobody is pre-empted for one of the same queue that never ran. Tasks keep their cluster while they run; one that was
pre-empted may start again anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.domain.tasks import TaskScenario
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import emit, gather, settle

_NEVER = 1 << 40  # later than any start


def _threshold(scenario: TaskScenario, steps: Any) -> Any:
    """The median over tasks of units x steps at the minimum."""
    elastic = [name for name, resource in scenario.resources.items() if resource.elastic]
    most = [scenario.most_per_task()[name] + 1 for name in elastic]
    table = steps.reshape(len(steps), *most)
    kinds = list(scenario.types.values())
    least = [tuple(kind.minimum.get(name, 0) for name in elastic) for kind in kinds]
    service = np.array([table[(j, *a)] * a[-1] for j, a in enumerate(least)])
    order = np.argsort(service)
    total = np.cumsum([kinds[j].share for j in order])
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
