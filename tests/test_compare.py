"""Comparisons: paired, the same on any number of processes, safe to interrupt, whole when one policy fails."""

from __future__ import annotations

import json
import math
import multiprocessing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from builders import deploy, node, scenario, source
from fairlead.cli.experiments.tables import show_comparison
from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments import fingerprint, serving_trial, workers
from fairlead.experiments.checkpoint import Checkpoint
from fairlead.experiments.compare import Comparison, compare
from fairlead.experiments.result_file import as_document, as_json
from fairlead.experiments.trial import Trial, TrialResult
from fairlead.experiments.workers import local
from fairlead.measure.statistics import estimate, jain, paired_difference
from fairlead.measure.write_files import check_writable, write_whole
from fairlead.policies.compile_cache import compiled_before
from fairlead.policies.interface import find, rules
from fairlead.scenarios.loader import load
from fairlead.sim.serving.run_policy import simulate

SHORT = ["duration_s=10"]
POLICIES = ("closest", "load-balancing", "random")


def scenarios(*names: str, overrides: list[str] = SHORT) -> dict[str, Scenario]:
    return {name: load(name, overrides) for name in names}


@pytest.fixture(scope="module")
def result() -> Comparison:
    return compare(scenarios("full-edge", "ecsrl"), POLICIES, range(3))


def test_every_policy_runs_on_every_scenario_and_seed(result: Comparison) -> None:
    assert {s: {p: sorted(r) for p, r in runs.items()} for s, runs in result.runs.items()} == {
        s: {p: [0, 1, 2] for p in POLICIES} for s in ("full-edge", "ecsrl")
    }


def test_outcomes_add_up_and_so_do_the_reasons(result: Comparison) -> None:
    for runs in result.runs.values():
        for figures in (f for seeds in runs.values() for f in seeds.values()):
            shares = [figures[k] for k in ("success", "late", "inaccurate", "rejected")]
            assert sum(shares) == pytest.approx(1.0, abs=1e-12)
            reasons = sum(v for k, v in figures.items() if k.startswith("rejected_"))
            assert reasons == pytest.approx(figures["rejected"], abs=1e-12)
            assert figures["latency_p50_ms"] <= figures["latency_p95_ms"] <= figures["latency_p99_ms"]
            assert 0 < figures["utilisation"] <= 1
            assert 0 < figures["fairness_sla"] <= 1


def test_the_best_policy_is_not_behind_itself_and_the_others_are(result: Comparison) -> None:
    best, *others = result.ranking("full-edge")
    assert result.behind_best("full-edge", best).mean == 0
    assert all(result.behind_best("full-edge", p).mean <= 0 for p in others)


def test_the_same_bytes_whatever_the_number_of_processes() -> None:
    both = scenarios("full-edge", "ecsrl")
    one = as_json(as_document(compare(both, POLICIES, range(2)), SHORT))
    two = as_json(as_document(compare(both, POLICIES, range(2), partial(local, jobs=2)), SHORT))
    assert one == two


def test_the_file_carries_settings_versions_assumptions_and_the_scenario(result: Comparison) -> None:
    document = json.loads(as_json(as_document(result, SHORT)))
    assert document["settings"] == {"seeds": [0, 1, 2], "policies": list(POLICIES), "set": SHORT, "sweep": None}
    assert set(document["versions"]) == {"python", "numpy", "numba", "scipy"}
    assert document["policies"]["closest"] == {"package": "fairlead", "kind": "compiled", "hash": find("closest").hash}
    assert (document["complete"], document["stopped"]) == (True, None)
    scenario = document["scenarios"]["ecsrl"]
    assert scenario["title"] == load("ecsrl").title
    for seed, limit in enumerate(scenario["bound"]["by_seed"]):
        assert all(scenario["policies"][p]["by_seed"]["success"][seed] <= limit for p in POLICIES)
    assert "devices.jetson-tx2: price_per_h" in scenario["assumptions"]
    assert scenario["definition"]["workload"]["duration_s"] == 10
    figures = scenario["policies"]["closest"]["figures"]
    assert scenario["definition"]["links"][0]["from"] == "*"
    seeds = scenario["policies"]["closest"]["by_seed"]["success"]
    assert figures["success"]["mean"] == pytest.approx(np.mean(seeds))
    assert figures["success"]["ci95"] == pytest.approx(stats.t.ppf(0.975, 2) * np.std(seeds, ddof=1) / math.sqrt(3))


def test_an_interrupt_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = workers.run_trial, []

    def third_is_interrupted(trial: Any) -> Any:
        calls.append(trial.seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(trial)

    monkeypatch.setattr(workers, "run_trial", third_is_interrupted)
    result = compare(scenarios("ecsrl"), POLICIES, range(5))
    assert result.interrupted
    assert result.done_seeds("ecsrl") == [0, 1]
    document = json.loads(as_json(as_document(result, SHORT)))
    assert document["complete"] is False
    assert document["scenarios"]["ecsrl"]["seeds"] == [0, 1]


def test_a_policy_that_fails_is_named_and_the_others_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairlead.sim.serving import run_policy

    real = run_policy.run

    def random_fails(plan: Any, world: Any, policy: Any) -> run_policy.Account:
        if policy.name == "random":
            raise PolicyError("policy 'random' failed: ValueError: boom")
        return real(plan, world, policy)

    monkeypatch.setattr(serving_trial, "run", random_fails)
    result = compare(scenarios("ecsrl"), POLICIES, range(2))
    assert list(result.failures) == ["random"]
    assert "boom (scenario ecsrl, seed 0)" in result.failures["random"]
    assert set(result.ranking("ecsrl")) == {"closest", "load-balancing"}
    assert result.done_seeds("ecsrl") == [0, 1]


def test_results_come_together_in_the_order_of_the_question_whoever_is_first() -> None:
    def trial(label: str, seed: int) -> TrialResult:
        both = {"closest": 0.1 * seed, "random": 0.05 * seed}
        figures = {name: {"success": success, "fallback_share": 0.0} for name, success in both.items()}
        counts = {name: [seed] for name in ("success", "late", "inaccurate", "rejected")}
        detail = {"outcomes": counts, "latency": [seed], "load": {"n": [0.1 * seed]}}
        return TrialResult(label, seed, figures, {}, {"closest": detail, "random": detail}, 0.9 - 0.1 * seed)

    both = scenarios("full-edge", "ecsrl")
    trials = [trial(label, seed) for label in both for seed in range(3)]
    there, back = Comparison(both, ("closest", "random"), (0, 1, 2)), Comparison(both, ("closest", "random"), (0, 1, 2))
    for one, other in zip(trials, reversed(trials), strict=True):
        there.add(one)
        back.add(other)
    assert as_json(as_document(there, [])) == as_json(as_document(back, []))
    document = json.loads(as_json(as_document(back, [])))["scenarios"]["ecsrl"]
    assert document["policies"]["closest"]["detail"]["latency"] == [3]
    bound = document["bound"]
    assert bound["by_seed"] == pytest.approx([0.9, 0.8, 0.7])
    assert (bound["mean"], bound["n"]) == (pytest.approx(0.8), 3)


def test_seeds_without_a_request_are_rows_of_nothing() -> None:
    empty = compare(scenarios("ecsrl", overrides=["duration_s=0.001", "rate=0.001"]), POLICIES, range(2))
    for runs in empty.runs["ecsrl"].values():
        assert [figures["requests"] for figures in runs.values()] == [0, 0]
        assert all(math.isnan(figures["success"]) for figures in runs.values())


def test_what_was_run_is_known_to_be_compiled(result: Comparison) -> None:
    assert result.runs
    assert compiled_before()


def test_with_one_seed_there_is_no_interval() -> None:
    result = compare(scenarios("ecsrl"), ("closest",), [0])
    assert math.isnan(result.estimates("ecsrl", "closest")["success"].ci95)
    document = json.loads(as_json(as_document(result, [])))
    assert document["scenarios"]["ecsrl"]["policies"]["closest"]["behind_best"]["ci95"] is None


def test_estimates_are_students_intervals() -> None:
    values = [1.0, 2.0, 4.0, 7.0]
    e = estimate(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (e.mean, e.low, e.high) == pytest.approx((3.5, low, high))
    # The same shift for all: the pairs differ by exactly 1, whatever their spread.
    shifted = paired_difference([v + 1 for v in values], values)
    assert (shifted.mean, shifted.ci95) == (1.0, 0.0)


def test_jains_index() -> None:
    assert jain([0.5, 0.5, 0.5]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([1.0, 0.5]) == pytest.approx(1.5**2 / (2 * 1.25))  # (sum)^2 / (n * sum of squares)


def test_output_paths_are_checked_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        check_writable(tmp_path / "no" / "out.json")
    check_writable(Path("/dev/null"))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def disk_full(source: Path, path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", disk_full)
    with pytest.raises(UserError, match="No space left"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_links_stay_links_and_devices_stay_devices(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    write_whole(Path("/dev/null"), "new")
    assert Path("/dev/null").is_char_device()


def test_what_goes_wrong_midway_costs_no_finished_run(monkeypatch: pytest.MonkeyPatch) -> None:
    real = workers.run_trial

    def second_does_not_fit(trial: Any) -> Any:
        if trial.seed == 1:
            raise MemoryError("Unable to allocate 7 TiB")
        return real(trial)

    monkeypatch.setattr(workers, "run_trial", second_does_not_fit)
    result = compare(scenarios("ecsrl"), POLICIES, range(3))
    assert result.interrupted == "stopped by MemoryError: Unable to allocate 7 TiB"
    assert result.done_seeds("ecsrl") == [0]


# ---- what the shipped scenarios show, on seeds that had no part in their design


@pytest.fixture(scope="module")
def shown() -> Comparison:
    seven = [p.name for p in rules().values() if p.source == "ASET" and p.name != "random"]
    assert len(seven) == 7
    both = {"full-edge": load("full-edge", ["rate=40"]), "latency-minority": load("latency-minority")}
    return compare(both, seven, range(1000, 1012), partial(local, jobs=2))


@pytest.mark.slow
def test_balancing_load_is_unfair_to_a_latency_sensitive_minority(shown: Comparison) -> None:
    """The warning of the ASET slides: relaxed streams fill the near nodes too."""
    gold = "success_sla_gold"
    behind = paired_difference(
        shown.values("latency-minority", "load-balancing", gold), shown.values("latency-minority", "farthest", gold)
    )
    assert behind.high < 0
    fairness = paired_difference(
        shown.values("latency-minority", "load-balancing", "fairness_sla"),
        shown.values("latency-minority", "farthest", "fairness_sla"),
    )
    assert fairness.high < 0


@pytest.mark.slow
def test_no_policy_of_the_seven_is_best_everywhere(shown: Comparison) -> None:
    """Each is somewhere behind the best with an interval below 0."""
    for policy in shown.policies:
        assert any(shown.behind_best(s, policy).high < 0 for s in shown.scenarios), policy


@pytest.mark.slow
def test_no_policy_is_best_throughout_shifting() -> None:
    """Farthest leads while few sensitive streams are among many relaxed ones, load balancing in the last phase."""
    scenario = load("shifting")
    leads: dict[int, list[float]] = {1: [], 3: []}
    for seed in range(3000, 3020):
        good = {}
        for policy in ("load-balancing", "farthest"):
            run = simulate(scenario, policy, seed)
            phase = np.searchsorted([0, 150_000, 450_000, 540_000], run.requests["now_ms"], side="right") - 1
            good[policy] = {k: float((run.rows["outcome"][phase == k] == Outcome.SUCCESS).mean()) for k in leads}
        for k in leads:
            leads[k].append(good["load-balancing"][k] - good["farthest"][k])
    assert estimate(leads[1]).high < 0
    assert estimate(leads[3]).low > 0


def ahead(scenario: str, rate: int, rule: str, others: list[str], seeds: range) -> dict[str, float]:
    """How many points of success at least `rule` is ahead of each of the others, at 95 %."""
    here = load(scenario, [f"rate={rate}"])
    success = {name: [simulate(here, name, seed).figures["success"] for seed in seeds] for name in [rule, *others]}
    return {name: 100 * paired_difference(success[rule], success[name]).low for name in others}


def test_counting_what_a_request_takes_from_others_wins_where_models_share_a_device() -> None:
    """On `ecsrl`, least-taken is far ahead of the best rules that look at the newcomer alone."""
    others = ["least-expected-completion", "early-drop", "least-energy-in-time", "load-balancing"]
    assert min(ahead("ecsrl", 18500, "least-taken", others, range(700000, 700003)).values()) > 8.0


@pytest.mark.slow
def test_foreseeing_the_wait_wins_where_streams_are_bound() -> None:
    """On `full-edge`, slack leads as long as there is room, slack-decline also when there is none."""
    assert min(ahead("full-edge", 60, "slack", ["load-balancing", "farthest"], range(700000, 700010)).values()) > 0.0
    others = ["slack", "load-balancing", "closest", "early-drop"]
    assert min(ahead("full-edge", 100, "slack-decline", others, range(700000, 700005)).values()) > 1.0


def test_names_are_kept_as_they_are_and_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    odd = scenario(
        nodes=[node("edge"), node("edge_")],
        deployments=[deploy(on="edge"), deploy(on="edge_")],
        sources=[source(tenant="x[/y]", sla="[bold]")],
        rate_per_min=6000.0,
    )
    result = compare({"test_": odd}, ("closest",), [0, 1])
    document = as_document(result, [])
    assert list(document["scenarios"]) == ["test_"]
    body = document["scenarios"]["test_"]
    assert list(body["definition"]["nodes"]) == ["edge", "edge_"]
    assert "from" in body["definition"]["links"][0]
    assert {"utilisation_edge", "utilisation_edge_"} <= set(body["policies"]["closest"]["figures"])
    show_comparison(Console(width=200), document, ["test_"])
    assert "x[/y], %" in (told := capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " "))
    assert "[bold], %" in told


def test_when_results_can_not_be_kept_no_worker_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Checkpoint, key: str, result: TrialResult) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "add", full)
    jobs = partial(local, jobs=2)
    result = compare(scenarios("ecsrl"), ("closest",), range(20), jobs, tmp_path / "kept.jsonl", bounded=False)
    assert "No space left" in result.interrupted
    assert result.done_seeds("ecsrl") == [0]
    assert multiprocessing.active_children() == []


def test_what_a_result_depends_on_includes_python_and_the_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial("ecsrl", load("ecsrl"), 0, ("closest",))
    here = fingerprint.ingredients(trial)
    assert {"python", "arithmetic", "numpy", "code", "policy closest"} <= set(here)
    assert fingerprint.difference(here) == ""
    other = fingerprint.difference(here | {"arithmetic": "of another processor"})
    assert other.startswith("arithmetic is ")
