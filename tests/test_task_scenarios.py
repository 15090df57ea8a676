"""Scenarios of tasks: what ships is sound, what is wrong is told in one line with its place; the commands on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.scenarios.loader import available, available_tasks, load, load_any, load_tasks
from fairlead.sim.tasks.plan import build_task_plan

SHIPPED = [
    "pointer-test", "tapfinger-3", "tapfinger-6", "tapfinger-6-hetero", "tapfinger-testbed-3", "tapfinger-testbed-6"
]  # fmt: skip

SMALL: dict[str, Any] = {
    "world": "tasks",
    "title": "small",
    "resources": {"cpu": {"most_per_task": 4}, "gpu": {"most_per_task": 4}, "memory": {"elastic": False}},
    "clusters": {"edge": {"amounts": {"cpu": 8, "gpu": 4, "memory": 16}, "assumed": True}},
    "types": {
        "a": {
            "share": 1,
            "minimum": {"cpu": 1, "gpu": 1, "memory": 2},
            "speed": {"form": "paper", "resource": "gpu", "assumed": True},
            "assumed": True,
        }
    },
    "workload": {
        "tasks": 10, "rate_per_step": 1, "reach": {"draw": "subset", "assumed": True}, "assumed": True
    },
    "rules": {"assumed": True},
}  # fmt: skip


def small(folder: Path, path: str = "", value: Any = None) -> str:
    """A sound small scenario as a file, with one place changed, or dropped by a None."""
    data: Any = yaml.safe_load(yaml.safe_dump(SMALL))
    if path:
        *parents, last = path.split(".")
        place = data
        for part in parents:
            place = place[part]
        place[last] = value
        if value is None:
            del place[last]
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(file)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_are_sound(name: str) -> None:
    scenario = load_tasks(name)
    assert scenario.tuned_rule is not None
    assert len(build_task_plan(scenario).capacity) == len(scenario.clusters)


def test_names_are_unique_over_both_worlds() -> None:
    assert sorted(available_tasks()) == SHIPPED
    assert not set(available()) & set(available_tasks())


def test_the_short_names_of_fields(tmp_path: Path) -> None:
    changed = load_tasks("tapfinger-3", ["rate=2", "speed=paper", "progress_noise=0.2", "mode=single"])
    assert changed.workload.rate_per_step == 2
    assert changed.types["sensitive"].speed.form == "paper"
    assert (changed.rules.progress_noise, changed.rules.mode) == (0.2, "single")
    assert load_tasks(small(tmp_path)).most_per_task() == {"cpu": 4, "gpu": 4, "memory": 2}


def test_speed_is_the_form_of_every_type_that_has_one_of_the_two(tmp_path: Path) -> None:
    types = {
        name: {
            **SMALL["types"]["a"],
            "share": 0.25,
            "speed": {"form": form, "resource": "gpu", "steps": 3, "assumed": True},
        }
        for name, form in (("a", "paper"), ("b", "released"), ("c", "constant"), ("d", "paper"))
    }
    file = small(tmp_path, "types", types)
    forms = [task_type.speed.form for task_type in load_tasks(file, ["speed=released"]).types.values()]
    assert forms == ["released", "released", "constant", "released"]
    with pytest.raises(UserError) as error:
        load_tasks("tapfinger-testbed-3", ["speed=paper"])
    words = "speed is short for types.*.speed.form where it is paper or released, which this scenario does not have"
    assert str(error.value) == f"--set speed=paper: {words}"


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("clusters.edge.amounts.gpu", 0, "0 gpu are less than the 1 that a task of type 'a' needs"),
        ("types.a.regions", ["north"], "can run nowhere: no cluster has its region and certificates"),
        ("types.a.share", 0.5, "their shares add up to 0.5, not to 1"),
        ("types.a.minimum", {"gpus": 1}, "types.a.minimum.gpus: unknown resource (did you mean 'gpu'?)"),
        ("types.a.minimum", {"gpu": 0}, "a task needs some of at least one resource"),
        ("types.a.speed.form", "fast", "types.a.speed.form: expected 'constant', 'paper', 'released', "),
        ("types.a.speed", {"form": "constant", "assumed": True}, "steps is missing"),
        ("types.a.speed.resource", "tpu", "unknown resource 'tpu'"),
        ("resources.memory.most_per_task", 3, "most_per_task is for elastic resources"),
        ("workload.rate_per_step", 0, "workload.rate_per_step: rate_per_step must be above 0, got 0"),
        ("workload.reach.bandwidth_mbps", [5, 1], "the lower first"),
        ("rules.switching", 2, "switching must lie in 0..1"),
        ("rules.pendng", 3, "rules.pendng: unknown field (did you mean 'pending'?)"),
        ("clusters", {}, "clusters: at least one is needed"),
        ("tuned_rule", {"by": "gpu", "wanted": {"b": {}}, "least": {}, "assumed": True}, "unknown type"),
        (
            "link_changes",
            [{"at_step": 1, "cluster": "far", "up": False, "assumed": True}],
            "no cluster is called 'far'",
        ),
        ("link_changes", [{"at_step": 10**9, "cluster": "edge", "up": True, "assumed": True}], "at most 100,000 is"),
        ("tuned_rule", {"by": "gpu", "wanted": {"a": {"gpu": -1}}, "least": {}, "assumed": True}, "0 to 100,000 are"),
        ("types.a.speed.scale", 1e16, "scale must be at most 1e+15"),
        ("world", "jobs", "world: expected serving or tasks, got 'jobs'"),
        ("workload.source", "", "its numbers need"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, path: str, value: Any, line: str) -> None:
    if path == "workload.source":
        file = small(tmp_path, "workload.assumed", None)
    else:
        file = small(tmp_path, path, value)
    with pytest.raises(UserError) as error:
        load_any(file)
    assert line in str(error.value)
    assert str(error.value).startswith(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("type,cpu,gpu,time_s,progress,loss\na,1,1,5,1,0\n", "unknown column 'loss'"),
        ("type,cpu,time_s,progress\na,1,5,1\n", "the column gpu is missing"),
        ("type,cpu,gpu,time_s,progress\nb,1,1,5,1\n", "there are no rows of the type 'a'"),
        ("type,cpu,gpu,time_s,progress\na,1,1,5,0.5\n", "ends at progress 0.5, not at 1"),
        ("type,cpu,gpu,time_s,progress\na,2,2,5,1\n", "the minimum of 'a' (cpu 1, gpu 1) was not measured"),
        ("type,cpu,gpu,time_s,progress\na,1,1,5,0.5\na,1,1,4,1\n", ":3: time_s must rise: 4 after 5"),
        ("type,cpu,gpu,time_s,progress\na,1,1,x,1\n", ":2: time_s: expected a number, got 'x'"),
        ("type,cpu,gpu,time_s,progress\na,1.5,1,1,1\n", ":2: cpu: expected a whole number, got '1.5'"),
        ("type,cpu,gpu,time_s,progress\na,1,1,1,2\n", ":2: progress must lie in 0..1, got 2"),
        ("type,cpu,gpu,time_s,progress\na,1,1\n", ":2: expected 5 values"),
    ],
)
def test_a_trace_that_is_wrong_is_told_with_its_line(tmp_path: Path, rows: str, line: str) -> None:
    (tmp_path / "t.csv").write_text(rows)
    file = small(tmp_path, "types.a.speed", {"form": "trace", "file": "t.csv", "assumed": True})
    with pytest.raises(UserError) as error:
        load_any(file)
    assert line in str(error.value)
    assert f"(named in {file}:" in str(error.value)


THROUGHPUTS = {
    "k80": {
        "('ResNet-18 (batch size 16)', 1)": {"null": 4.8, "('A3C', 1)": [2.1, 1.9]},
        "('ResNet-18 (batch size 16)', 2)": {"null": 8.1},
        "('A3C', 1)": {"('ResNet-18 (batch size 16)', 1)": [1.9, 2.1]},
        "('CycleGAN', 1)": {"null": 0.0},
        "('LM (batch size 5)', 2)": {"null": 9.0},
    },
    "v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 20.5}},
}
GAVEL = {
    "form": "gavel", "file": "t.json", "job": "ResNet-18 (batch size 16)", "gpu": "k80", "total_steps": 500,
    "resource": "gpu", "assumed": True,
}  # fmt: skip


def test_throughputs_are_shown_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.json").write_text(json.dumps(THROUGHPUTS))
    file = small(tmp_path, "types.a.speed", GAVEL)
    assert main(["show", file]) == 0
    assert "500 training steps" in " ".join(capsys.readouterr().out.replace("│", " ").split())
    question = ["compare", file, "--policies", "min", "--seeds", "2", "--jobs", "1", "--no-bound"]
    assert main([*question, "--json", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())["scenarios"]["small"]["policies"]["min"]
    # One GPU makes 48 of 500 training steps in 10 s: 11 steps.
    assert min(found["by_seed"]["completion_steps"]) >= 11


@pytest.mark.parametrize(
    ("changed", "text", "line"),
    [
        ({"file": "no.json"}, "", "no.json: can't read it: No such file or directory"),
        ({}, "type,cpu\n", "t.json: not valid JSON: "),
        ({}, "[1, 2]", "t.json: not a file of throughputs: expected a map of types of GPU to jobs"),
        ({}, '{"k80": {"resnet": {"null": 1}}}', "expected jobs such as \"('ResNet-18 (batch size 16)', 2)\""),
        ({"gpu": "k8"}, "", "t.json: unknown type of GPU 'k8' (did you mean 'k80'?)"),
        ({"job": "ResNet-18"}, "", "unknown job 'ResNet-18' on 'k80' (did you mean 'ResNet-18 (batch size 16)'?)"),
        ({"job": "A3C"}, "", "'A3C' has no figure for the job alone on 'k80'"),
        ({"job": "CycleGAN"}, "", "'CycleGAN' has no figure for the job alone on 'k80'"),
        ({"job": "LM (batch size 5)"}, "", "the minimum of 'a' (gpu 1) was not measured"),
        ({"total_steps": 0}, "", "types.a.speed.total_steps: total_steps must be above 0, got 0"),
        ({"job": None}, "", "job is missing: a speed of the form 'gavel' needs it"),
    ],
)
def test_throughputs_that_are_wrong_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], text: str, line: str
) -> None:
    (tmp_path / "t.json").write_text(text or json.dumps(THROUGHPUTS))
    file = small(tmp_path, "types.a.speed", {name: v for name, v in (GAVEL | changed).items() if v is not None})
    assert main(["show", file]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert file in error
    assert error.count("\n") == 1


def test_each_command_says_which_world_it_wants(capsys: pytest.CaptureFixture[str]) -> None:
    for command, line in (
        (["degradation", "simulate", "tapfinger-3"], "this is a scenario of tasks"),
        (["tune", "ecsrl", "tapfinger-3"], "a scenario of tasks is tuned alone: name no other scenario"),
        (["tune", "tapfinger-3", "--policy", "best-fit"], "best-fit: on scenarios of tasks only tuned-rule is tuned"),
        (["tune", "ecsrl", "--policy", "closest"], "closest: only rules that have weights can be tuned"),
        (["compare", "ecsrl", "tapfinger-3"], "compare the two separately"),
        (["compare", "tapfinger-3", "--policies", "closest"], "policy 'closest' decides on requests"),
        (
            ["compare", "ecsrl", "--policies", "sia"],
            "'sia' decides on tasks, and this is a scenario of requests",
        ),
        (["explain", "ecsrl", "--policy", "tapfinger-3-agents", "--at", "1"], "'tapfinger-3-agents' decides on tasks"),
        (["tune", "tapfinger-3", "--workloads", "1"], "--workloads: expected a whole number from 2 to"),
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert line in error
        assert error.count("\n") == 1
    with pytest.raises(UserError, match="scenario of tasks"):
        load("tapfinger-3")


def test_compare_and_sweep_rank_by_completion_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    few = ["--set", "tasks=40", "--seeds", "3", "--policies", "tuned-rule,min", "--jobs", "1"]
    assert main(["compare", "tapfinger-3", *few, "--json", str(file)]) == 0
    document = json.loads(file.read_text())
    there = document["scenarios"]["tapfinger-3"]
    assert document["world"] == "tasks"
    assert there["ranking"] == ["tuned-rule", "min"]
    steps = there["policies"]["tuned-rule"]["by_seed"]["completion_steps"]
    assert all(bound <= s for bound, s in zip(there["bound"]["by_seed"], steps, strict=True))
    assert sum(there["policies"]["min"]["detail"]["completion"]) == 3 * 40
    assert document["policies"]["tuned-rule"]["preempts"] is False
    shown = capsys.readouterr().out
    assert shown.index("tuned-rule") < shown.index("min ")
    sweep = ["sweep", "tapfinger-3", "--param", "progress_noise", "--values", "0,0.2", "--checkpoint", "none"]
    assert main([*sweep, *few]) == 0
    shown = capsys.readouterr().out
    (best,) = [line for line in shown.splitlines() if line.startswith("│ tuned-rule")]
    assert best.count("* ") == 2
    (bound,) = [line for line in shown.splitlines() if line.startswith("│ lower bound")]
    assert f"{there['bound']['mean']:.3f}" in bound
    assert "\N{EN DASH}" in bound, "with noise there is none"


def test_the_same_question_gives_the_same_bytes_however_it_is_run(tmp_path: Path) -> None:
    question = ["compare", "pointer-test", "--set", "tasks=30", "--seeds", "4", "--policies", "random,optimus"]
    texts = []
    for jobs in ("1", "2"):
        assert main([*question, "--jobs", jobs, "--json", str(tmp_path / jobs)]) == 0
        texts.append((tmp_path / jobs).read_text())
    assert texts[0] == texts[1]


def test_show_and_lists_know_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in (
        (["show", "tapfinger-testbed-3"], ("curves of", "single-task", "6 assumptions")),
        (["scenarios"], SHIPPED),
        (["policies"], ("tuned-rule", "rollout", "progress, speed, resize")),
    ):
        assert main(command) == 0
        shown = capsys.readouterr().out
        assert all(word in shown for word in words)


def test_tune_prints_what_goes_into_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = small(tmp_path)
    assert main(["tune", file, "--workloads", "2", "--json", str(tmp_path / "rule.json")]) == 0
    printed = yaml.safe_load("tuned_rule:" + capsys.readouterr().out.split("tuned_rule:")[1])
    assert printed["tuned_rule"] == json.loads((tmp_path / "rule.json").read_text())["tuned_rule"]
    data = yaml.safe_load(Path(file).read_text()) | printed
    Path(file).write_text(yaml.safe_dump(data))
    assert load_tasks(file).tuned_rule is not None
