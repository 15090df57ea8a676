"""The arrays of the world of tasks: a `TaskPlan` (what never changes) and `TaskWorlds` (what does, of many at once).

Both are named tuples of arrays; the first axis of every array of the worlds is the world. Built by `plan` and `worlds`,
read and written by the kernels of `engine`. A set of clusters is a word of bits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

# States of a task.
FUTURE: Final = 0
WAITING: Final = 1
RUNS: Final = 2
DONE: Final = 3

# Forms of speed.
RATE: Final = 0  # a step's progress is the rate
ROOT: Final = 1  # rate * sqrt(1.2 - progress)
CURVE: Final = 2  # along a curve of progress over time

TASK_RULES: Final = np.dtype(
    [
        ("single", np.bool_),
        ("links", np.bool_),  # reach by links, else by subset
        ("pending", np.int32),
        ("most_steps", np.int32),
        ("tasks", np.int32),
        ("rate", np.float64),
        ("noise", np.float64),
        ("switching", np.float64),
        ("bandwidth_low", np.float64),
        ("bandwidth_span", np.float64),
        ("least_bandwidth", np.float64),
        ("latency_low", np.float64),
        ("latency_span", np.float64),
        ("most_latency", np.float64),
    ],
    align=True,
)

LINK_STATE: Final = np.dtype([("bandwidth", np.float64), ("latency", np.float64), ("up", np.bool_)], align=True)

LINK_CHANGE: Final = np.dtype([("at", np.int32), ("cluster", np.int32), ("state", LINK_STATE)], align=True)

#: A world: where it is.
WORLD: Final = np.dtype(
    [
        ("seed", np.int64),
        ("rate", np.float64),  # arrivals a step
        ("now", np.int32),
        ("tasks", np.int32),
        ("arrived", np.int32),
        ("done", np.int32),
        ("waiting", np.int32),  # entries of `waiting`, holes of tasks that have started included
        ("shown", np.int32),  # tasks that some cluster sees
        ("running", np.int32),  # entries of `running`
        ("next_change", np.int32),
        ("stale", np.bool_),  # the waiting and what clusters see of them must be put in order when time goes on
        ("reordered", np.bool_),  # and some of them may no longer be seen
        ("alive_steps", np.int64),  # tasks alive, summed over steps: the sum of completion times in the end
    ],
    align=True,
)

TASK: Final = np.dtype(
    [
        ("progress", np.float64),
        ("service", np.float64),
        ("reach", np.uint64),  # clusters that it can reach and may use
        ("seen", np.uint64),  # clusters that have it among their pending tasks
        ("arrival", np.int32),
        ("started", np.int32),  # -1: never
        ("finished", np.int32),  # -1: not yet
        ("executed", np.int32),
        ("restarts", np.int32),  # steps that paid for a change of amounts or a start after a pre-emption
        ("cluster", np.int32),  # -1: none
        ("allocation", np.int32),  # its number, see `fairlead.policies.tasks.allocations`
        ("type", np.int16),
        ("state", np.uint8),
        ("switched", np.bool_),  # its amounts have changed since time went on
    ],
    align=True,
)


class TaskPlan(NamedTuple):
    """What a scenario fixes. N clusters, K resources, J types, A allocations.

    Resources have the order of `fairlead.scenarios.resource_order`: the last ones no task needs or gets.
    """

    rules: Any  # TASK_RULES (1,)
    capacity: Any  # int32 (N, K)
    minimum: Any  # int32 (J, K)
    most: Any  # int32 (K,)
    elastic: Any  # bool (K,)
    role: Any  # int8 (K,): places in `fairlead.domain.tasks.ROLES`; or UNNEEDED
    main: Any  # bool (K,): the resources by which service is counted
    resource: Any  # int32 (K,): where each stands in the scenario
    shares: Any  # float64 (J,): of types, summed up
    allowed: Any  # uint64 (J,): clusters by region and certificates
    form: Any  # int32 (J,)
    rate: Any  # float64 (J, A)
    curve: Any  # int32 (J, A): where an allocation's curve starts in `curves`; -1: none
    curves: Any  # float64: of each curve its number of points, their distance in steps, then progress at these
    steps: Any  # float64 (J, A): steps to the end, without noise
    changes: Any  # LINK_CHANGE (E,), by time


class TaskWorlds(NamedTuple):
    """B worlds of up to T tasks, of which R can run at once."""

    world: Any  # WORLD (B,)
    task: Any  # TASK (B, T), by arrival
    amounts: Any  # int32 (B, T, K)
    waiting: Any  # int32 (B, T): tasks that wait, by arrival; -1: has started since time went on
    running: Any  # int32 (B, R): tasks that run, by start
    free: Any  # int32 (B, N, K)
    queue: Any  # int32 (B, N): tasks that wait for a cluster, seen or not
    seen: Any  # int32 (B, N): tasks that a cluster sees
    link: Any  # LINK_STATE (B, N)
    history: (
        Any  # int32 (B, H, 1 + K): in each of the first H steps the tasks alive, and of each resource what is given
    )
