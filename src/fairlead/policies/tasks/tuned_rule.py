"""A fixed rule with parameters: tasks in an order, each with what its type should have, onto a cluster that fits.

For each type the rule has a rank, the amounts that a task should get and the least with which it starts; below that it
waits. Tasks go by rank, then those that reach the fewest clusters first, then by arrival. A task goes where all that it
should get is free, onto the cluster with the least to spare ('best') or the most ('worst'); where that is nowhere, onto
the cluster with the most, if it has the least amounts: these count as no more than a cluster has at all. On TapFinger's
benchmark such rules beat every published baseline; `fairlead tune` finds the parameters for a scenario.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Reason
from fairlead.domain.task_facts import TaskFacts
from fairlead.domain.task_records import START, UNSEEN, Placements, Snapshot
from fairlead.domain.tasks import UNNEEDED
from fairlead.policies.jit import inlined, jit
from fairlead.policies.tasks.allocations import number_of, unit_of
from fairlead.policies.tasks.interface import task_policy

_BLOCKED = int(Reason.UNREACHABLE | Reason.NOT_ALLOWED)


def parameters(facts: TaskFacts) -> Any:
    """The tuned rule as the policy takes it: how clusters are compared, then ranks, wanted and least."""
    rule = facts.tuned_rule
    if rule is None:
        raise UserError(f"{facts.name} has no tuned_rule: `fairlead tune` finds one")
    ranks = [rule.first.index(name) if name in rule.first else len(rule.first) for name in facts.types]
    tables = [
        given.get(task_type, {}).get(resource, facts.minimum[j, k])
        for given in (rule.wanted, rule.least)
        for j, task_type in enumerate(facts.types)
        for k, resource in enumerate(facts.resources)
    ]
    head = [facts.resources.index(rule.by), rule.packing == "best", len(ranks)]
    return np.array([*head, *ranks, *tables], np.float64)


@task_policy("tuned-rule", prepare=parameters)
def tuned_rule(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    return place(snapshot, parameters, False, out)


@jit
def place(snapshot: Snapshot, parameters: Any, thrifty: bool, out: Placements) -> int:
    """What a rule of this family starts; a thrifty one gives no more than makes a task faster."""
    types, (clusters, resources) = int(parameters[2]), snapshot.free.shape
    rank, wanted = parameters[3 : 3 + types], parameters[3 + types : 3 + types * (1 + resources)]
    least = parameters[3 + types * (1 + resources) :]
    free, taken = snapshot.free.copy(), np.zeros(clusters, np.bool_)
    order = _order(snapshot, rank)
    placed = 0
    for p in order:
        task = snapshot.pending[p]
        first = task.type * resources
        n = _cluster(
            snapshot, p, free, taken, wanted[first : first + resources], least[first : first + resources], parameters
        )
        if n < 0:
            continue
        for k in range(resources):
            low = snapshot.minimum[task.type, k]
            amount = max(low, min(int(wanted[first + k]), snapshot.most[k], free[n, k])) if snapshot.elastic[k] else low
            out.amounts[placed, k] = amount
        if thrifty:
            _trim(snapshot, task.type, out.amounts[placed])
        for k in range(resources):
            free[n, k] -= out.amounts[placed, k]
        row = out.rows[placed]
        row.task, row.cluster, row.what = task.task, n, START
        taken[n] = snapshot.single
        placed += 1
    return placed


@inlined
def _trim(snapshot: Snapshot, task_type: int, amounts: Any) -> None:
    """Cut amounts to the least with which a task of this type takes no more steps: of accelerators first."""
    number = number_of(amounts, snapshot.most, snapshot.elastic)
    longest = snapshot.steps[task_type, number]
    for role in range(UNNEEDED):
        for k in range(len(amounts)):
            if snapshot.role[k] == role and snapshot.elastic[k]:
                unit = unit_of(k, snapshot.most, snapshot.elastic)
                while (
                    amounts[k] > snapshot.minimum[task_type, k] and snapshot.steps[task_type, number - unit] <= longest
                ):
                    amounts[k], number = amounts[k] - 1, number - unit


@jit
def _order(snapshot: Snapshot, rank: Any) -> Any:
    """Rows of pending tasks by rank, number of clusters in reach and arrival."""
    count = len(snapshot.pending)
    keys, order = np.empty(count, np.int64), np.empty(count, np.int64)
    for p in range(count):
        task = snapshot.pending[p]
        reach = 0
        for n in range(snapshot.free.shape[0]):
            reach += (snapshot.excluded[p, n] & _BLOCKED) == 0
        key = ((int(rank[task.type]) << 40) - np.int64(task.waited)) + (reach << 20)
        q = p
        while q > 0 and keys[q - 1] > key:
            keys[q], order[q] = keys[q - 1], order[q - 1]
            q -= 1
        keys[q], order[q] = key, p
    return order


@inlined
def _cluster(snapshot: Snapshot, p: int, free: Any, taken: Any, wanted: Any, least: Any, parameters: Any) -> int:
    """Where a pending task goes; -1: it waits."""
    by, best_fit, task_type = int(parameters[0]), parameters[1] > 0, snapshot.pending[p].type
    chosen, tight = -1, False  # tight: all that is wanted is free there
    for n in range(snapshot.free.shape[0]):
        if snapshot.excluded[p, n] & UNSEEN or taken[n]:
            continue
        enough, whole = True, True
        for k in range(free.shape[1]):
            low = snapshot.minimum[task_type, k]
            if snapshot.elastic[k]:
                low = max(low, min(int(least[k]), snapshot.capacity[n, k]))
                whole &= free[n, k] >= max(low, int(wanted[k]))
            enough &= free[n, k] >= low
        if not enough:
            continue
        if chosen < 0:
            better = True
        elif best_fit and whole != tight:
            better = whole
        elif best_fit and whole:
            better = free[n, by] < free[chosen, by]
        else:
            better = free[n, by] > free[chosen, by]
        if better:
            chosen, tight = n, whole
    return chosen
