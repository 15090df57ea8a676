"""Builds scenarios of tasks for tests: small, and with everything that can be set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairlead.domain.tasks import (
    Reach,
    Resource,
    Speed,
    TaskCluster,
    TaskLinkChange,
    TaskRules,
    TaskScenario,
    TaskType,
    TaskWorkload,
    TunedRule,
)

HERE: dict[str, Any] = {"assumed": True}


def cluster(name: str, cpu: int = 16, gpu: int = 16, memory: int = 32, **more: Any) -> TaskCluster:
    return TaskCluster(name=name, amounts={"cpu": cpu, "gpu": gpu, "memory": memory}, **HERE, **more)


def constant(steps: float) -> Speed:
    return Speed(form="constant", steps=steps, **HERE)


def by_gpu(form: Any = "released") -> Speed:
    return Speed(form=form, resource="gpu", **HERE)


def measured(folder: Path, **steps: Sequence[int]) -> dict[str, Speed]:
    """Speeds of types that take so many steps, at an even pace, with 1, 2, ... GPUs and two CPUs."""
    rows = [f"{name},2,{1 + g},{10 * s},1" for name, row in steps.items() for g, s in enumerate(row)]
    file = folder / "measured.csv"
    file.write_text("\n".join(["type,cpu,gpu,time_s,progress", *rows]))
    return {name: Speed(form="trace", file=str(file), **HERE) for name in steps}


def gavel_speed(folder: Path, by_gpus: dict[str, float]) -> Speed:
    """A task of 100 training steps, so many of them a second with so many GPUs, from a file in Gavel's layout."""
    jobs = {f"('ResNet-18 (batch size 16)', {n})": {"null": figure} for n, figure in by_gpus.items()}
    file = folder / "throughputs.json"
    file.write_text(json.dumps({"v100": jobs}))
    job = {"job": "ResNet-18 (batch size 16)", "gpu": "v100", "total_steps": 100}
    return Speed(form="gavel", file=str(file), resource="gpu", **job, **HERE)


def task_type(
    name: str, speed: Speed, cpu: int = 2, gpu: int = 1, memory: int = 0, share: float = 0.5, **more: Any
) -> TaskType:
    minimum = {"cpu": cpu, "gpu": gpu, "memory": memory}
    return TaskType(name=name, share=share, minimum=minimum, speed=speed, **HERE, **more)


def tasks_scenario(
    clusters: tuple[TaskCluster, ...] = (cluster("edge-1"), cluster("edge-2"), cluster("edge-3")),
    types: tuple[TaskType, ...] = (task_type("insensitive", constant(4)), task_type("sensitive", by_gpu())),
    tasks: int = 60,
    rate: float = 3.0,
    reach: Reach | None = None,
    link_changes: tuple[TaskLinkChange, ...] = (),
    tuned_rule: TunedRule | None = None,
    **rules: Any,
) -> TaskScenario:
    names = {name: Resource(name=name, most_per_task=16) for name in ("cpu", "gpu")}
    return TaskScenario(
        name="built",
        title="built by a test",
        world="tasks",
        resources={**names, "memory": Resource(name="memory", elastic=False)},
        clusters={c.name: c for c in clusters},
        types={t.name: t for t in types},
        workload=TaskWorkload(tasks=tasks, rate_per_step=rate, reach=reach or Reach(draw="subset", **HERE), **HERE),
        rules=TaskRules(**{"most_steps": 500, **rules}, **HERE),
        link_changes=link_changes,
        tuned_rule=tuned_rule,
    )
