"""What differs between the worlds when policies are compared on them: how a trial is run, what ranks policies.

`compare`, `fingerprint`, `result_file` and the cli ask here, and are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fairlead.domain.errors import UserError
from fairlead.domain.scenario import Scenario
from fairlead.domain.tasks import TaskScenario
from fairlead.experiments.trial import AnyScenario, Trial, TrialResult

if TYPE_CHECKING:
    from fairlead.policies.interface import Policy


class Summed(Protocol):
    """The details of several seeds together."""

    def add(self, one: dict[str, Any]) -> None:
        """Take in the detail of one more seed."""

    def detail(self) -> dict[str, Any]:
        """All of them together, in the form of one."""


@dataclass(frozen=True)
class WorldAdapter:
    """One world: of serving, or of tasks."""

    name: str
    objective: str  # the figure that ranks policies
    sign: int  # 1: more of it is better; -1: less
    run: Callable[[Trial], TrialResult]
    find: Callable[..., Any]  # the policy of a name; else a UserError with the nearest of them and of `also`
    rules: Callable[[], Iterable[str]]  # names of all policies but learned ones
    files: Callable[[Any], list[str]]  # what a scenario reads beside itself
    summed: Callable[[], Summed]
    axes: Callable[[Any], dict[str, Any]]  # what the bins of details are, and what reports draw of a scenario itself
    fallback_rule: Callable[[Any, Any], str]  # of a scenario and a learned policy: who decides where its model can't
    warnings: Callable[[Any, Iterable[str]], list[str]]  # what to know of a scenario and policies on it, a line each

    def policy_key(self, name: str) -> str:
        """What `fingerprint` knows a policy by."""
        return f"policy {name}" if self.name == "serving" else f"task-policy {name}"


def adapter_of(scenario: AnyScenario) -> WorldAdapter:
    """The world that a scenario is of."""
    return _tasks() if isinstance(scenario, TaskScenario) else _serving()


def find_request_policy(name: str, also: Iterable[str] = ()) -> Policy:
    """As `find` of policies for requests; a UserError that says so where the name is a task policy's."""
    from fairlead.policies.bundle_registry import is_path
    from fairlead.policies.interface import find, registry
    from fairlead.policies.tasks.learned import learned_task_policies
    from fairlead.sim.tasks.policy_catalog import task_policies

    known = any(name in names for names in registry()) or is_path(name)
    if not known and (name in task_policies() or name in learned_task_policies()):
        raise UserError(
            f"policy {name!r} decides on tasks, and this is a scenario of requests (see `fairlead policies`)"
        )
    return find(name, also)


def _serving() -> WorldAdapter:
    from fairlead.experiments.scenario_changes import changes
    from fairlead.experiments.scenario_hints import hints
    from fairlead.experiments.serving_trial import run_serving_trial
    from fairlead.measure.serving_bins import LATENCY_MS, BinSum, time_edges_s
    from fairlead.policies.bundle_registry import LearnedPolicy
    from fairlead.policies.interface import rules
    from fairlead.policies.learned import fallback_rule

    def files(s: Scenario) -> list[str]:
        return [source.arrivals.file for source in s.workload.sources.values() if source.arrivals.file]

    def axes(s: Scenario) -> dict[str, Any]:
        times = {"changes": changes(s), "time_s": time_edges_s(s.workload.duration_s)}
        return times | {"latency_ms": list(LATENCY_MS)}

    def warnings(s: Scenario, policies: Iterable[str]) -> list[str]:
        return hints(s)  # what is unlike a policy's training counts as a fallback there

    def rule_name(s: Scenario, policy: LearnedPolicy) -> str:
        return fallback_rule(policy.bundle).name

    return WorldAdapter(
        name="serving",
        objective="success",
        sign=1,
        run=run_serving_trial,
        find=find_request_policy,
        rules=rules,
        files=files,
        summed=BinSum,
        axes=axes,
        fallback_rule=rule_name,
        warnings=warnings,
    )


def _tasks() -> WorldAdapter:
    from fairlead.experiments.task_bins import TaskSum, task_axes
    from fairlead.experiments.task_trial import run_task_trial
    from fairlead.policies.tasks.learned import LearnedTaskPolicy, fallback_rule
    from fairlead.sim.tasks.facts import facts_of
    from fairlead.sim.tasks.plan import build_task_plan
    from fairlead.sim.tasks.policy_catalog import find_task_policy, task_policies

    def files(s: TaskScenario) -> list[str]:
        return [task_type.speed.file for task_type in s.types.values() if task_type.speed.file]

    def warnings(s: TaskScenario, policies: Iterable[str]) -> list[str]:
        learned = [p for p in map(find_task_policy, policies) if p.learned]
        if not learned:
            return []
        facts = facts_of(s, build_task_plan(s))
        return [line for policy in learned if (line := policy.warning(facts))]

    def rule_name(s: TaskScenario, policy: LearnedTaskPolicy) -> str:
        return fallback_rule(tuned=s.tuned_rule is not None).name

    return WorldAdapter(
        name="tasks",
        objective="completion_steps",
        sign=-1,
        run=run_task_trial,
        find=find_task_policy,
        rules=task_policies,
        files=files,
        summed=TaskSum,
        axes=task_axes,
        fallback_rule=rule_name,
        warnings=warnings,
    )
