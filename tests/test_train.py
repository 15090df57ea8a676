"""Training: both agents learn, what is made of them is whole, and whatever stops it costs nothing."""

from __future__ import annotations

import csv
import fcntl
import hashlib
import importlib.util
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("sb3_contrib")

import onnxruntime
import torch
from stable_baselines3.common.buffers import ReplayBuffer

from fairlead import __version__
from fairlead.cli.main import _parser, main
from fairlead.cli.train.agent_registry import aset_learner, ecsrl_learner
from fairlead.cli.train.request_agents import _command, _plain, _Teller
from fairlead.domain.errors import UserError
from fairlead.learn.aset.agent import SEVEN, Aset, AsetSettings, WindowGroup
from fairlead.learn.aset.q_learning import AllActionsDQN
from fairlead.learn.ecsrl.agent import DispatchGroups, DispatchView, Ecsrl, EcsrlSettings, ascend
from fairlead.learn.ecsrl.network import Actor
from fairlead.learn.shared.checkpoint import read_checkpoint
from fairlead.learn.shared.environments import VALIDATION_SEED, Part, PartsEnv, Place, Stepped
from fairlead.learn.shared.learner import Learner, falling
from fairlead.learn.shared.observed_ranges import ObservedRanges
from fairlead.learn.shared.validation import Stopped, Validation, _play
from fairlead.measure.statistics import Estimate, paired_difference
from fairlead.policies.bundle import SHIPPED
from fairlead.policies.bundle_registry import shipped
from fairlead.policies.observe import dispatch_features, dispatch_size, observe_dispatch, slot_scales
from fairlead.scenarios.loader import load
from fairlead.sim.gym.window import WindowBatch, WindowSettings
from fairlead.sim.gym.world_file import workload_seed, worlds_of
from processes import started

SOURCES = Path(__file__).parent.parent / "src"
LIGHT = {"aset": ["duration_s=60"], "ecsrl": ["duration_s=10", "rate=18500"]}
SCENARIO = {"aset": "aset-testbed", "ecsrl": "ecsrl"}
QUICK = {
    "aset": ["learning_starts=200", "learning_rate=1e-3", "hold=5", "tail=10", "target_memory=200"],
    "ecsrl": ["worlds=64", "rollout=128", "batch=2048", "gamma=0.99", "gae_lambda=0.95", "learning_rate=5e-4"],
}
STEPS = {"aset": "3000", "ecsrl": "80000"}
TAPFINGER = ["train", "tapfinger", "--scenario", "tapfinger-3"]
Bundles = dict[str, Path]


def place(name: str, *overrides: str, label: str = "") -> Place:
    return Place(label or name, name, overrides, "", worlds_of(load(name, overrides)))


def training(agent: str, out: Path, *more: str, steps: str = "") -> list[str]:
    words = ["train", agent, "--scenario", SCENARIO[agent], "--out", str(out), "--steps", steps or STEPS[agent]]
    words += [w for change in LIGHT[agent] for w in ("--set", change)]
    return words + [w for change in ["validations=3", *QUICK[agent]] for w in ("--hyper", change)] + list(more)


def values_of(bundle: Path) -> Callable[[Any], Any]:
    session = onnxruntime.InferenceSession(bundle / "model.onnx", providers=["CPUExecutionProvider"])
    return lambda observations: session.run(["values"], {"observations": observations})[0]


def curve_of(bundle: Path) -> list[dict[str, str]]:
    with (bundle / "curve.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """Both agents, trained for seconds."""
    made = {agent: tmp_path_factory.mktemp(agent) for agent in SCENARIO}
    for agent, out in made.items():
        assert main(training(agent, out)) == 0
    return made


def learner_of(agent: str) -> Learner:
    where = [place(SCENARIO[agent], *LIGHT[agent])]
    return Aset(where, SEVEN, AsetSettings(), 0) if agent == "aset" else Ecsrl(where, EcsrlSettings(), 0)


def success(agent: str, choose: Callable[[Any, Any], Any]) -> list[float]:
    """On workloads that neither training nor its validation has seen."""
    learner, part = learner_of(agent), range(10_000, 10_016)
    view = learner.make(learner.places[0].worlds, len(part))
    return _play(view, choose, part, threading.Event())[:, 0].tolist()


# ---- smoke training


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["aset", "ecsrl"])
def test_a_short_training_improves_on_random_choice(bundles: Bundles, agent: str) -> None:
    values, draw = values_of(bundles[agent]), np.random.default_rng(0)
    learnt = success(agent, lambda seen, masks: np.where(masks, values(seen), -np.inf).argmax(axis=1))
    by_chance = success(agent, lambda seen, masks: (masks * draw.random(masks.shape)).argmax(axis=1))
    assert paired_difference(learnt, by_chance).low > 0.01


@pytest.mark.slow
def test_the_dispatcher_soon_is_better_than_what_it_began_with(bundles: Bundles) -> None:
    """It begins as least-expected-completion. The best rule, least-taken, is not beaten so soon."""
    validation = json.loads((bundles["ecsrl"] / "manifest.json").read_text())["validation"]
    gaps = [float(row["gap"]) for row in curve_of(bundles["ecsrl"]) if row["place"] == "all"]
    assert validation["gap"] - validation["ci95"] > gaps[0]


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["aset", "ecsrl"])
def test_the_bundle_computes_what_torch_computes(bundles: Bundles, agent: str) -> None:
    learner = learner_of(agent)
    parameters = read_checkpoint(bundles[agent] / "checkpoint", "a test")["best_parameters"]
    network: torch.nn.Module
    if isinstance(learner, Ecsrl):
        network, prefix = Actor(learner.slots, 64), "action_net."
    else:
        layers = [torch.nn.Linear(3 + 5, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU()]
        network = torch.nn.Module()
        network.features_extractor = torch.nn.Module()
        network.features_extractor.norm = torch.nn.BatchNorm1d(3 + 5, affine=False)
        network.q_net = torch.nn.Sequential(*layers, torch.nn.Linear(64, 7))
        network.forward = lambda seen: network.q_net(network.features_extractor.norm(seen))
        prefix = "q_net_target."
    network.load_state_dict({k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)})
    network.eval()
    width = len(json.loads((bundles[agent] / "manifest.json").read_text())["low"])
    for batch in (1, 7):
        seen = np.random.default_rng(batch).random((batch, width), np.float32)
        with torch.no_grad():
            np.testing.assert_allclose(values_of(bundles[agent])(seen), network(torch.as_tensor(seen)), 1e-5, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["aset", "ecsrl"])
def test_the_manifest_says_all_there_is_to_know(bundles: Bundles, agent: str) -> None:
    manifest = json.loads((bundles[agent] / "manifest.json").read_text())
    common = "format kind name summary features sizes low high typical fallback budget_us seed steps scenarios settings"
    of_selectors = {"actions", "mix", "window_ms"} if agent == "aset" else set()
    assert set(manifest) == {*common.split(), "fairlead", "reproduce", "validation", "sha256"} | of_selectors
    assert manifest["sha256"] == hashlib.sha256((bundles[agent] / "model.onnx").read_bytes()).hexdigest()
    assert manifest["scenarios"] == [{"name": SCENARIO[agent], "overrides": LIGHT[agent]}]
    low, high, typical = (np.array(manifest[name]) for name in ("low", "high", "typical"))
    assert (low <= typical).all()
    assert (typical <= high).all()
    assert (low < high).any()
    assert manifest["settings"]["steps"] == int(STEPS[agent])
    assert f"--out {bundles[agent]}" in manifest["reproduce"]
    steps = [int(row["step"]) for row in curve_of(bundles[agent]) if row["place"] == "all"]
    assert manifest["steps"] in steps
    assert len(steps) == 3
    assert steps == sorted(steps)
    best = max(float(row["gap"]) for row in curve_of(bundles[agent]) if row["place"] == "all")
    assert manifest["validation"]["gap"] == pytest.approx(best, rel=1e-5)
    assert any((bundles[agent] / "logs").glob("events.*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "words", "inputs"),
    [
        ("aset", ["--set", "duration_s=20", "--steps", "600"], 8),
        ("ecsrl", ["--set", "duration_s=2", "--energy-weight", "0:0.1", "--steps", "16384"], 70),
    ],
)
def test_the_same_seed_trains_the_same_agent(agent: str, words: list[str], inputs: int, tmp_path: Path) -> None:
    small = ["validation_workloads=2", "validations=1", *QUICK[agent]]
    words = ["--scenario", SCENARIO[agent], *words, *(w for change in small for w in ("--hyper", change))]
    for out in ("one", "other"):
        assert main(["train", agent, *words, "--out", str(tmp_path / out)]) == 0
    one, other = (curve_of(tmp_path / out) for out in ("one", "other"))
    assert [row | {"seconds": ""} for row in one] == [row | {"seconds": ""} for row in other]
    seen = np.random.default_rng(0).random((9, inputs), np.float32)
    np.testing.assert_array_equal(values_of(tmp_path / "one")(seen), values_of(tmp_path / "other")(seen))


# ---- stopped and resumed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "number", "steps"), [("aset", signal.SIGINT, "6000"), ("ecsrl", signal.SIGTERM, "30000")]
)
def test_a_training_that_is_stopped_goes_on_where_it_was(agent: str, number: int, steps: str, tmp_path: Path) -> None:
    command = training(agent, tmp_path, steps=steps)
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    with started([sys.executable, "-m", "fairlead", *command], env=environment) as process:
        assert process.stderr is not None
        while not (line := process.stderr.readline()).startswith("step "):
            assert line, process.communicate()
        process.send_signal(number)
        words = process.communicate(timeout=120)[1]
        assert process.returncode == 130, words
    assert "run the same command with --resume to continue" in words
    assert {"model.onnx", "manifest.json", "curve.csv", "checkpoint"} <= {p.name for p in tmp_path.iterdir()}
    before = curve_of(tmp_path)
    stopped_at = read_checkpoint(tmp_path / "checkpoint", "a test")["steps"]
    assert int(before[-1]["step"]) <= stopped_at < int(steps)
    assert main([*command, "--resume"]) == 0
    after = curve_of(tmp_path)
    assert after[: len(before)] == before
    assert int(after[len(before)]["step"]) > stopped_at
    assert float(after[len(before)]["seconds"]) > float(before[-1]["seconds"])
    assert int(after[-1]["step"]) >= int(steps)


def stop_at(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, whoever is told of that moment stops the training."""
    monkeypatch.setattr(_Teller, moment, lambda *_: signal.raise_signal(signal.SIGTERM))


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["aset", "ecsrl"])
def test_what_is_stopped_before_it_is_validated_is_kept_and_restored_as_it_was(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def checkpoint() -> dict[str, Any]:
        return read_checkpoint(tmp_path / "checkpoint", "a test")

    with monkeypatch.context() as here:
        stop_at("step", here)
        assert main(training(agent, tmp_path)) == 130
    assert "there is no bundle yet" in capsys.readouterr().err
    assert not (tmp_path / "manifest.json").exists()
    before = checkpoint()
    with monkeypatch.context() as here:
        stop_at("doing", here)  # when it is restored, before the next step
        assert main([*training(agent, tmp_path), "--resume"]) == 130
    after = checkpoint()
    assert before["steps"] == after["steps"] == after["counters"]["num_timesteps"] > 0
    assert before["counters"] == after["counters"]
    torch.testing.assert_close(after["parameters"], before["parameters"], rtol=0, atol=0)
    seen = torch.cat(before["seen"]["kept"])
    assert torch.equal(torch.cat(after["seen"]["kept"])[: len(seen)], seen)  # then the start of its next episode
    torch.testing.assert_close(after["random"]["torch"], before["random"]["torch"])
    assert after["random"]["actions"] == before["random"]["actions"]
    if agent == "aset":
        assert after["replay"]["pos"] == before["replay"]["pos"] > 0
        torch.testing.assert_close(after["replay"], before["replay"], rtol=0, atol=0)
    assert main([*training(agent, tmp_path), "--resume"]) == 0
    assert (tmp_path / "manifest.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--resume", "--hyper", "gamma=0.5"], "gamma was 0.99, now 0.5"),
        (["--resume", "--seed", "1"], "seed was 0, now 1"),
        (["--resume", "--set", "duration_s=30"], "scenarios was another"),
        ([], "the folder already has a training; continue with --resume"),
    ],
)
def test_a_training_is_not_mixed_with_another(
    bundles: Bundles, more: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (bundles["aset"] / "checkpoint").read_bytes()
    assert main(training("aset", bundles["aset"], *more)) == 2
    assert words in one_error(capsys)
    assert (bundles["aset"] / "checkpoint").read_bytes() == before


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoint").write_text("a shopping list")
    assert main(training("aset", tmp_path, "--resume")) == 2
    assert "not a checkpoint of fairlead train" in one_error(capsys)
    assert (tmp_path / "checkpoint").read_text() == "a shopping list"


class Hostile:
    """Unpickled, it leaves a trace."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._trace),)


@pytest.mark.parametrize("agent", ["aset", "ecsrl", "tapfinger"])
@pytest.mark.parametrize("where", ["whole", "identity", "parameters"])
def test_a_checkpoint_runs_no_code(agent: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "trace", tmp_path / "out"
    out.mkdir()
    hostile: Any = {"identity": {}, "fairlead": __version__, "parameters": {}}
    hostile = Hostile(trace) if where == "whole" else hostile | {where: Hostile(trace)}
    torch.save(hostile, out / "checkpoint")
    command = [*TAPFINGER, "--out", str(out)] if agent == "tapfinger" else training(agent, out)
    words = [*command, "--resume"]
    assert main(words) == 2
    assert "not a checkpoint of fairlead train" in one_error(capsys)
    assert not trace.exists()
    torch.load(out / "checkpoint", weights_only=False)
    assert trace.exists(), "it does run code where it is let"


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_together_is_told(
    bundles: Bundles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = read_checkpoint(bundles["aset"] / "checkpoint", "a test")
    for wrong in (
        {"rule_figures": torch.zeros(3)},
        {"best": 99},
        {"points": [{}]},
        {"parameters": {"policy": {}}},
        {"counters": {}},
        {"env": []},
        {"replay": saved["replay"] | {"pos": 10**9}},
        {"replay": saved["replay"] | {"rewards": torch.zeros(1)}},
        {"random": saved["random"] | {"torch": torch.zeros(2)}},
        {"seen": saved["seen"] | {"kept": [torch.zeros(3, 1)]}},
    ):
        out = tmp_path / "other"
        out.mkdir(exist_ok=True)
        torch.save(saved | wrong, out / "checkpoint")
        assert main(training("aset", out, "--resume")) == 2, wrong
        assert "not a complete checkpoint" in one_error(capsys)


def test_two_trainings_do_not_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(training("aset", tmp_path)) == 2
    assert "another training runs in this folder" in one_error(capsys)


def test_validation_stops_when_it_is_told_to() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        Validation(learner_of("aset"), stop).play_rules()


# ---- wrong input


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("fairlead: ")
    return captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["aest", "--scenario", "full-edge", "--out", "o"], "invalid choice: 'aest'"),
        (["aset", "--scenario", "full-edg", "--out", "o"], "did you mean 'full-edge'?"),
        (["aset", "--scenario", "full-edge", "--out", ""], "--out is missing: give the folder for the bundle"),
        (["aset", "--scenario", "full-edge", "--out", "taken"], "taken: can't make this folder"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--resume"], "o: there is no checkpoint to resume"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--steps", "2000"], "more than learning_starts=2000"),
        (["aset", "--scenario", "full-edge", "--out", "full"], "full: the folder has other files"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--steps", "0"], "--steps: expected a whole number from 1"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--seed", "-1"], "--seed: expected a whole number from 0"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--rates", "30,x"], "--rates 30,x: expected numbers"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--rates", "30,30"], "'full-edge rate=30' is given twice"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--actions", "closets"], "did you mean 'closest'?"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--actions", "closest"], "at least two policies"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "gama=1"], "did you mean 'gamma'?"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "gamma=x"], "expected gamma=VALUE, such as"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "batch=1"], "batch=1: expected a whole number"),
        (["aset", "--scenario", "full-edge", "--scenario", "full-edge", "--out", "o"], "'full-edge' is given twice"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--hyper", "batch=1"], "batch=1: expected a whole number"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--hyper", "validation_workloads=1"], "from 2 on"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "groups=0"], "expected a whole number from 1 on"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "gamma=nan"], "expected a number from 0 on"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "budget_us=0"], "expected a number above 0"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "gamma=2"], "expected a share, from 0 to 1"),
        (["aset", "--out", "o"], "--scenario is missing: give the scenario to train on"),
        (["ecsrl", "--scenario", "ecsrl"], "--out is missing: give the folder for the bundle"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--target", "0.9"], "needs --objective constraint"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--hyper", "mix=true"], "an option of its own, --mix"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--validation-rates", "x"], "--validation-rates x: expec"),
        (["aset", "--scenario", "full-edge", "--out", "o", "--window-ms", "0"], "window_ms"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--energy-weight", "1:0"], "--energy-weight 1:0: expected a"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--energy-weight", "0:1:2"], "0:0.3:0.1 to use 0.1 of it"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--objective", "constraint"], "a cost to minimise"),
        (["ecsrl", "--scenario", "ecsrl", "--out", "o", "--objective", "constraint", "--energy-weight", "1",
          "--target", "90"], "--target 90: expected a share"),
    ],
)  # fmt: skip
def test_wrong_input_gets_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")
    Path("full").mkdir()
    Path("full/mine.txt").write_text("")
    assert main(["train", *arguments]) == 2
    assert words in one_error(capsys)
    assert not Path("o").exists()


def test_scenarios_with_unlike_windows_need_one(tmp_path: Path) -> None:
    places = [place("aset-testbed"), place("aset-testbed", "window_ms=500", label="other")]
    with pytest.raises(UserError, match="an agent has one window; --window-ms sets it"):
        Aset(places, SEVEN, AsetSettings(), 0)


def test_without_the_extra_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    assert main(training("aset", tmp_path / "o")) == 2
    assert "training needs torch: pip install -e '.[train]' (in the checkout of Fairlead)" in one_error(capsys)


@pytest.mark.parametrize("name", list(shipped()))
def test_the_command_in_a_shipped_manifest_has_the_settings_that_are_there(name: str) -> None:
    about = json.loads((SHIPPED / name / "manifest.json").read_text())
    words = shlex.split(about["reproduce"])
    args = _parser().parse_args(words[1:])
    assert _parser().parse_args(shlex.split(_command(args))[1:]) == args
    learner = (aset_learner if args.agent == "aset" else ecsrl_learner)(
        args, [place(args.scenarios[0], "duration_s=2")], []
    )
    assert json.loads(json.dumps(asdict(learner.settings))) | {"steps": args.steps} == about["settings"]
    assert len(about["scenarios"]) == len(args.scenarios) * len(args.rates.split(","))
    assert args.seed == about["seed"]


def test_a_rate_of_learning_never_falls_below_its_last() -> None:
    rate = falling(1e-3, 1e-5)
    assert [rate(1.0), rate(0.5), rate(0.0), rate(-7.2)] == pytest.approx([1e-3, 5.05e-4, 1e-5, 1e-5])


@pytest.mark.parametrize("number", ["30", "0.5", "26000.55", "1234567", "123456.7"])
def test_numbers_keep_their_digits(number: str) -> None:
    assert _plain(float(number)) == number


def test_settings_are_listed_and_can_be_given_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "aset", "--hyper", "list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert "hidden=128,64               Units of the network's layers." in listed
    again = [w for line in listed for w in ("--hyper", line.split()[0])]
    assert main(["train", "aset", "--scenario", "aset-testbed", "--out", str(tmp_path / "o"), *again, "--resume"]) == 2
    assert "there is no checkpoint" in capsys.readouterr().err  # so all of them were understood


# ---- what agents learn in


def windows_of(worlds: Any, plays: list[list[int]]) -> tuple[Any, list[Any]]:
    """Rewards (windows, worlds) and the last observations of worlds that play these rules, window by window."""
    batch = WindowBatch(worlds, len(plays[0]), WindowSettings(SEVEN))
    for b in range(batch.size):
        batch.begin(b, 0)
    rewards = []
    for rules in plays:
        batch.actions[:] = rules
        batch.play()
        rewards.append(batch.rewards.copy())
    batch.observe()
    return np.array(rewards), batch.observations.copy()


def test_worlds_are_paid_what_they_gain_on_the_rule_now_and_afterwards() -> None:
    settings = AsetSettings(groups=1, hold=3, tail=2, gamma=0.5, reward_scale=2.0)
    env = Aset([place("aset-testbed", "duration_s=40")], SEVEN, settings, 0).environment(best_rule=1)
    (part,) = env.parts
    assert isinstance(part, WindowGroup)
    worlds, everything = part._view.batch.worlds, list(range(7))
    head_start = int(part._view.batch.handle.worlds[0].clock[0]["window"])
    assert head_start == 0  # of this seed: else what was played then would have to be played below
    before: list[Any] = []
    scale = 2.0 * (len(worlds.draw(0).requests) / 40) ** 0.5
    for leader in (1, 5, 6, 0):
        seen, rewards, _, infos = env.step(np.full(7, leader))
        held, _ = windows_of(worlds, before + [everything] * 3 + [[1] * 7] * 2)
        gains = (held[-5:] - held[-5:, 1:2]) * scale
        np.testing.assert_allclose(rewards, 0.5 ** np.arange(5) @ gains, atol=1e-5)
        assert rewards[1] == 0.0
        _, ends = windows_of(worlds, before + [everything] * 3)
        for row, info in enumerate(infos):  # what comes behind is of another world
            assert info["TimeLimit.truncated"]
            np.testing.assert_allclose(info["terminal_observation"], ends[row])
        np.testing.assert_allclose(seen, np.tile(ends[leader], (7, 1)))  # all go on from the one that was chosen
        before += [[leader] * 7] * 3
    env.close()


def test_holds_begin_in_any_window() -> None:
    env = Aset([place("aset-testbed", "duration_s=6")], SEVEN, AsetSettings(groups=1, hold=4, tail=1), 0).environment(1)
    (part,) = env.parts
    assert isinstance(part, WindowGroup)
    starts, rules = [], set()
    for _ in range(40):
        part.restart()
        starts.append(int(part._view.batch.handle.worlds[0].clock[0]["window"]))
        if starts[-1]:
            rules.add(int(part._view.batch.actions[0]))
    assert set(starts) == {0, 1, 2, 3}
    assert 0.4 < np.mean(np.array(starts) == 0) < 0.85  # half of the episodes, and a quarter of the others
    assert len(rules) > 3  # what was played before differs
    env.close()


def test_groups_have_workloads_of_their_own_start_apart_and_go_from_place_to_place() -> None:
    settings = AsetSettings(groups=2, mix=True, hold=1, tail=1)
    places = [place("dc-cloud", "duration_s=6"), place("aset-testbed", "duration_s=6")]
    env = Aset(places, SEVEN, settings, 0).environment(best_rule=1)
    env.reset()
    ended_at: list[list[int]] = [[], []]
    there: list[set[str]] = [set(), set()]
    for step in range(1, 22):
        seen, _, _, infos = env.step(np.zeros(14, np.int64))
        assert seen.shape == (14, 7 + 2 * 5)
        assert (seen[0] != seen[7]).any()
        for k, info in enumerate(infos[::7]):
            if not info["TimeLimit.truncated"]:
                ended_at[k].append(step)
                last = info["terminal_observation"]
                small = (last[[10, 11, 15, 16]] == 0.0).all()  # padded: dc-cloud has three nodes
                assert small or (last[12:] > 0.0).all()
                there[k].add("dc-cloud" if small else "aset-testbed")
    assert ended_at == [[6, 12, 18], [3, 9, 15, 21]]
    assert there == [{"dc-cloud", "aset-testbed"}] * 2
    assert len(env.finished) == 7 * 7  # one in each row
    env.close()


def test_worlds_stay_where_the_next_place_differs_by_its_workloads_alone() -> None:
    rates = [place("aset-testbed", "duration_s=2", f"rate={r}", label=str(r)) for r in (5, 20, 60)]
    other = place("dc-cloud", "duration_s=2")
    background = ThreadPoolExecutor(1)
    part = WindowGroup(Aset([*rates, other], SEVEN, AsetSettings(groups=1, hold=1), 0), 1, 0, background)
    visits, handles = [], set()
    for _ in range(4):
        part.restart()
        batch = part._view.batch
        handles.add(batch.handle)
        for _ in range(2):
            part._play(0)
        visits.append((batch.worlds.name, int(batch.handle.worlds[0].clock[0]["arrived"])))
    names = [name for name, _ in visits]
    assert sorted(names) == ["aset-testbed"] * 3 + ["dc-cloud"]
    assert names.index("dc-cloud") in (0, 3)  # those of one scenario follow each other
    assert len(handles) == 2
    assert len({arrived for name, arrived in visits if name == "aset-testbed"}) == 3  # each at its own rate
    background.shutdown()


def test_what_is_cut_goes_on_and_what_ends_does_not() -> None:
    settings = AsetSettings(groups=1, hold=2, tail=1, buffer=1000)
    learner = Aset([place("aset-testbed", "duration_s=6")], SEVEN, settings, 0)
    env = learner.environment(1)
    model = learner.model(env)
    model.learn(7 * 9, log_interval=None)
    buffer = model.replay_buffer
    assert isinstance(buffer, ReplayBuffer)
    assert buffer.dones[:9].all()
    assert buffer.timeouts[:9].tolist() == [[1.0] * 7, [1.0] * 7, [0.0] * 7] * 3  # an episode is three steps
    assert buffer.actions[:9, :, 0].tolist() == [list(range(7))] * 9
    leaders = set()
    for step in range(8):
        assert (buffer.observations[step + 1] == buffer.observations[step + 1, 0]).all()  # together again
        if (step + 1) % 3:
            ends = buffer.next_observations[step]
            leaders.add(int((ends == buffer.observations[step + 1, 0]).all(axis=1).argmax()))
            assert (ends == buffer.observations[step + 1, 0]).all(axis=1).any()
    assert len(leaders) > 1
    env.close()


def test_training_never_sees_workloads_of_validation_or_of_compare() -> None:
    learner = learner_of("aset")
    drawn: list[int] = []
    worlds = learner.places[0].worlds

    def draw(seed: int) -> Any:
        drawn.append(seed)
        return worlds.draw(seed)

    learner.places = (replace(learner.places[0], worlds=replace(worlds, draw=draw)),)
    env = learner.environment(0)
    for part in env.parts * 2:
        part.restart()
    env.state()  # waits until the next are drawn
    assert len(drawn) == len(set(drawn)) == 4 * 6  # once for each group
    assert min(drawn) >= 2**31
    assert not set(drawn) & {workload_seed(VALIDATION_SEED, i) for i in range(1000)}
    env.close()


class Echo(Part):
    """A group of four worlds that show how often they were stepped and pay the number of the action."""

    def __init__(self) -> None:
        self.steps = 0

    def restart(self) -> None:
        self.steps = 0

    def step(self, actions: Any) -> Stepped:
        self.steps += 1
        return Stepped(actions.astype(float), np.zeros(4, bool), self.observations(), np.zeros(4))

    def observations(self) -> Any:
        return np.full((4, 2), self.steps % 7, np.float32)

    def masks(self) -> Any:
        return np.ones((4, 4), np.int8)

    def state(self) -> Any:
        return self.steps

    def restore(self, state: Any) -> None:
        self.steps = state


def q_learner(env: PartsEnv, **changes: Any) -> AllActionsDQN:
    return AllActionsDQN("MlpPolicy", env, learning_starts=30, train_freq=1, seed=1, device="cpu", **changes)


def test_each_group_explores_by_itself() -> None:
    env = PartsEnv([Echo() for _ in range(100)])
    model = q_learner(env)
    model.exploration_rate = 0.5
    best = model.predict(env.reset(), deterministic=True)[0][::4]
    others = [np.mean(model.predict(env.reset())[0][::4] != best) for _ in range(20)]
    assert np.mean(others) == pytest.approx(0.5 * 3 / 4, abs=0.05)  # one in four of the random actions is the best one
    assert 0.15 < others[0] < 0.6  # in any one step too


def test_what_is_exported_follows_what_learns_as_a_running_mean() -> None:
    settings = AsetSettings(groups=1, hold=2, tail=1, learning_starts=0, target_memory=70, weight_decay=0.5, batch=8)
    learner = Aset([place("aset-testbed", "duration_s=6")], SEVEN, settings, 0)
    env = learner.environment(1)
    model = learner.model(env)
    assert model.policy.optimizer.param_groups[0]["weight_decay"] == 0.5
    targets, learners = [], []
    names = [name for name, _ in model.q_net.named_parameters()]

    def note(*_: Any) -> bool:
        targets.append(torch.cat([dict(model.q_net_target.named_parameters())[n].detach().flatten() for n in names]))
        learners.append(torch.cat([dict(model.q_net.named_parameters())[n].detach().flatten() for n in names]))
        return True

    model.learn(7 * 6, note, log_interval=None)
    assert not torch.equal(learners[2], learners[3])
    for before, after, learnt in zip(targets, targets[1:], learners, strict=False):
        torch.testing.assert_close(after, 0.9 * before + 0.1 * learnt)  # 7 rows a step, 70 to forget
    env.close()
    env.close()


def test_no_step_is_lost_while_the_network_learns() -> None:
    env = PartsEnv([Echo(), Echo()])
    model = q_learner(env, exploration_fraction=1e-9, exploration_final_eps=0.5)
    model.learn(400, log_interval=None)
    buffer, steps = model.replay_buffer, 400 // 8
    assert isinstance(buffer, ReplayBuffer)
    assert buffer.pos == steps
    assert buffer.actions[:steps, :, 0].tolist() == [[0, 1, 2, 3] * 2] * steps  # each row's own, whatever was chosen
    assert len(np.unique(buffer.rewards[:steps])) == 4  # what was chosen reached the environment
    assert buffer.observations[:steps, 0, 0].tolist() == [k % 7 for k in range(steps)]  # no step is lost
    assert env.state() == [steps + 1] * 2  # the next one was under way
    env.close()


def test_dispatchers_learn_from_what_they_are_shown_when_they_run() -> None:
    learner = Ecsrl([place("ecsrl", "duration_s=5")], EcsrlSettings(), 0)
    learner.slots = 6  # as if another place had more
    view = learner.make(learner.places[0].worlds, 3)
    view.preference[:] = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    view.batch.reset(1)
    for _ in range(50):
        view.batch.step(view.actions(view.masks().argmax(axis=1)))
    scale, shift = slot_scales(6)
    for b, world in enumerate(view.batch.handle.worlds):
        clock, wanted = world.clock[0], np.zeros(len(dispatch_features(6)), np.float32)
        some = slice(int(clock["first"]), int(clock["last"]))
        request = world.requests[int(clock["request"])][None]
        rows = world.candidates[some], world.excluded[some], scale, shift, view.preference[b], wanted
        observe_dispatch()(request.copy(), *rows)
        np.testing.assert_array_equal(view.observations()[b], wanted)
        assert view.masks()[b].tolist() == [*(world.excluded[some] == 0), 0, 0, 1]


def test_rejection_is_the_last_action_whatever_the_padding() -> None:
    learner = learner_of("ecsrl")
    assert isinstance(learner, Ecsrl)
    view = DispatchView(learner.make(learner.places[0].worlds, 2).dispatch, slots=9)
    view.batch.reset(1)
    view.batch.step(view.actions(np.array([9, 0])))
    assert [int(w.clock[0]["rejected"]) for w in view.batch.handle.worlds] == [1, 0]
    assert not view.dispatch.invalid.any()


def dispatching(**settings: Any) -> tuple[PartsEnv, EcsrlSettings]:
    small = EcsrlSettings(worlds=8, group=4, **settings)
    return Ecsrl([place("ecsrl", "duration_s=2")], small, 0).environment(0), small


def test_groups_share_weights_and_are_paid_against_each_other() -> None:
    env, _ = dispatching(energy_weights=(0.0, 1.0), degradation_weights=(2.0, 3.0))
    draw, weights = np.random.default_rng(0), set()
    for _ in range(150):
        masks = env.action_masks()
        seen, rewards, _, _ = env.step((masks * draw.random(masks.shape)).argmax(axis=1))
        np.testing.assert_allclose(rewards.reshape(2, 4).sum(axis=1), 0.0, atol=1e-5)
        for group in seen[:, -2:].reshape(2, 4, 2):
            assert (group == group[0]).all()
            weights.add(tuple(group[0].tolist()))
    energy, degradation = np.array(sorted(weights)).T
    assert len(weights) >= 4  # so there was more than one episode
    assert 0.0 <= energy.min() < energy.max() <= 1.0
    assert 2.0 <= degradation.min() < degradation.max() <= 3.0


@pytest.mark.parametrize("objective", ["weighted", "constraint"])
def test_failures_energy_and_degradation_cost_what_the_weights_say(
    objective: Literal["weighted", "constraint"],
) -> None:
    env, _ = dispatching(objective=objective, energy_weights=(0.5, 0.5), degradation_weights=(2.0, 2.0))
    part = env.parts[0]
    assert isinstance(part, DispatchGroups)
    part.multiplier = 3.0
    batch, draw, lost = part._batch, np.random.default_rng(0), 0
    for _ in range(100):
        masks = part.masks()
        rewards = part.step((masks * draw.random(masks.shape)).argmax(axis=1)).rewards
        _, joules, degradation = batch.components.T
        paid = -batch.failures - 0.5 * joules - 2.0 * degradation
        if objective == "constraint":
            paid = -(3.0 * batch.failures + 0.5 * joules + 2.0 * degradation) / (1.0 + 3.0)
        for row, mine in enumerate(paid):
            others = [paid[k] for k in range(len(paid)) if k // 4 == row // 4 and k != row]
            assert rewards[row] == pytest.approx(mine - np.mean(others), abs=1e-9)
        lost += batch.failures.sum()
    assert lost > 0
    env.close()


def test_the_multiplier_rises_while_the_target_is_missed_and_falls_while_it_is_exceeded() -> None:
    env, settings = dispatching(objective="constraint", energy_weights=(0.1, 0.1), target=0.9, multiplier_rate=2.0)
    parts = [part for part in env.parts if isinstance(part, DispatchGroups)]
    for _ in range(20):
        env.step(np.full(8, 4))  # reject everything
    assert ascend(parts, settings) == pytest.approx(1.0 + 2.0 * 0.9)
    parts[0].ended[:] = 19, 1
    assert ascend(parts, settings) == pytest.approx(2.8 - 2.0 * 0.05)
    assert [part.multiplier for part in parts] == pytest.approx([2.7, 2.7])
    again, _ = dispatching(objective="constraint", energy_weights=(0.1, 0.1))
    again.restore(env.state())
    assert [part.multiplier for part in again.parts if isinstance(part, DispatchGroups)] == pytest.approx([2.7, 2.7])


def test_scores_are_the_objective() -> None:
    figures = np.array([[0.8, 2.0, 1.0], [0.95, 2.0, 1.0]])  # successes, joules, degradation a request
    at = [place("ecsrl", "duration_s=2")]
    weights: dict[str, Any] = {"energy_weights": (0.1, 0.1), "degradation_weights": (0.2, 0.2)}
    np.testing.assert_allclose(Ecsrl(at, EcsrlSettings(**weights), 0).score(figures), [0.4, 0.55])
    constraint = EcsrlSettings("constraint", **weights, target=0.9, multiplier_most=10.0)
    np.testing.assert_allclose(Ecsrl(at, constraint, 0).score(figures), [-0.65, -0.65])  # 0.025 are missing
    cheap, enough = np.array([[0.85, 1.0, 0.0]] * 2), np.array([[0.86, 2.0, 0.0], [0.96, 2.0, 0.0]])
    kept = Ecsrl(at, replace(constraint, multiplier_most=100.0), 0)
    assert kept.score(enough).mean() > kept.score(cheap).mean()  # the target before what it costs
    assert Ecsrl(at, EcsrlSettings(**weights), 0).gap_words(Estimate(0.01, 0.002, 8)) == (
        "+1.00 ±0.20 points of the objective"
    )


def test_an_untrained_dispatcher_does_what_least_expected_completion_does() -> None:
    learner = learner_of("ecsrl")
    assert isinstance(learner, Ecsrl)
    learner.settings = replace(learner.settings, validation_workloads=4)
    validation = Validation(learner, threading.Event())
    validation.play_rules()
    actor = Actor(learner.slots, 8)

    def choose(seen: Any, masks: Any) -> Any:
        with torch.no_grad():
            return np.where(masks, actor(torch.as_tensor(seen)).numpy(), -np.inf).argmax(axis=1)

    rule = validation.rule_figures[0, learner.rules.index("least-expected-completion")]
    judged = validation.judge(choose).figures[0]
    # Not the same: it trades a miss for much time, and turns away the hopeless.
    np.testing.assert_allclose(judged[:, 0], rule[:, 0], atol=0.03)


def test_a_dispatcher_turns_away_what_is_hopeless_whatever_it_has_learnt() -> None:
    actor = Actor(slots=2, hidden=8)
    torch.nn.init.constant_(actor.score[-1].bias, 50.0)
    seen = np.zeros((3, dispatch_size(2)), np.float32)
    names = dispatch_features(2)
    seen[:, names.index("deadline_ms")] = 1.0
    for c in (0, 1):
        seen[:, names.index(f"feasible {c}")] = 1.0
        seen[:, names.index(f"proc_ms {c}")] = [0.5, 0.9, 1.1]  # deadlines
    with torch.no_grad():
        assert actor(torch.as_tensor(seen)).argmax(1).tolist() == [0, 0, 2]


def test_what_was_seen_is_kept_in_bounds() -> None:
    seen, rows = ObservedRanges(), np.random.default_rng(0).random((5000, 100, 2), np.float32)
    for row in rows:
        seen.add(row)
    low, high, typical = seen.ranges()
    assert low == rows.min(axis=(0, 1)).tolist()
    assert high == rows.max(axis=(0, 1)).tolist()
    assert typical == pytest.approx([0.5, 0.5], abs=0.02)
    assert len(seen.rows()) <= 20_000


def test_what_is_typical_is_of_what_actions_led_to_and_the_range_of_everything() -> None:
    seen = ObservedRanges()
    for _ in range(1000):
        seen.add(np.ones((100, 1), np.float32), np.zeros((100, 1), np.float32))
    assert seen.ranges() == ([0.0], [1.0], [1.0])
