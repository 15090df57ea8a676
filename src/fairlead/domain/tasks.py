"""A scenario of tasks: clusters with amounts of resources, types of tasks, how they arrive, and the rules of the world.

Built by `fairlead.scenarios.loader` from YAML that says `world: tasks`; made into arrays by `fairlead.sim.tasks.plan`.
Time goes in steps, the scheduling intervals; amounts of resources are whole units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, cast, get_args

from fairlead.domain.errors import nearest
from fairlead.domain.provenance import STRICT, Sourced, not_negative, positive, share
from fairlead.domain.scenario import Problem, assumptions_of

MOST_CLUSTERS = 64  # a task's reachable clusters are the bits of one word
_MOST_TASKS = 1_000_000
_MOST_NUMBER = 100_000  # of steps, of pending tasks, of units of a resource
_MOST_ALLOCATIONS = 100_000  # of one type of tasks
_MOST_SPEEDS = 5_000_000  # of all types with all allocations
_MOST_TYPES = 10_000
_NEEDED = {  # fields of the forms of speed
    "constant": ("steps",),
    "paper": ("resource",),
    "released": ("resource",),
    "trace": ("file",),
    "gavel": ("file", "job", "gpu", "total_steps", "resource"),
}


Role = Literal["accelerator", "processor", "memory", "other"]
#: In the order in which policies give them out. A role as a number is its place here.
ROLES: Final[tuple[Role, ...]] = get_args(Role)
ACCELERATOR: Final = 0
PROCESSOR: Final = 1
UNNEEDED: Final = len(ROLES)  #: In the place of the role of a resource that no task needs.
_ROLES_OF_NAMES: Final[Mapping[str, Role]] = {
    "cpu": "processor",
    "gpu": "accelerator",
    "npu": "accelerator",
    "tpu": "accelerator",
    "memory": "memory",
    "ram": "memory",
}


def role_by_name(name: str) -> Role | None:
    """The role of a resource whose name tells it, such as `cpu` or `memory_gb`."""
    return _ROLES_OF_NAMES.get(name.lower().partition("_")[0])


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One type of resource, such as CPU cores."""

    __pydantic_config__ = STRICT

    name: str
    role: Role | None = None  # role of the resource; not needed for names such as cpu, gpu or memory
    elastic: bool = True  # true: a task may get more than its minimum; false: exactly its minimum, as with memory
    most_per_task: int | None = None  # largest amount for a task, of an elastic resource; None: all that a cluster has

    def __post_init__(self) -> None:
        if self.role is None:
            object.__setattr__(self, "role", role_by_name(self.name))
        if self.role is None:
            raise ValueError(f"role is missing: expected {', '.join(ROLES[:-1])} or {ROLES[-1]}")
        if self.most_per_task is not None:
            positive(most_per_task=self.most_per_task)
            if not self.elastic:
                raise ValueError("most_per_task is for elastic resources: of others a task gets its minimum")

    @property
    def role_number(self) -> int:
        """Its role, as snapshots have it."""
        return ROLES.index(cast(Role, self.role))


@dataclass(frozen=True, kw_only=True)
class TaskCluster(Sourced):
    """An edge cluster and its resources."""

    name: str
    amounts: Mapping[str, int]  # amount of each resource
    region: str = ""  # its region, compared with a type's `regions`
    certificates: tuple[str, ...] = ()  # its certificates, compared with a type's `certificates`

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(**{f"amounts.{name}": amount for name, amount in self.amounts.items()})


@dataclass(frozen=True, kw_only=True)
class Speed(Sourced):
    """The progress of a step, by a task's allocation and its progress so far. Schedulers don't know it.

    - `constant`: 1 / steps.
    - `paper`: tanh(amount / scale), as TapFinger's paper describes it.
    - `released`: the same times sqrt(1.2 - progress), as in its authors' program.
    - `trace`: measured curves, from a file of type, amounts, time_s and progress.
    - `gavel`: measured training steps per second, from a file of Gavel's, divided by the training steps of a task;
      linear between the measured amounts, constant above the largest.
    """

    form: Literal["constant", "paper", "released", "trace", "gavel"]  # see above
    steps: float | None = None  # `constant`: steps of a task
    resource: str | None = None  # `paper`, `released`, `gavel`: resource that sets the speed (for `gavel`, its GPUs)
    scale: float = 16.0  # `paper` and `released`: scale of tanh
    file: str | None = None  # `trace` and `gavel`: name of a file beside the scenario file
    job: str | None = None  # `gavel`: job in the file, such as 'ResNet-18 (batch size 16)'
    gpu: str | None = None  # `gavel`: type of GPU in the file, such as v100
    total_steps: float | None = None  # `gavel`: training steps until a task is finished

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(scale=self.scale)
        for needed in _NEEDED[self.form]:
            if getattr(self, needed) is None:
                raise ValueError(f"{needed} is missing: a speed of the form {self.form!r} needs it")
        for name in ("steps", "total_steps"):
            if (number := getattr(self, name)) is not None:
                positive(**{name: number})


@dataclass(frozen=True, kw_only=True)
class TaskType(Sourced):
    """Tasks with equal needs and speed."""

    name: str
    share: float  # share of all tasks
    minimum: Mapping[str, int]  # minimum amount of each resource; with less there is no progress
    speed: Speed  # progress per step
    regions: tuple[str, ...] = ()  # regions in which its tasks may run; empty: everywhere
    certificates: tuple[str, ...] = ()  # certificates that a cluster must have

    def __post_init__(self) -> None:
        super().__post_init__()
        share(share=self.share)
        not_negative(**{f"minimum.{name}": amount for name, amount in self.minimum.items()})

    def may_use(self, resource: str) -> bool:
        """Whether tasks of this type arrive and need the resource, or can be faster with it, as far as is known here.

        Which resources measured curves are by, their file tells.
        """
        speed = self.speed
        return self.share > 0 and (
            self.minimum.get(resource, 0) > 0 or speed.resource == resource or speed.form == "trace"
        )

    def allowed(self, cluster: TaskCluster) -> bool:
        """Whether region and certificates let it run there."""
        in_region = not self.regions or cluster.region in self.regions
        return in_region and set(self.certificates) <= set(cluster.certificates)


@dataclass(frozen=True, kw_only=True)
class Reach(Sourced):
    """Which clusters a task's device can reach.

    - `subset`: a random set of clusters; its size is drawn uniformly from 1 to all.
    - `links`: the clusters whose link, drawn for each task and cluster, has enough bandwidth and a low enough latency;
      if there is none, the cluster with the highest bandwidth.
    """

    draw: Literal["subset", "links"]  # see above
    bandwidth_mbps: tuple[float, float] = (0.0, 10.0)  # range of a uniform draw
    least_bandwidth_mbps: float = 5.0  # lowest bandwidth with which a cluster can be reached
    latency_ms: tuple[float, float] = (0.0, 0.0)  # range of a uniform draw
    most_latency_ms: float = 100.0  # highest latency with which a cluster can be reached

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("bandwidth_mbps", "latency_ms"):
            low, high = getattr(self, name)
            not_negative(**{name: low})
            if not low <= high < math.inf:
                raise ValueError(f"{name} must be two numbers, the lower first, got {low:g} and {high:g}")
        not_negative(least_bandwidth_mbps=self.least_bandwidth_mbps, most_latency_ms=self.most_latency_ms)


@dataclass(frozen=True, kw_only=True)
class TaskWorkload(Sourced):
    """The arrivals of tasks: a Poisson number in each step."""

    tasks: int  # number of all tasks
    rate_per_step: float  # mean arrivals per step
    reach: Reach  # which clusters a task can reach

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(tasks=self.tasks, rate_per_step=self.rate_per_step)


@dataclass(frozen=True, kw_only=True)
class TaskRules(Sourced):
    """How policies place tasks and how a step proceeds."""

    mode: Literal["multi", "single"] = "multi"  # any number of starts in a step, or one per cluster
    pending: int = 10  # number of waiting tasks that a cluster sees, the earliest first
    progress_noise: float = 0.0  # width of the uniform noise on the progress of a step, which is never below 0
    switching: float = 0.5  # share of the progress of a step that is left after a change of the allocation
    interval_s: float = 10.0  # length of a step
    most_steps: int = 5000  # last step; tasks that are not finished then count as finished there

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(pending=self.pending, interval_s=self.interval_s, most_steps=self.most_steps)
        not_negative(progress_noise=self.progress_noise)
        share(switching=self.switching)


@dataclass(frozen=True, kw_only=True)
class TaskLinkChange(Sourced):
    """From a step on, waiting tasks have other links to some clusters. Running tasks are not affected."""

    at_step: int  # step from which on the change holds
    cluster: str  # name of a cluster, or a pattern such as `edge-*`
    up: bool | None = None  # whether the cluster can be reached at all
    bandwidth: float | None = None  # factor on the drawn bandwidth
    latency: float | None = None  # factor on the drawn latency

    def __post_init__(self) -> None:
        super().__post_init__()
        not_negative(at_step=self.at_step, bandwidth=self.bandwidth or 0.0, latency=self.latency or 0.0)


@dataclass(frozen=True, kw_only=True)
class TunedRule(Sourced):
    """The parameters of the policy `tuned-rule` in this scenario, as `fairlead tune` finds them."""

    by: str  # resource by which clusters are compared
    first: tuple[str, ...] = ()  # types that go before all others, in this order
    wanted: Mapping[str, Mapping[str, int]]  # amounts that tasks of a type should get; else their minimum
    least: Mapping[str, Mapping[str, int]]  # amounts below which tasks of a type wait; else their minimum
    packing: Literal["best", "worst"] = "best"  # the cluster with the least to spare, or the most


@dataclass(frozen=True, kw_only=True)
class TaskScenario:
    """A scenario of tasks."""

    __pydantic_config__ = STRICT

    name: str
    title: str  # one line that lists show
    world: Literal["tasks"]  # marks a scenario of tasks
    resources: Mapping[str, Resource]  # resources of clusters, by name
    clusters: Mapping[str, TaskCluster]  # clusters, by name
    types: Mapping[str, TaskType]  # types of tasks, by name
    workload: TaskWorkload  # number of tasks and their arrivals
    rules: TaskRules  # rules of the steps
    link_changes: tuple[TaskLinkChange, ...] = ()  # changes of links over time
    tuned_rule: TunedRule | None = None  # parameters of the policy `tuned-rule`

    def workload_in_words(self) -> str:
        """How much arrives: '600 tasks, 3 a step of 10 s'."""
        tasks, rate = self.workload.tasks, self.workload.rate_per_step
        return f"{tasks:,} task{'' if tasks == 1 else 's'}, {rate:,.12g} a step of {self.rules.interval_s:,.12g} s"

    def most_per_task(self) -> dict[str, int]:
        """Of each resource, the most that one task can be given anywhere."""
        return {r.name: self._most(r) for r in self.resources.values()}

    def _most(self, resource: Resource) -> int:
        has = max(cluster.amounts.get(resource.name, 0) for cluster in self.clusters.values())
        needs = max(task_type.minimum.get(resource.name, 0) for task_type in self.types.values())
        if not resource.elastic:
            return needs
        return has if resource.most_per_task is None else min(has, max(needs, resource.most_per_task))

    def assumptions(self) -> list[tuple[str, str]]:
        """Every assumption as (path, words), for `fairlead show` and for result files."""
        return list(assumptions_of(self))


def check_tasks(s: TaskScenario) -> Iterator[Problem]:
    """What is wrong across the nouns, as (path into the file, one line). Nothing when the scenario is sound."""
    found = [*_sizes(s), *_names(s), *_rule_names(s)]
    yield from found or _fits(s)


def _sizes(s: TaskScenario) -> Iterator[Problem]:
    for name in ("resources", "clusters", "types"):
        if not getattr(s, name):
            yield (name,), "at least one is needed"
    if len(s.clusters) > MOST_CLUSTERS:
        yield ("clusters",), f"{len(s.clusters)} of them: at most {MOST_CLUSTERS} are possible"
    if s.workload.tasks > _MOST_TASKS:
        yield ("workload", "tasks"), f"at most {_MOST_TASKS:,} are possible"
    for path, number in (("pending", s.rules.pending), ("most_steps", s.rules.most_steps)):
        if number > _MOST_NUMBER:
            yield ("rules", path), f"at most {_MOST_NUMBER:,} are possible"
    for i, change in enumerate(s.link_changes):
        if change.at_step > _MOST_NUMBER:
            yield ("link_changes", i, "at_step"), f"at most {_MOST_NUMBER:,} is possible"
    if len(s.types) > _MOST_TYPES:
        yield ("types",), f"{len(s.types)} of them: at most {_MOST_TYPES:,} are possible"
    for cluster in s.clusters.values():
        if any(amount > _MOST_NUMBER for amount in cluster.amounts.values()):
            yield ("clusters", cluster.name, "amounts"), f"at most {_MOST_NUMBER:,} of a resource are possible"
    shares = sum(task_type.share for task_type in s.types.values())
    if s.types and abs(shares - 1) > 1e-9:
        yield ("types",), f"their shares add up to {shares:g}, not to 1"
    if s.resources and not any(_elastic(s)):
        yield ("resources",), "at least one resource that tasks need must be elastic: else no amounts can vary"


def _elastic(s: TaskScenario) -> Iterator[str]:
    """The elastic resources that tasks may use."""
    for name, resource in s.resources.items():
        if resource.elastic and any(task_type.may_use(name) for task_type in s.types.values()):
            yield name


def _names(s: TaskScenario) -> Iterator[Problem]:
    for cluster in s.clusters.values():
        for name in cluster.amounts:
            if name not in s.resources:
                yield ("clusters", cluster.name, "amounts", name), f"unknown resource{nearest(name, s.resources)}"
    for task_type in s.types.values():
        for name in task_type.minimum:
            if name not in s.resources:
                yield ("types", task_type.name, "minimum", name), f"unknown resource{nearest(name, s.resources)}"
        if not any(task_type.minimum.values()):
            yield ("types", task_type.name, "minimum"), "a task needs some of at least one resource"
        counts = task_type.speed.resource
        if counts is not None and counts not in s.resources:
            yield (
                ("types", task_type.name, "speed", "resource"),
                f"unknown resource {counts!r}{nearest(counts, s.resources)}",
            )


def _rule_names(s: TaskScenario) -> Iterator[Problem]:
    rule = s.tuned_rule
    if rule is None:
        return
    if rule.by not in s.resources:
        yield ("tuned_rule", "by"), f"unknown resource {rule.by!r}{nearest(rule.by, s.resources)}"
    for task_type in rule.first:
        if task_type not in s.types:
            yield ("tuned_rule", "first"), f"unknown type {task_type!r}{nearest(task_type, s.types)}"
    for field in ("wanted", "least"):
        for task_type, amounts in getattr(rule, field).items():
            if task_type not in s.types:
                yield ("tuned_rule", field, task_type), f"unknown type{nearest(task_type, s.types)}"
            for name, amount in amounts.items():
                if name not in s.resources:
                    yield ("tuned_rule", field, task_type, name), f"unknown resource{nearest(name, s.resources)}"
                if not 0 <= amount <= _MOST_NUMBER:
                    yield ("tuned_rule", field, task_type, name), f"0 to {_MOST_NUMBER:,} are possible"


def _fits(s: TaskScenario) -> Iterator[Problem]:
    for i, change in enumerate(s.link_changes):
        if not any(fnmatchcase(name, change.cluster) for name in s.clusters):
            words = f"no cluster is called {change.cluster!r}{nearest(change.cluster, s.clusters)}"
            yield ("link_changes", i, "cluster"), words
    most = s.most_per_task()
    allocations = math.prod(most[name] + 1 for name in _elastic(s))
    if allocations > _MOST_ALLOCATIONS:
        yield ("resources",), f"{allocations:,} possible allocations of a task: give elastic resources a most_per_task"
    if allocations * len(s.types) > _MOST_SPEEDS:
        yield ("types",), f"{len(s.types)} of them, each with {allocations:,} possible allocations, are too many"
    for task_type in s.types.values():
        allowed = [cluster for cluster in s.clusters.values() if task_type.allowed(cluster)]
        if not allowed:
            yield ("types", task_type.name), "can run nowhere: no cluster has its region and certificates"
        for cluster in allowed:
            for name, needs in task_type.minimum.items():
                if (has := cluster.amounts.get(name, 0)) < needs:
                    where = ("clusters", cluster.name, "amounts")
                    yield where, f"{has} {name} are less than the {needs} that a task of type {task_type.name!r} needs"
