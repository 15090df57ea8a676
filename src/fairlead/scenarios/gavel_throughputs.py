"""Reads Gavel's throughputs: how many training steps a second jobs make, by type of GPU and number of GPUs.

Narayanan et al., OSDI 2020. The file is `scheduler/simulation_throughputs.json` of stanford-futuredata/gavel (MIT);
users fetch it, none ships here. It is a map from types of GPU to jobs with their number of GPUs, written
"('ResNet-18 (batch size 16)', 2)", to figures: "null" is the job alone; pairs that share GPUs are not used here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairlead.domain.errors import UserError, nearest, shown
from fairlead.domain.tasks import TaskType
from fairlead.inputs.read_files import read_json

_MOST_MB = 32
_MOST = 1e18  # training steps a second
_JOB = re.compile(r"\('(.*)', (\d{1,9})\)")  # a job's name, its number of GPUs


@dataclass(frozen=True)
class Throughputs:
    """One job on one type of GPU."""

    gpus: tuple[int, ...]  # the numbers of GPUs that were measured, rising
    steps_per_s: tuple[float, ...]  # training steps with these

    def at(self, gpus: int) -> float:
        """Training steps a second: on the line between numbers that were measured, above the last as with that."""
        return float(np.interp(gpus, self.gpus, self.steps_per_s))


def read_throughputs(task_type: TaskType) -> Throughputs:
    """The throughputs of a type of tasks, checked."""
    file, job, gpu = str(task_type.speed.file), str(task_type.speed.job), str(task_type.speed.gpu)
    by_gpu = _read(file)
    if gpu not in by_gpu:
        raise UserError(f"{file}: unknown type of GPU {shown(gpu)}{nearest(gpu, by_gpu)}")
    jobs = {(found[1], int(found[2])): figures for found, figures in _jobs(file, by_gpu[gpu])}
    if job not in (known := {name for name, _ in jobs}):
        raise UserError(f"{file}: unknown job {shown(job)} on {gpu!r}{nearest(job, known)}")
    alone: dict[int, Any] = {n: figures.get("null") for (name, n), figures in jobs.items() if name == job}
    measured = sorted((n, float(figure)) for n, figure in alone.items() if _is_throughput(figure))
    if not measured:
        raise UserError(f"{file}: {job!r} has no figure for the job alone on {gpu!r} ('null', above 0)")
    resource = str(task_type.speed.resource)
    if (least := task_type.minimum.get(resource, 0)) < measured[0][0]:
        what = f"the minimum of {task_type.name!r} ({resource} {least}) was not measured"
        raise UserError(f"{file}: {what}: {job!r} has figures on {gpu!r} from {measured[0][0]} on")
    return Throughputs(tuple(n for n, _ in measured), tuple(figure for _, figure in measured))


def _read(file: str) -> dict[str, Any]:
    data = read_json(file, _MOST_MB)
    if not isinstance(data, dict) or not all(isinstance(jobs, dict) for jobs in data.values()):
        raise UserError(f"{file}: not a file of throughputs: expected a map of types of GPU to jobs")
    return data


def _jobs(file: str, jobs: dict[str, Any]) -> list[tuple[re.Match[str], dict[str, Any]]]:
    made = []
    for key, figures in jobs.items():
        found = _JOB.fullmatch(key)
        if found is None or not isinstance(figures, dict):
            shape = "\"('ResNet-18 (batch size 16)', 2)\" with a map of figures"
            raise UserError(f"{file}: not a file of throughputs: expected jobs such as {shape}, got {shown(key)}")
        made.append((found, figures))
    return made


def _is_throughput(figure: Any) -> bool:
    """Whether it is a figure of a job that ran: 0 stands where there was not enough memory."""
    return isinstance(figure, int | float) and not isinstance(figure, bool) and 0 < figure < _MOST
