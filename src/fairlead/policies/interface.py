"""The interface every policy has, and the registry that finds them, ours and third parties'.

    decide(request, candidates, excluded, u) -> int

`request` is a REQUEST record, `candidates` an array of CANDIDATE records, `excluded` reason bits per candidate
(0 = feasible), `u` a uniform number of this decision. It returns the index of a feasible candidate, or -1 to reject.
Fields are read as attributes (`candidates[c].net_ms`). A decision is a pure function of these arguments.

The simulator, the gateway and the controller call policies through this module; it calls none of them.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal

from fairlead.domain.errors import UserError, nearest
from fairlead.domain.records import FORESEEN
from fairlead.policies.entry_points import load_policies
from fairlead.policies.policy_code import function_hash, may_read, package_of, reads_argument, summary_of

if TYPE_CHECKING:
    from fairlead.policies.bundle import Bundle, Fault
    from fairlead.policies.decider import Decider, Setting
    from fairlead.policies.model_runtime import Clock

#: `compiled` and `python` are functions as above. `batch` and `selector` are learned (`fairlead.policies.learned`): the
#: one decides requests, the other which compiled rule decides in the next window.
Kind = Literal["compiled", "python", "batch", "selector"]
ENTRY_POINT_GROUP = "fairlead.policies"


@dataclass(frozen=True)
class Policy:
    """A named decision rule. Hosts ask for what it can do (`compiles`, `learned`, `selects`), not for its kind."""

    name: str
    function: Callable[[Any, Any, Any, float], int]
    kind: Kind = "compiled"
    source: str = ""  # the system or paper that it comes from
    summary: str = ""
    package: str = field(default="fairlead", compare=False)
    weights: tuple[str, ...] = field(default=(), kw_only=True)  # constants of its module that its name can set
    base: str = field(default="", kw_only=True)  # the policy of which this is one with other weights
    probability: Callable[[Any, Any, int], float] | None = None  # of a choice: candidates, excluded, choice -> 0..1
    bundle: Bundle | None = field(default=None, compare=False, kw_only=True)  # of a learned policy

    def decider(self, setting: Setting, clock: Clock | None = None) -> Decider:
        """The policy at work in a place; a clock, for live use, lets learned policies keep their time budget."""
        from fairlead.policies.decider import PythonDecider, RuleDecider

        return RuleDecider(self) if self.compiles else PythonDecider(self)

    @property
    def compiles(self) -> bool:
        """Whether it is a rule that compiled code can call by itself."""
        return self.kind == "compiled"

    @property
    def learned(self) -> bool:
        """Whether a model decides."""
        return self.bundle is not None

    @property
    def selects(self) -> bool:
        """Whether it decides windows, by choosing their rule, and no requests."""
        return self.kind == "selector"

    @property
    def fallback_name(self) -> str:
        """The rule that decides when the model can't; empty where there is no model."""
        return "" if self.bundle is None else self.bundle.fallback

    @property
    def model_fault(self) -> Fault | None:
        """Why the model is never asked. Opens the model."""
        return None if self.bundle is None else self.bundle.fault

    @property
    def arithmetic(self) -> str:
        """What the model computes on this machine; empty where there is no model."""
        return "" if self.bundle is None else self.bundle.arithmetic

    def identity(self) -> dict[str, Any]:
        """Which code, or which bundle, decides, as plain values."""
        who: dict[str, Any] = {"package": self.package, "kind": self.kind, "hash": self.hash}
        return who | ({"fallback": self.fallback_name} if self.learned else {})

    @cached_property
    def entry_point(self) -> Any:
        """The compiled function itself, called with a REQUEST record and arrays as in `decide`."""
        return next(iter(self.compiled.overloads.values())).entry_point

    @cached_property
    def draws(self) -> bool:
        """Whether it may look at `u`: if not, a snapshot has one answer."""
        return reads_argument(self.function, 3)

    @cached_property
    def foresees(self) -> bool:
        """Whether it may look at what is foreseen, which hosts keep up only where somebody does."""
        return not self.compiles or may_read(self.function, FORESEEN)

    def probability_of(self, request: Any, candidates: Any, excluded: Any, choice: int) -> float:
        """The probability of a choice on a snapshot; NaN when it draws and does not say how."""
        if not self.draws or not (excluded == 0).any():
            return 1.0
        if self.probability is None:
            return math.nan
        return float(self.probability(candidates.copy(), excluded.copy(), choice))  # it can't change what it is shown

    @cached_property
    def compiled(self) -> Any:
        """The function as Numba code of exactly the interface's signature, usable as a function pointer."""
        from fairlead.policies.jit import compiled_rule
        from fairlead.policies.numba_signature import decide_signature

        # Third parties' code is compiled anew by each process: a cache would not notice a change of its helpers, nor
        # that of a constant.
        return compiled_rule(self.function, decide_signature(), kept=self.package == "fairlead" and not self.base)

    @property
    def values(self) -> dict[str, float]:
        """The weights that it has."""
        known: Any = getattr(self.function, "__globals__", {})
        return {weight: float(known[weight.upper()]) for weight in self.weights}

    def weighted(self, given: Mapping[str, float]) -> Policy:
        """The same rule with other weights, which its name tells: `best-fit:least=0.5`."""
        if not given:
            return self
        values = {weight.upper(): float(value) for weight, value in given.items()}
        words = [f"{weight.lower()}={value!r}".removesuffix(".0") for weight, value in values.items()]  # every digit
        own: Any = self.function
        function = FunctionType(own.__code__, own.__globals__ | values, own.__name__, own.__defaults__, own.__closure__)
        function.__module__, function.__doc__, function.__qualname__ = own.__module__, own.__doc__, own.__qualname__
        return replace(self, name=":".join((self.name, *words)), function=function, base=self.name)

    @cached_property
    def hash(self) -> str:
        """Identifies the code that decided, for the decision log."""
        return function_hash(self.function)


def policy(
    name: str,
    *,
    source: str = "",
    kind: Literal["compiled", "python"] = "compiled",
    probability: Callable[[Any, Any, int], float] | None = None,
    weights: Sequence[str] = (),
) -> Callable[[Callable[..., int]], Policy]:
    """Make a function a policy. `compiled` functions must be Numba code; `python` ones can do anything, slower.

    A policy that draws, by `u`, can say the `probability` of a choice, for the decision log: in plain Python, given
    candidates, excluded and choice. `weights` names numbers of its module, in small letters, that users may set by the
    name: `my-rule:margin=0.2` sets MARGIN.
    """

    def wrap(function: Callable[..., int]) -> Policy:
        for weight in weights:
            if weight.upper() not in getattr(function, "__globals__", ()):
                raise TypeError(
                    f"policy {name!r}: the weight {weight!r} needs a number {weight.upper()} above the rule"
                )
        told = summary_of(function), package_of(function), probability
        return Policy(name, function, kind, source, *told, weights=tuple(weights))

    return wrap


def _builtin() -> dict[str, Policy]:
    import fairlead.policies as package

    found: dict[str, Policy] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        for value in vars(import_module(f"{package.__name__}.{module}")).values():
            if isinstance(value, Policy):
                found[value.name] = value
    return found


@cache
def registry() -> tuple[dict[str, Policy], dict[str, str]]:
    """All policies by name, and what went wrong with third-party ones that did not load (entry point -> one line)."""
    from fairlead.policies.bundle_registry import shipped

    ours = _builtin() | shipped()
    theirs, broken = load_policies(ENTRY_POINT_GROUP, Policy, ours)
    return ours | theirs, broken


def rules() -> dict[str, Policy]:
    """All policies but the learned ones, by name."""
    return {name: found for name, found in registry()[0].items() if not found.learned}


def find(name: str, also: Iterable[str] = ()) -> Policy:
    """The policy of that name, or the bundle in that folder; else a UserError with the nearest of them and `also`."""
    from fairlead.policies.bundle_registry import from_folder, is_path

    found, broken = registry()
    if name in found:
        return found[name]
    if name in broken:
        raise UserError(broken[name])
    if is_path(name):
        return from_folder(name)
    if ":" in name:
        return _with_weights(name, also)
    raise UserError(f"unknown policy {name!r}{nearest(name, [*found, *also])}")


def _with_weights(name: str, also: Iterable[str]) -> Policy:
    """The rule of a name such as `best-fit:least=0.5`."""
    base, *words = name.split(":")
    rule, given = find(base, also), dict[str, float]()
    if not rule.weights:
        raise UserError(f"{name}: {base} has no weights to set")
    for word in words:
        weight, _, value = word.partition("=")
        if weight not in rule.weights:
            raise UserError(f"{name}: {base} has no weight {weight!r}{nearest(weight, rule.weights)}")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UserError(f"{name}: {weight} should be a number, as in {base}:{weight}=0.5")
        given[weight] = number
    return rule.weighted(given)
