"""Workloads: rates, streams and draws are as the scenario asks, and one draw depends on no other.

Seeds are fixed, so a test always gives the same answer; a bound is four standard deviations of what it bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import FIRST, arrivals, phase, scenario, source
from fairlead.domain.errors import UserError
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload, sample
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world

approx = pytest.approx


def times_s(made: Scenario, seed: int) -> Any:
    return make_workload(made, seed).requests["now_ms"] / 1000.0


def counts(made: Scenario, seeds: int) -> Any:
    """Requests per seed."""
    return np.array([len(make_workload(made, seed).requests) for seed in range(seeds)])


def assert_count(count: float, mean: float) -> None:
    """A Poisson count of that mean."""
    assert count == approx(mean, abs=4 * sqrt(mean))


# ---- when they come


def test_poisson_counts_have_mean_and_variance_of_the_rate() -> None:
    seen = counts(scenario(rate_per_min=600.0, duration_s=10.0), 400)
    # 10 a second for 10 s: 100. The variance of a Poisson variance over n: about 2 * 100^2 / n.
    assert seen.mean() == approx(100.0, abs=4 * sqrt(100.0 / 400))
    assert seen.var(ddof=1) == approx(100.0, abs=4 * sqrt(2 * 100.0**2 / 400))


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (
            {"rate_qps": Draw(choice=(1.0, 1e10), weights=(1e9, 1.0))},
            "requests were drawn, which don't fit into memory",
        ),
        ({"rate_qps": Draw(choice=(1.0, 1e15), weights=(1e14, 1.0))}, "more than the simulated clock can resolve"),
    ],
)
def test_draws_of_heavy_tails_are_refused_where_they_are_too_many(
    more: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "fairlead.sim.serving.drawn_workload.sample", lambda number, u: np.full(len(u), max(number.choice))
    )
    made = scenario(sources=[source("a", length_s=1.0, **more)], rate_per_min=600.0, duration_s=10.0)
    with pytest.raises(UserError, match=line) as error:
        make_workload(made, 1)
    assert str(error.value).startswith("workload.sources.a: ")


def test_requests_come_in_order_of_time_within_the_duration() -> None:
    sources = [source("a"), source("b", length_s=1.0, rate_qps=5.0)]
    requests = make_workload(scenario(sources=sources, rate_per_min=600.0, duration_s=10.0), 1).requests
    assert (np.diff(requests["now_ms"]) >= 0).all()
    assert requests["now_ms"][0] >= 0.0
    assert requests["now_ms"][-1] < 10_000.0
    assert requests["id"].tolist() == list(range(len(requests)))


BURSTS = arrivals(process="mmpp", burst_factor=5.0, burst_mean_s=1.0, calm_mean_s=4.0)


def test_bursty_arrivals_keep_the_mean_rate_and_are_dispersed() -> None:
    made = scenario(sources=[source(arrivals=BURSTS)], rate_per_min=1200.0, duration_s=2000.0)
    seen = np.array([np.bincount(times_s(made, seed).astype(int), minlength=2000) for seed in range(8)])
    # Calm rate 20 * 5 / (4 + 5 * 1) = 11.1, burst 55.6. The level's variance is 0.8 * 0.2 * 44.4^2 = 316, its
    # correlation time 4 * 1 / 5 = 0.8 s: the mean over 16000 s has the deviation sqrt(2 * 316 * 0.8 / 16000) = 0.18.
    assert seen.mean() == approx(20.0, abs=4 * 0.18)
    assert seen.var() / seen.mean() > 1.5  # of counts per second; 1 for Poisson


def test_bursty_arrivals_have_their_mean_rate_from_the_start() -> None:
    made = scenario(sources=[source(arrivals=BURSTS)], rate_per_min=6000.0, duration_s=0.5)
    # 100 a second for half a second; one run in five starts in a burst, 222 a second above calm.
    assert counts(made, 2000).mean() == approx(50.0, abs=4 * sqrt((50.0 + (0.5 * 222) ** 2 * 0.16) / 2000))


@pytest.mark.parametrize(("start", "high"), [(0.0, (0, 1)), (0.25, (0, 3)), (0.5, (2, 3))])
def test_diurnal_rate_follows_the_sine(start: float, high: tuple[int, int]) -> None:
    swing = arrivals(process="diurnal", amplitude=0.8, period_s=40.0, phase=start)
    made = scenario(sources=[source(arrivals=swing)], rate_per_min=6000.0, duration_s=80.0)
    quarters = np.bincount((times_s(made, 1) % 40.0 // 10.0).astype(int), minlength=4)
    # 100 a second, two periods: a quarter has 2000 (1 +- 0.8 * 2 / pi), the integral of the sine over it.
    for quarter, count in enumerate(quarters):
        assert_count(count, 2000.0 * (1 + (0.8 if quarter in high else -0.8) * 2 / pi))


def test_phases_change_the_rate_at_their_times() -> None:
    phases = (phase(at_s=10.0, rate=3.0), phase(at_s=20.0, rate=0.0), phase(at_s=30.0))
    made = scenario(sources=[source(phases=phases)], rate_per_min=3000.0, duration_s=40.0)
    seen = np.bincount((times_s(made, 1) // 10.0).astype(int), minlength=4)
    # 50 a second for 10 s each
    for count, mean in zip(seen, (500.0, 1500.0, 0.0, 500.0), strict=True):
        assert_count(count, mean)


def test_phases_change_the_sites_at_their_times() -> None:
    phases = (phase(at_s=10.0, sites={"b": 1.0}), phase(at_s=20.0), phase(at_s=30.0, sites={"a": 1.0, "c": 3.0}))
    asks = source(sites={"a": 1.0}, phases=phases)
    made = scenario(sources=[asks], sites=("a", "b", "c"), rate_per_min=3000.0, duration_s=40.0)
    requests = make_workload(made, 1).requests
    first, second, third, fourth = (requests["site"][requests["now_ms"] // 10e3 == i] for i in range(4))
    assert set(first) == {0}
    assert set(second) == set(third) == {1}
    # 500 requests, three quarters of them at c
    assert set(fourth) == {0, 2}
    assert np.mean(fourth == 2) == approx(0.75, abs=4 * sqrt(0.75 * 0.25 / len(fourth)))


def test_all_sites_are_alike_unless_weighted() -> None:
    made = scenario(sites=("a", "b", "c", "d"), rate_per_min=6000.0, duration_s=40.0)
    for count in np.bincount(make_workload(made, 1).requests["site"], minlength=4):
        assert_count(count, 1000.0)


def test_sources_split_the_rate_by_their_shares() -> None:
    sources = [source("a", share=3.0), source("b", share=1.0), source("c", share=0.0)]
    made = scenario(sources=sources, rate_per_min=6000.0, duration_s=40.0)
    seen = np.bincount(make_workload(made, 1).requests["source"], minlength=3)
    for count, mean in zip(seen, (3000.0, 1000.0, 0.0), strict=True):
        assert_count(count, mean)


# ---- streams


def by_stream(workload: DrawnWorkload) -> list[Any]:
    """The requests of each stream, those with any."""
    requests = workload.requests
    found = [requests[requests["stream"] == s] for s in range(len(workload.streams))]
    return [r for r in found if len(r)]


def streaming(**more: Any) -> Scenario:
    """One stream a second for 20 s."""
    return scenario(sources=[source(**{"length_s": 2.0, **more})], rate_per_min=60.0, duration_s=20.0)


def test_exponential_streams_start_in_balance() -> None:
    made = scenario(
        sources=[source(length_s=Draw(exponential=30.0), rate_qps=10.0)], rate_per_min=60.0, duration_s=15.0
    )
    at_start, later = [], []
    for seed in range(200):
        workload = make_workload(made, seed)
        first = np.array([r["now_ms"][0] for r in by_stream(workload)])
        end = np.array([workload.streams["end_ms"][r["stream"][0]] for r in by_stream(workload)])
        at_start.append(np.count_nonzero(first < 100.0))
        early = np.array([workload.streams["early"][r["stream"][0]] for r in by_stream(workload)])
        assert (first[early] < 100.0).all()
        assert np.count_nonzero(~early & (first < 100.0)) <= 3  # clients that have just come
        later.append(np.count_nonzero((first <= 10e3) & (end > 10e3)))
    # 1 a second, 30 s each: 30 open. Those open at 0 show within their first 100 ms, in which 0.1 more come.
    assert np.mean(at_start) == approx(30.1, abs=4 * sqrt(30.0 / 200))
    assert np.mean(later) == approx(30.0, abs=4 * sqrt(30.0 / 200))
    assert np.var(at_start) == approx(30.0, abs=4 * sqrt(2 * 30.0**2 / 200))


def test_streams_open_at_the_start_are_somewhere_between_two_requests() -> None:
    made = scenario(sources=[source(length_s=Draw(exponential=60.0), rate_qps=1.0)], rate_per_min=600.0, duration_s=1.0)
    first = np.concatenate([[r["now_ms"][0] for r in by_stream(make_workload(made, seed))] for seed in range(3)])
    # 600 open each; the gap is 1 s and the first request anywhere in it.
    assert first.mean() == approx(500.0, abs=4 * sqrt(1000.0**2 / 12 / len(first)))


def test_streams_of_other_lengths_all_start_after_the_start() -> None:
    made = scenario(sources=[source(length_s=Draw(uniform=(10.0, 50.0)))], rate_per_min=60.0, duration_s=0.001)
    assert [len(make_workload(made, seed).streams) for seed in range(20)] == [0] * 20


def test_periodic_requests_are_evenly_spaced_from_the_start_to_the_end_of_their_stream() -> None:
    workload = make_workload(streaming(rate_qps=8.0), 1)
    assert len(by_stream(workload)) > 10
    for requests in by_stream(workload):
        start, end = requests["now_ms"][0], workload.streams["end_ms"][requests["stream"][0]]
        assert end == approx(min(start + 2000.0, 20e3))
        assert np.diff(requests["now_ms"]) == approx(125.0)
        assert end - 125.0 <= requests["now_ms"][-1] + 1e-6 < end + 1e-6


def test_poisson_requests_of_a_stream_have_exponential_gaps() -> None:
    made = scenario(
        sources=[source(length_s=200.0, rate_qps=20.0, spacing="poisson")], rate_per_min=60.0, duration_s=200.0
    )
    gaps = np.concatenate([np.diff(r["now_ms"]) for r in by_stream(make_workload(made, 1))[:20]])
    # 50 ms mean and deviation; the deviation of that of n exponentials is about 50 * sqrt(2 / n).
    assert gaps.mean() == approx(50.0, abs=4 * 50.0 / sqrt(len(gaps)))
    assert gaps.std() == approx(50.0, abs=4 * 50.0 * sqrt(2 / len(gaps)))


def test_stream_draws_its_numbers_once_and_within_their_bounds() -> None:
    workload = make_workload(
        streaming(
            length_s=Draw(uniform=(1.0, 3.0)),
            rate_qps=Draw(uniform=(4.0, 8.0)),
            deadline_ms=Draw(choice=(50.0, 200.0)),
            min_accuracy=Draw(uniform=(0.5, 0.9)),
            size_kb=Draw(uniform=(10.0, 20.0)),
        ),
        1,
    )
    streams = by_stream(workload)
    for requests in streams:
        end = workload.streams["end_ms"][requests["stream"][0]]
        for field in ("rate_qps", "deadline_ms", "min_accuracy", "size_kb"):
            assert len(set(requests[field])) == 1
        assert np.diff(requests["now_ms"]) == approx(1000.0 / requests["rate_qps"][0])
        assert end == 20e3 or 1000.0 <= end - requests["now_ms"][0] <= 3000.0
    first = np.array([r[0] for r in streams])
    for field, low, high in (("rate_qps", 4.0, 8.0), ("min_accuracy", 0.5, 0.9), ("size_kb", 10.0, 20.0)):
        assert low <= first[field].min() < first[field].max() <= high
    assert set(first["deadline_ms"]) == {50.0, 200.0}


def test_single_requests_have_no_stream_and_no_rate() -> None:
    workload = make_workload(scenario(rate_per_min=600.0), 1)
    assert len(workload.streams) == 0
    assert set(workload.requests["stream"]) == {-1}
    assert set(workload.requests["rate_qps"]) == {0.0}


# ---- draws

GRID = (np.arange(100_000) + 0.5) / 100_000  # evenly through 0..1: means come out nearly exact


def test_plain_numbers_and_constants_are_themselves() -> None:
    assert set(sample(7.0, GRID[:3])) == set(sample(Draw(constant=7.0), GRID[:3])) == {7.0}


def test_uniform_draw() -> None:
    values = sample(Draw(uniform=(2.0, 6.0)), GRID)
    assert values.mean() == approx(4.0)
    assert values.var() == approx(16.0 / 12, rel=1e-4)
    assert 2.0 < values.min() < values.max() < 6.0


def test_exponential_draw() -> None:
    values = sample(Draw(exponential=3.0), GRID)
    assert values.mean() == approx(3.0, rel=1e-3)
    assert np.median(values) == approx(3.0 * np.log(2.0), rel=1e-3)


def test_lognormal_draw_has_the_mean_and_the_variation_asked_for() -> None:
    values = sample(Draw(lognormal=(5.0, 0.5)), GRID)
    assert values.mean() == approx(5.0, rel=1e-3)
    assert values.std() / values.mean() == approx(0.5, rel=1e-2)
    assert np.median(values) == approx(5.0 / sqrt(1.25), rel=1e-3)  # mean / sqrt(1 + cv^2)


@pytest.mark.parametrize(("weights", "shares"), [(None, (1 / 3, 1 / 3, 1 / 3)), ((1.0, 0.0, 3.0), (0.25, 0.0, 0.75))])
def test_choice_draw_follows_its_weights(weights: tuple[float, ...] | None, shares: Sequence[float]) -> None:
    values = sample(Draw(choice=(1.0, 2.0, 4.0), weights=weights), GRID)
    assert [np.mean(values == v) for v in (1.0, 2.0, 4.0)] == approx(shares, abs=1e-5)


def test_work_is_drawn_per_request_and_normals_are_standard() -> None:
    made = scenario(sources=[source(work=Draw(exponential=1.0))], rate_per_min=60_000.0, duration_s=10.0)
    draws = make_workload(made, 1).draws
    n = len(draws)
    assert draws["work"].mean() == approx(1.0, abs=4 / sqrt(n))
    normals = np.array([draws[name] for name in ("quality", "up", "down")])
    assert normals.mean(axis=1) == approx([0.0] * 3, abs=4 / sqrt(n))
    assert normals.var(axis=1) == approx([1.0] * 3, abs=4 * sqrt(2 / n))
    assert np.corrcoef(normals) == approx(np.eye(3), abs=4 / sqrt(n))


# ---- no draw depends on another


def as_bytes(workload: DrawnWorkload) -> list[bytes]:
    return [a.tobytes() for a in (workload.requests, workload.draws, workload.streams)]


MIXED = (
    source("streams", length_s=Draw(exponential=2.0), rate_qps=Draw(uniform=(2.0, 9.0)), spacing="poisson"),
    source("singles", size_kb=Draw(exponential=4.0), work=Draw(lognormal=(1.0, 1.0)), arrivals=BURSTS),
)


def mixed(*more: Any, first: Any = MIXED[0]) -> Scenario:
    return scenario(sources=[first, MIXED[1], *more], sites=("a", "b"), rate_per_min=600.0, duration_s=10.0)


def test_equal_seeds_give_equal_workloads_and_others_do_not() -> None:
    one, same, other = (make_workload(mixed(), seed) for seed in (1, 1, 2))
    assert as_bytes(one) == as_bytes(same)
    assert not set(one.requests["now_ms"]) & set(other.requests["now_ms"])


def test_source_without_a_share_changes_no_draw() -> None:
    idle = source("idle", share=0.0, length_s=Draw(exponential=2.0))
    assert as_bytes(make_workload(mixed(idle), 1)) == as_bytes(make_workload(mixed(), 1))


def test_what_one_source_draws_changes_nothing_of_another() -> None:
    other = source("streams", length_s=1.0, rate_qps=3.0)
    one, two = (make_workload(made, 1) for made in (mixed(), mixed(first=other)))
    for field in ("now_ms", "size_kb", "site"):
        single = [w.requests[field][w.requests["source"] == 1].tolist() for w in (one, two)]
        assert single[0] == single[1]


def test_how_a_field_is_drawn_changes_no_other_field() -> None:
    one, two = (make_workload(streaming(size_kb=size), 1).requests for size in (5.0, Draw(exponential=3.0)))
    assert one["size_kb"].tolist() != two["size_kb"].tolist()
    assert all(one[f].tolist() == two[f].tolist() for f in one.dtype.names if f != "size_kb")


# ---- traces


def traced(path: Path, text: str, **more: Any) -> Scenario:
    path.write_text(text)
    asks = source(arrivals=arrivals(process="trace", file=str(path)), **more)
    return scenario(sources=[asks], sites=("a", "b"), rules={"dispatch": "stream"}, duration_s=10.0)


def test_trace_gives_times_and_all_columns_that_it_has(tmp_path: Path) -> None:
    text = "time_s,size_kb,deadline_ms,min_accuracy,site\n0.5,3,70,0.6,b\n1.25,4,80,0.7,a\n"
    workload = make_workload(traced(tmp_path / "t.csv", text), 1)
    requests = workload.requests
    assert requests["now_ms"].tolist() == [500.0, 1250.0]
    assert requests["size_kb"].tolist() == [3.0, 4.0]
    assert requests["deadline_ms"].tolist() == [70.0, 80.0]
    assert requests["min_accuracy"].tolist() == [0.6, 0.7]
    assert requests["site"].tolist() == [1, 0]
    assert requests["stream"].tolist() == [-1, -1]
    assert len(workload.streams) == 0


def test_columns_that_a_trace_lacks_are_drawn(tmp_path: Path) -> None:
    text = "time_s,deadline_ms\n" + "".join(f"{i / 100},{i + 1}\n" for i in range(400))
    made = traced(
        tmp_path / "t.csv", text, size_kb=Draw(uniform=(2.0, 6.0)), min_accuracy=0.4, sites={"a": 1.0, "b": 3.0}
    )
    requests = make_workload(made, 1).requests
    assert requests["deadline_ms"].tolist() == [i + 1.0 for i in range(400)]
    assert set(requests["min_accuracy"]) == {0.4}
    assert requests["size_kb"].mean() == approx(4.0, abs=4 * sqrt(16 / 12 / 400))
    assert np.mean(requests["site"] == 1) == approx(0.75, abs=4 * sqrt(0.75 * 0.25 / 400))


def test_stream_column_forms_streams(tmp_path: Path) -> None:
    text = "time_s,stream\n0,x\n0.5,y\n1,x\n1.5,y\n4,x\n"
    requests = make_workload(traced(tmp_path / "t.csv", text), 1).requests
    x, y = requests["stream"][0], requests["stream"][1]
    assert {x, y} == {0, 1}
    assert requests["stream"].tolist() == [x, y, x, y, x]
    # x: 3 requests over 4 s; y: 2 over 1 s
    assert requests["rate_qps"].tolist() == [0.75, 2.0, 0.75, 2.0, 0.75]


def test_every_later_request_of_a_traced_stream_follows_its_binding(tmp_path: Path) -> None:
    made = traced(tmp_path / "t.csv", "time_s,stream\n0,x\n1,x\n2,x\n")
    plan = build_plan(made)
    run(plan, world := new_world(plan, make_workload(made, 1)), FIRST)
    assert world.rows["bound"].tolist() == [0, 1, 1]


@pytest.mark.parametrize("rows", ["0.5,x\n1,x\n", "0.5,x\n"], ids=["two requests", "one request"])
def test_traced_streams_end_and_free_their_load(tmp_path: Path, rows: str) -> None:
    made = traced(tmp_path / "t.csv", "time_s,stream\n" + rows)
    plan = build_plan(made)
    run(plan, world := new_world(plan, make_workload(made, 1)), FIRST)
    assert world.candidates["load"].tolist() == [0.0]
    assert world.clock[0]["open_streams"] == 0


def test_trace_with_streams_stands_beside_other_sources(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time_s,stream\n1,x\n2,y\n3,x\n")
    trace = source("trace", arrivals=arrivals(process="trace", file=str(path)), share=0.0)
    alone = scenario(sources=[MIXED[0]], rate_per_min=600.0, duration_s=10.0)
    both = scenario(sources=[MIXED[0], trace], rate_per_min=600.0, duration_s=10.0)
    one, two = make_workload(alone, 1), make_workload(both, 1)
    mine = two.requests["source"] == 0
    assert two.requests["stream"][mine].tolist() == one.requests["stream"].tolist()
    n = len(one.streams)
    assert two.requests["stream"][~mine].tolist() == [n, n + 1, n]
    assert len(two.streams) == n + 2


def test_trace_beyond_the_duration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its first row is at 10 s, the workload ends at 10 s"):
        make_workload(traced(tmp_path / "t.csv", "time_s,stream\n10,x\n11,x\n"), 1)


def test_what_a_trace_does_not_say_is_drawn_once_per_stream(tmp_path: Path) -> None:
    rows = "".join(f"{i / 10},{'xyz'[i % 3]}\n" for i in range(60))
    made = traced(tmp_path / "t.csv", f"time_s,stream\n{rows}", deadline_ms=Draw(uniform=(10.0, 90.0)))
    requests = make_workload(made, 1).requests
    for stream in range(3):
        mine = requests[requests["stream"] == stream]
        assert len(mine) == 20
        assert len(set(mine["deadline_ms"])) == len(set(mine["site"])) == 1
    assert len(set(requests["deadline_ms"])) == 3
