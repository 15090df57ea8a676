"""Deciders: one call for every kind of policy, alike in the simulator and alone, whatever a model does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bundles
from corrupt_models import MAKERS, corrupt_model
from fairlead.domain.decision import Decision, RequestSnapshot, WindowSnapshot
from fairlead.domain.decision_log import fallback_code
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.policies import interface, model_file, model_trial
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.decider import Decider, Setting
from fairlead.policies.interface import Policy, find, registry
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.policies.observe import dispatch_size, window_size
from fairlead.policies.randomness import POLICY, uniform
from fairlead.scenarios.loader import load
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run, setting_of
from fairlead.sim.serving.window_view import WindowView
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import AT_DECIDE, AT_WINDOW, DECIDE, INTO_DRAIN, WINDOW, Plan, World

PLACES = {name: load(name, [f"duration_s={s}", f"rate={rate}"]) for name, s, rate in (
    ("ecsrl", 2, 15_000), ("full-edge", 20, 60), ("aset-testbed", 20, 80))}  # fmt: skip


def asked_each_time(plan: Plan, world: World, decider: Decider) -> list[Decision]:
    """A host as a gateway is one: it asks the decider about every request. Returns what it decided about these."""
    handle, clock = Handle(plan, [world], foresees=decider.foresees), world.clock[0]
    view = WindowView(plan, decider.nodes, decider.mix)
    stats, answers = np.zeros((1, view.features), np.float32), list[Decision]()
    if decider.windows:
        view.observe(handle, stats)
        decider.decide(WindowSnapshot(stats))
    handle.advance(AT_DECIDE | AT_WINDOW | INTO_DRAIN)
    while handle.codes[0] in (DECIDE, WINDOW):
        if handle.codes[0] == WINDOW and decider.windows:
            view.observe(handle, stats)
            decider.decide(WindowSnapshot(stats))
        if handle.codes[0] == DECIDE:
            first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
            shown = world.requests[i : i + 1], world.candidates[first:last], world.excluded[first:last]
            made = decider.decide(RequestSnapshot(*shown, first=first), uniform(int(clock["seed"]), POLICY, i, 0))
            assert made.hash
            assert 0.0 < made.probability <= 1.0 or np.isnan(made.probability)
            answers.append(made)
            handle.chosen[0] = made.choice
        handle.advance(AT_DECIDE | AT_WINDOW | INTO_DRAIN)
    return answers


def _theirs(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return int(np.flatnonzero(excluded == 0)[-1])


@pytest.fixture
def with_entry_point(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A third party's policy, as an installed package brings it."""

    class Entry:
        name, value, dist = "theirs", "their.package", None

        def load(self) -> Policy:
            return Policy("theirs", _theirs, kind="python")

    def found(**about: Any) -> Any:
        return [Entry()] if about == {"group": interface.ENTRY_POINT_GROUP} else real(**about)

    real = metadata.entry_points
    registry.cache_clear()
    monkeypatch.setattr(metadata, "entry_points", found)
    yield
    registry.cache_clear()


NAMES = sorted(registry()[0])


@pytest.mark.parametrize("name", [*NAMES, "theirs"])
@pytest.mark.usefixtures("with_entry_point")
def test_decider_alone_decides_as_the_simulators_host_does(name: str) -> None:
    for scenario in PLACES.values():
        plan, workload = build_plan(scenario), make_workload(scenario, 3)
        hosted, alone = new_world(plan, workload), new_world(plan, workload)
        account = run(plan, hosted, find(name))
        decider = find(name).decider(setting_of(plan))
        answers = asked_each_time(plan, alone, decider)
        assert alone.rows.tobytes() == hosted.rows.tobytes(), scenario.name
        assert account.decisions == decider.decisions
        assert sum(account.fallbacks.values()) == decider.fallbacks.total()
        who, why = np.broadcast_to(account.decided_by, len(answers)), np.broadcast_to(account.fallback, len(answers))
        assert [(d.policy, d.hash) for d in answers] == [
            (account.policies[w].name, account.policies[w].hash) for w in who
        ]
        assert [fallback_code(d.fallback) for d in answers] == why.tolist()


# ---- who decided, and with what probability


def snapshot(count: int = 3, **fields: Any) -> RequestSnapshot:
    request, candidates = np.zeros(1, REQUEST), np.zeros(count, CANDIDATE)
    candidates["proc_ms"] = candidates["service_rate"] = candidates["suffered"] = 1.0
    for name, values in fields.items():
        candidates[name] = values
    request["deadline_ms"] = 100.0
    return RequestSnapshot(request, candidates, np.zeros(count, np.uint16))


SETTING = Setting(3, 250.0)


def test_rule_answers_with_its_name_hash_and_certainty() -> None:
    made = find("closest").decider(SETTING).decide(snapshot(net_ms=[3.0, 1.0, 2.0]))
    assert made == (1, 1.0, "closest", find("closest").hash, None)


@pytest.mark.parametrize(
    "name", ["random", "random-proportional-latency", "random-proportional-load", "power-of-two-choices"]
)
def test_probability_of_a_draw_is_how_often_it_is_drawn(name: str) -> None:
    asked = snapshot(4, proc_ms=[5.0, 10.0, 20.0, 20.0], service_rate=[1.0, 2.0, 3.0, 4.0], in_flight=[2, 1, 1, 0])
    asked.excluded[2] = 1
    decider = find(name).decider(SETTING)
    answers = [decider.decide(asked, (k + 0.5) / 6000) for k in range(6000)]
    drawn = np.bincount([a.choice for a in answers], minlength=4) / 6000
    for answer in answers[::500]:
        assert answer.probability == pytest.approx(drawn[answer.choice], abs=2e-3)


def test_probability_of_a_third_partys_draw_is_unknown_unless_it_says() -> None:
    def coin(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return int(u * len(candidates))

    policy = Policy("coin", coin, kind="python")
    assert np.isnan(policy.decider(SETTING).decide(snapshot(), 0.5).probability)
    told = replace(policy, probability=lambda candidates, excluded, choice: 1.0 / len(candidates))
    assert told.decider(SETTING).decide(snapshot(), 0.5).probability == pytest.approx(1 / 3)


def test_fallback_names_the_rule_that_decided(tmp_path: Path) -> None:
    folder = bundles.dispatcher(tmp_path, candidates=2)
    made = Dispatcher("mine", Bundle(folder)).decide(snapshot(3, net_ms=[3.0, 2.0, 1.0]))
    assert made == (2, 1.0, "closest", find("closest").hash, Fallback.SIZE)


# ---- models that do harm


def hostile(folder: Path, number: int) -> Path:
    """A bundle whose hash is right and whose model is corrupt: of each kind in turn."""
    if number % 2:
        return bundles.write(
            folder, corrupt_model(number // 2, window_size(3, False), 2), window_size(3, False),
            kind="selector", features="window-2", actions=["load-balancing", "farthest"], sizes={"nodes": 3},
            mix=False, window_ms=250.0,
        )  # fmt: skip
    about = {"settings": {"energy_weight": 0.0, "degradation_weight": 0.0}, "sizes": {"candidates": 4}}
    inputs = dispatch_size(4)
    return bundles.write(
        folder, corrupt_model(number // 2, inputs, 5), inputs, kind="dispatcher", features="dispatch-1", **about
    )


def harmless(folder: Path, number: int) -> Fallback | None:
    """Ask a corrupt bundle some questions; why a rule decided them, if one did."""
    bundle, rng = Bundle(hostile(folder, number)), np.random.default_rng(number)
    if number % 2:
        picks = Selector("corrupt", bundle, SETTING)
        for scale in (0.0, 0.3, 1.0):
            stats = (scale * rng.uniform(0.0, 10.0, (1, window_size(3, False)))).astype(np.float32)
            assert 0 <= picks.decide(WindowSnapshot(stats)).choice < len(picks.rules)
        decider: Decider = picks
    else:
        decider = Dispatcher("corrupt", bundle)
        for scale in (0.0, 1.0, 50.0):
            shown = snapshot(4, proc_ms=scale * rng.uniform(0.1, 1.0, 4), load=rng.uniform(0.0, 5.0, 4))
            shown.request["deadline_ms"] = 100.0 * scale
            shown.excluded[:] = rng.random(4) < 0.3
            shown.excluded[rng.integers(4)] = 0
            choice = decider.decide(shown).choice
            assert choice == -1 or shown.excluded[choice] == 0
    assert decider.decisions == 3
    return next(iter(decider.fallbacks), None)


def harmless_ones(folder: Path, numbers: range) -> None:
    found = {number: harmless(folder / str(number), number) for number in numbers}
    sound = {"_bytes", "_late_shape"}  # a changed byte may change nothing that matters, a late shape may not come
    for number, reason in found.items():
        what = MAKERS[number // 2 % len(MAKERS)].__name__
        assert reason in (Fallback.CORRUPT, Fallback.OUTPUT) or what in sound, (number, what, reason)


def test_corrupt_models_decide_nothing_and_end_nothing(tmp_path: Path) -> None:
    harmless_ones(tmp_path, range(66))


@pytest.mark.slow
def test_a_thousand_corrupt_models_decide_nothing_and_end_nothing(tmp_path: Path) -> None:
    harmless_ones(tmp_path, range(66, 1066))


@pytest.mark.parametrize(("model", "why"), [(5, "may never end"), (7, "outside of model.onnx"), (8, "not ONNX's")])
def test_what_is_wrong_with_a_model_is_said(tmp_path: Path, model: int, why: str) -> None:
    fault = Bundle(hostile(tmp_path, 2 * model)).model
    assert isinstance(fault, Fault)
    assert why in fault.why


def test_fifo_in_the_place_of_a_model_is_not_waited_for(tmp_path: Path) -> None:
    import os

    folder = bundles.dispatcher(tmp_path)
    (folder / "model.onnx").unlink()
    os.mkfifo(folder / "model.onnx")
    model = Bundle(folder).model
    assert isinstance(model, Fault)
    assert "not a regular file" in model.why


def test_model_that_takes_too_long_to_try_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_trial, "MOST_SECONDS", 0.1)
    model_trial._PROCESS._started().send_signal(signal.SIGSTOP)  # it never answers
    model = Bundle(bundles.dispatcher(tmp_path)).model
    assert isinstance(model, Fault)
    assert "took more than" in model.why


def test_trial_that_does_not_even_read_its_model_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_trial, "MOST_SECONDS", 0.1)
    model_trial._PROCESS._started().send_signal(signal.SIGSTOP)
    assert "took more than" in model_trial.try_model(bytes(1 << 20), [])  # far more than a pipe holds


def test_model_of_very_many_parts_is_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "_MOST_FIELDS", 1000)
    model_file.look_through(b"\x08\x01" * 1000)  # `ir_version`, again and again
    with pytest.raises(model_file.Refused, match="more than 1,000 parts"):
        model_file.look_through(b"\x08\x01" * 1001)


def test_hash_is_that_of_the_model_that_decides_though_its_folder_changes(tmp_path: Path) -> None:
    folder = bundles.dispatcher(tmp_path / "one")
    bundle = Bundle(folder)
    assert not isinstance(bundle.model, Fault)
    other = bundles.dispatcher(tmp_path / "two", candidates=2)
    for name in ("manifest.json", "model.onnx"):
        (folder / name).write_bytes((other / name).read_bytes())
    assert bundle.hash != Bundle(folder).hash == Bundle(other).hash


@pytest.fixture(scope="module")
def rich() -> Scenario:
    return PLACES["ecsrl"]


def test_run_goes_on_after_a_model_changed_its_shape(tmp_path: Path, rich: Scenario) -> None:
    plan, workload = build_plan(rich), make_workload(rich, 1)
    world = new_world(plan, workload)
    account = run(plan, world, find(str(hostile(tmp_path / "late", 4))))
    assert account.fallbacks
    assert account.decisions == int(world.clock["decisions"][0])
