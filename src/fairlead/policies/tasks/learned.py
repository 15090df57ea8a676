"""Runs TapFinger's bundles, without torch: one call decides for all clusters together.

Observe, ask the model for each cluster's slot and amounts, give a task that several want to one of them
(fairlead.policies.conflicts). A cluster that lost its task chooses again: in multi-task mode when the policy is asked
again, in single-task mode at once, beside what was started. When the model can't be asked, answers without sense, or
would start nothing while tasks wait and nothing runs, a rule decides and a counter goes up: the scenario's tuned rule,
or `min` where there is none. Found by name through `fairlead.sim.tasks.policy_catalog`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.decision import Decision
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Fallback, Reason
from fairlead.domain.task_facts import TaskFacts, needed
from fairlead.domain.task_records import RUNNING, START, UNSEEN, Placements, Snapshot
from fairlead.policies.bundle import Fault
from fairlead.policies.conflicts import prior_of, resolve
from fairlead.policies.jit import typed_kernel
from fairlead.policies.model_runtime import Clock, ModelRuntime, limits
from fairlead.policies.tasks.allocations import amounts_of, how_many
from fairlead.policies.tasks.bundle import TaskBundle, TaskManifest, shipped_task_bundles
from fairlead.policies.tasks.decider import TaskDecider
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.policies.tasks.minimum import minimum
from fairlead.policies.tasks.numba_signature import observations_type, placements_type, snapshot_type
from fairlead.policies.tasks.observe import Observations, observe
from fairlead.policies.tasks.tuned_rule import parameters as rule_parameters
from fairlead.policies.tasks.tuned_rule import tuned_rule

_FAILED: Final = -1


@dataclass(frozen=True)
class LearnedTaskPolicy(TaskPolicy):
    """A bundle under a name: that of its folder when it ships, else the path as it was given."""

    bundle: TaskBundle = field(kw_only=True, compare=False)

    @cached_property
    def hash(self) -> str:
        """Identifies manifest and model."""
        return self.bundle.hash

    def parameters(self, facts: TaskFacts) -> Any:
        """Those of the tuned rule, which decides where the model can't; none where there is no such rule."""
        self.bundle.check_made_for(self.name, facts)
        return np.zeros(0) if facts.tuned_rule is None else rule_parameters(facts)

    def decider(self, parameters: Any, clock: Clock | None = None) -> TaskDecider:
        """As TaskPolicy has it."""
        return Placer(self, parameters, clock)


class Placer(TaskDecider):
    """Decides by a model; for one thread."""

    def __init__(self, policy: LearnedTaskPolicy, parameters: Any, clock: Clock | None = None) -> None:
        super().__init__(policy, parameters)
        self.runtime = ModelRuntime(policy.bundle, clock)
        self._rule = fallback_rule(tuned=len(parameters) > 0)
        manifest = policy.bundle.manifest
        if isinstance(manifest, TaskManifest):
            self._prior = manifest.prior
            ends = [limits(low, high) for low, high in zip(manifest.low, manifest.high, strict=True)]
            self._limits = tuple(end for pair in ends for end in pair)

    @property
    def fault(self) -> Fault | None:
        """Why the model is never asked."""
        return self.runtime.fault

    def decide(self, snapshot: Snapshot, u: float, out: Placements) -> Decision:
        """As TaskDecider has it."""
        if not (snapshot.excluded == 0).any():
            return Decision(0, 1.0, self.name, self.hash)  # there is nothing to decide
        self.decisions += 1
        why, count = self.runtime.begin(), 0
        if why is None:
            why, count = self._agree(snapshot, out)
            if self.runtime.late() and why is None:
                why, count = Fallback.SLOW, 0
        if why is None and count == 0 and not len(snapshot.running):
            why = Fallback.IDLE
        if why is None:
            return Decision(count, 1.0, self.name, self.hash)
        self.fallbacks[why] += 1
        if count:  # what they agreed on before the model failed stays
            return Decision(count, 1.0, self.name, self.hash, why)
        count = int(self._rule.compiled(snapshot, self.parameters, u, out))
        return Decision(count, 1.0, self._rule.name, self._rule.hash, why)

    def _agree(self, snapshot: Snapshot, out: Placements) -> tuple[Fallback | None, int]:
        """How many placements the clusters have agreed on, and why the model was not asked further."""
        went, placed = np.zeros(len(snapshot.free), np.bool_), 0
        while True:
            before, (why, placed) = placed, self._ask(snapshot, went, out, placed)
            if why is not None:
                return why, before
            if not snapshot.single or placed == before or went.all():
                return None, placed
            snapshot = _with_started(snapshot, out, slice(before, placed))
            if not (snapshot.excluded[:, ~went] == 0).any():
                return None, placed

    def _ask(self, snapshot: Snapshot, went: Any, out: Placements, placed: int) -> tuple[Fallback | None, int]:
        """How many placements there are with those that the model makes now, and what was wrong with it."""
        look, settle = _compiled()
        seen, clusters = _room(snapshot), len(snapshot.free)
        if not look(snapshot, seen, *self._limits):
            return Fallback.RANGE, placed
        seen.fits[0, went] = 0.0
        answer = self.runtime.run(seen._asdict(), (1, clusters))
        if answer is None:
            return Fallback.OUTPUT, placed
        slot, allocation, score = (part[0] for part in answer)
        claims = np.empty(clusters, np.int64), np.zeros(clusters), np.zeros(snapshot.free.shape, np.int32)
        given = slot, allocation, score.astype(np.float64)
        placed = int(settle(snapshot, seen, *given, *claims, self._prior, went, out, placed))
        return (Fallback.OUTPUT, 0) if placed == _FAILED else (None, placed)


def fallback_rule(tuned: bool) -> TaskPolicy:
    """Who decides where a model can't, in a scenario with or without a tuned rule."""
    return tuned_rule if tuned else minimum


def learned_task_policies() -> dict[str, LearnedTaskPolicy]:
    """The bundles that come with the package, by name."""
    return {name: _policy(name, bundle, "fairlead") for name, bundle in shipped_task_bundles().items()}


def from_folder(name: str, folder: Path) -> LearnedTaskPolicy:
    """The bundle in a folder as a policy of that name. If it is broken a rule decides; one that is none is an error."""
    if not folder.is_dir():
        raise UserError(f"policy {name!r}: no such folder; a bundle is a folder with model.onnx and manifest.json")
    bundle = TaskBundle(folder)
    if bundle.kind in ("selector", "dispatcher"):
        raise UserError(f"policy {name!r}: it is a {bundle.kind}, which decides on requests, not on tasks")
    return _policy(name, bundle, "")


def _policy(name: str, bundle: TaskBundle, package: str) -> LearnedTaskPolicy:
    about = bundle.manifest
    summary = f"can't be used: {about.why}" if isinstance(about, Fault) else about.summary
    return LearnedTaskPolicy(name, _refuse, "python", "learned", summary, package=package, bundle=bundle)


def _refuse(snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
    raise TypeError("a bundle decides through its decider: see fairlead.policies.tasks.decider")


def _room(snapshot: Snapshot) -> Observations:
    """Room for what is there, and no more: the model takes any number of tasks."""
    clusters, rows = len(snapshot.free), len(snapshot.pending)
    resources = needed(snapshot.role)
    slots = int(((snapshot.excluded & UNSEEN) == 0).sum(axis=0).max())
    runs, width = max(1, len(snapshot.running)), resources + len(snapshot.minimum) + 2
    single = np.float32
    return Observations(
        np.empty((1, clusters, 2 * resources + 2), single),
        np.empty((1, clusters, resources), single),
        np.empty((1, rows, width), single),
        np.empty((1, runs, width), single),
        np.empty((1, clusters, slots), np.int64),
        np.empty((1, clusters, slots), single),
        np.empty((1, rows, clusters), single),
        np.empty((1, runs, clusters), single),
    )


def _with_started(snapshot: Snapshot, out: Placements, new: slice) -> Snapshot:
    """The snapshot after some placements, which all start tasks."""
    lines, amounts = out.rows[new], out.amounts[new]
    rows = [int(np.flatnonzero(snapshot.pending["task"] == task)[0]) for task in lines["task"]]
    runs = np.zeros(len(rows), RUNNING)
    for name in ("task", "type", "started", "executed", "restarts", "service", "left"):
        runs[name] = snapshot.pending[name][rows]
    runs["cluster"], runs["alive"] = lines["cluster"], snapshot.pending["waited"][rows]
    free = snapshot.free.copy()
    free[lines["cluster"]] -= amounts
    behind = (snapshot.excluded[rows] & Reason.QUEUED) != 0  # for these clusters they waited behind what they see
    return snapshot._replace(
        free=free,
        queued=snapshot.queued - behind.sum(axis=0).astype(snapshot.queued.dtype),
        pending=np.delete(snapshot.pending, rows),
        excluded=np.delete(snapshot.excluded, rows, 0),
        running=np.concatenate([snapshot.running, runs]),
        amounts=np.concatenate([snapshot.amounts, amounts]),
    )


def _look(
    snapshot: Snapshot, out: Observations, cluster_low: Any, cluster_high: Any, pending_low: Any, pending_high: Any,
    running_low: Any, running_high: Any,
) -> bool:  # fmt: skip
    """Observe, and whether all of it lies in the ranges of training. Empty rows do."""
    observe(snapshot, out, 0)
    inside = True
    for n in range(out.cluster.shape[1]):
        for f in range(len(cluster_low)):
            inside &= cluster_low[f] <= out.cluster[0, n, f] <= cluster_high[f]
    for p in range(len(snapshot.pending)):
        for f in range(len(pending_low)):
            inside &= pending_low[f] <= out.pending[0, p, f] <= pending_high[f]
    for r in range(len(snapshot.running)):
        for f in range(len(running_low)):
            inside &= running_low[f] <= out.running[0, r, f] <= running_high[f]
    return inside


def _settle(
    snapshot: Snapshot, seen: Observations, slot: Any, allocation: Any, score: Any,
    wanted: Any, prior: Any, amounts: Any, which: int, went: Any, out: Placements, placed: int,
) -> int:  # fmt: skip
    """Append the clusters' starts to the placements; how many there are. -1: the model's answer makes no sense.

    Fills in the claims of clusters and which clusters have acted: those that want nothing, and those that start a task.
    """
    clusters, slots = seen.slots.shape[1:]
    for n in range(clusters):
        wanted[n] = -1
        if not np.isfinite(score[n]) or allocation[n] < 0 or allocation[n] >= how_many(snapshot.most, snapshot.elastic):
            return -1
        if slot[n] < 0 or slot[n] >= slots or seen.fits[0, n, slot[n]] == 0:
            went[n] = True
            continue
        row = seen.slots[0, n, slot[n]]
        task_type = snapshot.pending[row].type
        amounts_of(allocation[n], snapshot.minimum, snapshot.most, snapshot.elastic, task_type, amounts[n])
        possible = True
        for k in range(amounts.shape[1]):
            possible &= snapshot.minimum[task_type, k] <= amounts[n, k] <= snapshot.free[n, k]
        if not possible:
            return -1
        wanted[n], prior[n] = row, prior_of(snapshot.free, n, snapshot.minimum, task_type, which)
    resolve(wanted, score, prior)
    for n in range(clusters):
        if wanted[n] >= 0:
            went[n] = True
            line = out.rows[placed]
            line.task, line.cluster, line.what = snapshot.pending[wanted[n]].task, n, START
            for k in range(amounts.shape[1]):
                out.amounts[placed, k] = amounts[n, k]
            placed += 1
    return placed


@cache
def _compiled() -> tuple[Any, Any]:
    whole, real = types.Array(types.int64, 1, "C"), types.Array(types.float64, 1, "C")
    claims = whole, real, types.Array(types.int32, 2, "C")
    shown = snapshot_type(), observations_type()
    flags = types.Array(types.boolean, 1, "C")
    answer = whole, whole, real, *claims, types.int64, flags, placements_type(), types.int64
    ranges = [types.Array(types.float32, 1, "C")] * 6
    return typed_kernel(_look, *shown, *ranges), typed_kernel(_settle, *shown, *answer)
