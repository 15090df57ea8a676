"""The bound: never below what can be reached, equal to it where the relaxation is tight, passed by no policy."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from builders import (
    FIRST,
    Ask,
    batching,
    deploy,
    device,
    link,
    link_change,
    node,
    scenario,
    shared_device,
    source,
    variant,
    workload_of,
)
from fairlead.domain.hardware import Link, LinkChange
from fairlead.domain.outcomes import TOLERANCE_MS, Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments.bounds.serving import success_bound
from fairlead.policies.interface import Policy, rules
from fairlead.policies.jit import jit
from fairlead.policies.snapshot.capacity import capacities
from fairlead.scenarios.loader import available, load
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset
from fairlead.sim.serving.world_arrays import Plan
from test_reference import make_case


def successes(plan: Plan, world: Any, policy: Policy) -> int:
    run(plan, world, policy)
    return int(np.count_nonzero(world.rows["outcome"] == Outcome.SUCCESS))


def bound(plan: Plan, drawn: DrawnWorkload) -> int:
    return round(success_bound(plan, drawn) * len(drawn.requests))


# ---- against brute force: up to 8 requests, 3 queue nodes


@jit
def fifo_optimum(release_ms: Any, due_ms: Any, work_ms: Any) -> int:
    """Most requests in time over all assignments to nodes (one server each) or to none; each node serves FIFO."""
    n, nodes = release_ms.shape
    most = 0
    for code in range((nodes + 1) ** n):
        good = 0
        for q in range(nodes):
            free_ms = 0.0
            for i in np.argsort(release_ms[:, q]):
                if code // (nodes + 1) ** i % (nodes + 1) == q:
                    free_ms = max(free_ms, release_ms[i, q]) + work_ms[i, q]
                    good += free_ms <= due_ms[i, q] + TOLERANCE_MS
        most = max(most, good)
    return most


def edge_of(delays_ms: list[float], works_ms: list[float]) -> Plan:
    """A queue node for each delay, each with a device of its own speed."""
    nodes = range(len(delays_ms))
    speeds = {f"chip{q}": ms for q, ms in enumerate(works_ms)}
    small = variant(ms=1.0)
    latency = {chip: type(small.latency["chip"])(base_ms=ms, assumed=True) for chip, ms in speeds.items()}
    made = scenario(
        devices=[device(chip) for chip in speeds],
        nodes=[node(f"n{q}", device=f"chip{q}") for q in nodes],
        links=[link(delays_ms[q], to=f"n{q}", delay_sd_ms=0.3) for q in nodes],
        variants=[variant(latency=latency)],
        deployments=[deploy(on=f"n{q}") for q in nodes],
    )
    return build_plan(made)


def windows(plan: Plan, drawn: DrawnWorkload, delays_ms: list[float], works_ms: list[float]) -> tuple[Any, Any, Any]:
    """Release, due and work of every request on every node, from the definition of the world."""
    delay, now = np.array(delays_ms), drawn.requests["now_ms"][:, None]
    up = np.maximum(0.0, delay + 0.3 * drawn.draws["up"][:, None])
    down = np.maximum(0.0, delay + 0.3 * drawn.draws["down"][:, None])
    work = np.array(works_ms) * drawn.draws["work"][:, None]
    return now + up, now + drawn.requests["deadline_ms"][:, None] - down, work


def test_brute_force_agrees_with_the_engine() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        delays, works = [0.0, 2.0], rng.uniform(5, 15, 2).tolist()
        plan = edge_of(delays, works)
        asks = [
            Ask(t, deadline_ms=float(d))
            for t, d in zip(np.sort(rng.uniform(0, 20, 3)), rng.uniform(8, 40, 3), strict=True)
        ]
        drawn = workload_of(asks)
        world = new_world(plan, drawn)
        best = 0
        for choices in product((-1, 0, 1), repeat=3):
            reset(plan, world, drawn)
            best = max(best, successes(plan, world, scripted(choices)))
        assert best == fifo_optimum(*windows(plan, drawn, delays, works))


def scripted(choices: tuple[int, ...]) -> Policy:
    """Decision k goes to choices[k], or nowhere when that is excluded or not there."""

    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        choice = choices[int(request.seq)]
        return choice if 0 <= choice < len(candidates) and excluded[choice] == 0 else -1

    return Policy("script", decide, "python")


@pytest.mark.parametrize("number", range(40))
def test_equals_brute_force_where_the_relaxation_is_tight(number: int) -> None:
    """Equal work, arrivals on its grid, one deadline for all: a matching of requests and slots, whose relaxation has
    whole-numbered corners; and with one deadline FIFO is as good as any order."""
    rng = np.random.default_rng(number)
    n, nodes = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    delays, works = (10.0 * rng.integers(0, 3, nodes)).tolist(), [10.0] * nodes
    plan = edge_of(delays, works)
    deadline_ms = 10.0 * float(rng.integers(2, 6)) + 2 * min(delays)
    times = np.sort(10.0 * rng.integers(0, 4, n))
    drawn = workload_of([Ask(float(t), deadline_ms=deadline_ms) for t in times])
    assert bound(plan, drawn) == fifo_optimum(*windows(plan, drawn, delays, works))


def test_never_below_brute_force_and_mostly_equal_to_it() -> None:
    """Unlike nodes, works, delays and deadlines: FIFO costs something there that the bound gives away."""
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(60):
        n, nodes = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        delays, works = rng.uniform(0, 10, nodes).tolist(), rng.uniform(4, 25, nodes).tolist()
        plan = edge_of(delays, works)
        z = rng.standard_normal((n, 2))
        drawn = workload_of(
            [
                Ask(float(t), deadline_ms=float(d), work=float(w), up=float(a), down=float(b))
                for t, d, w, (a, b) in zip(
                    np.sort(rng.uniform(0, 40, n)), rng.uniform(10, 70, n), rng.lognormal(0, 0.4, n), z, strict=True
                )
            ]
        )
        gaps.append(bound(plan, drawn) - fifo_optimum(*windows(plan, drawn, delays, works)))
    assert min(gaps) >= 0
    assert np.mean(np.array(gaps) == 0) > 0.9
    assert max(gaps) <= 1


# ---- against the engine, with every feature of the world


@pytest.mark.parametrize("chunk", range(6))
def test_never_below_the_optimum_whatever_the_scenario_has(chunk: int) -> None:
    """Shared nodes, batches, second inferences, outages, bindings, limits: all choices for a few requests."""
    rng = np.random.default_rng(chunk)
    for number in range(10 * chunk, 10 * chunk + 10):
        made, whole = make_case(number)
        plan = build_plan(made)
        k = int(rng.integers(0, max(1, len(whole.requests) - 4)))
        requests = whole.requests[k : k + 4].copy()
        if not len(requests):
            continue
        requests["now_ms"] = requests["now_ms"][0] + 0.2 * (requests["now_ms"] - requests["now_ms"][0])  # contention
        requests["deadline_ms"] *= rng.uniform(0.2, 1.0)
        requests["id"] = np.arange(len(requests))
        drawn = DrawnWorkload(whole.seed, requests, whole.draws[k : k + 4], whole.streams)
        world = new_world(plan, drawn)
        most = int((plan.models["last"] - plan.models["first"]).max())
        best = 0
        for choices in product(range(-1, min(most, 4)), repeat=len(requests)):
            reset(plan, world, drawn)
            best = max(best, successes(plan, world, scripted(choices)))
        assert bound(plan, drawn) >= best, number


@pytest.mark.parametrize("chunk", range(6))
def test_no_policy_passes_it_on_random_scenarios(chunk: int) -> None:
    for number in range(100 + 20 * chunk, 120 + 20 * chunk):
        made, drawn = make_case(number)
        plan = build_plan(made)
        world = new_world(plan, drawn)
        limit = bound(plan, drawn)
        for policy in rules().values():
            reset(plan, world, drawn)
            assert successes(plan, world, policy) <= limit, (number, policy.name)


HIGHEST = {"ecsrl": 28_000.0}  # of the rates that docs/guides/bound.md shows; clients a minute elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", available())
def test_no_policy_passes_it_and_it_is_below_all_at_the_highest_rate(name: str) -> None:
    made = load(name, [f"rate={HIGHEST.get(name, 120.0)}"])
    plan, drawn = build_plan(made), make_workload(made, 4000)
    limit = success_bound(plan, drawn)
    assert limit < 0.97  # 1 - what can't be in time whatever happens is above that
    world = new_world(plan, drawn)
    best = max(_success(plan, world, drawn, policy) for policy in rules().values() if policy.kind == "compiled")
    assert best <= limit * len(drawn.requests)


def _success(plan: Plan, world: Any, drawn: DrawnWorkload, policy: Policy) -> int:
    reset(plan, world, drawn)
    return successes(plan, world, policy)


# ---- by hand


def test_one_server_and_one_deadline() -> None:
    plan = edge_of([0.0], [10.0])
    asks = [Ask(0.0, deadline_ms=35.0)] * 5  # three fit one after another
    assert success_bound(plan, workload_of(asks)) == 3 / 5


def test_what_is_hopeless_counts_as_failed() -> None:
    plan = edge_of([5.0], [10.0])
    asks = [Ask(0.0, deadline_ms=19.0), Ask(100.0, deadline_ms=21.0), Ask(200.0, deadline_ms=21.0, work=2.0)]
    assert success_bound(plan, workload_of(asks)) == 1 / 3


def reached_and_bounded(made: Scenario, asks: list[Ask], ends_ms: tuple[float, ...] = ()) -> tuple[int, int]:
    """Successes when the first feasible candidate is taken, and the bound."""
    drawn = workload_of(asks, ends_ms)
    plan = build_plan(made)
    return successes(plan, new_world(plan, drawn), FIRST), bound(plan, drawn)


def cloud_behind_the_edge(to_cloud: Link, rules: dict[str, Any], changes: tuple[LinkChange, ...] = ()) -> Scenario:
    """The small variant at the edge, the large one in the cloud: who needs accuracy 0.85 needs the cloud."""
    return scenario(
        nodes=[node("edge"), node("cloud", cloud=True)],
        links=[link(1.0), to_cloud],
        deployments=[deploy("small", "edge"), deploy("large", "cloud")],
        rules={"second_inference": True, **rules},
        changes=changes,
    )


def test_a_second_inference_by_a_faster_way_than_the_direct_one() -> None:
    made = cloud_behind_the_edge(link(30.0, from_="site", to="cloud"), {"offload_from": "node"})
    asks = [Ask(0.0, min_accuracy=0.85, deadline_ms=65.0)]  # 1 + 10 + 1 + 20 + 30 = 62; directly 30 + 20 + 30
    assert reached_and_bounded(made, asks) == (1, 1)
    assert reached_and_bounded(made, [Ask(0.0, min_accuracy=0.85, deadline_ms=61.0)]) == (0, 0)


def test_a_second_inference_when_the_cloud_comes_back() -> None:
    changes = (
        link_change(from_="site", to="cloud", at_s=0.0, up=False),
        link_change(from_="site", to="cloud", at_s=0.005, up=True),
    )
    made = cloud_behind_the_edge(link(2.0, from_="site", to="cloud"), {"offload_from": "access"}, changes)
    asks = [Ask(0.0, min_accuracy=0.85, deadline_ms=40.0)]  # 1 + 10 + 1 + 2 + 20 + 2 = 36; at 0 the cloud is cut off
    assert reached_and_bounded(made, asks) == (1, 1)
    assert reached_and_bounded(made, [Ask(0.0, min_accuracy=0.85, deadline_ms=35.0)]) == (0, 0)


def test_an_answer_that_waits_for_its_link() -> None:
    cut = (link_change(to="edge", at_s=0.005, up=False), link_change(to="edge", at_s=0.030, up=True))
    made = scenario(changes=cut)
    assert reached_and_bounded(made, [Ask(0.0, deadline_ms=31.0)]) == (1, 1)
    assert reached_and_bounded(made, [Ask(0.0, deadline_ms=29.0)]) == (0, 0)


def test_an_answer_a_hair_before_its_link_changes() -> None:
    """The second request makes the first one's end be computed anew, a rounding error earlier: before the outage."""
    cut = (link_change(to="edge", at_s=0.005199999999999999, up=False), link_change(to="edge", at_s=100.0, up=True))
    made = scenario(
        devices=[shared_device(rho=0.0)], nodes=[node(serving="shared")], variants=[variant(ms=5.2)], changes=cut,
        duration_s=200.0,
    )  # fmt: skip
    assert reached_and_bounded(made, [Ask(0.0, deadline_ms=10.2), Ask(1.1, deadline_ms=1.0)]) == (1, 1)


def test_requests_that_share_a_batch() -> None:
    made = scenario(deployments=[deploy(batching=batching(max=4, wait_ms=0.0, fixed=1.0))])
    asks = [Ask(0.0, deadline_ms=25.0)] * 6  # one at once, then four in one batch; the sixth is late
    reached, most = reached_and_bounded(made, asks)
    assert reached == 5
    assert most == 6  # all in two batches, had the first waited


def test_a_binding_outlives_its_admission() -> None:
    slower = (link_change(to="edge", at_s=0.5, delay_ms=20.0),)
    made = scenario(
        sources=[source(length_s=10.0, rate_qps=1.0)], links=[link(1.0, delay_sd_ms=1.0)], changes=slower,
        rules={"dispatch": "stream", "admit": ("deadline",)},
    )  # fmt: skip
    asks = [
        Ask(0.0, deadline_ms=30.0, stream=0, rate_qps=1.0),
        Ask(1000.0, deadline_ms=30.0, stream=0, rate_qps=1.0, up=-11.0, down=-11.0),
    ]
    assert reached_and_bounded(made, asks, (2000.0,)) == (2, 2)
    assert reached_and_bounded(made, asks[1:], (2000.0,)) == (0, 0)  # a new stream is not admitted there any more


def test_what_is_late_by_rounding_alone_is_in_time_for_the_bound_too() -> None:
    assert reached_and_bounded(scenario(), [Ask(0.0, deadline_ms=10.0 - 5e-10)]) == (1, 1)
    assert reached_and_bounded(scenario(), [Ask(0.0, deadline_ms=10.0 - 1e-5)]) == (0, 0)


def test_an_empty_workload_is_no_failure() -> None:
    assert success_bound(edge_of([0.0], [10.0]), workload_of([])) == 1.0


@pytest.mark.parametrize(
    ("form", "run_mb", "work_per_ms"),
    [
        ({"rho": 1.0}, 0.0, 1.0),  # processor sharing: one device's worth
        ({"rho": 0.5}, 0.0, 2.0),  # without end: 1 / rho
        ({"rho": 0.5}, 100.0, 9 / 5),  # nine fit: 9 / (1 + 0.5 * 8)
        ({"rho": 2.0}, 0.0, 1.0),  # alone is best
        ({"curve": {"default": (1.0, 1.25, 2.0)}}, 0.0, 1.6),  # two at 1 / 1.25 each
    ],
)
def test_capacity_of_a_shared_node(form: dict[str, Any], run_mb: float, work_per_ms: float) -> None:
    made = scenario(
        devices=[shared_device(**form)], nodes=[node(serving="shared")], variants=[variant(run_mb=run_mb)],
        sources=[source()],
    )  # fmt: skip
    servers, whole = capacities(build_plan(made))
    assert servers[0] == pytest.approx(work_per_ms)
    assert not whole[0]
