"""Detail of runs: every request is counted once, in the bin of its arrival."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import Ask, batching, deploy, link_change, log_of, node, phase, play, scenario, shared_device, source
from fairlead.experiments.scenario_changes import changes
from fairlead.measure.serving_bins import LATENCY_MS, BinSum, serving_bins, time_edges_s
from fairlead.measure.serving_figures import serving_figures
from fairlead.policies.interface import find
from fairlead.scenarios.loader import load
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world


def test_bins_are_round_and_end_with_the_run() -> None:
    assert time_edges_s(300.0)[:3] == [0, 5, 10]
    assert time_edges_s(690.0)[-2:] == [680, 690.0]
    assert time_edges_s(1.0)[-2:] == [0.99, 1.0]
    odd = time_edges_s(3.005)
    assert odd[-1] == 3.005
    assert len(odd) <= 121


def test_outcomes_latency_and_load_of_a_run_worked_by_hand() -> None:
    made = scenario(
        nodes=[node("edge", count=2)], deployments=[deploy(share=0.5, servers=1, queue_limit=2)], duration_s=1.0
    )  # 10 ms on one of two devices; bins of 10 ms
    asks = [Ask(0.0), Ask(1.0, deadline_ms=15.0), Ask(2.0), Ask(500.0, work=2.0)]
    world = play(made, asks)
    got = serving_bins(log_of(made, world))
    assert got["outcomes"]["success"][0] == 1
    assert got["outcomes"]["late"][0] == 1
    assert got["outcomes"]["rejected"][0] == 1
    assert got["outcomes"]["success"][50] == 1
    assert sum(map(sum, got["outcomes"].values())) == 4
    where = np.searchsorted(LATENCY_MS, [10.0, 19.0, 20.0])
    assert np.flatnonzero(got["latency"]).tolist() == sorted(set(where.tolist()))
    assert got["load"]["edge"][0] == pytest.approx(2 * 10.0 / 10.0)  # two of 10 ms for the only server, in 10 ms
    assert got["load"]["edge"][50] == pytest.approx(20.0 / 10.0)


def test_a_second_inference_is_load_as_well() -> None:
    made = scenario(
        nodes=[node("edge"), node("cloud", cloud=True)],
        deployments=[deploy("small", "edge"), deploy("large", "cloud")],
        rules={"second_inference": True},
    )
    got = serving_bins(log_of(made, play(made, [Ask(0.0, min_accuracy=0.85)])))
    assert got["load"] == {"edge": [1.0] + [0.0] * 99, "cloud": [2.0] + [0.0] * 99}


@pytest.mark.parametrize(
    ("form", "load"),
    [
        ({"rho": 1.0}, 2.0),
        ({"rho": 0.5}, 1.0),  # gets twice as much done when full
        ({"rho": 0.0}, 0.0),  # nobody slows anybody down: it can do everything
        ({"curve": {"default": (1.0, 1.25, 2.0)}}, 2.0 / 1.6),
    ],
)
def test_load_of_a_shared_node_is_of_what_it_does_at_its_best(form: dict[str, Any], load: float) -> None:
    made = scenario(devices=[shared_device(**form)], nodes=[node(serving="shared")])
    got = serving_bins(log_of(made, play(made, [Ask(0.0), Ask(0.0)])))  # 20 ms alone, in 10 ms
    assert got["load"]["edge"] == pytest.approx([load] + [0.0] * 99, abs=1e-4)


def test_a_request_for_a_batching_queue_is_its_part_of_a_full_batch() -> None:
    made = scenario(deployments=[deploy(batching=batching(max=4, wait_ms=0.0, fixed=0.8))])
    got = serving_bins(log_of(made, play(made, [Ask(0.0)] * 4)))
    assert got["load"]["edge"][0] == pytest.approx(0.8 + 0.2 * 4)  # 0.8 * 10 + 0.2 * 40 ms, in 10 ms


@pytest.mark.parametrize(("every_ms", "grows"), [(5.5, False), (4.5, True)])
def test_a_queue_grows_on_a_shared_node_when_its_load_stays_above_1(every_ms: float, grows: bool) -> None:
    made = scenario(devices=[shared_device(rho=0.5)], nodes=[node(serving="shared")], duration_s=2.0)
    world = play(made, [Ask(every_ms * i, deadline_ms=1e9) for i in range(int(1990 / every_ms))])
    load = np.mean(serving_bins(log_of(made, world))["load"]["edge"])  # 10 ms each; 2 ms of work done in a ms
    assert (load > 1) == grows
    assert (world.rows["latency_ms"][-1] > 150) == grows


def test_a_node_with_nothing_deployed_has_no_load() -> None:
    made = scenario(nodes=[node("edge"), node("idle")])
    assert serving_bins(log_of(made, play(made, [Ask(0.0)])))["load"]["idle"] == [0.0] * 100


def test_it_agrees_with_the_figures() -> None:
    made = load("shifting", ["duration_s=20"])
    plan = build_plan(made)
    world = new_world(plan, make_workload(made, 7))
    run(plan, world, find("farthest"))
    log = log_of(made, world)
    got, figures = serving_bins(log), serving_figures(log)
    n = figures["requests"]
    for name, counts in got["outcomes"].items():
        assert sum(counts) / n == pytest.approx(figures[name])
    assert sum(got["latency"]) / n == pytest.approx(1 - figures["rejected"])


def test_seeds_together_add_counts_and_average_loads() -> None:
    names = ("success", "late", "inaccurate", "rejected")
    one = {"outcomes": {k: [1, 2] for k in names}, "latency": [3], "load": {"n": [0.5]}}
    two = {"outcomes": {k: [0, 5] for k in names}, "latency": [4], "load": {"n": [1.0]}}
    total = BinSum()
    total.add(one)
    total.add(two)
    both = total.detail()
    assert both["outcomes"]["late"] == [1, 7]
    assert both["latency"] == [7]
    assert both["load"] == {"n": [0.75]}


def test_seeds_together_have_the_mean_share_of_each_rule_and_all_fallbacks() -> None:
    plain = {"outcomes": {}, "latency": [3], "load": {}}
    total = BinSum()
    one = {"decisions": 4, "fallbacks": {"range": 1}, "active": {"closest": [1.0, 0.5], "farthest": [0.0, 0.5]}}
    two = {"decisions": 4, "fallbacks": {"range": 2}, "active": {"farthest": [1.0, 1.0]}}
    total.add(plain | {"learned": one})
    total.add(plain | {"learned": two})
    assert total.detail()["learned"] == {
        "decisions": 8,
        "fallbacks": {"range": 3},
        "active": {"closest": [0.5, 0.25], "farthest": [0.5, 0.75]},
    }
    none = BinSum()
    none.add(plain)
    assert "learned" not in none.detail()


def test_changes_are_told_in_words_and_in_order() -> None:
    made = scenario(
        sources=[source(phases=(phase(at_s=0.0, rate=0.5), phase(at_s=0.6, rate=2.0)))],
        changes=[
            link_change(to="edge", at_s=0.3, up=False),
            link_change(from_="site", to="edge", at_s=0.4, delay_sd_ms=2.0),
            link_change(to="edge", at_s=0.6, up=True, delay_ms=7.0),
        ],
    )
    assert changes(made) == [
        {"at_s": 0.3, "what": "link to edge: down"},
        {"at_s": 0.4, "what": "link from site to edge: deviation 2 ms"},
        {"at_s": 0.6, "what": "app: rate x 2; link to edge: delay 7 ms, up"},
    ]
