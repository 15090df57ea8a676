"""Learned policies: they decide as their model says, alike in gym, simulator and live; and whatever is wrong with a
bundle, its fallback rule decides, is counted by reason, and nothing raises.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bundles
from builders import Ask, deploy, finished, link, node, rich_scenario, scenario, seen, workload_of
from bundles import ask
from fairlead.cli.main import main
from fairlead.domain.decision_log import decided, fill_decisions
from fairlead.domain.errors import UserError, shown
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST, TRAFFIC
from fairlead.domain.scenario import Scenario
from fairlead.experiments.fingerprint import keys
from fairlead.experiments.trial import Trial, run_trial
from fairlead.measure.serving_bins import BinSum
from fairlead.policies import bundle_registry
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.bundle_registry import shipped
from fairlead.policies.decider import Setting
from fairlead.policies.interface import find, registry, rules
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.policies.observe import dispatch_features, window_features
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.scenarios.loader import load
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.envs import WindowEnv
from fairlead.sim.gym.window import WindowSettings
from fairlead.sim.gym.world_file import Worlds, worlds_of
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run, simulate
from fairlead.sim.serving.world import new_world
from golden import FOLDER, asked_live, recorded

SEED = 3

CURVES = Path(__file__).parents[1] / "docs/results/curves"


@pytest.fixture(scope="module")
def rich() -> Scenario:
    return rich_scenario()


def snapshot(n: int = 3, **columns: Any) -> tuple[Any, Any, Any, float]:
    """A request, `n` candidates in no way special, none excluded, u."""
    candidates = np.zeros(n, CANDIDATE)
    candidates["suffered"] = candidates["service_rate"] = 1.0
    for name, column in columns.items():
        candidates[name] = column
    return np.zeros(1, REQUEST)[0], candidates, np.zeros(n, np.uint16), 0.5


# ---- deciding as the model says


def test_dispatcher_takes_the_highest_value_of_what_is_possible(tmp_path: Path) -> None:
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path)))
    request, candidates, excluded, u = snapshot(4, proc_ms=[10.0, 2.0, 1.0, 2.0])
    assert ask(live, request, candidates, excluded, u) == 2
    excluded[2] = 4
    assert ask(live, request, candidates, excluded, u) == 1  # of equals the first
    excluded[:] = 1
    assert ask(live, request, candidates, excluded, u) == -1
    assert (live.decisions, live.fallbacks.total()) == (3, 0)


def test_dispatcher_rejects_when_that_is_worth_more(tmp_path: Path) -> None:
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path, reject=-5.0)))
    assert ask(live, *snapshot(proc_ms=[9.0, 8.0, 7.0])) == -1
    assert ask(live, *snapshot(proc_ms=[9.0, 8.0, 5.0])) == 2  # worth as much: candidates come before the rejection


def test_an_excluded_candidate_is_never_chosen(tmp_path: Path) -> None:
    live, rng = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path))), np.random.default_rng(1)
    for _ in range(300):
        n = int(rng.integers(1, 5))
        request, candidates, _, u = snapshot(n, proc_ms=rng.uniform(0.0, 50.0, n), in_flight=rng.integers(0, 9, n))
        excluded = (rng.random(n) < 0.5) * rng.integers(1, 64, n).astype(np.uint16)
        choice = ask(live, request, candidates, excluded.astype(np.uint16), u)
        assert choice == -1 if excluded.all() else excluded[choice] == 0
    assert not live.fallbacks


def test_selector_picks_by_row(tmp_path: Path) -> None:
    live = Selector("bundle", Bundle(bundles.selector(tmp_path)), Setting(3, 250.0))
    stats = np.zeros((3, 7), np.float32)
    stats[:, 0] = 0.2, 0.7, 0.5
    assert [live.rules[i].name for i in live.select(stats)] == ["load-balancing", "farthest", "load-balancing"]
    assert live.decisions == 3


def test_request_may_be_a_record_or_an_array_of_one(tmp_path: Path) -> None:
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path)))
    request, candidates, excluded, u = snapshot(proc_ms=[3.0, 2.0, 1.0])
    one = np.zeros(1, REQUEST)
    for form in (one, one[0], one.view(np.recarray)[0]):
        assert ask(live, form, candidates.view(np.recarray), excluded, u) == 2
    assert ask(live, one, np.repeat(candidates, 2)[::2], excluded, u) == 2
    with pytest.raises(TypeError, match="a snapshot needs REQUEST, CANDIDATE and uint16"):
        ask(live, request, candidates["load"], excluded, u)


# ---- the same in gym, simulator and live


def test_simulator_runs_a_dispatcher_as_the_gym_does(tmp_path: Path, rich: Scenario) -> None:
    folder = bundles.dispatcher(tmp_path, candidates=6)
    policy = find(str(folder))
    model = policy.bundle.values
    batch = DispatchBatch(worlds_of(rich), 1)
    batch.seed(0)
    batch.begin(0, exact_seed=SEED)
    batch.observe()
    slots = batch.masks.shape[1] - 1
    wanted = [batch.features.index(name) for name in dispatch_features(slots)[:-2]]
    steps = 0
    while not batch.terminated[0]:
        row = np.zeros((1, len(dispatch_features(6))), np.float32)
        row[0, : len(wanted)] = batch.observations[0, wanted]
        row[0, -2:] = 0.5, 0.25
        values = model(row)[0]
        possible = np.append(batch.masks[0, :slots], [0] * (6 - slots)).astype(bool)
        best = int(np.where(possible, values[:6], -np.inf).argmax())
        batch.actions[0] = best if values[best] >= values[6] and possible.any() else slots
        batch.play()
        batch.observe()
        steps += 1
    run_ = simulate(rich, policy, SEED)
    assert run_.account.decisions == steps > 500
    assert run_.account.fallbacks == {}
    rows = batch.handle.worlds[0].rows[: len(run_.rows)]
    fill_decisions(rows, decided_by=0, probability=1.0)  # the gym does not know who decides
    assert rows.tobytes() == run_.rows.tobytes()


@pytest.mark.parametrize("mix", [False, True])
def test_simulator_runs_a_selector_as_the_gym_does(tmp_path: Path, rich: Scenario, mix: bool) -> None:
    names = ("load-balancing", "farthest")
    policy = find(str(bundles.selector(tmp_path, names, mix=mix)))
    env = WindowEnv(rich, settings=WindowSettings(names, mix=mix, nodes=4))
    observation, _ = env.reset(options={"workload_seed": SEED})
    chosen, terminated = [], False
    while not terminated:
        chosen.append(int(policy.bundle.values(observation[None])[0].argmax()))
        observation, _, terminated, *_ = env.step(chosen[-1])
    run_ = simulate(rich, policy, SEED)
    assert run_.account.active == [names[i] for i in chosen]
    assert set(run_.account.active) == set(names)
    assert (run_.account.decisions, run_.account.fallbacks) == (20, {})
    rows = env.batch.handle.worlds[0].rows[: len(run_.rows)]
    windows = rows["time_ms"][decided(rows)] // rich.rules.window_ms
    by_rule = np.array(chosen)[windows.astype(int)]
    fill_decisions(rows, decided_by=by_rule, probability=1.0)  # the gym does not know who decides
    assert rows.tobytes() == run_.rows.tobytes()
    assert [policy.name for policy in run_.log.context.policies] == [*names, "closest"]


@pytest.mark.parametrize("make", [bundles.dispatcher, bundles.selector])
def test_live_interface_decides_as_the_simulator_did(tmp_path: Path, rich: Scenario, make: Any) -> None:
    folder = make(tmp_path)
    asked = recorded(find(str(folder)), rich, SEED)
    if make is bundles.dispatcher:
        live = Dispatcher("bundle", Bundle(folder), clock=count().__next__)
        assert [ask(live, *question) for *question, _ in asked] == [choice for *_, choice in asked]
    else:
        picks = Selector("bundle", Bundle(folder), Setting(3, 250.0), clock=count().__next__)
        assert [picks.rules[picks.select(s[None])[0]].name for s, _ in asked] == [name for _, name in asked]
    assert len(asked) >= 20


def test_stats_of_a_gateways_counters_are_those_of_the_simulator(tmp_path: Path) -> None:
    made = replace_window(
        scenario(
            nodes=[node("edge"), node("far")],
            deployments=[deploy("small", "edge"), deploy("large", "far")],
            links=[link(4.0), link(30.0, to="far")],
        ),
        100.0,
    )
    asks = [Ask(10.0, deadline_ms=40.0, min_accuracy=0.5), Ask(20.0, deadline_ms=100.0, min_accuracy=0.7)]
    work = workload_of([*asks, Ask(150.0)])
    folder = bundles.selector(tmp_path, ("closest", "closest"), mix=True, window_ms=100.0)
    worlds = worlds_of(made)
    env = WindowEnv(
        Worlds(made.name, worlds.plan, worlds.models, worlds.nodes, worlds.sla_classes, lambda seed: work),
        settings=WindowSettings(("closest",), mix=True, nodes=4),
    )
    start, _ = env.reset(options={"workload_seed": 0})
    counters = np.zeros(1, TRAFFIC)[0]
    live = Selector("bundle", Bundle(folder), Setting(2, 100.0))
    begun = live.stats(counters, [0, 0], [4.0, 30.0], capacity_qps(worlds.plan), 100.0)  # no client is connected
    assert begun[0].tolist() == start.tolist()
    observation, *_ = env.step(0)
    counters["arrived"] = counters["delivered"] = 2
    counters["within_40_ms"] = counters["within_80_ms"] = 1
    counters["within_160_ms"], counters["min_accuracy"] = 2, 1.2
    sent = env.batch.handle.worlds[0].dispatched[0]
    stats = live.stats(counters, sent, [4.0, 30.0], capacity_qps(worlds.plan), 100.0)
    assert stats[0].tolist() == observation.tolist()
    assert len(stats[0]) == len(window_features(["a", "b", "c", "d"], mix=True))
    with pytest.raises(ValueError, match="one number for each node"):
        live.stats(counters, [1], [4.0, 30.0], [1.0, 1.0], 100.0)


def replace_window(made: Scenario, window_ms: float) -> Scenario:
    return replace(made, rules=replace(made.rules, window_ms=window_ms))


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_bundles_decide_live_as_is_written_in_gold(name: str) -> None:
    """Written by `python -m tests.golden`; a bundle that was trained anew needs new gold."""
    with np.load(FOLDER / f"{name}.npz") as file:
        expected, found, fallbacks = asked_live(shipped()[name].bundle, dict(file))
    assert found == expected
    assert fallbacks == 0
    assert len(set(map(str, expected))) > 1  # it does not say the same to everything


def test_shipped_bundles_are_whole() -> None:
    for name, policy in shipped().items():
        assert not isinstance(policy.bundle.model, Fault), f"{name}: {policy.bundle.model.why}"
        assert (CURVES / f"bundle-{name}.csv").is_file()
        assert find(policy.bundle.fallback).kind == "compiled"
        assert registry()[0][name].hash == policy.hash
        for file in policy.bundle.folder.iterdir():  # nothing of the machine that it was trained on
            content = file.read_bytes()
            assert not any(word in content for word in (b"site-packages", b"/src/fairlead", b"--out /", b"/home/"))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [3400, 18_500, 26_000])
def test_the_shipped_dispatcher_is_never_behind_the_rule_that_stands_behind_it(rate: int) -> None:
    here = load("ecsrl", [f"rate={rate}", "duration_s=60"])
    agent = simulate(here, "ecsrl", seed=88_001)
    rule = simulate(here, shipped()["ecsrl"].bundle.fallback, seed=88_001)
    assert agent.figures["success"] > rule.figures["success"] - 0.005
    assert agent.account.fallback_share == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped() if name.startswith("aset")])
def test_a_shipped_selector_is_not_far_behind_the_rule_that_stands_behind_it(name: str) -> None:
    about = json.loads((shipped()[name].bundle.folder / "manifest.json").read_text())
    where = about["scenarios"][len(about["scenarios"]) // 2]
    here = load(where["name"], [*where["overrides"], "duration_s=120"])
    agents = [simulate(here, name, seed) for seed in (88_001, 88_002, 88_003)]
    rule = [simulate(here, shipped()[name].bundle.fallback, seed) for seed in (88_001, 88_002, 88_003)]
    success, by_rule = (np.mean([run.figures["success"] for run in runs]) for runs in (agents, rule))
    assert success > by_rule - 0.02
    assert all(run.account.fallback_share == 0.0 for run in agents)


# ---- falling back

Spoil = Callable[[Path], object]


def _replace_model(folder: Path, content: bytes) -> None:
    (folder / "model.onnx").write_bytes(content)
    bundles.edit(folder, sha256=hashlib.sha256(content).hexdigest())


def _poison(folder: Path) -> None:
    """A model that answers with what is no number."""
    about = json.loads((folder / "manifest.json").read_text())
    inputs = len(about["low"])
    outputs = about["sizes"].get("candidates", 1) + 1
    _replace_model(folder, bundles.linear(np.full((inputs, outputs), np.nan), np.zeros(outputs)))


def _narrow(folder: Path) -> None:
    about = json.loads((folder / "manifest.json").read_text())
    bundles.edit(folder, high=[0.0] * len(about["high"]))


def _overflow(folder: Path) -> None:
    about = json.loads((folder / "manifest.json").read_text())
    bundles.edit(folder, high=[1e300] * len(about["high"]))


FAULTS: dict[str, tuple[Fallback, Spoil]] = {
    "no folder": (Fallback.MISSING, shutil.rmtree),
    "no manifest": (Fallback.MISSING, lambda f: (f / "manifest.json").unlink()),
    "no model": (Fallback.MISSING, lambda f: (f / "model.onnx").unlink()),
    "unknown fallback": (Fallback.MISSING, lambda f: bundles.edit(f, fallback="nonesuch")),
    "manifest no JSON": (Fallback.CORRUPT, lambda f: (f / "manifest.json").write_bytes(b"{\xff")),
    "manifest too deep": (Fallback.CORRUPT, lambda f: (f / "manifest.json").write_text("[" * 200_000)),
    "fallback of a name that no file has": (Fallback.MISSING, lambda f: bundles.edit(f, fallback="x" * 300)),
    "manifest a list": (Fallback.CORRUPT, lambda f: (f / "manifest.json").write_text("[]")),
    "manifest without sizes": (Fallback.CORRUPT, lambda f: bundles.edit(f, sizes=None)),
    "manifest of an unknown kind": (Fallback.CORRUPT, lambda f: bundles.edit(f, kind="oracle")),
    "ranges of another length": (Fallback.CORRUPT, lambda f: bundles.edit(f, low=[0.0])),
    "a range beyond its numbers": (Fallback.CORRUPT, _overflow),
    "manifest too large": (Fallback.CORRUPT, lambda f: (f / "manifest.json").write_text("[" + "[]," * 2**21 + "[]]")),
    "another hash": (Fallback.CORRUPT, lambda f: bundles.edit(f, sha256="0" * 64)),
    "a torn model": (Fallback.CORRUPT, lambda f: _replace_model(f, (f / "model.onnx").read_bytes()[:-40])),
    "another model": (Fallback.CORRUPT, lambda f: _replace_model(f, bundles.linear(np.zeros((2, 2)), [0.0, 0.0]))),
    "another format": (Fallback.VERSION, lambda f: bundles.edit(f, format=99)),
    "a format of many numbers": (Fallback.VERSION, lambda f: bundles.edit(f, format=[0] * 9999)),
    "other features": (Fallback.VERSION, lambda f: bundles.edit(f, features="dispatch-0")),
    "out of range": (Fallback.RANGE, _narrow),
    "no numbers": (Fallback.OUTPUT, _poison),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_dispatcher_with_a_fault_falls_back(tmp_path: Path, case: str) -> None:
    reason, spoil = FAULTS[case]
    folder = bundles.dispatcher(tmp_path / "mine", fallback="least-outstanding")
    spoil(folder)
    live = Dispatcher("bundle", bundle := Bundle(folder))
    assert bundle.fault is None or len(bundle.fault.why) < 600  # it is told in a line
    question = snapshot(proc_ms=[1.0, 2.0, 3.0], in_flight=[2.0, 1.0, 0.0], load=[2.0, 1.0, 0.0])
    assert [ask(live, *question) for _ in range(2)] == [2, 2]  # the rule's choice; the model's would be 0
    assert (live.decisions, dict(live.fallbacks)) == (2, {reason: 2})


@pytest.mark.parametrize("case", FAULTS)
def test_a_selector_with_a_fault_falls_back(tmp_path: Path, case: str) -> None:
    reason, spoil = FAULTS[case]
    folder = bundles.selector(tmp_path / "mine", fallback="random")
    spoil(folder)
    live = Selector("bundle", Bundle(folder), Setting(3, 250.0))
    chosen = live.select(np.full((2, 7), 0.1, np.float32))
    assert chosen.tolist() == [len(live.rules) - 1] * 2
    unread = (
        "no folder",
        "no manifest",
        "manifest no JSON",
        "manifest a list",
        "manifest too deep",
        "manifest too large",
    )
    unknown = "unknown fallback", "fallback of a name that no file has"
    assert live.rules[-1].name == ("load-balancing" if case in (*unread, *unknown) else "random")
    assert (live.decisions, dict(live.fallbacks)) == (2, {reason: 2})


@pytest.mark.parametrize("make", [bundles.dispatcher, bundles.selector])
@pytest.mark.parametrize("budget", [float("nan"), float("inf"), -1.0, 0.0, 10**400, True, "1000", [1.0]], ids=shown)
def test_a_time_budget_that_is_no_number_above_0_is_a_fault(tmp_path: Path, make: Any, budget: Any) -> None:
    found = Bundle(make(tmp_path, budget_us=budget))
    assert isinstance(found.manifest, Fault)
    assert found.manifest.reason is Fallback.CORRUPT
    assert found.manifest.why.startswith("manifest.json: ValueError: budget_us is ")
    assert found.manifest.why.endswith(", expected a number above 0")


def test_sizes_too_small_fall_back(tmp_path: Path) -> None:
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path / "d", candidates=2)))
    assert ask(live, *snapshot(3, net_ms=[3.0, 2.0, 1.0])) == 2
    assert ask(live, *snapshot(2, proc_ms=[3.0, 2.0])) == 1
    assert (live.decisions, dict(live.fallbacks)) == (2, {Fallback.SIZE: 1})
    picks = Selector("bundle", Bundle(bundles.selector(tmp_path / "s", nodes=2)), Setting(3, 250.0))
    assert picks.rules[picks.select(np.zeros((1, 6), np.float32))[0]].name == "closest"
    assert picks.fallbacks == {Fallback.SIZE: 1}


def test_another_window_is_out_of_range(tmp_path: Path) -> None:
    picks = Selector("bundle", Bundle(bundles.selector(tmp_path)), Setting(3, 500.0))
    picks.select(np.zeros((1, 7), np.float32))
    assert picks.fallbacks == {Fallback.RANGE: 1}


def test_an_action_that_is_no_compiled_rule_is_a_fault(tmp_path: Path) -> None:
    picks = Selector("bundle", Bundle(bundles.selector(tmp_path, ("closest", "nonesuch"))), Setting(3, 250.0))
    assert picks.rules[picks.select(np.zeros((1, 7), np.float32))[0]].name == "closest"
    assert picks.fallbacks == {Fallback.MISSING: 1}


def test_a_bundle_of_the_other_kind_falls_back(tmp_path: Path) -> None:
    live = Dispatcher("bundle", Bundle(bundles.selector(tmp_path)))
    assert ask(live, *snapshot(net_ms=[2.0, 1.0, 3.0])) == 1
    assert live.fallbacks == {Fallback.CORRUPT: 1}


def test_the_range_is_widened_by_a_tenth(tmp_path: Path) -> None:
    inputs = len(dispatch_features(4))
    names = dispatch_features(4)
    high = [10.0] * inputs
    high[names.index("proc_ms 0")] = 1.0  # 100 ms
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path, high=high)))
    for ms, reasons in ((109.9, {}), (110.2, {Fallback.RANGE: 1}), (np.nan, {Fallback.RANGE: 2})):
        ask(live, *snapshot(proc_ms=[ms, 1.0, 1.0]))
        assert dict(live.fallbacks) == reasons


def test_a_slow_decision_is_the_rules_and_so_are_the_next_until_the_model_is_fast_again(tmp_path: Path) -> None:
    late, fast = (0, 1_000_001), (0, 999_999)  # when the model is asked, and when it has answered; it has 1000 us
    times = [t for answer in (late, late, fast, late, fast, fast) for t in answer]
    expected = ["R", "r", "R", "r", "r", "r", "M", "R", "r", "M", "M"]  # R: late; r: not asked; M: the model's
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path / "d")), clock=iter(times).__next__)
    question = snapshot(proc_ms=[1.0, 2.0, 3.0], net_ms=[3.0, 2.0, 1.0])
    assert [ask(live, *question) for _ in expected] == [0 if who == "M" else 2 for who in expected]
    assert (live.decisions, dict(live.fallbacks)) == (11, {Fallback.SLOW: 8})
    picks = Selector("bundle", Bundle(bundles.selector(tmp_path / "s")), Setting(3, 250.0), clock=iter(times).__next__)
    chosen = [picks.rules[picks.select(np.zeros((1, 7), np.float32))[0]].name for _ in expected]
    assert chosen == ["load-balancing" if who == "M" else "closest" for who in expected]
    assert picks.fallbacks == {Fallback.SLOW: 8}


def test_a_model_that_is_always_late_is_asked_once_in_1024_decisions(tmp_path: Path) -> None:
    times = count(step=2_000_000)
    live = Dispatcher("bundle", Bundle(bundles.dispatcher(tmp_path)), clock=times.__next__)
    question = snapshot(proc_ms=[1.0, 2.0, 3.0], net_ms=[3.0, 2.0, 1.0])
    for _ in range(5000):
        ask(live, *question)
    asked = next(times) // 4_000_000  # each time it looks twice
    assert asked == 10 + 3  # pauses of 1, 3, ..., 1023 take 2,046 decisions with their questions; then 1,024 each


def test_a_simulation_does_not_look_at_the_clock(tmp_path: Path, rich: Scenario) -> None:
    folder = bundles.dispatcher(tmp_path, budget_us=1e-3)
    assert simulate(rich, find(str(folder)), SEED).account.fallbacks == {}


@pytest.mark.parametrize("make", [bundles.dispatcher, bundles.selector])
def test_a_broken_bundle_is_its_rule_in_the_simulator(tmp_path: Path, rich: Scenario, make: Any) -> None:
    folder = make(tmp_path)
    (folder / "model.onnx").unlink()
    plan, expected = build_plan(rich), finished(rich, SEED, find("closest"))
    world = finished(rich, SEED, find(str(folder)))
    assert seen(world) == seen(expected)
    world = new_world(plan, workload_of([Ask(0.0)]))
    account = run(plan, world, find(str(folder)))
    assert account.fallbacks == {"missing": account.decisions}
    assert account.fallback_share == 1.0


def test_windows_out_of_range_are_the_rules_and_the_others_the_models(tmp_path: Path, rich: Scenario) -> None:
    observed = [stats for stats, _ in recorded(find(str(bundles.selector(tmp_path))), rich, SEED)]
    busiest = sorted(float(s[0]) for s in observed)[-5]  # so that few are beyond
    folder = bundles.edit(bundles.selector(tmp_path), high=[busiest / 1.1 - 1e-3, *[10.0] * 6])
    account = simulate(rich, find(str(folder)), SEED).account
    assert 0 < account.fallbacks["range"] < account.decisions == 20
    assert account.active.count("closest") == account.fallbacks["range"]


# ---- found, compared, listed


def test_hosts_ask_what_a_policy_can_do(tmp_path: Path) -> None:
    dispatcher, selector = (str(make(tmp_path / make.__name__)) for make in (bundles.dispatcher, bundles.selector))
    found = [find(name) for name in ("closest", dispatcher, selector)]
    assert [policy.compiles for policy in found] == [True, False, False]
    assert [policy.learned for policy in found] == [False, True, True]
    assert [policy.selects for policy in found] == [False, False, True]
    assert [policy.fallback_name for policy in found] == ["", "closest", "closest"]
    assert [bool(policy.arithmetic) for policy in found] == [False, True, True]
    assert [policy.model_fault for policy in found] == [None, None, None]
    assert [policy.identity().get("fallback") for policy in found] == [None, "closest", "closest"]
    (Path(selector) / "model.onnx").unlink()
    assert find(selector).model_fault == Fault(Fallback.MISSING, "model.onnx: No such file or directory")


def test_a_bundle_is_found_by_its_path_and_a_typo_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bundles.selector(tmp_path / "mine")
    assert find(str(folder)).kind == "selector"
    monkeypatch.chdir(tmp_path)
    assert find("mine").name == "mine"
    assert find("./mine").name == "./mine"
    with pytest.raises(UserError, match=r"policy './mien': no such folder"):
        find("./mien")
    with pytest.raises(UserError, match="unknown policy 'mien'"):
        find("mien")


def test_shipped_bundles_are_in_the_registry_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles.selector(tmp_path / "picker", summary="picks a rule")
    (bundles.dispatcher(tmp_path / "broken") / "manifest.json").unlink()
    monkeypatch.setattr(bundle_registry, "SHIPPED", tmp_path)
    registry.cache_clear()
    try:
        assert [find(name).kind for name in ("picker", "broken")] == ["selector", "batch"]
        assert main(["policies"]) == 0
        listed = capsys.readouterr().out
        assert "picks a rule" in listed
        assert "load-balancing, farthest" in listed
        assert "can't be used: manifest.json: No such file" in listed
        with pytest.raises(UserError, match="policy 'picker' is learned; a window needs compiled ones"):
            WindowEnv(scenario(), settings=WindowSettings(("picker",)))
    finally:
        monkeypatch.undo()
        registry.cache_clear()


def test_a_trials_key_has_the_bundles_hash(tmp_path: Path, rich: Scenario) -> None:
    trial = Trial("x", rich, 1, (str(bundles.selector(tmp_path)),))
    first = keys([trial])
    assert keys([trial]) == first
    bundles.edit(tmp_path, fallback="random")
    assert keys([trial]) != first


def test_a_trial_reports_fallbacks_and_active_rules(tmp_path: Path, rich: Scenario) -> None:
    names = str(bundles.selector(tmp_path / "s")), str(bundles.dispatcher(tmp_path / "d", candidates=2)), "closest"
    result = run_trial(Trial("x", rich, SEED, names, bounded=False))
    shares = [result.figures[name]["fallback_share"] for name in names]
    assert shares == [0.0, 1.0, 0.0]
    assert "learned" not in result.details["closest"]
    assert result.details[names[1]]["learned"]["fallbacks"] == {
        "size": result.details[names[1]]["learned"]["decisions"]
    }
    learned = result.details[names[0]]["learned"]
    assert (learned["decisions"], learned["fallbacks"]) == (20, {})
    assert set(learned["active"]) == {"farthest", "load-balancing"}
    assert np.sum([*learned["active"].values()], axis=0) == pytest.approx(1.0)
    assert learned["active"]["load-balancing"][0] == 1.0  # nothing has arrived before the first window
    both = BinSum()
    for seed in (SEED, SEED + 1):
        both.add(run_trial(Trial("x", rich, seed, names[:1], bounded=False)).details[names[0]])
    assert both.detail()["learned"]["decisions"] == 40
    assert np.sum([*both.detail()["learned"]["active"].values()], axis=0) == pytest.approx(1.0)


QUESTION = ("compare", "ecsrl", "--set", "duration_s=5", "--seeds", "3", "--no-bound")


def test_compare_takes_bundles_by_path_and_warns_of_fallbacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bundles.dispatcher(tmp_path / "good")
    (bundles.dispatcher(tmp_path / "bad") / "model.onnx").unlink()
    bundles.selector(tmp_path / "hasty", window_ms=10.0)
    bundles.edit(bundles.dispatcher(tmp_path / "alone"), fallback="nonesuch")
    names = "load-balancing,closest,./good,./bad,./hasty,./alone"
    assert main([*QUESTION, "--jobs", "1", "--policies", names, "--json", "out.json", "--report", "r.html"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "./good" in line] == []
    bad, hasty, alone = (line for line in told if "fell back" in line)
    assert bad.startswith("fairlead: ./bad fell back to closest in 100.00% of its ")
    assert bad.endswith("decisions (model.onnx: No such file or directory)")
    why = "inputs outside its training range: 15 times"
    assert hasty == f"fairlead: ./hasty fell back to closest in 100.00% of its 15 decisions ({why})"
    assert alone.startswith("fairlead: ./alone fell back to load-balancing in 100.00% of its ")
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["policies"]["./good"]["kind"] == "batch"
    assert document["versions"]["onnxruntime"]
    runs = document["scenarios"]["ecsrl"]["policies"]
    assert runs["./bad"]["by_seed"]["success"] == runs["closest"]["by_seed"]["success"]
    ranking = document["scenarios"]["ecsrl"]["ranking"]
    assert ranking.index("closest") < ranking.index("./bad")  # who decides before who only fell back to it
    page = (tmp_path / "r.html").read_text()
    assert "./bad fell back to its rule in 100.00% of its decisions." in page
    assert "./good fell back" not in page
    assert runs["./good"]["by_seed"]["success"] != runs["closest"]["by_seed"]["success"]
    assert runs["./good"]["figures"]["fallback_share"]["mean"] == 0.0
    assert runs["./hasty"]["detail"]["learned"]["active"] == {"closest": [1.0] * 100}
    assert main([*QUESTION, "--policies", "closest,./mien"]) == 2
    assert capsys.readouterr().err.startswith("fairlead: policy './mien': no such folder")


def test_rules_stands_for_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bundles.dispatcher(tmp_path / "mine")
    names = "closest,rules,./mine"
    assert main([*QUESTION, "--no-bound", "--jobs", "1", "--policies", names, "--json", "out.json"]) == 0
    compared = json.loads((tmp_path / "out.json").read_text())["settings"]["policies"]
    assert sorted(compared) == sorted([*rules(), "./mine"])
    assert (compared[0], compared[-1]) == ("closest", "./mine")


@pytest.mark.slow
def test_several_processes_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bundles.dispatcher(tmp_path / "d")
    bundles.selector(tmp_path / "s", window_ms=1000.0)
    for jobs in "12":
        command = [*QUESTION, "--jobs", jobs, "--policies", "closest,./d,./s", "--json", f"{jobs}.json"]
        assert main(command) == 0
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
