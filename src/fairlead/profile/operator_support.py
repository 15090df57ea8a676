"""What an accelerator can't run of a model, and why: families of accelerators (`support.yaml`) x an `Analysis`.

Called by `fairlead profile --for` and by prediction, which places nothing where it can't run. Data and pure functions;
a family is found by its name, or by a device of the detector's catalog.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from fairlead.detect.catalog import read_catalog
from fairlead.domain.errors import UserError, nearest
from fairlead.profile.analysis import Analysis, Layer

_FILE = Path(__file__).parent / "support.yaml"
_SIZED_BY_VALUES = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
RESTS = ("cpu", "cpu-from-there", "refused")


@dataclass(frozen=True, kw_only=True)
class Family:
    """Accelerators that run models by the same tools."""

    name: str
    title: str
    takes: tuple[str, ...]  # types that a model's products may be made of
    operators: tuple[str, ...] | None  # None: all
    rest: str  # of RESTS: a layer that can't run goes to the CPU; so do all that follow; no model that has one is taken
    source: str  # of all this
    assumed: str = ""  # what no source says of it
    devices: tuple[str, ...] = ()  # patterns of names in the detector's catalog
    operators_not: tuple[str, ...] = ()  # though the others are
    weighted: tuple[str, ...] = ()  # operators that need a constant weight
    layer_types_not: tuple[str, ...] = ()  # of analysis.LAYER_TYPES
    fixed_sizes: bool = False  # no sizes that depend on what is computed
    batch: int | None = None  # the most
    dimensions: int | None = None  # at most so many of a tensor's are greater than 1, the first left out

    def __post_init__(self) -> None:
        if self.rest not in RESTS:
            raise ValueError(f"{self.name}: rest: {self.rest!r}{nearest(self.rest, RESTS)}")


@dataclass(frozen=True)
class Problem:
    """Something that can't run."""

    layer: str  # empty: the model as a whole
    operator: str
    why: str


@cache
def families() -> dict[str, Family]:
    """All that are known, by name."""
    made = {}
    for name, content in yaml.safe_load(_FILE.read_text(encoding="utf-8"))["families"].items():
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
        operators = None if values["operators"] == "all" else values["operators"]
        made[name] = Family(**values | {"name": name, "operators": operators})
    return made


def family_of(name: str) -> Family:
    """The family of that name, or of that device."""
    known = families()
    if name in known:
        return known[name]
    devices = [entry.name for entry in read_catalog().entries]
    if name not in devices:
        near = nearest(name, [*known, *devices])
        named = f" (families: {', '.join(known)}; or a device of the catalog)"
        raise UserError(f"{name}: unknown accelerator{near if 'did you mean' in near else named}")
    for family in known.values():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in family.devices):
            return family
    raise UserError(f"{name}: there is no list of its operators yet; there are lists for {', '.join(known)}")


def unsupported(found: Analysis, family: Family, precision: str | None = None) -> list[Problem]:
    """What can't run, the model as a whole first, then layers in their order; `precision`: as if computed in that."""
    types = {precision} if precision else set(found.precisions)
    problems = []
    if wrong := sorted(types - set(family.takes)):
        problems.append(_whole(f"computes in {', '.join(wrong)}; takes {' or '.join(family.takes)}"))
    batch = max((one.shape[0] for one in found.inputs if len(one.shape) > 1), default=1)
    if family.batch and batch > family.batch:
        problems.append(_whole(f"a batch of {batch}; takes {family.batch}"))
    sizes = _sizes_alone(found)
    for layer in found.layers:
        if layer.name not in sizes and (why := _why_not(layer, family)):
            problems.append(Problem(layer.name, layer.operator, why))
    return problems


def share_of_macs(found: Analysis, family: Family, problems: Collection[Problem]) -> float:
    """How much of the arithmetic runs on the accelerator, if what is wrong with the whole model is put right."""
    stopped = {problem.layer for problem in problems if problem.layer}
    if not found.macs or (family.rest == "refused" and stopped):
        return 0.0 if stopped else 1.0
    done = 0
    for layer in found.layers:
        if layer.name in stopped:
            if family.rest == "cpu-from-there":
                break
            continue
        done += layer.macs
    return done / found.macs


def _whole(why: str) -> Problem:
    return Problem("", "", why)


def _sizes_alone(found: Analysis) -> set[str]:
    """Names of layers that compute sizes from sizes: where all are fixed, a tool computes them once."""
    known: set[str] = set()  # tensors
    layers = set()
    for layer in found.layers:
        inputs = {tensor.name for tensor in layer.inputs}
        if layer.operator in ("Shape", "Size") or (inputs and inputs <= known):
            known |= {tensor.name for tensor in layer.outputs}
            layers.add(layer.name)
    return layers


def _why_not(layer: Layer, family: Family) -> str:
    """Why a layer can't run; empty when it can."""
    operator = layer.operator
    listed = family.operators is None or {operator, operator.removeprefix("QLinear")} & set(family.operators)
    if not listed or operator in family.operators_not:
        return "not among its operators"
    if family.fixed_sizes and operator in _SIZED_BY_VALUES:
        return "the size of its output depends on its input, and all sizes must be fixed"
    if layer.layer_type in family.layer_types_not:
        return f"{layer.layer_type} convolutions are not among its operators"
    if operator in family.weighted and not layer.weights:
        return "needs a constant weight"
    most = max((sum(size > 1 for size in one.shape[1:]) for one in (*layer.inputs, *layer.outputs)), default=0)
    if family.dimensions and most > family.dimensions:
        return f"a tensor of {most} dimensions; takes {family.dimensions}"
    return ""
