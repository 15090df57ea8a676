"""Sia: one configuration for each task, chosen for all at once by an integer program; planned anew at every step.

Jayaram Subramanya et al., SOSP 2023. A configuration is a cluster and amounts; its goodput G is the speed over that
with the minimum, r = (T - N S) / (T + S) discounts restarts: T is a task's age, N how often it has restarted, S the
steps that a restart loses; 1 for what a task has and for one that never ran, at least 0.05 (assumption: S is large for
tasks of a few steps). Minimises sum (r G)^-0.5 over chosen configurations + 1.1 for each task that gets none, within
what clusters have. A running task stays on its cluster, gets other amounts, or is pre-empted; ties keep what is.
Amounts that are no faster than fewer are left out. Solved by HiGHS to a gap of 0.1 %; a plan that is no better than
what is changes nothing, as there are others as good without end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from fairlead.domain.task_facts import TaskFacts, needed
from fairlead.domain.task_records import UNSEEN, Placements, Snapshot
from fairlead.policies.tasks.allocations import useful
from fairlead.policies.tasks.interface import task_policy
from fairlead.policies.tasks.replan import Tasks, emit, gather

_POWER, _UNSERVED = -0.5, 1.1
_KEEP = 1e-4  # what a configuration that a task has is worth in a tie
_BETTER = 1e-6  # what a plan must gain to be carried out
_LEAST_FACTOR = 0.05


class _Choice(NamedTuple):
    """A configuration of one task."""

    task: int
    cluster: int
    amounts: Any  # int32 (K,)
    cost: float
    kept: bool  # it is what the task has


def _lost(facts: TaskFacts) -> Any:
    """What a restart loses, in steps."""
    return [1.0 - facts.switching]


def restart_factor(age: float, restarts: int, lost: float) -> float:
    """Sia's r: how much a task's goodput counts that would have to restart."""
    return max(_LEAST_FACTOR, (age - restarts * lost) / (age + lost)) if lost > 0 else 1.0


def _choices(snapshot: Snapshot, tasks: Tasks, lost: float) -> list[_Choice]:
    types, made = range(len(snapshot.minimum)), []
    configurations = [useful(snapshot.minimum[j], snapshot.most, snapshot.elastic, snapshot.steps[j]) for j in types]
    for t in range(len(tasks.row)):
        task_type, was = tasks.type[t], tasks.was[t]
        slowest = configurations[task_type][1].max()
        if was >= 0:
            clusters, has, task = [int(was)], snapshot.amounts[tasks.row[t]], snapshot.running[tasks.row[t]]
            factor = restart_factor(float(task["alive"]), int(task["restarts"]), lost)
        else:
            clusters = [n for n in range(len(snapshot.free)) if not snapshot.excluded[tasks.row[t], n] & UNSEEN]
            has, task = None, snapshot.pending[tasks.row[t]]
            ran = task["executed"] > 0
            factor = restart_factor(float(task["waited"]), int(task["restarts"]), lost) if ran else 1.0
        for n in clusters:
            for amounts, steps in zip(*configurations[task_type], strict=True):
                if (amounts <= snapshot.capacity[n]).all():
                    same = has is not None and (amounts == has).all()
                    cost = ((1.0 if same else factor) * slowest / steps) ** _POWER
                    made.append(_Choice(t, n, amounts, cost - _KEEP * same, bool(same)))
    return made


@task_policy("sia", source="Sia", kind="python", knows=("speed",), preempts=True, resizes=True, prepare=_lost)
def sia(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    tasks = gather(snapshot)
    choices = _choices(snapshot, tasks, float(parameters[0]))
    if not choices:
        return 0
    resources, clusters = needed(snapshot.role), len(snapshot.free)
    columns = np.arange(len(choices))
    once = csr_array((np.ones(len(choices)), ([c.task for c in choices], columns)), (len(tasks.row), len(choices)))
    given = np.array([c.amounts[:resources] for c in choices], float)
    rows = np.array([[c.cluster * resources + k for k in range(resources)] for c in choices])
    shape = (clusters * resources, len(choices))
    use = csr_array((given.ravel(), (rows.ravel(), np.repeat(columns, resources))), shape)
    capacity = snapshot.capacity[:, :resources].astype(float)
    limits = [LinearConstraint(once, ub=1.0), LinearConstraint(use, ub=capacity.ravel())]
    if snapshot.single:
        limits.append(LinearConstraint(_starts(choices, tasks, clusters), ub=1.0))
    cost = np.array([c.cost for c in choices]) - _UNSERVED
    with _quiet():
        found = milp(cost, integrality=1, bounds=(0, 1), constraints=limits, options={"mip_rel_gap": 1e-3})
    chosen = np.flatnonzero(found.x > 0.5)
    if cost[chosen].sum() > cost[[c.kept for c in choices]].sum() - _BETTER:
        return 0
    for column in chosen:
        choice = choices[column]
        tasks.to[choice.task] = choice.cluster
        tasks.amounts[choice.task] = choice.amounts
    return emit(snapshot, tasks, out)


@contextmanager
def _quiet() -> Iterator[None]:
    """HiGHS tells some of its doings on the process's standard output, whatever it is asked; not to our readers."""
    sys.stdout.flush()
    before, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(nowhere)


def _starts(choices: list[_Choice], tasks: Tasks, clusters: int) -> Any:
    """Which configurations start a task on a cluster."""
    from scipy.sparse import csr_array

    starts = [(c.cluster, column) for column, c in enumerate(choices) if tasks.was[c.task] < 0]
    rows, columns = ([pair[i] for pair in starts] for i in (0, 1))
    return csr_array((np.ones(len(starts)), (rows, columns)), (clusters, len(choices)))
