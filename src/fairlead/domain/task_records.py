"""Record layouts of the world of tasks: what a policy is shown and what it answers.

A `Snapshot` is all that a policy knows; `Placements` is where it writes its answer. Both are named tuples of arrays, so
that compiled code and plain Python read the same bytes. Nothing here computes.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fairlead.domain.outcomes import Reason

# What a placement does.
START: Final = 0  # a pending task, on a cluster, with these amounts
RESIZE: Final = 1  # a running task gets these amounts instead
PREEMPT: Final = 2  # a running task goes back to the queues; its progress is kept

#: Bits of `excluded` that say that a cluster does not see a task; without them it does, whether it has room or not.
UNSEEN: Final = int(Reason.UNREACHABLE | Reason.NOT_ALLOWED | Reason.QUEUED)

#: What a policy may know beyond what can be seen, as bits: how far tasks are, how long each allocation takes.
KNOWLEDGE: Final = {"progress": 1, "speed": 2}

#: A task that waits and that some cluster sees.
PENDING: Final = np.dtype(
    [
        ("task", np.int32),  # its number, by which it is placed
        ("type", np.int32),  # row of its type
        ("waited", np.int32),  # steps since it arrived
        ("started", np.int32),  # step in which it first started; -1: never
        ("executed", np.int32),  # steps that it has run; above 0 after a pre-emption
        ("restarts", np.int32),  # how many of these steps followed a change of its allocation or a restart
        ("service", np.float64),  # units of accelerators (of processors, if it needs no accelerator) x steps so far
        ("left", np.float64),  # share of its time that is left at a steady allocation; NaN unless progress is known
    ],
    align=True,
)

#: A task that runs.
RUNNING: Final = np.dtype(
    [
        ("task", np.int32),  # its number
        ("type", np.int32),  # row of its type
        ("cluster", np.int32),  # row of the cluster on which it runs
        ("alive", np.int32),  # steps since it arrived
        ("started", np.int32),  # step in which it first started
        ("executed", np.int32),  # steps that it has run
        ("restarts", np.int32),  # how many of these steps followed a change of its allocation or a restart
        ("service", np.float64),  # as for PENDING
        ("left", np.float64),  # as for PENDING
    ],
    align=True,
)

PLACEMENT: Final = np.dtype([("task", np.int32), ("cluster", np.int32), ("what", np.int32)], align=True)


class Snapshot(NamedTuple):
    """What a policy decides on. N clusters, K resources, J types, U pending tasks, R running ones.

    Resources stand by role, whatever their order in a file; the last ones no task needs or gets.
    """

    free: Any  # int32 (N, K): what each cluster has left
    capacity: Any  # int32 (N, K)
    queued: Any  # int32 (N,): tasks that wait for a cluster behind those that it sees
    pending: Any  # PENDING (U,), by arrival
    excluded: Any  # uint16 (U, N): why a task can't start on a cluster now, bits of Reason; 0: it can
    running: Any  # RUNNING (R,), by start
    amounts: Any  # int32 (R, K): what each running task has
    minimum: Any  # int32 (J, K): what tasks of a type need at least
    most: Any  # int32 (K,): what a task gets at most; of a resource that is not elastic it gets its minimum
    elastic: Any  # bool (K,)
    role: Any  # int8 (K,): places in `fairlead.domain.tasks.ROLES`; or UNNEEDED
    steps: Any  # float64 (J, A): steps that an allocation takes, by its number; empty unless the policy knows speeds
    single: bool  # each cluster starts one task at most before time goes on


class Placements(NamedTuple):
    """A policy's answer, carried out in this order."""

    rows: Any  # PLACEMENT (M,)
    amounts: Any  # int32 (M, K)
