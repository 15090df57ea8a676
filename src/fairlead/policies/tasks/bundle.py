"""TapFinger's bundles: a folder with a model, "tasks-1" in and a choice for each cluster out, and what it was made for.

A bundle that can't be read is a `Fault`, and a rule decides instead; a bundle for other tasks is a UserError, since a
user who compares policies wants to know. Run by `learned`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.domain.errors import UserError, as_typed, one_line, shown
from fairlead.domain.outcomes import Fallback
from fairlead.domain.task_facts import TaskFacts, needed
from fairlead.domain.tasks import ROLES, role_by_name
from fairlead.policies.bundle import FORMAT, PLACER, Fault, ModelBundle, ModelManifest, checked_budget_us
from fairlead.policies.conflicts import PRIORS
from fairlead.policies.model_trial import Inputs
from fairlead.policies.tasks.observe import RANGED, VERSION, new_observations, widths
from fairlead.policies.tasks.speed_digest import speed_digests, speed_warning

SHIPPED: Final = Path(__file__).parent / "bundles"  #: Every folder in here is a task policy of its name.
OUTPUTS: Final = {"slot": "int64", "allocation": "int64", "score": "float32"}  #: Of a model, each (1, N).


def signature_of(facts: TaskFacts) -> dict[str, Any]:
    """What a model is made for, as manifests have it: types with their speeds, and the resources that they need."""
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
        "speeds": speed_digests(facts.types, facts.steps),
    }


def _without_names(tasks: dict[str, Any], part: str) -> list[Any]:
    """Resources or types of a signature, without the names of resources: those of another name do as well."""
    resources = tasks["resources"]
    if part == "resources":  # a manifest from before resources had roles names them by what they are
        return [(r.get("role", role_by_name(r["name"])), r["most"], r["elastic"]) for r in resources]
    return [(t["name"], [t["minimum"].get(r["name"], 0) for r in resources]) for t in tasks["types"]]


@dataclass(frozen=True, kw_only=True)
class TaskManifest(ModelManifest):
    """What a placer's bundle says about itself."""

    tasks: dict[str, Any]  # what it was made for, as `signature_of` has it
    prior: int  # who gets a task that several want, see `fairlead.policies.conflicts`
    low: tuple[Any, ...]  # float32, of each of RANGED: the least and
    high: tuple[Any, ...]  # the most of each column that was seen in training

    @property
    def outputs(self) -> Mapping[str, str]:
        """As ModelManifest has it."""
        return OUTPUTS

    @property
    def trials(self) -> Sequence[Inputs]:
        """As ModelManifest has it."""
        sizes = len(self.tasks["resources"]), len(self.tasks["types"])
        shown = new_observations(1, 3, 2, 4, *sizes)._asdict()
        return [{name: (array.shape, str(array.dtype)) for name, array in shown.items()}]


class TaskBundle(ModelBundle[TaskManifest]):
    """One folder of a placer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _checked)

    @cached_property
    def arithmetic(self) -> str:
        """What the model makes of some inputs here: the last digits, and so choices, differ between processors."""
        if isinstance(self.model, Fault) or isinstance(self.manifest, Fault):
            return ""
        tasks, digest = self.manifest.tasks, hashlib.sha256()
        for k in range(16):
            seen = new_observations(1, 3, 4, 5, len(tasks["resources"]), len(tasks["types"]))
            for array in (seen.cluster, seen.pending, seen.running):
                array[:] = np.linspace(0.0, 1.0 + k, array.size).reshape(array.shape)
            seen.slots[:], seen.fits[:], seen.seen[:], seen.runs_on[:], seen.free[:] = range(4), 1.0, 1.0, 1.0, 1.0
            try:
                digest.update(self.model.run(seen._asdict(), (1, 3))[2].tobytes())
            except Exception:  # then the rule decides
                return ""
        return digest.hexdigest()[:12]

    @property
    def trained_on(self) -> str:
        """The scenarios, with what was set otherwise."""
        assert isinstance(self.manifest, TaskManifest)
        (place,), rates = self.manifest.document["scenarios"], self.manifest.document["settings"]["rates"]
        return " ".join([place["name"], *place["overrides"], *(["rates", *map(str, rates)] if rates else [])])

    def check_made_for(self, name: str, facts: TaskFacts) -> None:
        """Raise a UserError when the model was made for other tasks or resources than these."""
        if isinstance(self.manifest, Fault):
            return
        here, wanted = signature_of(facts), self.manifest.tasks
        for part in ("resources", "types"):
            if _without_names(here, part) != _without_names(wanted, part):
                other = f"{part}: {_differing(wanted, here, part)}; {facts.name} has {_differing(here, wanted, part)}"
                raise UserError(f"policy {name!r} was trained for other {other}")

    def warning(self, name: str, facts: TaskFacts) -> str:
        """What to know before its figures on these tasks are believed, in a line; empty when there is nothing."""
        if isinstance(self.manifest, Fault):
            return ""  # a rule decides
        why = speed_warning(self.manifest.tasks.get("speeds"), speed_digests(facts.types, facts.steps))
        return why and f"policy {name!r} {why}, so it may decide badly on {facts.name} with these settings"


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


def _checked(document: dict[str, Any]) -> TaskManifest | Fault:
    try:
        if document["kind"] != PLACER:
            kind = as_typed(str(document["kind"]))
            return Fault(Fallback.CORRUPT, f"it is a {kind}, which decides on requests, not on tasks")
        if document["format"] != FORMAT:
            return Fault(Fallback.VERSION, f"it has format {shown(document['format'])}, this version runs {FORMAT}")
        if document["features"] != VERSION:
            return Fault(Fallback.VERSION, f"trained on {shown(document['features'])}, this version shows {VERSION!r}")
        return _manifest(document)
    except KeyError as error:
        return Fault(Fallback.CORRUPT, f"manifest.json: lacks {error}")
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        return Fault(Fallback.CORRUPT, f"manifest.json: {one_line(error)}")


def _manifest(document: dict[str, Any]) -> TaskManifest:
    tasks = document["tasks"]
    resources, types = (len(_without_names(tasks, part)) for part in ("resources", "types"))
    if document["prior"] not in PRIORS:
        raise ValueError(f"its prior is {document['prior']!r}, expected {' or '.join(PRIORS)}")
    low, high = (tuple(np.array(document[end][part], np.float32) for part in RANGED) for end in ("low", "high"))
    for ends in (low, high):
        if [part.shape for part in ends] != [(width,) for width in widths(resources, types)]:
            raise ValueError("low and high need a number for each column")
    return TaskManifest(
        kind=document["kind"],
        summary=str(document["summary"]),
        budget_us=checked_budget_us(document["budget_us"]),
        sha256=str(document["sha256"]),
        document=document,
        tasks=tasks,
        prior=PRIORS[document["prior"]],
        low=low,
        high=high,
    )


def shipped_task_bundles() -> dict[str, TaskBundle]:
    """The bundles that come with the package, by name."""
    folders = sorted(folder for folder in SHIPPED.glob("*") if (folder / "manifest.json").is_file())
    return {folder.name: TaskBundle(folder) for folder in folders}
