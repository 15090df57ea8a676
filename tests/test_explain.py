"""`fairlead explain`: inputs in natural units, drivers as a linear model's arithmetic has them, only what is possible
as an alternative, replays as when the decision is forced by hand, and one line for what can't be explained.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bundles
from builders import link, link_change, rich_scenario, scenario
from bundles import ask
from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments.explain import Explanation, explain
from fairlead.experiments.policy_inputs import dispatch_inputs, window_inputs
from fairlead.measure.numerals import plain_number
from fairlead.measure.report.explanation_phrases import because, verdict
from fairlead.measure.report.explanation_words import label, statement, typical_text
from fairlead.policies.decider import Setting
from fairlead.policies.interface import Policy, find
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.scenarios.loader import load
from fairlead.sim.gym.envs import WindowEnv
from fairlead.sim.gym.window import WindowSettings
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import simulate

SEED = 3
PLACES = ("small on pair", "small on shared", "large on shared", "large on cloud")


@pytest.fixture(scope="module")
def rich() -> Scenario:
    return rich_scenario()


def moves(found: Explanation) -> dict[str, float]:
    return {d.name: d.move for d in found.drivers if d.move}


def by_name(found: Explanation) -> dict[str, Any]:
    return {a.name: a for a in found.alternatives}


def natural(found: Explanation) -> dict[str, float]:
    return {i.name: i.value for i in found.inputs}


# ---- a window of a selector


def test_a_window_shows_the_one_before_in_natural_units(tmp_path: Path, rich: Scenario) -> None:
    policy = find(str(bundles.selector(tmp_path, mix=True)))
    found = explain(rich, policy, SEED, at_s=1.9)
    run = simulate(rich, policy, SEED)
    assert (found.kind, found.number, found.at_s, found.until_s) == ("window", 7, 1.75, 2.0)
    assert found.chosen == run.account.active[7]
    value, window = natural(found), run.windows[6]
    assert (value["qps"], value["rps"]) == pytest.approx(
        (window["arrived"] / 0.25, window["delivered"] / 0.25), rel=1e-6
    )
    assert value["clients"] == pytest.approx(window["clients"], rel=1e-6)
    sent_qps = run.dispatched[6] / 0.25
    assert [value[f"load {n}"] for n in rich.nodes] == pytest.approx(100 * sent_qps / capacity_qps(build_plan(rich)))
    assert [value[f"delay {n}"] for n in rich.nodes] == pytest.approx([3.0, 3.0, 15.0])
    arrivals = run.requests[(run.requests["now_ms"] >= 1500.0) & (run.requests["now_ms"] < 1750.0)]
    assert value["within 80 ms"] == pytest.approx(100 * np.mean(arrivals["deadline_ms"] <= 80.0), rel=1e-6)
    assert len(value) == 7 + 2 * 3  # the fourth node of the model is padding
    assert {i.name: i.unit for i in found.inputs}["load cloud"] == "% of capacity"


def test_the_first_window_shows_clients_and_links_that_are_there(tmp_path: Path) -> None:
    found = explain(
        load("aset-testbed", ["duration_s=5"]),
        find(str(bundles.selector(tmp_path, mix=True, nodes=5, window_ms=1000.0))),
        SEED,
        at_s=0.0,
    )
    assert found.situation == {"inputs of": "the start: the connected clients and the links"}
    value = natural(found)
    assert value["clients"] > 10
    assert value["qps"] == value["rps"] == 0.0
    assert all(amount > 0.0 for name, amount in value.items() if name.startswith("delay "))


def test_drivers_of_a_window_are_the_linear_models(tmp_path: Path, rich: Scenario) -> None:
    """farthest - load-balancing = qps - 0.5; typical is 1 everywhere."""
    policy = find(str(bundles.selector(tmp_path, mix=True)))
    chosen = set()
    for at_s in (0.0, 1.0, 2.3, 4.9):
        found = explain(rich, policy, SEED, at_s=at_s)
        qps = natural(found)["qps"] / capacity_qps(build_plan(rich)).sum()
        sign = 1.0 if found.chosen == "farthest" else -1.0
        assert found.margin == pytest.approx(sign * (qps - 0.5), abs=1e-6)
        expected = sign * (qps - 1.0)  # the margin as it is - the margin at qps 1
        assert moves(found) == pytest.approx({"qps": expected, "the traffic": expected}, abs=1e-6)
        assert {d.then for d in found.drivers if d.move} == {"farthest"}
        assert {d.then for d in found.drivers if not d.move} == {found.chosen}
        chosen.add(found.chosen)
    assert chosen == {"farthest", "load-balancing"}


def test_groups_of_a_window_are_what_belongs_together(tmp_path: Path, rich: Scenario) -> None:
    at = {"at_s": 1.0}
    mixed = explain(rich, find(str(bundles.selector(tmp_path / "mix", mix=True, nodes=5))), SEED, **at)
    assert {d.name for d in mixed.drivers if d.group} == {
        "the traffic", "the deadline mix", "all loads", "all delays", "inputs not in use",
        *(f"all inputs of node {name}" for name in ("pair", "shared", "cloud")),
    }  # fmt: skip
    plain = explain(rich, find(str(bundles.selector(tmp_path / "plain", nodes=3))), SEED, **at)
    assert {d.name for d in plain.drivers if d.group} == {"the traffic", "all loads"}


def test_a_replayed_window_is_as_when_it_is_forced_by_hand(tmp_path: Path, rich: Scenario) -> None:
    names = ("load-balancing", "farthest")
    policy = find(str(bundles.selector(tmp_path, names)))
    found = explain(rich, policy, SEED, at_s=1.1, replay=True)
    before = simulate(rich, policy, SEED).rows["outcome"] == Outcome.SUCCESS
    assert before.sum() > 0
    for i, name in enumerate(names):
        live = Selector(policy.name, policy.bundle, Setting(3, 250.0))
        env = WindowEnv(rich, settings=WindowSettings(names, nodes=4))
        observation, _ = env.reset(options={"workload_seed": SEED})
        window, terminated = 0, False
        while not terminated:
            action = i if window == 4 else int(live.select(observation[None])[0])
            observation, _, terminated, _, _ = env.step(action)
            window += 1
        after = env.batch.handle.worlds[0].rows["outcome"][: len(before)] == Outcome.SUCCESS
        replayed = by_name(found)[name].replayed
        assert replayed.run == after.sum() - before.sum()
        assert (replayed.run == 0) == (name == found.chosen)


# ---- a request of a dispatcher


def test_drivers_of_a_request_are_the_linear_models(tmp_path: Path, rich: Scenario) -> None:
    """A candidate is worth - proc_ms - in_flight / 10; typical are 100 ms and 10 in flight."""
    policy = find(str(bundles.dispatcher(tmp_path, candidates=6)))
    found = explain(rich, policy, SEED, at_s=0.005)
    run = simulate(rich, policy, SEED)
    assert found.at_s == pytest.approx(run.requests["now_ms"][found.number] / 1000.0)
    assert found.at_s >= 0.005 > run.requests["now_ms"][found.number - 1] / 1000.0
    value = natural(found)
    worth = {p: -value[f"proc_ms of {p}"] - value[f"in_flight of {p}"] / 10.0 for p in PLACES}
    first, second = sorted(worth, key=lambda p: -worth[p])[:2]
    assert (found.chosen, found.rival) == (first, second)
    assert found.margin == pytest.approx(worth[first] - worth[second], abs=1e-4)
    expected = {}
    for sign, place in ((1.0, first), (-1.0, second)):
        proc = sign * (100.0 - value[f"proc_ms of {place}"])
        flight = sign * (10.0 - value[f"in_flight of {place}"]) / 10.0
        expected |= {
            f"proc_ms of {place}": proc,
            f"in_flight of {place}": flight,
            f"all inputs of {place}": proc + flight,
        }
    both = sum(expected.get(f"all inputs of {variant} on shared", 0.0) for variant in ("small", "large"))
    expected |= {"all inputs of node shared": both} if both else {}
    assert moves(found) == pytest.approx(expected, abs=1e-3)
    sizes = [abs(d.move) for d in found.drivers]
    assert sizes == sorted(sizes, reverse=True)
    assert by_name(found)["large on cloud"].facts["accuracy"] == pytest.approx(0.9)
    assert value["accuracy of large on cloud"] == pytest.approx(0.9)
    assert value["suffered of small on pair"] == 1.0


def test_scores_have_their_softmax_share(tmp_path: Path, rich: Scenario) -> None:
    found = explain(rich, find(str(bundles.dispatcher(tmp_path, reject=-12.0))), SEED, request=4)
    possible = [a for a in found.alternatives if not a.excluded]
    weights = np.exp([a.value for a in possible])
    assert [a.share for a in possible] == pytest.approx(list(weights / weights.sum()))
    assert found.alternatives[-1].name == "reject"
    assert 0.0 < found.alternatives[-1].share < 1.0


def test_a_masked_candidate_is_never_an_alternative(tmp_path: Path, rich: Scenario) -> None:
    """The model wants the first place above all, whose link is down from 2 to 2.5 s."""
    policy = find(str(bundles.dispatcher(tmp_path, bias=[1e3, 0.0, 0.0, 0.0])))
    found = explain(rich, policy, SEED, at_s=2.1, replay=True)
    first = by_name(found)["small on pair"]
    assert "unreachable" in first.excluded
    assert first.value > max(a.value for a in found.alternatives if a is not first)
    assert (first.share, first.replayed, first.chosen) == (None, None, False)
    assert "small on pair" not in {found.chosen, found.rival, *(d.then for d in found.drivers)}
    possible = [a for a in found.alternatives if not a.excluded]
    assert len(possible) > 1
    assert sum(a.share for a in possible) == pytest.approx(1.0)
    assert all(a.replayed for a in possible)
    assert explain(rich, policy, SEED, at_s=1.0).chosen == "small on pair"


def test_a_replayed_request_is_as_when_it_is_forced_by_hand(
    tmp_path: Path, rich: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.experiments.explain.SOON_S", 0.5)
    policy = find(str(bundles.dispatcher(tmp_path)))
    found = explain(rich, policy, SEED, request=5, replay=True)
    before = simulate(rich, policy, SEED)
    tried = 0
    for answer, name in [*enumerate(PLACES), (-1, "reject")]:
        replayed, live = by_name(found)[name].replayed, Dispatcher(policy.name, policy.bundle)
        if replayed is None:
            continue

        def forced(request: Any, *rest: Any, answer: int = answer, live: Any = live) -> int:
            own = ask(live, request, *rest)
            return answer if request.id == 5 else own

        after = simulate(rich, Policy("forced", forced, "python"), SEED)
        more = (after.rows["outcome"] == Outcome.SUCCESS).astype(int) - (before.rows["outcome"] == Outcome.SUCCESS)
        after_ms = before.requests["now_ms"] - before.requests["now_ms"][5]
        assert replayed.run == more.sum()
        assert replayed.soon == more[(after_ms >= 0.0) & (after_ms < 500.0)].sum()
        assert replayed.outcome == Outcome(after.rows["outcome"][5]).name.lower()
        tried += 1
    assert tried == 5
    assert by_name(found)["reject"].replayed.outcome == "rejected"
    assert by_name(found)[found.chosen].replayed.run == 0


def test_explaining_changes_nothing(tmp_path: Path, rich: Scenario) -> None:
    policy = find(str(bundles.dispatcher(tmp_path)))
    assert explain(rich, policy, SEED, request=5, replay=True) == explain(rich, policy, SEED, request=5, replay=True)


# ---- falling back


def test_a_window_out_of_range_tells_the_rule_and_the_input(tmp_path: Path, rich: Scenario) -> None:
    folder = bundles.selector(tmp_path, high=[0.0, *[10.0] * 6])
    found = explain(rich, find(str(folder)), SEED, at_s=1.0, replay=True)
    assert (found.fallback, found.chosen, found.rule) == ("range", "closest", "closest")
    assert [i.name for i in found.inputs if i.outside] == ["qps"]
    assert (found.margin, found.rival, found.drivers) == (None, None, [])
    assert [a.name for a in found.alternatives] == ["load-balancing", "farthest", "closest"]
    assert [a.value is None for a in found.alternatives] == [False, False, True]
    assert by_name(found)["farthest"].replayed is not None
    bundles.edit(folder, fallback="farthest")  # the rule is one of those that the model picks from
    found = explain(rich, find(str(folder)), SEED, at_s=1.0)
    assert [(a.name, a.chosen) for a in found.alternatives] == [("load-balancing", False), ("farthest", True)]


def test_more_candidates_than_the_model_knows_are_told_without_values(tmp_path: Path, rich: Scenario) -> None:
    found = explain(rich, find(str(bundles.dispatcher(tmp_path, candidates=2))), SEED, request=10, replay=True)
    assert (found.fallback, found.inputs, found.drivers) == ("size", [], [])
    assert {a.value for a in found.alternatives} == {None}
    assert by_name(found)[found.chosen].replayed.run == 0


# ---- the command


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    return capsys.readouterr().out


SHORT = ("--set", "duration_s=5", "--set", "window_ms=250")


def test_the_command_shows_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(bundles.dispatcher(tmp_path / "d", candidates=8))
    text = say(capsys, "ecsrl", "--policy", folder, "--at", "2", *SHORT, "--replay", "--seed", "1")
    assert "required accuracy 0." in text
    assert "chose" in text
    assert ": its score is " in " ".join(text.split())
    assert "Chosen because " in text
    assert "whole run" in text
    assert re.search(r" on \w+: service time alone", text)
    below = text.partition("whole run")[2]
    assert not re.search(r"\b[a-z]+_[a-z]+\b", below)  # words, not fields
    assert "one at a time" in text
    document = json.loads(say(capsys, "ecsrl", "--policy", folder, "--request", "7", *SHORT, "--json", "-"))
    assert document["settings"]["request"] == document["decision"]["number"] == 7
    assert document["kind"] == "explanation"
    assert len(document["decision"]["inputs"]) == 4 + 16 * (len(document["decision"]["alternatives"]) - 1) + 2
    assert document["versions"]["onnxruntime"]


def decision(values: dict[str, float], moves: dict[str, float], rival: str = "small on xavier") -> dict[str, Any]:
    inputs = [{"name": n, "unit": "ms" * n.count("_ms"), "value": v, "typical": 9.0} for n, v in values.items()]
    drivers = [{"name": name, "group": False, "move": move} for name, move in moves.items()]
    return {"chosen": "small on nano", "rival": rival, "inputs": inputs, "drivers": drivers}


def test_the_reasons_are_sentences_that_compare_the_choice_with_its_rival() -> None:
    values = {"suffered of small on nano": 1.0, "suffered of small on xavier": 2.3, "deadline_ms": 80.0}
    values |= {"proc_ms of small on nano": 50.0, "proc_ms of small on xavier": 20.0}
    moves = {"suffered of small on xavier": 1.3, "deadline_ms": 0.2, "proc_ms of small on xavier": -0.4}
    against = " Against it: the service time alone is 50 ms on nano, against 20 ms on xavier."
    assert because(decision(values, moves)) == (
        "Chosen because the slow-down is 1.0 on nano, against 2.3 on xavier; and the deadline is 80 ms (typical 9)."
        f"{against}"
    )
    idle = values | {"in_flight of small on nano": 0.0, "others_in_flight of small on nano": 0.0}
    one = {"suffered of small on xavier": 1.3}
    reason = "Chosen because nano is idle (slow-down 1.0, against 2.3 on xavier)."
    assert because(decision(idle, one)) == reason
    both = {"suffered of small on nano": 2.0, "suffered of small on xavier": -3.0}  # together against
    assert because(decision(idle, both)).startswith("Against the choice: nano is idle")
    assert because(decision(values | {"suffered of small on xavier": 1.0}, one)) == ""
    near = {"proc_ms of small on nano": 5.0, "proc_ms of large on nano": 7.5}
    assert because(decision(near, {"proc_ms of small on nano": 1.0}, "large on nano")) == (
        "Chosen because the service time alone is 5 ms for small on nano, against 7.5 ms for large on nano."
    )
    assert because(decision({"load nano": 90.0}, {"load nano": 1.0})) == (
        "Chosen because the load of nano is 90 (typical 9)."
    )
    odd = {"degradation_weight": 0.0, "price of small on nano": 2.78e-6, "free_mb of small on nano": 6193.0}
    odd |= {"price of small on xavier": 3e-6, "free_mb of small on xavier": 500.0}
    moved = {"degradation_weight": -1.0, "price of small on nano": -0.5, "free_mb of small on nano": -0.1}
    assert because(decision(odd, moved)) == (
        "Against the choice: the weight on slow-downs is 0 (typical 9); the cost per million requests is 2.78 on nano, "
        "against 3 on xavier; and the free memory is 6,193 on nano, against 500 on xavier."
    )


def test_rejecting_is_told_as_such_with_the_inputs_of_the_rival() -> None:
    made = decision({"suffered of small on xavier": 5.0}, {"suffered of small on xavier": 2.0})
    made |= {"chosen": "reject", "fallback": None, "margin": 5.891}
    document = {"decision": made, "settings": {"policy": "ecsrl"}}
    assert verdict(document) == (
        "ecsrl rejected the request: the score of rejecting is 5.89 above that of small on xavier, the best "
        "alternative. Rejected because for small on xavier, the slow-down is 5.0 (typical 9.0)."
    )
    made |= {"chosen": "small on xavier", "rival": "reject", "margin": 0.0, "drivers": []}
    words = (
        "ecsrl chose small on xavier: the scores of small on xavier and rejecting are equal, and the first of equals"
    )
    assert verdict(document) == f"{words} is taken."


def test_every_input_has_words() -> None:
    """None of the names of fields is shown, in a table or in a sentence."""
    names = [i.name for i in dispatch_inputs(["small on nano"], 1, True)]
    names += [i.name for i in window_inputs(["nano"], 1, True, 10.0)]
    for name in names:
        seen = {"name": name, "unit": "", "value": 0.5, "typical": 0.25, "low": 0.0, "high": 1.0}
        for text in (label(name), statement(name, seen, typical_text(seen))):
            assert "_" not in text, text
            assert not re.search(r"\b(qps|rps|caused|suffered)\b", text), text
    assert label("within 40 ms") == "deadlines within 40 ms"
    assert label("delay nano") == "network delay to nano"
    loads = [i.unit for bound in (True, False) for i in dispatch_inputs(["a"], 1, bound) if i.name == "load of a"]
    assert loads == ["% of capacity", "s of work"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (-0.0, "0"), (2.78e-6, "0.000003"), (1e-4, "0.0001"), (0.16934, "0.169"), (9.999, "10"),
     (76.0158, "76"), (999.7, "1,000"), (6190.4, "6,190"), (-1143.2, "-1,143"), (123456.0, "123,456"), (math.inf, "∞")],
)  # fmt: skip
def test_numbers_are_in_ordinary_notation(value: float, text: str) -> None:
    assert plain_number(value) == text


def test_the_command_shows_a_window_and_a_fallback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bundles.selector(tmp_path / "s")
    text = say(capsys, "ecsrl", "--policy", str(folder), "--at", "2.1", *SHORT)
    assert "window 8, 2 to 2.25 s: inputs of the window before, 1.75 to 2 s" in text
    assert "requests/s" in text
    bundles.edit(folder, high=[0.0, *[10.0] * 6])
    text = say(capsys, "ecsrl", "--policy", str(folder), "--at", "2.1", *SHORT)
    assert "The fallback rule closest chose closest: the model of " in text
    assert (
        "did not decide, because some of its inputs were outside the range of its training. Outside the range of the "
        "training: the arrival rate is " in " ".join(text.split())
    )


def test_the_report_is_made_fresh_and_from_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert")
    folder = str(bundles.dispatcher(tmp_path / "d", candidates=8))
    files = {name: str(tmp_path / name) for name in ("out.json", "fresh.html", "saved.html", "plots")}
    outputs = ("--json", files["out.json"], "--report", files["fresh.html"], "--plots", files["plots"])
    say(capsys, "ecsrl", "--policy", folder, "--at", "2", *SHORT, "--replay", *outputs)
    assert main(["report", files["out.json"], "-o", files["saved.html"]]) == 0
    assert Path(files["saved.html"]).read_bytes() == Path(files["fresh.html"]).read_bytes()
    made = {file.name for file in Path(files["plots"]).glob("*.svg")}
    assert made == {f"d-{name}.svg" for name in ("worth", "replay", "inputs", "groups")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--policy", "closest", "--at", "1"),
            "policy 'closest' is a rule, and only learned policies can be explained: give aset, ",
        ),
        (("--policy", "./d", "--at", "5"), "--at 5: ecsrl runs from 0 s to before 5 s"),
        (("--policy", "./d", "--at", "-1"), "--at -1: ecsrl runs from 0 s"),
        (("--policy", "./d", "--at", "nan"), "--at nan: ecsrl runs from 0 s"),
        (("--policy", "./d", "--at", "4.999999"), "--at 5: no request is decided from then on"),
        (("--policy", "./d", "--request", "99999"), "--request 99999: ecsrl has requests 0 to "),
        (("--policy", "./s", "--request", "3"), "--request 3: ./s decides for windows of time: give a time with --at"),
        (("--policy", "./d"), "one of the arguments --at --request is required"),
        (("--policy", "./d", "--at", "1", "--request", "3"), "not allowed with argument"),
        (("--policy", "./d", "--at", "1", "--seed", "-1"), "--seed: expected a whole number from 0 to 2,147,483,647"),
        (
            ("--policy", "./broken", "--at", "1"),
            "the model of policy './broken' can't be used here (model.onnx: No such file",
        ),
        (("--policy", "./hasty", "--at", "1"), "it was trained on windows of 10 ms, here they are 250 ms"),
        (("--policy", "./atypical", "--at", "1"), "typical in manifest.json needs "),
        (("--policy", "./nowhere", "--at", "1"), "policy './nowhere': no such folder"),
    ],
)
def test_what_can_not_be_explained_is_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    bundles.dispatcher(tmp_path / "d", candidates=8)
    bundles.dispatcher(tmp_path / "atypical", candidates=8, typical=[1.0])
    (bundles.dispatcher(tmp_path / "broken") / "model.onnx").unlink()
    bundles.selector(tmp_path / "s")
    bundles.selector(tmp_path / "hasty", window_ms=10.0)
    assert main(["explain", "ecsrl", *arguments, *SHORT]) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_requests_that_nobody_was_asked_about(tmp_path: Path) -> None:
    policy, bound = find(str(bundles.dispatcher(tmp_path))), rich_scenario("stream")
    rows = simulate(bound, policy, SEED).rows
    followed = int(np.flatnonzero(rows["bound"] == 1)[5])
    with pytest.raises(
        UserError, match=f"--request {followed}: it went where its stream is bound since request "
    ) as said:
        explain(bound, policy, SEED, request=followed)
    first = int(re.findall(r"since request (\d+), so", str(said.value))[0])
    assert explain(bound, policy, SEED, request=first).number == first
    down = scenario(
        changes=[link_change(at_s=0.001, up=False), link_change(at_s=1.0, up=True)], links=[link()], rate_per_min=600.0
    )
    with pytest.raises(
        UserError, match=r"--request 2: it was rejected because no candidate was feasible \(unreachable\), so"
    ):
        explain(down, policy, SEED, request=2)
    with pytest.raises(UserError, match="--at 0: no request is decided from then on"):
        explain(down, policy, SEED, at_s=0.0)
