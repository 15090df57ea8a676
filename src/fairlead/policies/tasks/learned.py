"""Runs TapFinger's bundles: a folder with `model.onnx` and `manifest.json`, without torch.

One call decides for all clusters together: observe, ask the model for each cluster's slot and amounts, give a task that
several want to one of them (fairlead.policies.conflicts). Who lost chooses again: in multi-task mode when the policy is
asked again, in single-task mode at once, beside what was started. When the model fails, or would start nothing while
tasks wait and nothing runs, the scenario's tuned rule decides and a counter goes up. A folder that is no bundle, or one
for other tasks, is a UserError: whoever compares policies wants to know. Found by name through
`fairlead.sim.tasks.policy_catalog`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.errors import UserError, one_line
from fairlead.domain.outcomes import Fallback, Reason
from fairlead.domain.task_facts import TaskFacts, needed
from fairlead.domain.task_records import RUNNING, START, UNSEEN, Placements, Snapshot
from fairlead.domain.tasks import ROLES, role_by_name
from fairlead.policies.bundle import FORMAT, PLACER, Fault, folder_hash, read_manifest
from fairlead.policies.conflicts import PRIORS, prior_of, resolve
from fairlead.policies.jit import typed_kernel
from fairlead.policies.model_file import open_session
from fairlead.policies.tasks.allocations import amounts_of
from fairlead.policies.tasks.interface import TaskPolicy
from fairlead.policies.tasks.numba_signature import observations_type, placements_type, snapshot_type
from fairlead.policies.tasks.observe import VERSION, Observations, new_observations, observe
from fairlead.policies.tasks.tuned_rule import parameters as rule_parameters
from fairlead.policies.tasks.tuned_rule import tuned_rule

SHIPPED: Final = Path(__file__).parent / "bundles"  #: Every folder in here is a task policy of its name.
OUTPUTS: Final = ["slot", "allocation", "score"]  #: Of a model, each (1, N).


def signature_of(facts: TaskFacts) -> dict[str, Any]:
    """What a model is made for, as manifests have it: types, and the resources that they need, in order."""
    resources = range(needed(facts.role))
    return {
        "resources": [
            {
                "name": facts.resources[k],
                "role": ROLES[facts.role[k]],
                "most": int(facts.most[k]),
                "elastic": bool(facts.elastic[k]),
            }
            for k in resources
        ],
        "types": [
            {"name": name, "minimum": {facts.resources[k]: int(facts.minimum[j, k]) for k in resources}}
            for j, name in enumerate(facts.types)
        ],
    }


def _without_names(tasks: dict[str, Any], part: str) -> list[Any]:
    """Resources or types of a signature, without the names of resources: those of another name do as well."""
    resources = tasks["resources"]
    if part == "resources":  # a manifest from before resources had roles names them by what they are
        return [(r.get("role", role_by_name(r["name"])), r["most"], r["elastic"]) for r in resources]
    return [(t["name"], [t["minimum"].get(r["name"], 0) for r in resources]) for t in tasks["types"]]


@dataclass(frozen=True)
class LearnedTaskPolicy(TaskPolicy):
    """A bundle under a name: that of its folder when it ships, else the path as it was given."""

    placer: Placer = field(kw_only=True, compare=False)

    @cached_property
    def hash(self) -> str:
        """Identifies manifest and model."""
        return folder_hash(self.placer.folder)

    def opened(self) -> LearnedTaskPolicy:
        """Itself, with its model; a UserError says what is wrong with that."""
        try:
            _ = self.placer.session
        except UserError as error:
            raise UserError(f"policy {self.name!r}: {error}") from None
        return self

    def parameters(self, facts: TaskFacts) -> Any:
        """Those of the tuned rule, which decides where the model can't."""
        here, wanted = signature_of(facts), self.placer.document["tasks"]
        for part in ("resources", "types"):
            if _without_names(here, part) != _without_names(wanted, part):
                other = f"{part}: {_differing(wanted, here, part)}; {facts.name} has {_differing(here, wanted, part)}"
                raise UserError(f"policy {self.name!r} was trained for other {other}")
        return rule_parameters(facts)


def _differing(one: dict[str, Any], other: dict[str, Any], part: str) -> str:
    """What of a part is not in the other signature, in words; if there is nothing, the names of all."""
    known = _without_names(other, part)
    some = [item for item, bare in zip(one[part], _without_names(one, part), strict=True) if bare not in known]
    return "; ".join(map(_words, some)) or ", ".join(str(item["name"]) for item in one[part])


def _words(item: dict[str, Any]) -> str:
    """A resource or a type, such as `gpu (most 8, elastic)` or `convnet (minimum cpu 2 gpu 1)`."""
    if "minimum" in item:
        return f"{item['name']} (minimum {' '.join(f'{name} {amount}' for name, amount in item['minimum'].items())})"
    return f"{item['name']} (most {item['most']}{', elastic' if item['elastic'] else ''})"


class Placer:
    """Decides by a model; for one thread. `decisions` and `fallbacks` count what it did."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.document = folder, _manifest(folder)
        self.decisions, self.fallbacks = 0, Counter[Fallback]()
        self._prior = PRIORS[self.document["prior"]]

    @cached_property
    def session(self) -> Any:
        """The model, opened when it is first asked for."""
        return _session(self.folder, self.document["sha256"])

    @cached_property
    def arithmetic(self) -> str:
        """What the model makes of some inputs here: the last digits, and so choices, differ between processors."""
        resources, kinds = (len(self.document["tasks"][part]) for part in ("resources", "types"))
        digest = hashlib.sha256()
        for k in range(16):
            seen = new_observations(1, 3, 4, 5, resources, kinds)
            for array in (seen.cluster, seen.pending, seen.running):
                array[:] = np.linspace(0.0, 1.0 + k, array.size).reshape(array.shape)
            seen.slots[:], seen.fits[:], seen.seen[:], seen.runs_on[:], seen.free[:] = range(4), 1.0, 1.0, 1.0, 1.0
            digest.update(self.session.run(OUTPUTS, seen._asdict())[2].tobytes())
        return digest.hexdigest()[:12]

    @property
    def trained_on(self) -> str:
        """The scenarios, with what was set otherwise."""
        (place,), rates = self.document["scenarios"], self.document["settings"]["rates"]
        return " ".join([place["name"], *place["overrides"], *(["rates", *map(str, rates)] if rates else [])])

    def account(self) -> dict[str, Any]:
        """How many decisions it was asked for, and how often the rule made them, by reason."""
        reasons = {reason.value: self.fallbacks[reason] for reason in Fallback if self.fallbacks[reason]}
        return {"decisions": self.decisions, "fallbacks": reasons}

    def decide(self, snapshot: Snapshot, parameters: Any, u: float, out: Placements) -> int:
        """See `fairlead.policies.tasks.interface`; the parameters are the tuned rule's."""
        if not (snapshot.excluded == 0).any():
            return 0  # there is nothing to decide
        self.decisions += 1
        count = self._agree(snapshot, out)
        if count > 0 or (count == 0 and len(snapshot.running)):
            return count
        if count == 0:
            self.fallbacks[Fallback.IDLE] += 1
        return int(tuned_rule.compiled(snapshot, parameters, u, out))

    def _agree(self, snapshot: Snapshot, out: Placements) -> int:
        """How many placements the clusters have agreed on; below 0 when the model failed."""
        went, placed = np.zeros(len(snapshot.free), np.bool_), 0
        while True:
            before, placed = placed, self._ask(snapshot, went, out, placed)
            if placed < 0:
                self.fallbacks[Fallback.OUTPUT] += 1
                return before or placed  # what they agreed on before stays
            if not snapshot.single or placed == before or went.all():
                return placed
            snapshot = _with_started(snapshot, out, slice(before, placed))
            if not (snapshot.excluded[:, ~went] == 0).any():
                return placed

    def _ask(self, snapshot: Snapshot, went: Any, out: Placements, placed: int) -> int:
        """How many placements there are with those that the model makes now; below 0 when it failed."""
        (look, settle), session = _compiled(), self.session
        seen, clusters = _room(snapshot), len(snapshot.free)
        look(snapshot, seen)
        seen.fits[0, went] = 0.0
        try:
            answer = session.run(OUTPUTS, seen._asdict())
            slot, allocation, score = (part[0] for part in answer)
        except Exception:  # ONNX Runtime: out of memory, say
            return -1
        claims = np.empty(clusters, np.int64), np.zeros(clusters), np.zeros(snapshot.free.shape, np.int32)
        given = slot, allocation, score.astype(np.float64)
        return int(settle(snapshot, seen, *given, *claims, self._prior, went, out, placed))


def learned_task_policies() -> dict[str, LearnedTaskPolicy]:
    """The bundles that come with the package, by name."""
    folders = sorted(folder for folder in SHIPPED.glob("*") if (folder / "manifest.json").is_file())
    return {folder.name: from_folder(folder.name, folder) for folder in folders}


def from_folder(name: str, folder: Path) -> LearnedTaskPolicy:
    """The bundle in a folder as a policy of that name; a UserError says what is wrong with it."""
    try:
        placer = Placer(folder)
    except UserError as error:
        raise UserError(f"policy {name!r}: {error}") from None
    summary = str(placer.document["summary"])
    return LearnedTaskPolicy(name, placer.decide, "python", "learned", summary, placer=placer)


def _manifest(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise UserError("no such folder; a bundle is a folder with model.onnx and manifest.json")
    document = read_manifest(folder / "manifest.json")
    if isinstance(document, Fault):
        raise UserError(document.why)
    try:
        if document["format"] != FORMAT:
            raise UserError(f"it has format {document['format']}, this version runs {FORMAT}")
        if document["kind"] != PLACER:
            raise UserError(f"it is a {document['kind']}, which places no tasks: another world's")
        if document["features"] != VERSION:
            raise UserError(f"trained on {document['features']!r}, this version shows {VERSION!r}")
        _ = document["sha256"], document["summary"]
        _ = [_without_names(document["tasks"], part) for part in ("resources", "types")]
        if document["prior"] not in PRIORS:
            raise UserError(f"its prior is {document['prior']!r}, expected {' or '.join(PRIORS)}")
    except KeyError as error:
        raise UserError(f"manifest.json: lacks {error}") from None
    except (AttributeError, TypeError) as error:
        raise UserError(f"manifest.json: {one_line(error)}") from None
    return document


@cache
def _session(folder: Path, sha256: str) -> Any:
    try:
        content = (folder / "model.onnx").read_bytes()
    except OSError as error:
        raise UserError(f"model.onnx: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError("model.onnx is not the one that manifest.json names (sha256)")
    try:
        return open_session(content)
    except Exception as error:  # ONNX Runtime has many ways to say no
        raise UserError(f"model.onnx: {one_line(error)}") from None


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


def _look(snapshot: Snapshot, out: Observations) -> None:
    observe(snapshot, out, 0)


def _settle(
    snapshot: Snapshot, seen: Observations, slot: Any, allocation: Any, score: Any,
    wanted: Any, prior: Any, amounts: Any, which: int, went: Any, out: Placements, placed: int,
) -> int:  # fmt: skip
    """Write down who starts what, after what is placed; how many do. -1: the answer makes no sense.

    The claims of clusters are filled in, and who has had its go: who wants nothing, or starts something.
    """
    clusters, slots = seen.slots.shape[1:]
    for n in range(clusters):
        wanted[n] = -1
        if not np.isfinite(score[n]):
            return -1
        if slot[n] < 0 or slot[n] >= slots or seen.fits[0, n, slot[n]] == 0:
            went[n] = True
            continue
        row = seen.slots[0, n, slot[n]]
        kind = snapshot.pending[row].type
        amounts_of(allocation[n], snapshot.minimum, snapshot.most, snapshot.elastic, kind, amounts[n])
        possible = True
        for k in range(amounts.shape[1]):
            possible &= snapshot.minimum[kind, k] <= amounts[n, k] <= snapshot.free[n, k]
        if not possible:
            return -1
        wanted[n], prior[n] = row, prior_of(snapshot.free, n, snapshot.minimum, kind, which)
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
    return typed_kernel(_look, *shown), typed_kernel(_settle, *shown, *answer)
