"""The decision log: what its rows say, that figures are functions of it, and that a file gives back every bit."""

from __future__ import annotations

import json
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import bundles
from builders import FIRST, Ask, choosing, deploy, finished, log_of, node, play, rich_scenario, scenario
from fairlead.cli.main import main
from fairlead.domain.decision_log import (
    DecisionLog,
    LogContext,
    LoggedDeployment,
    LoggedNode,
    LoggedPolicy,
    decided,
    fallback_code,
    fill_decisions,
)
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Fallback, Outcome, Reason
from fairlead.domain.records import DECISION, REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.measure import decision_log_file
from fairlead.measure.decision_log_file import log_writer, read_log, write_log
from fairlead.measure.serving_bins import serving_bins
from fairlead.measure.serving_figures import serving_figures
from fairlead.policies.expected_times import completion_ms
from fairlead.policies.interface import Policy, find
from fairlead.policies.observe import dispatch_features
from fairlead.policies.snapshot.fleet import build_fleet
from fairlead.policies.snapshot.log_context import log_context
from fairlead.scenarios.loader import load
from fairlead.sim.serving.run_policy import simulate
from golden import recorded

GUIDE = Path(__file__).parent.parent / "docs/guides/decision-log.md"


@pytest.fixture(params=["request", "stream"])
def rich(request: pytest.FixtureRequest) -> Scenario:
    return rich_scenario(request.param)


# ---- what rows say


def test_the_prediction_is_right_where_nothing_is_random_and_nobody_comes_after() -> None:
    made = scenario(nodes=[node("edge")], deployments=[deploy(servers=1)])  # 10 ms each
    rows = play(made, [Ask(0.0), Ask(1.0), Ask(2.0)]).rows
    assert rows["predicted_ms"].tolist() == [10.0, 20.0, 30.0]  # a wait counts as whole services
    assert rows["latency_ms"].tolist() == [10.0, 19.0, 28.0]


def test_the_prediction_is_of_the_candidate_as_the_policy_saw_it(rich: Scenario) -> None:
    expected: dict[int, float] = {}

    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        choice = int(np.flatnonzero(excluded == 0)[-1])
        expected[int(request.id)] = completion_ms(candidates[choice])
        return choice

    rows = finished(rich, 3, Policy("last", decide, "python")).rows
    was_decided = np.flatnonzero(decided(rows))
    assert was_decided.tolist() == sorted(expected)
    assert rows["predicted_ms"][was_decided].tolist() == [expected[i] for i in was_decided]
    assert np.isnan(np.delete(rows["predicted_ms"], was_decided)).all()


def test_a_rejection_predicts_nothing() -> None:
    (row,) = play(scenario(), [Ask(0.0)], policy=choosing(-1)).rows
    assert np.isnan(row["predicted_ms"])


def test_only_decisions_have_a_policy(rich: Scenario) -> None:
    run = simulate(rich, "least-outstanding", 3)
    asked = decided(run.rows)
    assert run.account.decisions == np.count_nonzero(asked) < len(run.rows)
    assert (run.rows["decided_by"] == np.where(asked, 0, -1)).all()
    assert (run.rows["shadow"] == -2).all()
    policy = find("least-outstanding")
    assert run.log.context.policies == (LoggedPolicy(policy.name, policy.hash),)


def test_what_a_dispatcher_decides_is_certain_and_its_rule_is_named(tmp_path: Path, rich: Scenario) -> None:
    names = dispatch_features(4)
    high = [0.185 if name == "proc_ms 2" else 10.0 for name in names]  # large on shared: about half are above 20.5 ms
    folder = bundles.dispatcher(tmp_path, high=high)
    run = simulate(rich, find(str(folder)), 3)
    fell_back = run.rows["fallback"] == fallback_code(Fallback.RANGE)
    assert 0 < run.account.fallbacks["range"] == np.count_nonzero(fell_back) < run.account.decisions
    names = [policy.name for policy in run.log.context.policies]
    assert sorted(names) == [str(folder), "closest"]
    asked = decided(run.rows)
    assert (
        run.rows["decided_by"][asked] == np.where(fell_back, names.index("closest"), names.index(str(folder)))[asked]
    ).all()
    assert (run.rows["probability"][asked] == 1.0).all()
    assert np.isnan(run.rows["probability"][~asked]).all()


def test_a_full_log_has_the_probability_of_rules_that_draw(rich: Scenario) -> None:
    run = simulate(rich, "random", 3, exclusions=True)
    asked = np.flatnonzero(decided(run.rows))
    for i in asked:
        feasible = np.count_nonzero(run.log.exclusions[i] == 0)  # all four deployments are of the one model
        assert run.rows["probability"][i] == pytest.approx(1 / feasible)
    short = simulate(rich, "random", 3)
    assert np.isnan(short.rows["probability"]).all()
    assert short.account.decisions == run.account.decisions == len(asked)
    certain = simulate(rich, "least-outstanding", 3).rows
    assert (certain["probability"][decided(certain)] == 1.0).all()


def test_a_bundle_without_a_model_leaves_rows_of_its_rule(tmp_path: Path, rich: Scenario) -> None:
    folder = bundles.dispatcher(tmp_path)
    (folder / "model.onnx").unlink()
    run = simulate(rich, find(str(folder)), 3)
    asked = decided(run.rows)
    assert (run.rows["fallback"] == np.where(asked, fallback_code(Fallback.MISSING), 0)).all()
    assert [p.name for p in run.log.context.policies] == ["closest"]


def test_rows_of_a_selector_name_the_rule_of_their_window(tmp_path: Path, rich: Scenario) -> None:
    busiest = sorted(float(stats[0]) for stats, _ in recorded(find(str(bundles.selector(tmp_path))), rich, 3))[-5]
    folder = bundles.edit(tmp_path, high=[busiest / 1.1 - 1e-3, *[10.0] * 6])  # so that few are beyond
    run = simulate(rich, find(str(folder)), 3)
    assert 0 < run.account.fallbacks["range"] < run.account.decisions
    assert len(set(run.account.active)) > 1
    names = [policy.name for policy in run.log.context.policies]
    for row in run.rows[decided(run.rows)]:
        rule = run.account.active[int(row["time_ms"] // rich.rules.window_ms)]
        assert names[row["decided_by"]] == rule
        assert row["fallback"] == (fallback_code(Fallback.RANGE) if rule == "closest" else 0)


def test_the_exclusions_are_those_that_the_policy_saw(rich: Scenario) -> None:
    shown: dict[int, list[int]] = {}

    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        shown[int(request.id)] = excluded.tolist()
        return int(np.flatnonzero(excluded == 0)[0])

    run = simulate(rich, Policy("first", decide, "python"), 3, exclusions=True)
    assert len({tuple(bits) for bits in shown.values()}) > 3
    for i, bits in shown.items():
        assert run.log.exclusions[i].tolist() == bits
    hopeless = (run.rows["outcome"] == Outcome.REJECTED) & ~decided(run.rows)
    assert hopeless.any()
    for i in np.flatnonzero(hopeless):
        assert (run.log.exclusions[i] & run.rows["reason"][i]).any()
        assert run.log.exclusions[i].all()
    assert simulate(rich, FIRST, 3).log.exclusions is None


def test_keeping_exclusions_changes_nothing_else(rich: Scenario) -> None:
    with_them, without = (simulate(rich, "random", 3, exclusions=kept) for kept in (True, False))
    with_them.rows["probability"] = np.nan  # which a short log does not know of a rule that draws
    assert with_them.rows.tobytes() == without.rows.tobytes()
    assert with_them.figures == without.figures


def test_a_host_without_a_world_has_the_context_of_a_run(rich: Scenario) -> None:
    run = simulate(rich, "random", 3).log.context
    nodes = tuple(replace(node, busy_ms=0.0, energy_mj=0.0) for node in run.nodes)
    unmeasured = replace(run, end_ms=0.0, nodes=nodes, policies=(), decisions=0, settings={})
    assert log_context(rich, build_fleet(rich)) == unmeasured != run


# ---- a log of live requests, without a scenario


def live() -> DecisionLog:
    """Three requests for one worker: in time, late in a batch of two, rejected."""
    context = LogContext(
        name="shop", duration_s=1.0, end_ms=900.0, window_ms=1000.0,
        nodes=(LoggedNode("worker", 1, power_idle_w=5.0, work_per_ms=1.0, busy_ms=50.0, energy_mj=600.0),),
        deployments=(LoggedDeployment("small", "worker", "detect", base_ms=8.0, per_kb_ms=2.0),),
        models=("detect",), variants=("small",), sources=("camera",), sites=("door",), tenants=("retail", "police"),
        sla_classes=("gold",), policies=(LoggedPolicy("closest", "0123"),), decisions=3,
    )  # fmt: skip
    requests, rows = np.zeros(3, REQUEST), np.zeros(3, DECISION)
    requests["id"] = rows["request"] = [0, 1, 2]
    requests["now_ms"] = rows["time_ms"] = [0.0, 100.0, 200.0]
    requests["size_kb"], requests["deadline_ms"], requests["tenant"] = 1.0, 15.0, [0, 0, 1]
    rows["choice"] = rows["node"] = rows["variant"] = [0, 0, -1]
    rows["second"], rows["shadow"] = -1, [-2, -1, 0]
    rows["outcome"] = Outcome.SUCCESS, Outcome.LATE, Outcome.REJECTED
    rows["reason"] = 0, 0, Reason.DECLINED
    rows["service_ms"], rows["latency_ms"] = [10.0, 20.0, 0.0], [12.0, 24.0, np.nan]
    rows["price"] = 1e-6, 2e-6, 0.0
    fill_decisions(rows, 0, [0.5, 1.0, 0.25])
    return DecisionLog(context, requests, rows, np.ones(3), np.array([[0], [0], [2]], np.uint16))


def test_a_live_log_has_the_figures_of_a_run() -> None:
    figures = serving_figures(live())
    assert figures["success"] == figures["late"] == figures["rejected"] == 1 / 3
    assert figures["rejected_declined"] == 1 / 3
    assert figures["latency_mean_ms"] == 18.0
    assert figures["degradation"] == 1.5  # 10 and 20 ms of 10 alone
    assert figures["energy_j"] == pytest.approx(5.6)  # 5 W for a second, and 600 mJ
    assert figures["cost_per_success"] == pytest.approx(3e-6)
    assert figures["utilisation_worker"] == 0.05
    assert (figures["success_tenant_retail"], figures["success_tenant_police"]) == (0.5, 0.0)
    assert serving_bins(live())["load"]["worker"][0] == 1.0  # 10 ms of work in a bin of 10
    made = scenario(nodes=[node("worker")], deployments=[deploy(on="worker")])
    run = serving_figures(log_of(made, play(made, [Ask(0.0)])))

    def general(names: Any) -> set[str]:
        return {name for name in names if not name.startswith(("success_sla_", "success_tenant_"))}

    assert general(figures) == general(run)


def test_requests_under_way_and_times_that_are_unknown_are_in_no_mean() -> None:
    """Five more: two under way, one of them sent off; two answered that take no time alone or an unknown one, which
    have latencies of 30 ms, and one served in 12 ms instead of 10.
    """
    log = live()
    requests, rows = np.zeros(8, REQUEST), np.zeros(8, DECISION)
    requests[:3], rows[:3] = log.requests, log.rows
    requests["size_kb"][3:], requests["now_ms"][3:] = 1.0, 300.0
    rows["time_ms"][3:], rows["second"][3:] = 300.0, -1
    rows["choice"][3:], rows["node"][3:] = [-1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]
    rows["outcome"][3:] = Outcome.PENDING, Outcome.PENDING, Outcome.LATE, Outcome.LATE, Outcome.INACCURATE
    rows["service_ms"][5:], rows["latency_ms"][5:] = [20.0, 20.0, 12.0], [30.0, 30.0, 14.0]
    work = np.array([*log.work, 1.0, 1.0, 0.0, np.nan, 1.0])
    log = DecisionLog(log.context, requests, rows, work)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = serving_figures(log)
        assert figures["latency_mean_ms"] == 22.0  # (12 + 24 + 30 + 30 + 14) / 5
        assert figures["latency_p50_ms"] == 24.0
        assert figures["degradation"] == pytest.approx(1.4)  # (1 + 2 + 1.2) / 3; 20 / 0 and 20 / NaN are left out
        assert sum(serving_bins(log)["latency"]) == 5
        for rest, work in ((rows[3:5], log.work[3:5]), (rows[5:7], log.work[5:7])):
            few = serving_figures(DecisionLog(log.context, requests[: len(rest)], rest, work))
            assert np.isnan(few["degradation"])
    assert np.isnan(serving_figures(DecisionLog(log.context, requests[3:5], rows[3:5], work))["latency_mean_ms"])


# ---- files


def assert_same(read: DecisionLog, log: DecisionLog) -> None:
    for ours, its in ((log.requests, read.requests), (log.rows, read.rows)):
        for name in ours.dtype.names:
            assert ours[name].tobytes() == its[name].tobytes(), name
    assert read.work.tobytes() == log.work.tobytes()
    assert read.context == log.context
    assert repr(serving_figures(read)) == repr(serving_figures(log))  # NaN is no number, but has a name
    assert serving_bins(read) == serving_bins(log)
    if log.exclusions is None:
        assert read.exclusions is None
    else:
        assert (read.exclusions == log.exclusions).all()


@pytest.mark.parametrize("policy", ["random", "least-expected-completion", "dispatcher", "selector"])
def test_a_log_that_was_read_back_has_the_same_bits(tmp_path: Path, rich: Scenario, policy: str) -> None:
    made = {"dispatcher": bundles.dispatcher, "selector": bundles.selector}.get(policy)
    run = simulate(rich, find(str(made(tmp_path / "bundle"))) if made else policy, 3, exclusions=True)
    assert (run.rows["second"] >= 0).any()
    run.write_log(tmp_path / "log.parquet")
    read = read_log(tmp_path / "log.parquet")
    assert_same(read, run.log)
    assert repr(serving_figures(read)) == repr(run.figures)


@pytest.mark.parametrize(("name", "policy"), [("ecsrl", "ecsrl"), ("shifting", "aset"), ("aset-testbed", "closest")])
def test_logs_of_scenarios_that_ship(tmp_path: Path, name: str, policy: str) -> None:
    run = simulate(load(name, ["duration_s=10"]), policy, 1)
    run.write_log(tmp_path / "log.parquet")
    assert_same(read_log(tmp_path / "log.parquet"), run.log)


def test_a_live_log_comes_back(tmp_path: Path) -> None:
    write_log(live(), tmp_path / "log.parquet")
    assert_same(read_log(tmp_path / "log.parquet"), live())


def test_a_file_says_names_not_numbers(tmp_path: Path) -> None:
    write_log(live(), tmp_path / "log.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "log.parquet").to_pylist()
    assert [row["outcome"] for row in rows] == ["success", "late", "rejected"]
    assert [row["choice"] for row in rows] == ["small on worker", "small on worker", None]
    assert [row["node"] for row in rows] == ["worker", "worker", None]
    assert [row["shadow"] for row in rows] == [None, "reject", "small on worker"]
    assert [row["decided_by"] for row in rows] == ["closest"] * 3
    assert [row["decided_by_hash"] for row in rows] == ["0123"] * 3
    assert [row["reason"] for row in rows] == [None, None, "declined"]
    assert [row["tenant"] for row in rows] == ["retail", "retail", "police"]
    assert [row["excluded"] for row in rows] == [[""], [""], ["no-memory"]]
    assert [row["candidates"] for row in rows] == [["small on worker"]] * 3
    assert [row["bound"] for row in rows] == [False] * 3


def test_what_followed_a_binding_has_no_candidates(tmp_path: Path) -> None:
    run = simulate(rich_scenario("stream"), "random", 3, exclusions=True)
    run.write_log(tmp_path / "log.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "log.parquet", columns=["candidates", "excluded"])
    for column in table.columns:
        assert (np.array(column.is_null()) == (run.rows["bound"] == 1)).all()


def test_parts_make_row_groups_of_one_log(tmp_path: Path, rich: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulate(rich, "random", 3, exclusions=True)
    monkeypatch.setattr(decision_log_file, "_ROWS_AT_ONCE", 1000)
    run.write_log(tmp_path / "log.parquet")
    assert pyarrow.parquet.ParquetFile(tmp_path / "log.parquet").num_row_groups == -(-len(run.rows) // 1000) > 2
    assert_same(read_log(tmp_path / "log.parquet"), run.log)


def test_what_is_measured_while_a_log_is_written_goes_to_its_end(tmp_path: Path) -> None:
    log = live()
    with log_writer(tmp_path / "log.parquet", replace(log.context, end_ms=0.0, decisions=0), exclusions=True) as writer:
        writer.add(log)
        writer.context = log.context
    assert_same(read_log(tmp_path / "log.parquet"), log)


def test_a_context_that_can_not_be_written_is_refused_where_it_is_set(tmp_path: Path) -> None:
    log = live()
    odd = replace(log.context, settings={"place": {1, 2}})
    told = "context.settings.place: a decision log can't hold {1, 2}"
    with pytest.raises(ValueError, match=re.escape(told)), log_writer(tmp_path / "log.parquet", odd):
        pass
    assert list(tmp_path.iterdir()) == []
    with log_writer(tmp_path / "log.parquet", log.context, exclusions=True) as writer:
        writer.add(log)
        for wrong in (odd, replace(log.context, end_ms=float("nan")), replace(log.context, end_ms=-np.inf)):
            with pytest.raises(ValueError, match="a decision log can't hold"):
                writer.context = wrong
    assert_same(read_log(tmp_path / "log.parquet"), log)  # what was written before is not lost


def test_numbers_of_numpy_in_a_context_are_plain_ones_in_the_file(tmp_path: Path) -> None:
    settings = {"seed": np.int64(7), "load": np.float32(0.5), "rates": np.array([1.0, 2.0]), "on": np.True_, "by": (1,)}
    context = replace(live().context, decisions=np.int64(3), settings=MappingProxyType(settings))
    write_log(replace(live(), context=context), tmp_path / "log.parquet")
    read = read_log(tmp_path / "log.parquet").context
    plain = {"seed": 7, "load": 0.5, "rates": [1.0, 2.0], "on": True, "by": [1]}
    assert read == replace(context, settings=plain)
    assert type(read.decisions) is int


def test_metadata_are_json_for_any_reader_where_a_number_is_infinite(tmp_path: Path) -> None:
    nodes = (replace(live().context.nodes[0], work_per_ms=np.inf),)
    log = replace(live(), context=replace(live().context, nodes=nodes, settings={"limit": np.inf}))
    write_log(log, tmp_path / "log.parquet")
    metadata = pyarrow.parquet.ParquetFile(tmp_path / "log.parquet").metadata.metadata[b"fairlead.decision_log"]

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    about = json.loads(metadata, parse_constant=refuse)
    assert about["context"]["nodes"][0]["work_per_ms"] is None
    read = read_log(tmp_path / "log.parquet")
    assert_same(replace(read, context=replace(read.context, settings=log.context.settings)), log)
    assert read.context.settings == {"limit": None}  # nothing says that this is a number


NUMBERS = [
    ("requests", "tenant", 9),
    ("requests", "model", 1),
    ("requests", "site", 7),
    ("rows", "choice", 5),
    ("rows", "choice", -2),
    ("rows", "node", 99),
    ("rows", "variant", 4),
    ("rows", "second", 1),
    ("rows", "shadow", -3),
    ("rows", "decided_by", 3),
    ("rows", "fallback", 200),
    ("rows", "outcome", 5),
    ("rows", "reason", 3),
]


@pytest.mark.parametrize(("part", "field", "number"), NUMBERS)
def test_a_number_that_stands_for_nothing_is_refused_before_anything_is_written(
    tmp_path: Path, part: str, field: str, number: int
) -> None:
    log = live()
    getattr(log, part)[field][1] = number
    with pytest.raises(ValueError, match=f"^the column {field} has {number}, which is not among what the log names$"):
        write_log(log, tmp_path / "log.parquet")
    assert list(tmp_path.iterdir()) == []


def test_bits_that_are_no_reason_are_refused(tmp_path: Path) -> None:
    log = live()
    log.exclusions[1, 0] = 130
    with pytest.raises(ValueError, match=r"^the column excluded has 130, which is more than the bits of the reasons$"):
        write_log(log, tmp_path / "log.parquet")


def test_two_policies_of_one_name_are_told_apart_by_their_hash(tmp_path: Path) -> None:
    log = live()
    policies = (LoggedPolicy("agent", "old"), LoggedPolicy("agent", "new"))
    fill_decisions(log.rows, [0, 1, 1], 1.0)
    log = replace(log, context=replace(log.context, policies=policies))
    write_log(log, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet").rows["decided_by"].tolist() == [0, 1, 1]


def test_a_log_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def stopped() -> None:
        with log_writer(tmp_path / "log.parquet", live().context) as writer:
            writer.add(replace(live(), exclusions=None))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk that is always full")
def test_a_full_disk_is_named() -> None:
    with pytest.raises(UserError, match=r"^/dev/full: can't write it: No space left on device$"):
        write_log(live(), Path("/dev/full"))


def changed(path: Path, change: Any) -> None:
    """Write the table anew, with its metadata, after `change(columns, about)`."""
    table = pyarrow.parquet.read_table(path)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    about = json.loads(pyarrow.parquet.ParquetFile(path).metadata.metadata[b"fairlead.decision_log"])
    change(columns, about)
    made = pyarrow.table(columns).replace_schema_metadata({b"fairlead.decision_log": json.dumps(about)})
    pyarrow.parquet.write_table(made, path)


WRONG = {
    "a column is missing": (lambda c, a: c.pop("outcome"), "the column outcome is missing"),
    "another word": (
        lambda c, a: c["node"].__setitem__(1, "wrker"),
        "the column node has 'wrker', which is not among what the log names",
    ),
    "words for numbers": (lambda c, a: c.update(latency_ms=["a"] * 3), "the column latency_ms should be float64: "),
    "numbers for words": (lambda c, a: c.update(model=[[1.5]] * 3), "the column model should be words: "),
    "an empty number": (lambda c, a: c["time_ms"].__setitem__(0, None), "the column time_ms is empty in some rows"),
    "an empty word": (lambda c, a: c["model"].__setitem__(0, None), "the column model is empty in some rows"),
    "another reason": (
        lambda c, a: c["excluded"].__setitem__(0, ["no-time"]),
        "the column excluded has 'no-time'; expected some of no-capacity, no-memory, ",
    ),
    "too few reasons": (
        lambda c, a: c["excluded"].__setitem__(0, []),
        "the column excluded should have an entry for each candidate",
    ),
    "another version": (
        lambda c, a: a.update(schema=2, fairlead="9.9"),
        "a decision log of schema 2 (fairlead 9.9), this fairlead (0.1.0) reads 1",
    ),
    "no context": (lambda c, a: a.pop("context"), "damaged metadata of a decision log: KeyError: 'context'"),
    "half a context": (
        lambda c, a: a["context"].pop("nodes"),
        "damaged metadata of a decision log: nodes: field required",
    ),
    "a node of nowhere": (
        lambda c, a: a["context"]["deployments"][0].update(node="cloud"),
        "damaged metadata of a decision log: small on cloud: what it deploys is not among the names",
    ),
    "no time": (
        lambda c, a: a["context"].update(duration_s=0.0),
        "damaged metadata of a decision log: duration_s: should be above 0",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_log_is_told_in_one_line(tmp_path: Path, what: str) -> None:
    path, (change, message) = tmp_path / "log.parquet", WRONG[what]
    write_log(live(), path)
    changed(path, lambda columns, about: None)
    assert_same(read_log(path), live())
    changed(path, change)
    with pytest.raises(UserError) as error:
        read_log(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_what_is_no_log_is_told_in_one_line(tmp_path: Path) -> None:
    other, torn, none = (tmp_path / f"{name}.parquet" for name in ("other", "torn", "none"))
    pyarrow.parquet.write_table(pyarrow.table({"time_s": [1.0]}), other)
    write_log(live(), torn)
    torn.write_bytes(torn.read_bytes()[:-9])
    said = "no decision log: its metadata has no fairlead.decision_log"
    for path, message in ((other, said), (torn, "can't read the log: "), (none, "can't read the log: ")):
        with pytest.raises(UserError) as error:
            read_log(path)
        assert str(error.value).startswith(f"{path}: {message}")
        assert "\n" not in str(error.value)


def test_without_pyarrow_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"Parquet files, which need pyarrow: pip install pyarrow$"):
        write_log(live(), tmp_path / "log.parquet")


# ---- the command


def test_compare_writes_a_log_of_every_run(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out.json"
    question = [
        "compare",
        "ecsrl",
        "--set",
        "duration_s=5",
        "--policies",
        "closest,random",
        "--seeds",
        "2",
        "--no-bound",
    ]
    assert main([*question, "--json", str(out), "--log", str(logs), "--jobs", "1"]) == 0
    result = json.loads(out.read_text())["scenarios"]["ecsrl"]
    for policy, found in result["policies"].items():
        for seed in (0, 1):
            log = read_log(logs / "scenario=ecsrl" / f"policy={policy}" / f"seed={seed}" / "decisions.parquet")
            figures = serving_figures(log)
            assert {name: values[seed] for name, values in found["by_seed"].items()} == figures
            assert log.exclusions is not None
            assert log.context.settings["definition"] == result["definition"]
            assert (log.context.settings["policy"], log.context.settings["seed"]) == (policy, seed)
    assert len(list(logs.rglob("*.parquet"))) == 4


def test_a_result_without_logs_is_the_same(tmp_path: Path) -> None:
    question = ["compare", "ecsrl", "--set", "duration_s=5", "--policies", "closest,random", "--seeds", "2"]
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert main([*question, "--json", str(one), "--jobs", "1"]) == 0
    assert main([*question, "--json", str(two), "--jobs", "2", "--log", str(tmp_path / "logs")]) == 0
    assert one.read_bytes() == two.read_bytes()


def test_the_guide_has_every_column() -> None:
    named = set(Path(GUIDE).read_text().split("`"))
    assert set(decision_log_file._schema(exclusions=True).names) <= named
