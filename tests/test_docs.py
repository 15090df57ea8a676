"""The docs: links lead somewhere, tables list what there is, snippets run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fairlead.policies.interface import Policy, registry
from fairlead.scenarios.loader import available, load
from fairlead.sim.serving.host import run
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.workload import make_workload
from fairlead.sim.serving.world import new_world

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def first_column(page: str, heading: str) -> list[str]:
    table = (ROOT / page).read_text().split(heading)[1].split("\n\n")[0]
    return [name for row in table.splitlines()[1:] for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_tables_list_what_ships() -> None:
    ours = [p.name for p in registry()[0].values() if p.package == "fairlead"]
    assert sorted(first_column("docs/guides/policies.md", "| policy | chooses | from |\n")) == sorted(ours)
    assert sorted(first_column("docs/guides/scenarios.md", "| scenario | what it is for |\n")) == sorted(available())


def test_the_readmes_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = snippets("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert re.match(r"\d+\.\d% in time and accurate, p99 \d+ ms", capsys.readouterr().out)


def test_the_guides_scenario_and_policy_run(tmp_path: Path) -> None:
    small, trace = snippets("docs/guides/scenarios.md", "yaml")
    (tmp_path / "my-edge.yaml").write_text(small)
    (tmp_path / "traced.yaml").write_text(f"extends: my-edge\ntitle: traced\n{trace}")
    (tmp_path / "arrivals.csv").write_text("time_s,deadline_ms\n0.5,80\n1.0,90\n")
    assert len(make_workload(load(str(tmp_path / "traced.yaml")), 0).requests) == 2
    (code,) = snippets("docs/guides/policies.md", "python")
    names: dict[str, object] = {"__name__": "guide"}
    (tmp_path / "guide.py").write_text(code)
    exec(compile(code, str(tmp_path / "guide.py"), "exec"), names)
    policy = names["most_accurate_in_time"]
    assert isinstance(policy, Policy)
    scenario = load(str(tmp_path / "my-edge.yaml"))
    plan = build_plan(scenario)
    world = new_world(plan, make_workload(scenario, 0))
    run(plan, world, Policy(policy.name, policy.function, "python"))
    assert np.count_nonzero(world.rows["outcome"] == 1) > 0.5 * len(world.rows)
