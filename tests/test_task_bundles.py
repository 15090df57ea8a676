"""Task bundles that ship: they decide as they did when they were made, and say how that was."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import task_golden
from fairlead.cli.main import main
from fairlead.domain.outcomes import Fallback
from fairlead.policies.bundle import Fault
from fairlead.policies.tasks.bundle import SHIPPED, TaskBundle
from fairlead.policies.tasks.learned import LearnedTaskPolicy, from_folder, learned_task_policies
from fairlead.policies.tasks.observe import Observations
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.policy_catalog import find_task_policy

CURVES = Path(__file__).parents[1] / "docs/results/curves"


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_decide_as_they_did(name: str) -> None:
    policy = learned_task_policies()[name]
    found = task_golden.asked_again(policy, np.load(task_golden.FOLDER / f"{name}.npz"))
    assert len(found) > 10
    for then, now in found:
        assert (then["slot"] == now["slot"]).all()
        assert (then["allocation"] == now["allocation"]).all()
        assert np.allclose(then["score"], now["score"], atol=1e-3)


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_see_what_they_saw(name: str) -> None:
    then, now = np.load(task_golden.FOLDER / f"{name}.npz"), task_golden.arrays(learned_task_policies()[name])
    if then[task_golden.ARITHMETIC] == now[task_golden.ARITHMETIC]:
        assert sorted(then) == sorted(now)
        compared = sorted(then)
    else:
        compared = [key for key in then if key.startswith("0.") and key[2:] in Observations._fields]
    for key in compared:
        assert np.array_equal(then[key], now[key]), key


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_say_how_they_were_made(name: str) -> None:
    about = learned_task_policies()[name].bundle.manifest.document
    with (CURVES / f"bundle-{name}.csv").open() as file:
        gap, ci95 = min((float(row["gap"]), float(row["ci95"])) for row in csv.DictReader(file))
    assert about["reproduce"].startswith("fairlead train tapfinger --scenario")
    assert about["validation"]["gap"] == pytest.approx(gap, abs=1e-4)
    assert gap + ci95 < 0, "better than the tuned rule where it was validated"


def test_hosts_ask_what_a_task_policy_can_do() -> None:
    rule, agents = find_task_policy("min"), find_task_policy("tapfinger-3-agents")
    facts = facts_of(scenario := load_tasks("tapfinger-3"), build_task_plan(scenario))
    assert (rule.learned, rule.arithmetic, rule.warning(facts)) == (False, "", "")
    assert agents.learned
    assert agents.arithmetic
    assert rule.model_fault is agents.model_fault is None
    assert set(rule.identity()) == set(agents.identity()) == {"package", "kind", "hash", "knows", "preempts", "resizes"}


# ---- speeds of tasks


def warned(policy: LearnedTaskPolicy, name: str, *changes: str) -> str:
    scenario = load_tasks(name, changes)
    return policy.bundle.warning(policy.name, facts_of(scenario, build_task_plan(scenario)))


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_know_the_speeds_that_they_were_trained_with(name: str) -> None:
    policy = learned_task_policies()[name]
    (place,) = policy.bundle.manifest.document["scenarios"]
    assert warned(policy, place["name"], *place["overrides"]) == ""


def test_other_speeds_are_warned_of_and_nothing_else_is() -> None:
    policy = learned_task_policies()["tapfinger-3-agents"]
    assert warned(policy, "tapfinger-3", "speed=paper") == (
        "policy 'tapfinger-3-agents' was trained with other speeds of sensitive, "
        "so it may decide badly on tapfinger-3 with these settings"
    )
    assert "speeds of insensitive," in warned(policy, "tapfinger-3", "types.insensitive.speed.steps=5")
    for change in ("rate=1", "tasks=9", "progress_noise=0.2", "mode=single", "clusters.*.amounts.gpu=20"):
        assert warned(policy, "tapfinger-3", change) == ""


def test_a_bundle_that_does_not_say_its_speeds_runs_with_a_warning(tmp_path: Path) -> None:
    shipped = learned_task_policies()["tapfinger-3-agents"]
    about = dict(shipped.bundle.manifest.document)
    for speeds in ({}, {"speeds": None}, {"speeds": ["x"]}):
        about["tasks"] = {part: about["tasks"][part] for part in ("resources", "types")} | speeds
        (tmp_path / "manifest.json").write_text(json.dumps(about))
        old = from_folder(str(tmp_path), tmp_path)
        assert "does not say which task speeds it was trained with" in warned(old, "tapfinger-3")
        scenario = load_tasks("tapfinger-3")
        assert len(old.parameters(facts_of(scenario, build_task_plan(scenario))))


@pytest.mark.parametrize("budget", [float("nan"), float("inf"), -1.0, 0.0, None], ids=str)
def test_a_time_budget_that_is_no_number_above_0_is_a_fault(tmp_path: Path, budget: Any) -> None:
    about = learned_task_policies()["tapfinger-3-agents"].bundle.manifest.document | {"budget_us": budget}
    (tmp_path / "manifest.json").write_text(json.dumps(about))
    found = TaskBundle(tmp_path).manifest
    shown = f"manifest.json: ValueError: budget_us is {budget}, expected a number above 0"
    assert found == Fault(Fallback.CORRUPT, shown)


def test_a_comparison_on_other_speeds_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["compare", "tapfinger-3", "--set", "tasks=12", "--policies", "min,tapfinger-3-agents", "--seeds", "2"]
    files = ["--json", str(tmp_path / "j.json"), "--report", str(tmp_path / "r.html"), "--no-bound"]
    line = "policy 'tapfinger-3-agents' was trained with other speeds of sensitive"
    assert main([*question, *files, "--set", "speed=paper"]) == 0
    assert capsys.readouterr().err.count(line) == 1
    (warning,) = json.loads((tmp_path / "j.json").read_text())["warnings"]
    assert warning.startswith(line)
    page = (tmp_path / "r.html").read_text()
    assert "was trained with other speeds of sensitive" in page
    assert "This result is not complete" not in page
    assert main([*question, *files]) == 0
    assert "speeds" not in capsys.readouterr().err
    assert json.loads((tmp_path / "j.json").read_text())["warnings"] == []
    assert "Warning" not in (tmp_path / "r.html").read_text()


def without_model(folder: Path) -> Path:
    """A user's bundle whose model is lost."""
    shutil.copytree(SHIPPED / "tapfinger-3-agents", folder)
    (folder / "model.onnx").unlink()
    return folder


@pytest.mark.parametrize("rule", ["tuned-rule", "min"])
def test_a_comparison_names_the_rule_that_decided_in_the_place_of_a_model(
    rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    without_model(tmp_path / "lost")
    tuned = "" if rule == "tuned-rule" else "tuned_rule: null\n"
    Path("mine.yaml").write_text(f"extends: tapfinger-3\ntitle: mine\n{tuned}")
    question = [
        "compare",
        "mine.yaml",
        "--set",
        "tasks=12",
        "--policies",
        f"./lost,{rule}",
        "--seeds",
        "2",
        "--no-bound",
    ]
    assert main([*question, "--jobs", "1", "--json", "out.json"]) == 0
    assert f"fairlead: ./lost fell back to {rule} in 100.00% of its " in capsys.readouterr().err
    document = json.loads(Path("out.json").read_text())
    assert [document["policies"][name]["package"] for name in ("./lost", rule)] == ["", "fairlead"]
    runs = document["scenarios"]["mine"]["policies"]
    assert runs["./lost"]["by_seed"]["completion_steps"] == runs[rule]["by_seed"]["completion_steps"]
