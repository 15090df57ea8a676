"""The interface of task policies, and the registry that finds them.

    decide(snapshot, parameters, u, out) -> int

`snapshot` is a Snapshot, `parameters` what the policy has made of the TaskFacts (float64, any length), `u` a uniform
number of this decision, `out` the Placements to write to; it returns how many it wrote. In multi-task mode it is asked
again until it places nothing, then time goes on; in single-task mode time goes on after each answer, and a cluster
starts one task at most. `compiled` ones are Numba code of exactly this signature, `python` ones anything;
a `planner` is given the world itself in the place of the snapshot (`fairlead.sim.tasks.handle`), to try things on
copies of it.

Resources have the same order in facts and snapshots, by role and not by file; the numbers of allocations are those of
`fairlead.policies.tasks.allocations`. A decision is a pure function of these arguments. What a policy knows beyond what
can be seen, and whether it interferes with tasks that run, is declared, and it is shown no more than that.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.domain.task_facts import TaskFacts
from fairlead.domain.task_records import KNOWLEDGE
from fairlead.policies.guard import Guard
from fairlead.policies.policy_code import function_hash, package_of, reads_argument, summary_of

if TYPE_CHECKING:
    from fairlead.policies.bundle import Fault
    from fairlead.policies.model_runtime import Clock
    from fairlead.policies.tasks.bundle import TaskBundle
    from fairlead.policies.tasks.decider import TaskDecider

Knowledge = Literal["progress", "speed"]
ENTRY_POINT_GROUP = "fairlead.task_policies"  #: Of third parties, see `fairlead.sim.tasks.policy_catalog`.


@dataclass(frozen=True)
class TaskPolicy:
    """A named way to place tasks. Hosts ask for what it can do, as of a Policy, not for its kind."""

    name: str
    function: Callable[..., int]
    kind: Literal["compiled", "python", "planner"] = "compiled"
    source: str = ""
    summary: str = ""
    knows: tuple[Knowledge, ...] = ()  # progress of tasks, speed of types
    preempts: bool = False
    resizes: bool = False
    prepare: Callable[[TaskFacts], Any] | None = None  # its parameters
    package: str = field(default="fairlead", compare=False)
    bundle: TaskBundle | None = field(default=None, compare=False, kw_only=True)  # of a learned policy

    @cached_property
    def compiled(self) -> Any:
        """The function as Numba code of exactly the interface's signature."""
        from fairlead.policies.jit import compiled_rule
        from fairlead.policies.tasks.numba_signature import decide_signature

        return compiled_rule(self.function, decide_signature(), kept=self.package == "fairlead")

    def parameters(self, facts: TaskFacts) -> Any:
        """What it makes of the facts, float64 (P,). It sees speeds only if it declares that it knows them."""
        if "speed" not in self.knows:
            facts = replace(facts, steps=np.zeros((0, 0)))
        with Guard(self.name, self.prepare, "failed while it prepared", passed=(UserError,)):  # the scenario lacks it
            return np.ascontiguousarray(self.prepare(facts) if self.prepare else (), np.float64)

    def decider(self, parameters: Any, clock: Clock | None = None) -> TaskDecider:
        """The policy at work with its parameters; a clock, for live use, lets learned ones keep their time budget."""
        from fairlead.policies.tasks.decider import TaskRuleDecider

        return TaskRuleDecider(self, parameters)

    @property
    def learned(self) -> bool:
        """Whether a model decides."""
        return self.bundle is not None

    @property
    def model_fault(self) -> Fault | None:
        """Why the model is never asked. Opens the model."""
        return None if self.bundle is None else self.bundle.fault

    @property
    def arithmetic(self) -> str:
        """What the model computes on this machine; empty where there is no model."""
        return "" if self.bundle is None else self.bundle.arithmetic

    def warning(self, facts: TaskFacts) -> str:
        """What to know before its figures on these tasks are believed, in a line; empty when there is nothing."""
        return "" if self.bundle is None else self.bundle.warning(self.name, facts)

    def identity(self) -> dict[str, Any]:
        """Which code, or which bundle, decides, and what it may know and do, as plain values."""
        powers = {"knows": list(self.knows), "preempts": self.preempts, "resizes": self.resizes}
        return {"package": self.package, "kind": self.kind, "hash": self.hash} | powers

    @cached_property
    def draws(self) -> bool:
        """Whether it may look at `u`: if not, a snapshot has one answer."""
        return reads_argument(self.function, 2)

    @property
    def known(self) -> int:
        """What it knows, as bits."""
        return sum(KNOWLEDGE[name] for name in self.knows)

    @cached_property
    def hash(self) -> str:
        """Identifies the code that decided."""
        return function_hash(self.function, with_module=True)


def task_policy(
    name: str,
    *,
    source: str = "",
    kind: Literal["compiled", "python", "planner"] = "compiled",
    knows: tuple[Knowledge, ...] = (),
    preempts: bool = False,
    resizes: bool = False,
    prepare: Callable[[TaskFacts], Any] | None = None,
) -> Callable[[Callable[..., int]], TaskPolicy]:
    """Make a function a task policy."""

    def wrap(function: Callable[..., int]) -> TaskPolicy:
        summary, package = summary_of(function), package_of(function)
        return TaskPolicy(name, function, kind, source, summary, knows, preempts, resizes, prepare, package)

    return wrap


@cache
def decision_rules() -> dict[str, TaskPolicy]:
    """All task policies of this package by name; `fairlead.sim.tasks.policy_catalog` also has those that simulate."""
    import fairlead.policies.tasks as package

    found: dict[str, TaskPolicy] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
        for value in vars(import_module(f"{package.__name__}.{module}")).values():
            if isinstance(value, TaskPolicy):
                found[value.name] = value
    return found
