"""A trial of the world of serving: one scenario and one seed, whose workload is drawn once for all policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairlead.domain.decision_log import DecisionLog
from fairlead.domain.errors import PolicyError
from fairlead.domain.scenario import Scenario
from fairlead.experiments.bounds.serving import success_bound
from fairlead.experiments.result_file import definition
from fairlead.experiments.trial import Figures, Trial, TrialResult
from fairlead.measure.decision_log_file import write_log
from fairlead.measure.serving_bins import learned_bins, serving_bins
from fairlead.measure.serving_figures import serving_figures
from fairlead.measure.write_files import check_folder, safe_names
from fairlead.policies.interface import find
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.log import decision_log
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset


def run_serving_trial(trial: Trial) -> TrialResult:
    """Run one trial. A policy that fails is noted, the others go on."""
    scenario = trial.scenario
    assert isinstance(scenario, Scenario)
    plan, workload = build_plan(scenario), make_workload(scenario, trial.seed)
    world = new_world(plan, workload, exclusions=trial.log is not None)
    figures: dict[str, Figures] = {}
    failures: dict[str, str] = {}
    details: dict[str, dict[str, Any]] = {}
    for name in trial.policies:
        reset(plan, world, workload)
        try:
            account = run(plan, world, policy := find(name))
        except PolicyError as error:
            at = "" if trial.label == scenario.name else f" at {trial.label}"
            failures[name] = f"{error} (scenario {scenario.name}{at}, seed {trial.seed})"
            continue
        log = decision_log(scenario, plan, world, policy, account)
        figures[name], details[name] = serving_figures(log), serving_bins(log)
        if policy.learned:
            details[name]["learned"] = learned_bins(log.context)
        if trial.log is not None:
            _write(log, scenario, log_path(Path(trial.log), trial.policies, name, trial.seed))
    bound = None
    if trial.bounded:
        bound = success_bound(plan, workload) if len(workload.requests) else math.nan
    return TrialResult(trial.label, trial.seed, figures, failures, details, bound)


def log_path(folder: Path, policies: Sequence[str], policy: str, seed: int) -> Path:
    """Where a log goes, as tools that read whole folders of Parquet expect it: names and values of columns."""
    name = safe_names(policies)[policies.index(policy)]
    return folder / f"policy={name}" / f"seed={seed}" / "decisions.parquet"


def _write(log: DecisionLog, scenario: Scenario, path: Path) -> None:
    """Write a log with the scenario that was run."""
    settings = {**log.context.settings, "definition": definition(scenario)}
    check_folder(path.parent)
    write_log(replace(log, context=replace(log.context, settings=settings)), path)
