"""What `fairlead show` and `fairlead policies` say of worlds of tasks."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from fairlead.cli.console import columns_table
from fairlead.domain.tasks import Resource, Speed, TaskScenario
from fairlead.measure.numerals import counted
from fairlead.policies.tasks.interface import TaskPolicy


def powers(policy: TaskPolicy) -> str:
    """What a policy knows beyond what can be seen, and whether it interferes with tasks that run."""
    may = ["pre-empt"] * policy.preempts + ["resize"] * policy.resizes
    return ", ".join((*policy.knows, *may))


def show_task_scenario(out: Console, s: TaskScenario) -> None:
    """All but its assumptions."""
    rules = s.rules
    out.print(f"[bold]{escape(s.name)}[/bold]: {escape(s.title)}\n")
    out.print(f"[bold]workload[/bold]: {s.workload_in_words()}\n")
    clusters = columns_table("cluster", *s.resources, "region", "certificates")
    for c in s.clusters.values():
        clusters.add_row(c.name, *(str(c.amounts.get(r, 0)) for r in s.resources), c.region, ", ".join(c.certificates))
    types = columns_table("type", "share", *(f"least {r}" for r in s.resources), "speed", "regions, certificates")
    for t in s.types.values():
        least = (str(t.minimum.get(r, 0)) for r in s.resources)
        types.add_row(t.name, f"{t.share:g}", *least, _speed(t.speed), ", ".join((*t.regions, *t.certificates)))
    out.print(clusters)
    out.print()
    out.print(types)
    resources = "; ".join(f"{r.name} ({r.role}): {_given(s, r)}" for r in s.resources.values())
    out.print(f"\n[bold]resources[/bold]: {escape(resources)}")
    reach = s.workload.reach
    words = "each task can run on a random subset of clusters" if reach.draw == "subset" else (
        f"each task can run on clusters behind links of {reach.least_bandwidth_mbps:g} Mbit/s or more and "
        f"{reach.most_latency_ms:g} ms or less (drawn from {reach.bandwidth_mbps[0]:g}..{reach.bandwidth_mbps[1]:g} "
        f"and {reach.latency_ms[0]:g}..{reach.latency_ms[1]:g})"
    )  # fmt: skip
    out.print(f"[bold]reach[/bold]: {words}; {counted(len(s.link_changes), 'change')} of links")
    out.print(
        f"[bold]rules[/bold]: {rules.mode}-task; each cluster sees at most {counted(rules.pending, 'waiting task')}; "
        f"noise {rules.progress_noise:g}; a step after a change of the allocation makes {100 * rules.switching:g} % of "
        "its progress\n"
    )


def _given(s: TaskScenario, resource: Resource) -> str:
    """How much of a resource a task is given."""
    if not any(task_type.may_use(resource.name) for task_type in s.types.values()):
        return "no task needs it"
    return f"at most {s.most_per_task()[resource.name]} a task" if resource.elastic else "as needed"


def _speed(speed: Speed) -> str:
    if speed.form == "constant":
        return f"{speed.steps:g} step{'' if speed.steps == 1 else 's'}"
    if speed.form == "trace":
        return f"curves of {speed.file}"
    if speed.form == "gavel":
        return f"{speed.total_steps:g} training steps of {speed.job} on {speed.gpu}, by {speed.file}"
    root = " * sqrt(1.2 - progress)" if speed.form == "released" else ""
    return f"tanh({speed.resource} / {speed.scale:g}){root} a step"
