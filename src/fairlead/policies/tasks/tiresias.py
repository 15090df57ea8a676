"""Tiresias: minimum amounts, to those first that have had least; who no longer fits is pre-empted.

Gu et al., NSDI 2019, as TapFinger (section 5.1) has it: two queues, a task moves to the second when the GPUs that it
has been given times steps (of the last elastic resource) reach a threshold, the median of what tasks take; inside a
queue by start, those that never ran by arrival behind them. Tasks keep their cluster while they run; one that was pre-
empted may start again anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.task_records import Placements, Snapshot
from fairlead.domain.tasks import TaskScenario
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import emit, gather, settle


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
    count = len(tasks.row)
    keys = np.empty(count, np.int64)
    for t in range(count):
        if tasks.was[t] >= 0:
            service, ran = snapshot.running[tasks.row[t]].service, True
        else:
            service, ran = snapshot.pending[tasks.row[t]].service, snapshot.pending[tasks.row[t]].executed > 0
        keys[t] = (2 * count if service >= parameters[0] else 0) + (0 if ran else count) + t
    taken = np.zeros(len(snapshot.free), np.bool_)
    for t in np.argsort(keys):
        settle(snapshot, tasks, t, taken)
    return emit(snapshot, tasks, out)
