"""A trial of work: one scenario and one seed, whose workload is drawn once and which every policy runs on.

`workers` runs trials in this process, in others or on a cluster; all of them call `run_trial`. Its result is plain
data: it goes through files and networks and comes back the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.domain.scenario import Scenario
from fairlead.domain.tasks import TaskScenario

AnyScenario = Scenario | TaskScenario
Figures = dict[str, float]


@dataclass(frozen=True)
class Trial:
    """One (scenario, seed) for all policies. Its label is unique in a comparison: a scenario's name or `rate=20`."""

    label: str
    scenario: AnyScenario
    seed: int
    policies: tuple[str, ...]
    bounded: bool = True  # with the bound, which takes longer than some policies
    log: str | None = None  # the folder for decision logs, if they are wanted


@dataclass(frozen=True)
class TrialResult:
    """What came of a trial: numbers, strings, lists and maps of them only."""

    label: str
    seed: int
    figures: dict[str, Figures]  # by policy
    failures: dict[str, str]  # policy -> one line
    details: dict[str, dict[str, Any]]  # by policy
    bound: float | None  # no policy can be better than this


def run_trial(trial: Trial) -> TrialResult:
    """Run one trial, as its world does."""
    from fairlead.experiments.world_adapter import adapter_of

    return adapter_of(trial.scenario).run(trial)
