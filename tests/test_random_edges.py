"""Random edges: each is sound and its own, the distribution is that of the guide, and every command has them."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import batching, deploy, link, node, phase, scenario, shared_device, source
from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.scenario import Scenario, check
from fairlead.domain.workload import Draw
from fairlead.experiments.scenario_hints import hints
from fairlead.policies.interface import Policy, find
from fairlead.scenarios.loader import load
from fairlead.scenarios.offered_load import capacity_qps, load_ratio, offered_qps, service_qps
from fairlead.scenarios.plain_data import as_data
from fairlead.scenarios.random_edge_parts.draws import Draws
from fairlead.scenarios.random_edges import (
    FIRST_TRAINING_SEED,
    LEAST_LOAD,
    MOST_LOAD,
    TEST_SEEDS,
    VALIDATION_SEEDS,
    random_edge,
)
from fairlead.sim.gym.envs import DispatchEnv
from fairlead.sim.reference.serving import simulate as simulate_slowly
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset
from test_reference import Case, differences, foreseeing, witness

SEEDS = range(300)
RULES = ("least-taken", "best-fit", "closest", "best-fit-foreseen")  # the last two are slow: on every tenth edge
#: The edges of three seeds as they were when something was first trained on them. They may never change.
DIGESTS = {
    0: "0dd2ad1246793f3c",
    1000: "21d43e90c96dc743",
    1_000_000: "8669f6411b0a57a3",
}
DIGEST_OF_ALL = "2963ec022afd1347"


@cache
def edge(seed: int) -> Scenario:
    return random_edge(seed)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def canonical(s: Scenario) -> str:
    return json.dumps(as_data(s), sort_keys=True)


# ---- sound, distinct, always the same


def test_three_hundred_edges_are_sound_and_distinct() -> None:
    for seed in SEEDS:
        assert list(check(edge(seed))) == [], seed
        assert hints(edge(seed)) == [], seed
    assert len({canonical(edge(seed)) for seed in SEEDS}) == len(SEEDS)
    assert len({edge(seed).name for seed in SEEDS}) == len(SEEDS)


def test_an_edge_is_the_same_wherever_and_whenever_it_is_drawn() -> None:
    assert {seed: digest(canonical(random_edge(seed))) for seed in DIGESTS} == DIGESTS
    assert digest("".join(canonical(edge(seed)) for seed in SEEDS)) == DIGEST_OF_ALL  # a rare part may have changed
    program = (
        "import json; from fairlead.scenarios.random_edges import random_edge; "
        "from fairlead.scenarios.plain_data import as_data; "
        "print(json.dumps(as_data(random_edge(12)), sort_keys=True))"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == canonical(edge(12))


def test_loading_by_name_gives_the_same_edge_and_takes_overrides() -> None:
    for seed in (*range(0, 300, 7), 2**63 - 1):
        assert load(f"random:{seed}") == edge(seed)
    changed = load("random:3", ["rate=50", "duration_s=3", "nodes.*.region=eu", "workload.sources.source-1.sla=iron"])
    assert changed.workload.rate_per_min == 50
    assert changed.workload.duration_s == 3
    assert {n.region for n in changed.nodes.values()} == {"eu"}
    assert changed.workload.sources["source-1"].sla == "iron"
    assert changed.devices == edge(3).devices


def test_a_file_can_extend_one(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: random:3\ntitle: mine\nworkload: {duration_s: 5}\n")
    found = load(str(file))
    assert (found.name, found.title, found.workload.duration_s) == ("mine", "mine", 5)
    assert found.nodes == edge(3).nodes


def test_the_seeds_for_tests_validation_and_training_are_apart() -> None:
    assert TEST_SEEDS[-1] < VALIDATION_SEEDS[0] <= VALIDATION_SEEDS[-1] < FIRST_TRAINING_SEED


def test_all_of_its_numbers_are_assumed() -> None:
    said = dict(edge(5).assumptions())
    assert set(said.values()) == {"all numbers"}
    assert {f"nodes.{name}" for name in edge(5).nodes} <= set(said)


# ---- what there is


def features(s: Scenario) -> set[Any]:
    """What an edge has, in words."""
    found: set[Any] = {("sites", len(s.workload.sites)), ("nodes", len(s.nodes)), ("models", len(s.models))}
    found |= {("tiers", len(s.clusters)), ("sources", len(s.workload.sources)), s.rules.dispatch, *s.rules.admit}
    found |= {("serving", *sorted({n.serving for n in s.nodes.values()}))}
    found |= {c.name for c in s.clusters} | {("count", n.count) for n in s.nodes.values()}
    found |= {("second", s.rules.offload_from)} if s.rules.second_inference else set()
    for name, variant in ((n, v) for n, (_, v) in s.variants().items()):
        found |= {("accuracy_sd", variant.accuracy_sd > 0), ("run_mb", variant.run_mb > 0)}
        found |= {"partly deployed"} if sum(v.name == name for _, v, _ in s.placements()) < len(s.nodes) else set()
    found |= {("variants", len(m.variants)) for m in s.models.values()}
    forms = [d.degradation for d in s.devices.values() if d.degradation is not None]
    found |= {f for d in forms for f in ("rho", "curve", "matrix") if getattr(d, f) is not None}
    for d in s.deployments:
        found |= {("servers", d.servers), ("limit", d.queue_limit is not None), ("batching", d.batching is not None)}
    for q in s.workload.sources.values():
        found |= {q.arrivals.process, q.spacing if q.length_s is not None else "single", ("phases", bool(q.phases))}
        found |= {("accuracy", type(q.min_accuracy)), ("work", isinstance(q.work, Draw)), ("sla", q.sla), q.tenant}
        found |= {("hot spots", any(p.sites for p in q.phases)), ("regions", bool(q.regions))}
    found |= {"congestion" for c in s.link_changes if c.delay_ms is not None}
    return found | {"outage" for c in s.link_changes if c.up is False}


def expected() -> dict[Any, int]:
    """What must occur, and in how many of the 300 edges at least."""
    either = (True, False)
    many: list[Any] = [("serving", "queue"), ("serving", "shared"), ("serving", "queue", "shared")]
    many += [("models", n) for n in (1, 2, 3)] + [("variants", n) for n in range(1, 5)]
    many += [("count", n) for n in range(1, 5)] + [("servers", n) for n in range(1, 5)]
    many += ["rho", "curve", "matrix", "poisson", "mmpp", "diurnal", "periodic", "single", "partly deployed"]
    many += [("tiers", n) for n in range(1, 5)] + [("phases", True), ("phases", False), "request", "stream"]
    many += ["board", "access", "office", "dc", "cloud", "congestion", ("accuracy", float), ("accuracy", Draw)]
    many += [(what, e) for what in ("accuracy_sd", "run_mb", "work", "batching") for e in either]
    few: list[Any] = [("sites", n) for n in range(1, 9)] + [("sources", n) for n in range(1, 7)]
    few += [("nodes", n) for n in range(2, 17)] + [("second", "node"), ("second", "access"), "outage", "deadline"]
    few += [("limit", True), ("hot spots", True), ("regions", True), "accuracy"]
    return dict.fromkeys(few, 5) | dict.fromkeys(many, 30)


def test_everything_that_the_guide_tells_occurs() -> None:
    seen = Counter(feature for seed in SEEDS for feature in features(edge(seed)))
    assert {f: seen[f] for f, least in expected().items() if seen[f] < least} == {}
    assert seen["request"] > seen["stream"]


def test_device_speeds_spread_over_a_factor_of_thirty_and_power_and_price_follow() -> None:
    devices = [d for seed in SEEDS for d in edge(seed).devices.values()]
    tops = np.array([d.compute_tops for d in devices])
    assert 25 < tops.max() / tops.min() <= 30
    assert abs(np.log(tops / tops.min()).mean() / np.log(30) - 0.5) < 0.05
    for values in ([d.power_busy_w for d in devices], [d.price_per_h for d in devices]):
        assert np.corrcoef(np.log(tops), np.log(values))[0, 1] > 0.9


def test_more_accurate_variants_are_slower_on_every_device() -> None:
    for seed in SEEDS:
        for model in edge(seed).models.values():
            variants = list(model.variants.values())
            for worse, better in pairwise(variants):
                assert worse.accuracy < better.accuracy <= 0.98
                assert all(worse.latency[d].base_ms < better.latency[d].base_ms for d in worse.latency)


def test_boards_are_near_to_one_site() -> None:
    for s in map(edge, SEEDS):
        near = Counter(link.to for link in s.links if link.from_ != "*")
        assert all(near[name] == 1 for name, n in s.nodes.items() if n.cluster == "board")


def test_an_edge_has_some_hundred_to_some_ten_thousand_requests() -> None:
    numbers = [sum(offered_qps(edge(seed)).values()) * 60.0 for seed in SEEDS]
    assert min(numbers) > 400
    assert max(numbers) < 50_000
    assert np.median(numbers) == pytest.approx(10_000, rel=0.5)


# ---- the load ratio


def test_the_load_ratio_is_uniform_and_met() -> None:
    found = np.array([load_ratio(edge(seed)) for seed in SEEDS])
    wanted = np.array([Draws(seed).uniform(LEAST_LOAD, MOST_LOAD) for seed in SEEDS])
    assert np.allclose(found, wanted, rtol=1e-5)
    assert found.min() >= LEAST_LOAD * (1 - 1e-5)
    assert found.max() <= MOST_LOAD * (1 + 1e-5)
    drawn = np.sort([Draws(seed).uniform(0.0, 1.0) for seed in TEST_SEEDS])
    evenly = (np.arange(len(drawn)) + 0.5) / len(drawn)
    assert abs(drawn - evenly).max() < 1.63 / len(drawn) ** 0.5  # Kolmogorov and Smirnov, at 1 %


def test_the_load_ratio_by_hand() -> None:
    """Queue: 2 servers of half a device at 10 ms, 100/s, and batches of 4 at 20 ms x (0.5 / 4 + 0.5), 80/s."""
    placed = [
        deploy("small", "far", share=0.5, servers=2),
        deploy("large", "far", share=0.5, batching=batching(max=4, fixed=0.5)),
        deploy("small", "edge"),
        deploy("large", "edge"),
    ]
    asks = [source("one", share=1.0), source("streams", share=3.0, length_s=2.0, rate_qps=4.0)]
    s = scenario(
        devices=[shared_device(rho=0.5)],
        nodes=[node("far", count=2), node("edge", serving="shared")],
        links=[link()],
        deployments=placed,
        sources=asks,
        rate_per_min=600.0,
    )
    assert capacity_qps(s) == {"model": pytest.approx(100.0 + 80.0 + 100.0)}
    assert offered_qps(s) == {"model": pytest.approx(10.0 * (1 + 3 * 8) / 4)}
    assert load_ratio(s) == pytest.approx(62.5 / 280.0)
    phased = replace(s.workload.sources["one"], phases=(phase(at_s=0.75, rate=3.0),))  # of 1 s: 1.5 times as many
    sources = {**s.workload.sources, "one": phased}
    s = replace(s, workload=replace(s.workload, sources=sources))
    assert offered_qps(s) == {"model": pytest.approx(10.0 * (1.5 + 3 * 8) / 4)}


def test_service_rates_are_those_of_candidate_records() -> None:
    compared = 0
    for seed in (0, 1, 8, 9, 20):
        s = load(f"random:{seed}", ["duration_s=1", "dispatch=request"])
        seen: list[Any] = []
        plan, drawn = build_plan(s), make_workload(s, 1)
        run(plan, new_world(plan, drawn), witness(seen))
        placements, models = s.placements(), [s.variants()[v.name][0].name for _, v, _ in s.placements()]
        for request, candidates, _, _ in seen:
            model = list(s.models)[request["model"]]
            mine = [p for p, m in zip(placements, models, strict=True) if m == model]
            for placed, candidate in zip(mine, candidates, strict=True):
                assert service_qps(*placed, request["size_kb"]) == pytest.approx(candidate["service_rate"])
                compared += 1
    assert compared > 1000


def test_as_many_requests_come_as_the_load_ratio_counts() -> None:
    drawn = [len(make_workload(edge(seed), seed).requests) for seed in SEEDS]
    counted = [sum(offered_qps(edge(seed)).values()) * 60.0 for seed in SEEDS]
    assert np.mean(np.divide(drawn, counted)) == pytest.approx(1.0, abs=0.03)
    assert max(drawn) < 60_000
    assert min(drawn) >= 50


# ---- they run


def test_every_edge_runs_to_its_end_and_is_not_decided_by_rejections_without_asking() -> None:
    success: dict[str, list[float]] = {name: [] for name in RULES}
    reasons = Counter[int]()
    for seed in SEEDS:
        plan, drawn = build_plan(edge(seed)), make_workload(edge(seed), 1)
        world = new_world(plan, drawn)
        for name in RULES if seed % 10 == 0 else RULES[:2]:
            reset(plan, world, drawn)
            account = run(plan, world, find(name))
            outcomes = world.rows["outcome"]
            assert not (outcomes == Outcome.PENDING).any(), (seed, name)
            assert account.decisions >= 20, (seed, name)
            success[name].append((outcomes == Outcome.SUCCESS).mean())
            reasons.update(np.unique(world.rows["reason"]).tolist())
    assert min(success["least-taken"]) > 0.02
    assert np.mean(success["least-taken"]) == pytest.approx(0.61, abs=0.05)
    assert np.mean(success["closest"]) < np.mean(success["least-taken"][::10]) - 0.1
    assert np.mean(success["best-fit-foreseen"]) > np.mean(success["least-taken"][::10])
    assert reasons[Reason.NO_CAPACITY] > 20
    assert reasons[Reason.NO_MEMORY] > 20  # memory, or the limit of a device, binds on some


@pytest.mark.parametrize("seed", [2, 3, 4, 8, 11, 18, 40, 126])
@pytest.mark.parametrize("rule", [foreseeing, None])
def test_the_engine_equals_the_reference_on_short_ones(seed: int, rule: Policy | None) -> None:
    """Equal nodes tie, which rounding may decide: so only policies that round what is foreseen, or don't use it."""
    s = load(f"random:{seed}", ["duration_s=3"])
    few = 400 / (sum(offered_qps(s).values()) * 3)
    s = load(f"random:{seed}", ["duration_s=3", f"rate={s.workload.rate_per_min * min(1.0, few)}"])
    seen: tuple[list[Any], list[Any]] = ([], [])
    policies: list[Policy] = [rule, rule] if rule else [witness(seen[0]), witness(seen[1])]
    plan, drawn = build_plan(s), make_workload(s, 1)
    world = new_world(plan, drawn)
    run(plan, world, policies[0])
    assert differences(Case(s, drawn, simulate_slowly(s, drawn, policies[1]), world, seen)) == []


# ---- names and commands


@pytest.mark.parametrize("name", ["random:x", "random:-1", "random:", "random:007", "random: 7", "random:1e3"])
def test_a_wrong_seed_gets_one_line(name: str) -> None:
    with pytest.raises(UserError) as caught:
        load(name)
    assert str(caught.value) == f"{name!r}: expected a whole number from 0 on after 'random:', as in random:7"


def test_seeds_have_an_end() -> None:
    with pytest.raises(UserError, match=r"seeds of random edges are below 2\^63"):
        load(f"random:{2**63}")


def test_what_is_wrong_with_an_override_is_said_of_the_override() -> None:
    with pytest.raises(UserError, match=r"^--set rate=-1: workload.rate_per_min: "):
        load("random:3", ["rate=-1"])


def test_scenarios_lists_random_edges(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["scenarios", "--random", "3", "--first", "20"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "random:" in line]
    assert [re.findall(r"random:\d+", line) for line in lines] == [[f"random:{seed}"] for seed in (20, 21, 22)]
    for seed, line in zip((20, 21, 22), lines, strict=True):
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        assert cells[1].startswith(f"{len(edge(seed).nodes)}: ")
        assert cells[5] == edge(seed).rules.dispatch
        assert float(cells[6]) == pytest.approx(load_ratio(edge(seed)), abs=0.006)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--first", "3"], "--first needs --random"),
        (["--random", "0"], "expected a whole number from 1 to 10,000, got '0'"),
        (["--random", "2", "--first", str(2**63 - 1)], "--first: expected all seeds below 2^63"),
    ],
)
def test_wrong_options_get_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_commands_take_random_edges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--policies", "least-taken,closest", "--seeds", "1", "--jobs", "1", "--no-bound", "--set", "duration_s=2"]
    out = tmp_path / "out.json"
    assert main(["compare", "random:3", "random:5", *short, "--json", str(out), "--log", str(tmp_path / "logs")]) == 0
    assert list(json.loads(out.read_text())["scenarios"]) == ["random:3", "random:5"]
    assert main(["sweep", "random:3", "--param", "rate", "--values", "100,200", *short]) == 0
    assert main(["show", "random:3", "--set", "rate=7"]) == 0
    assert "random:3: random edge: " in capsys.readouterr().out
    assert main(["compare", "random:x"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_environments_take_random_edges() -> None:
    env = DispatchEnv("random:3", ["duration_s=2"])
    _, info = env.reset(seed=1)
    _, _, ended, _, _ = env.step(int(np.flatnonzero(info["action_mask"])[0]))
    assert not ended
