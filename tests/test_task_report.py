"""Reports of worlds of tasks: what is drawn equals what is recomputed from runs; pages, files, one line on the rest."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from browser import Open
from documents import EVIL, plain, refusals
from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.domain.tasks import Resource, TaskLinkChange, TaskScenario
from fairlead.experiments.compare import Comparison, compare
from fairlead.experiments.result_file import as_document, as_json
from fairlead.experiments.sweep import Sweep
from fairlead.experiments.task_bins import COMPLETION_STEPS, task_axes, time_edges
from fairlead.experiments.trial import TrialResult
from fairlead.measure.report.comparison_page import page
from fairlead.measure.report.plot_files import write_plots
from fairlead.measure.report.plots import Plot
from fairlead.measure.report.plots.tasks import task_plots_of, task_plots_of_all
from fairlead.measure.report.task_document import Spread, check_tasks, task_points
from fairlead.measure.report.task_phrases import task_verdict
from fairlead.measure.report.task_tables import task_tables
from fairlead.measure.statistics import estimate, estimate_of_sums
from fairlead.policies.tasks.allocations import by_amounts
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.policy_catalog import find_task_policy
from fairlead.sim.tasks.run_policy import run_tasks
from fairlead.sim.tasks.world_arrays import TaskWorlds
from fairlead.sim.tasks.worlds import new_worlds
from task_builders import HERE, cluster, constant, task_type, tasks_scenario

POLICIES = ("min", "optimus", "shortest-first", "tiresias")
SEEDS = (0, 1, 2)
PLOTS = [
    "completion", "distribution", "alive", "by-type", "given-cpu", "given-gpu", "used-cpu", "used-gpu", "used-memory",
    "used", "speed-insensitive", "speed-sensitive",
]  # fmt: skip
LINKS = (
    TaskLinkChange(at_step=5, cluster="edge-1", up=False, **HERE),
    TaskLinkChange(at_step=9, cluster="edge-*", bandwidth=0.5, up=True, **HERE),
)


def made_of(scenarios: dict[str, TaskScenario], policies: Any = POLICIES, seeds: Any = SEEDS, **more: Any) -> Any:
    """The document of a comparison, as it comes back from its file."""
    result = compare(scenarios, policies, seeds, bounded=more.pop("bounded", True))
    return json.loads(as_json(as_document(result, [], **more)))


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return dict(made_of({"built": tasks_scenario(), "linked": tasks_scenario(link_changes=LINKS)}))


@pytest.fixture
def document(whole: dict[str, Any]) -> dict[str, Any]:
    """One that a test may change."""
    return copy.deepcopy(whole)


def drawn(document: dict[str, Any], label: int = 0) -> dict[str, Plot]:
    found = task_plots_of(document, task_points(document)[label], False)
    return {plot.name: plot for plot in [*task_plots_of_all(document, False), *found]}


def rows(plot: Plot) -> dict[str, dict[str, Any]]:
    """The data of a plot's main layer by policy, or by policy and group."""
    spec = plot.spec or {}
    given = spec.get("data") or next(layer["data"] for layer in spec["layer"] if "transform" in layer)
    return {f"{row['policy']} {row['label']}" if "measured" in row else row["policy"]: row for row in given["values"]}


def played(policy: str, scenario: TaskScenario | None = None) -> list[TaskWorlds]:
    """Each seed's world at its end, run anew."""
    scenario = scenario or tasks_scenario()
    plan, found, worlds = build_task_plan(scenario), find_task_policy(policy), []
    for seed in SEEDS:
        worlds.append(new_worlds(plan, [seed], history=scenario.rules.most_steps))
        run_tasks(plan, worlds[-1], found, found.parameters(facts_of(scenario, plan)))
    return worlds


def mean_and_half(values: Any) -> tuple[float, float]:
    half = stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.mean(values)), float(half)


def times(world: TaskWorlds) -> Any:
    return world.task[0]["finished"] - world.task[0]["arrival"]


# The numbers


@pytest.mark.parametrize("policy", POLICIES)
def test_completion_times_on_the_page_are_those_of_the_runs(whole: dict[str, Any], policy: str) -> None:
    worlds, row = played(policy), rows(drawn(whole)["completion"])[policy]
    for choice, of in (("mean", np.mean), ("p50", np.median), ("p99", lambda x: np.percentile(x, 99))):
        mean, half = mean_and_half([float(of(times(w))) for w in worlds])
        assert row[choice] == pytest.approx(mean)
        assert row[f"{choice}_high"] - mean == pytest.approx(half)
    best = whole["scenarios"]["built"]["ranking"][0]
    gaps = [times(w).mean() - times(b).mean() for w, b in zip(worlds, played(best), strict=True)]
    behind = "{:.3f} ± {:.3f} steps".format(*mean_and_half(gaps)) if policy != best else "best"
    assert plain(row["behind_text"]) == behind
    pooled = np.concatenate([times(w) for w in worlds])
    within, edges = task_points(whole)[0].within(policy), np.array(COMPLETION_STEPS)
    assert within[:60] == pytest.approx([(pooled <= edge).mean() for edge in edges[:60]])
    assert edges[:3].tolist() == [1, 2, 3]


@pytest.mark.parametrize("policy", POLICIES)
def test_tasks_in_the_system_are_those_of_the_runs_with_their_interval(whole: dict[str, Any], policy: str) -> None:
    row, worlds = rows(drawn(whole)["alive"])[policy], played(policy)
    assert len(row["mean"]) == max(int(w.world[0]["now"]) for w in worlds) + 1  # a step without any ends the line
    for step in (0, 7, 20, len(row["mean"]) - 1):
        there = [int(((w.task[0]["arrival"] <= step) & (w.task[0]["finished"] > step)).sum()) for w in worlds]
        mean, half = mean_and_half(there)
        assert row["mean"][step] == pytest.approx(mean, abs=1e-4)
        assert row["high"][step] == pytest.approx(mean + half, abs=1e-4)
        assert row["low"][step] == pytest.approx(max(0.0, mean - half), abs=1e-4)


def test_resources_in_use_are_those_of_the_runs(whole: dict[str, Any]) -> None:
    plots, worlds = drawn(whole), played("min")
    lines = rows(plots["used-cpu"])["min"]["mean"]
    for step in (0, 7, 20):
        running = [(w.task[0]["started"] <= step) & (w.task[0]["finished"] > step) for w in worlds]
        cpus = [w.amounts[0][r, 0].sum() for w, r in zip(worlds, running, strict=True)]
        assert lines[step] == pytest.approx(np.mean(cpus) / 48, abs=1e-4)
    cells = {(r["policy"], r["resource"]): r for r in (plots["used"].spec or {})["data"]["values"]}
    shares = []
    for w in worlds:
        ran = w.task[0]["finished"] - w.task[0]["started"]
        shares.append((w.amounts[0][:, 1] * ran).sum() / (48 * w.world[0]["now"]))
    assert cells["min", "gpu"]["busy"] == pytest.approx(np.mean(shares), abs=1e-4)
    assert set(cells) == {(p, r) for p in POLICIES for r in ("cpu", "gpu", "memory")}


@pytest.mark.parametrize("policy", POLICIES)
def test_what_types_get_and_take_is_that_of_the_runs(whole: dict[str, Any], policy: str) -> None:
    plots, worlds = drawn(whole), played(policy)
    for j, name in enumerate(("insensitive", "sensitive")):
        mine = [w.task[0]["type"] == j for w in worlds]
        mean, half = mean_and_half([times(w)[m].mean() for w, m in zip(worlds, mine, strict=True)])
        row = rows(plots["by-type"])[f"{policy} {name}"]
        assert (row["measured"], row["measured_high"]) == pytest.approx((mean, mean + half))
        given = np.concatenate([w.amounts[0][m, 1] for w, m in zip(worlds, mine, strict=True)])
        row = rows(plots["given-gpu"])[f"{policy} {name}"]
        assert row["measured"] == pytest.approx(given.mean(), abs=1e-4)
        low, high = np.percentile(given, [10, 90], method="inverted_cdf")
        assert (row["measured_low"], row["measured_high"]) == (low, high)


def test_speeds_are_those_of_the_plan() -> None:
    scenario = load_tasks("tapfinger-testbed-3")
    plan, found = build_task_plan(scenario), task_axes(scenario)["speeds"]
    table = by_amounts(plan.steps, plan.most, plan.elastic)
    for j, name in enumerate(scenario.types):
        cpus, gpus = found[name]["amounts"].values()
        assert (cpus[-1], gpus[-1]) == (16, 8)
        for row, cpu in zip(found[name]["steps"], cpus, strict=True):
            assert row == [table[j, cpu, gpu] for gpu in gpus]


def test_long_axes_of_amounts_and_of_time_are_cut_down() -> None:
    big = tasks_scenario(clusters=(cluster("edge", cpu=100, gpu=100),), tasks=5000, most_steps=100_000)
    axes = task_axes(replace(big, resources={**big.resources, "cpu": Resource(name="cpu", most_per_task=100)}))
    assert [len(axis) for axis in axes["speeds"]["sensitive"]["amounts"].values()] == [24, 16]
    assert axes["speeds"]["sensitive"]["amounts"]["cpu"][::23] == [2, 100]
    assert len(axes["time_steps"]) - 1 <= 240
    assert axes["time_steps"][-1] == math.ceil(4 * 5000 / 3)
    assert time_edges(tasks_scenario(most_steps=7)) == list(range(8))  # a run is cut then


def test_estimates_of_sums_are_those_of_the_values() -> None:
    values = [3, 8, 8, 1]
    got, expected = estimate_of_sums(sum(values), sum(v * v for v in values), 4, 2.0), estimate([v / 2 for v in values])
    assert (got.mean, got.ci95, got.n) == pytest.approx((expected.mean, expected.ci95, 4))
    assert math.isnan(estimate_of_sums(3, 9, 1).ci95)
    assert math.isnan(estimate_of_sums(0, 0, 0).mean)


def test_the_spread_of_amounts_leaves_out_a_tenth_at_each_end() -> None:
    assert Spread.of([0, 1, 8, 0, 1]) == Spread(mean=(1 + 16 + 4) / 10, low=1.0, high=2.0)
    assert Spread.of([0, 0]) is None


# Words, tables, plots


def test_the_verdict_names_the_best_its_lead_the_bound_and_what_it_knows(document: dict[str, Any]) -> None:
    point = task_points(document)[0]
    best, second = point.ranking[:2]
    words = plain(task_verdict(point))
    assert words.startswith(f"{best} ")
    assert f"{point.figure(best, 'completion_steps').mean:.3f} ± " in words
    assert f"lower bound without resizing or pre-emption: {point.bound.mean:.3f} ± " in words
    assert f"{best} knows the progress and the speed of tasks" in words
    assert "the best policy without such privileges is min, " in words
    assert second in words
    gap = point.from_bound("min")
    assert gap.mean == pytest.approx(point.figure("min", "completion_steps").mean - point.bound.mean)
    point.body["ranking"] = ["min"]
    assert f"; lower bound without resizing or pre-emption: {point.bound.mean:.3f}" in plain(task_verdict(point))
    assert f", {gap.mean:.3f} ± {gap.ci95:.3f} less." in plain(task_verdict(point))


def test_tables_have_every_policy_the_bound_and_what_they_know(whole: dict[str, Any]) -> None:
    made = task_tables(task_points(whole)[0])
    assert sum("optimus" in table.rows for table in made) == 4
    assert made[0].rows[0] == "lower bound"
    assert dict(zip(made[0].rows, made[0].columns["privileges"], strict=True))["optimus"] == "progress, speed, resize"
    headings = [heading for table in made for heading in table.columns]
    assert sum(heading.startswith("gpu ") for heading in headings) == 1 + 2 * 16  # in use; each type by GPUs
    quantiles = [f"p{q} completion, steps" for q in (50, 90, 95, 99)]
    for heading in ("mean completion, steps", "behind best, steps", *quantiles, "sensitive, gpu", "memory in use, %"):
        assert heading in headings, heading


def test_bars_are_coloured_by_what_policies_know_and_do(whole: dict[str, Any]) -> None:
    found = rows(drawn(whole)["completion"])
    assert {p: row["group"] for p, row in found.items()} == {
        "min": "no privileges",
        "shortest-first": "knows progress or speed",
        "optimus": "knows, and resizes or pre-empts",
        "tiresias": "knows, and resizes or pre-empts",
    }
    assert found["tiresias"]["powers"] == "speed, pre-empt"


def test_a_bound_that_not_all_seeds_have_is_none() -> None:
    figures = {"completion_steps": 2.0, "fallback_share": 0.0}
    result = Comparison({"built": tasks_scenario()}, ("min",), (0, 1))
    for seed, bound in ((0, 1.5), (1, None)):
        result.add(TrialResult("built", seed, {"min": figures}, {}, {"min": {}}, bound))
    assert result.bound_values("built") == []


def test_changes_of_links_are_marked_and_where_there_is_no_bound_none_is_told(whole: dict[str, Any]) -> None:
    plots = drawn(whole, label=1)
    assert plots["alive"].notes == (
        "at step 5: links to edge-1: down",
        "at step 9: links to edge-*: bandwidth x 0.5, up",
    )
    assert "bound" not in plots["completion"].caption
    assert "bound" in drawn(whole)["completion"].caption
    assert drawn(whole)["alive"].notes == ()
    assert "Dotted lines are changes of links." in plots["alive"].caption
    assert "Dotted" not in drawn(whole)["alive"].caption


def test_tasks_that_are_left_where_lines_end_are_told() -> None:
    stuck = made_of({"cut": tasks_scenario(most_steps=10)}, ["min"], [0, 1])
    assert drawn(stuck)["alive"].caption.endswith(" Lines end at step 10; under min some tasks are unfinished then.")
    assert "Unfinished at the end of the run, and counted as finished then: min " in task_verdict(task_points(stuck)[0])
    assert "unfinished, %" in task_tables(task_points(stuck)[0])[0].columns


def test_a_resource_that_does_not_count_is_left_out_of_speeds(whole: dict[str, Any]) -> None:
    plots = drawn(whole)
    assert plots["speed-insensitive"].spec is None
    assert (
        plots["speed-insensitive"].caption
        == "Nothing to draw: a task takes 4 steps, whatever its allocation of cpu and gpu."
    )
    line = (plots["speed-sensitive"].spec or {})["data"]["values"]
    assert [row["amount"] for row in line] == list(range(1, 17))
    assert "whatever its allocation of cpu" in plots["speed-sensitive"].caption
    testbed = made_of({"t": load_tasks("tapfinger-testbed-3", ["tasks=5"])}, ["min"], [0])
    cells = (drawn(testbed)["speed-convnet"].spec or {})["data"]["values"]
    assert [len(row["steps"]) for row in cells] == [8] * 15


def test_one_seed_has_no_intervals_and_promises_none() -> None:
    one = made_of({"built": tasks_scenario(tasks=20)}, ["min", "optimus"], [3], bounded=False)
    for name, plot in drawn(one).items():
        assert "interval" not in plot.caption.replace("One seed, so no intervals.", ""), name
        if not name.startswith("given"):
            assert '"measured_low":' not in json.dumps(plot.spec), name
    assert "low" not in rows(drawn(one)["alive"])["min"]


def test_a_sweep_of_the_rate_is_drawn_against_it(open_page: Open) -> None:
    points = {f"rate={r}": tasks_scenario(rate=float(r)) for r in (1, 3)}
    swept = made_of(points, ["min", "optimus"], SEEDS, sweep=Sweep("rate", (1, 3)))
    plot = drawn(swept)["sweep"]
    found = [row for row in (plot.spec or {})["layer"][0]["data"]["values"] if row["policy"] == "min"]
    assert [row["value"] for row in found] == [1, 3]
    expected = [np.mean([times(w).mean() for w in played("min", s)]) for s in points.values()]
    assert [row["mean"] for row in found] == pytest.approx(expected)
    assert plot.finding.startswith("Best by value: rate=1 ")
    assert list(plot.findings) == ["mean", "p50", "p90", "p95", "p99"]
    assert "lower bound" in plot.caption
    opened = open_page(swept)
    assert len(opened.lines("sweep")) == 3  # two policies and the bound
    opened.page.locator("figure[data-plot=sweep] select").select_option("p95")
    assert len(opened.lines("sweep")) == 2
    assert opened.complaints == []


# Documents that won't do


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("capacity"), "scenarios.built.capacity: field required"),
        (lambda s: s["policies"]["min"].pop("detail"), "scenarios.built.policies.min.detail: field required"),
        (lambda s: s["seeds"].clear(), "built: it has a ranking, but no seeds"),
        (lambda s: s["policies"].pop("min"), "built: min is in its ranking, but not in its policies"),
        (lambda s: s["time_steps"].pop(), "alive has 80 bins where 79 are expected"),
        (lambda s: s["time_steps"].reverse(), "built: the edges in time_steps should grow"),
        (lambda s: s["completion_steps"].__setitem__(0, 0), "edges in completion_steps should grow from above 0"),
        (lambda s: s["capacity"].pop("gpu"), "used should be of cpu, memory"),
        (lambda s: s["speeds"]["sensitive"]["steps"].pop(), "speeds.sensitive.steps should have 15 rows of 16"),
        (lambda s: s["policies"]["min"]["detail"]["completion"].pop(), "min: completion has "),
    ],
)
def test_what_no_report_can_be_made_of_is_refused_in_one_line(
    document: dict[str, Any], change: Callable[[Any], Any], message: str
) -> None:
    change(document["scenarios"]["built"])
    with pytest.raises(UserError) as error:
        check_tasks(document)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_truncated_document_is_refused_in_one_line_with_exit_code_2(
    whole: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, text = tmp_path / "out.json", json.dumps(whole)
    headless = json.dumps({k: v for k, v in whole.items() if k != "policies"})
    for content, message in (
        (text[: len(text) // 2], "not valid JSON"),
        (headless, "not as fairlead writes it: policies: field required"),
        ('{"world": "tasks"}', "fairlead: field required"),
        (json.dumps(whole | {"scenarios": {}}), "scenarios: there are none"),
    ):
        file.write_text(content)
        assert main(["report", str(file)]) == 2
        line = capsys.readouterr().err
        assert line.startswith(f"fairlead: {file}: ")
        assert message in line
        assert line.count("\n") == 1
    assert not (tmp_path / "out.html").exists()


def test_whatever_is_wrong_in_a_document_makes_a_line_or_a_page() -> None:
    small = tasks_scenario(tasks=8, link_changes=LINKS, most_steps=20)
    whole = made_of({"built": small}, ["min"], [0, 1])
    whole["scenarios"]["built"].pop("definition")
    whole["scenarios"]["built"]["bound"] = {"mean": 1.0, "ci95": 0.1, "n": 2, "by_seed": [1.0, 1.0]}
    its = whole["scenarios"]["built"]["policies"]["min"]
    its["figures"] = {k: its["figures"][k] for k in ("completion_steps", "used_cpu", "unfinished")}
    its["by_seed"] = {"completion_steps": its["by_seed"]["completion_steps"]}
    assert refusals(whole) > 300


# Files and pages


def test_plots_are_written_under_the_names_of_what_they_show(whole: dict[str, Any], tmp_path: Path) -> None:
    names = {p.stem for p in write_plots(whole, tmp_path)}
    of_labels = {f"{label}-{plot}" for label in ("built", "linked") for plot in PLOTS if plot != "speed-insensitive"}
    assert names == {"across", *of_labels}
    svg = (tmp_path / "built-completion.svg").read_text()
    assert "lower bound" in svg
    assert "knows progress or speed" in svg


def test_types_of_odd_names_have_plots_of_their_own() -> None:
    types = (
        task_type(EVIL, constant(2)),
        task_type("a b", constant(3), share=0.3),
        task_type("a/b", constant(3), share=0.2),
    )
    made = made_of({EVIL: tasks_scenario(tasks=8, types=types)}, ["min"], [0])
    assert {"speed-a_b", "speed-a_b-2"} < set(drawn(made))
    assert EVIL not in page(made)


FEW = ["--set", "tasks=30", "--seeds", "2", "--jobs", "1", "--policies", "tuned-rule,optimus,min"]


def test_compare_writes_page_and_plots_and_the_saved_result_the_same(
    open_page: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh, saved, result = tmp_path / "fresh.html", tmp_path / "saved.html", tmp_path / "out.json"
    asked = ["compare", "tapfinger-3", "tapfinger-testbed-3", *FEW]
    assert main([*asked, "--json", str(result), "--report", str(fresh), "--plots", str(tmp_path / "plots")]) == 0
    assert main(["report", str(result), "-o", str(saved)]) == 0
    assert saved.read_bytes() == fresh.read_bytes()
    assert "44 plots written" in capsys.readouterr().err
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"across.png", "tapfinger-3-completion.svg", "tapfinger-testbed-3-speed-convnet.png"} <= names
    found = open_page(fresh)
    for plot in ("across", "completion", "distribution", "alive", "by-type", "given-gpu", "used-cpu", "used"):
        assert found.marks(plot) > 10, plot
    assert found.page.locator("figure[data-plot=speed-convnet]").is_hidden()  # of the other scenario
    found.page.locator("#label").select_option(label="tapfinger-testbed-3")
    assert found.marks("speed-convnet") > 100
    assert found.page.locator("figure[data-plot=speed-sensitive]").is_hidden()
    assert found.complaints == []


def test_the_page_follows_choosers_and_checkboxes(open_page: Open, whole: dict[str, Any]) -> None:
    found = open_page(whole)
    bars = found.page.locator("figure[data-plot=completion] .mark-rect.role-mark path")
    assert bars.count() == len(POLICIES)
    assert found.page.locator("figure[data-plot=completion] .ink_bound_marks line").count() == 1
    before = bars.first.get_attribute("d")
    found.page.locator("figure[data-plot=completion] select").select_option("p99")
    assert found.settled().locator("figure[data-plot=completion] .ink_bound_marks line").count() == 0
    assert bars.first.get_attribute("d") != before
    label = found.page.locator("figure[data-plot=completion] .plot").get_attribute("aria-label") or ""
    assert label.startswith("The p99 of completion times is: ")
    assert len(found.lines("alive")) == len(POLICIES)
    found.page.get_by_label("min", exact=True).uncheck()
    assert len(found.lines("alive")) == len(found.lines("distribution")) == len(POLICIES) - 1
    found.page.get_by_role("button", name="None").click()
    assert len(found.lines("alive")) == 0
    assert found.complaints == []


def test_a_tooltip_tells_what_a_policy_knows(open_page: Open, whole: dict[str, Any]) -> None:
    found = open_page(whole)
    found.page.locator("figure[data-plot=completion] .mark-rect.role-mark path").first.hover()
    tip = found.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "privileges" in tip.inner_text()
    assert "behind best" in tip.inner_text()


def test_a_phone_never_scrolls_sideways_and_nothing_moves(open_page: Open, whole: dict[str, Any]) -> None:
    found = open_page(whole, width=360)
    found.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert not found.scrolls_sideways()
    legend = found.page.locator("figure[data-plot=completion] .role-legend-label text").last.bounding_box()
    assert legend is not None
    assert legend["x"] + legend["width"] < 360
    wide = open_page(whole)
    for figure in wide.page.locator("figure:visible:has(svg)").all():
        room = int(figure.locator(".plot").evaluate("box => parseInt(box.style.minHeight)"))
        drawn_box = figure.locator("svg").bounding_box()
        assert drawn_box is not None
        assert room - 16 < drawn_box["height"] <= room, figure.get_attribute("data-plot")


@pytest.mark.parametrize("policies", [["min"], ["min", "optimus"]])
def test_poor_documents_make_sound_pages(open_page: Open, policies: list[str]) -> None:
    made = made_of({"built": tasks_scenario(tasks=5)}, policies, [0], bounded=False)
    body = copy.deepcopy(made["scenarios"]["built"]) | {"seeds": [], "ranking": [], "policies": {}, "bound": None}
    made["scenarios"]["none"] = body
    found = open_page(made)
    found.page.locator("#label").select_option(label="none")
    found.settled()
    assert found.page.locator("#tables :text('No seed is finished.')").is_visible()
    assert found.complaints == []
