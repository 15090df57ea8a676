"""Corners of the serving world, in the order in which docs/guides/serving-world.md tells them, each worked by hand.

`both` runs engine and reference and refuses a difference, so that what is asserted here is true of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import (
    FIRST,
    Ask,
    arrivals,
    batching,
    choosing,
    deploy,
    link,
    link_change,
    node,
    scenario,
    shared_device,
    source,
    variant,
    workload_of,
)
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw
from fairlead.policies.interface import Policy
from fairlead.sim.reference.places import places_of
from fairlead.sim.reference.serving import simulate
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world
from test_reference import CLOSE, SAME


def both(made: Scenario, asks: Sequence[Ask], ends_ms: Sequence[float] = (), policy: Policy = FIRST) -> Any:
    """The rows of the engine, which are those of the reference too."""
    plan, drawn = build_plan(made), workload_of(asks, ends_ms)
    world = new_world(plan, drawn)
    run(plan, world, policy)
    rows = simulate(made, workload_of(asks, ends_ms), policy).rows
    for name in (*SAME, *CLOSE):
        np.testing.assert_allclose(world.rows[name], rows[name], atol=1e-9, err_msg=name)
    return world.rows


def at(*times_ms: float, **more: Any) -> list[Ask]:
    return [Ask(t, **more) for t in times_ms]


# ---- requests and streams


def test_streams_are_cut_at_the_end_of_the_run() -> None:
    """Streams of a minute in a run of two seconds: they end with it, and no request comes at or after its end."""
    made = scenario(sources=[source(length_s=60.0, rate_qps=4.0)], rate_per_min=600.0, duration_s=2.0)
    workload = make_workload(made, 1)
    assert len(workload.streams) > 5
    assert set(workload.streams["end_ms"]) == {2000.0}
    for stream in range(len(workload.streams)):
        mine = workload.requests["now_ms"][workload.requests["stream"] == stream]
        assert 2000.0 - 250.0 <= mine[-1] < 2000.0


def traced(folder: Path, rows: str, duration_s: float = 10.0) -> Any:
    (folder / "trace.csv").write_text("time_s,stream\n" + rows)
    asks = source(arrivals=arrivals(process="trace", file=str(folder / "trace.csv")))
    return make_workload(scenario(sources=[asks], duration_s=duration_s), 1)


def test_a_traced_streams_rate_counts_its_rows_over_its_span_of_a_second_at_least(tmp_path: Path) -> None:
    workload = traced(tmp_path, "0,long\n0,short\n0,once\n0.2,short\n4,long\n5,long\n")
    by_name = dict(zip(("long", "short", "once"), workload.requests["rate_qps"][:3], strict=True))
    # 3 rows in 5 s; 2 rows in 0.2 s and 1 row in no time count as a second.
    assert by_name == {"long": 0.6, "short": 2.0, "once": 1.0}


def test_a_traced_stream_ends_right_behind_its_last_row(tmp_path: Path) -> None:
    workload = traced(tmp_path, "0,x\n4,x\n5,y\n")
    assert workload.streams["end_ms"].tolist() == [np.nextafter(4000.0, np.inf), np.nextafter(5000.0, np.inf)]


def test_rows_of_a_trace_from_the_end_of_the_run_on_count_for_nothing(tmp_path: Path) -> None:
    workload = traced(tmp_path, "0,x\n2,x\n4,x\n5,x\n", duration_s=4.0)
    assert workload.requests["now_ms"].tolist() == [0.0, 2000.0]
    assert set(workload.requests["rate_qps"]) == {1.0}  # 2 rows in 2 s
    assert workload.streams["end_ms"].tolist() == [np.nextafter(2000.0, np.inf)]


def test_a_traced_stream_is_bound_up_to_its_last_row_and_its_load_is_free_then(tmp_path: Path) -> None:
    asks = [Ask(0, stream=0, rate_qps=60.0), Ask(50, stream=0, rate_qps=60.0), Ask(50, stream=1, rate_qps=60.0)]
    asks.append(Ask(60, stream=1, rate_qps=60.0))
    end = float(np.nextafter(50.0, np.inf))
    rows = both(scenario(rules={"dispatch": "stream"}), asks, [end, 500.0])
    # 10 ms each, so a load of 0.6: there is room for one. At 50 the first stream is still there, afterwards it is not.
    assert rows["reason"].tolist() == [0, 0, Reason.NO_CAPACITY, 0]


# ---- outcomes


def test_a_deadline_equal_to_the_latency_is_met_whatever_rounding_makes_of_it() -> None:
    late_by = (252.6 + 10.0) - 252.6 - 10.0
    assert late_by > 0  # 3e-14
    asks = [Ask(252.6, deadline_ms=10.0), Ask(300.0, deadline_ms=10.0 - 5e-10), Ask(400.0, deadline_ms=10.0 - 2e-9)]
    expected = [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.LATE]
    assert both(scenario(), asks)["outcome"].tolist() == expected


def test_a_nominal_time_equal_to_the_deadline_is_in_time_whatever_rounding_makes_of_it() -> None:
    made = scenario(links=[link(0.1, delay_sd_ms=1.1)], rules={"admit": ("deadline",)})
    assert 2 * (0.1 + 2 * 1.1) + 10.0 > 14.6  # 2e-15
    asks = [Ask(0, deadline_ms=14.6), Ask(100, deadline_ms=14.6 - 2e-9)]
    assert both(made, asks)["reason"].tolist() == [0, Reason.TOO_LATE]


# ---- candidates


def test_candidates_come_by_variant_then_by_entry_then_by_node() -> None:
    shown: list[Any] = []

    def look(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        shown.append([(int(v), int(n)) for v, n in zip(candidates["variant"], candidates["node"], strict=True)])
        return 0

    made = scenario(
        nodes=[node("a"), node("b"), node("c")],
        deployments=[
            deploy("large", "b", share=0.5),
            deploy("small", "c", share=0.5),
            deploy("small", "[ab]", share=0.5),
            deploy("large", "a", share=0.5),
        ],
    )
    both(made, [Ask(0)], policy=Policy("look", look, "python"))
    # small (0) before large (1), as the model has them; its entry of c before that of a and b; large's likewise.
    assert shown == [[(0, 2), (0, 0), (0, 1), (1, 1), (1, 0)]] * 2


def test_of_equal_targets_a_second_inference_takes_the_first_candidate() -> None:
    made = scenario(
        nodes=[node("edge"), node("cloud-b", cloud=True), node("cloud-a", cloud=True)],
        deployments=[deploy(), deploy("large", "cloud-a"), deploy("large", "cloud-b")],
        rules={"second_inference": True},
    )
    # Candidates: small at the edge, large at cloud-a (whose entry comes first), large at cloud-b.
    rows = both(made, [Ask(0, min_accuracy=0.85)])
    assert rows["second"].tolist() == [1]


def two_kinds(**limits: int) -> Scenario:
    """A shared node that runs small and large without disturbance."""
    return scenario(
        devices=[shared_device(rho=0.0)],
        nodes=[node(serving="shared")],
        deployments=[deploy(name, queue_limit=limits.get(name)) for name in ("small", "large")],
    )


def test_a_queue_limit_on_a_shared_node_counts_the_whole_node_against_each_deployment_by_itself() -> None:
    made = two_kinds(small=2, large=3)
    # Two large ones fill the node as far as small is concerned; large goes up to three.
    asks = at(0, 1, 2, 3, 4)
    rows = both(made, asks, policy=choosing(1, 1, 1, -1, -1))
    assert rows["reason"].tolist() == [0, 0, 0, Reason.NO_CAPACITY, Reason.NO_CAPACITY]
    shown: list[list[int]] = []

    def look(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        shown.append(excluded.tolist())
        return 1

    both(made, at(0, 1, 2), policy=Policy("look", look, "python"))
    assert shown[:3] == [[0, 0], [0, 0], [Reason.NO_CAPACITY, 0]]


@pytest.mark.parametrize(
    ("shares", "typical_kb"),
    [((1.0, 3.0), 7.0), ((0.0, 3.0), 8.0), ((0.0, 0.0), 1.0)],
    ids=["weighted", "one share 0", "all shares 0"],
)
def test_the_typical_size_is_the_mean_over_shares_and_one_kb_where_all_are_zero(
    shares: tuple[float, float], typical_kb: float, tmp_path: Path
) -> None:
    """Sources of 4 and of 8 kB in the mean. They replay traces, which have a share but no part in the rate."""
    (tmp_path / "trace.csv").write_text("time_s,size_kb\n0,1000\n")
    trace = arrivals(process="trace", file=str(tmp_path / "trace.csv"))
    sizes = (Draw(uniform=(2.0, 6.0)), 8.0)
    made = scenario(
        variants=[variant(per_kb_ms=1.0)],
        sources=[
            source(f"s{i}", arrivals=trace, share=share, size_kb=size)
            for i, (share, size) in enumerate(zip(shares, sizes, strict=True))
        ],
    )
    assert build_plan(made).deployments["typical_ms"].tolist() == [10.0 + typical_kb]
    assert places_of(made)[0].typical_ms == 10.0 + typical_kb


# ---- serving


def test_batches_without_a_wait_are_of_those_who_wait_when_a_server_gets_free() -> None:
    made = scenario(deployments=[deploy(batching=batching(max=3, wait_ms=0.0, fixed=0.5))])
    # All three are there at 0, but the first finds the server free and starts at once, alone: 0-10. The other two are
    # the next batch, in 0.5 * 10 + 0.5 * 20 = 15: 10-25. Who comes at 10 comes behind its start: 25-35.
    rows = both(made, at(0, 0, 0, 10))
    assert rows["queue_ms"].tolist() == [0.0, 10.0, 10.0, 15.0]
    assert rows["service_ms"].tolist() == [10.0, 15.0, 15.0, 10.0]


def test_who_comes_when_the_wait_is_over_comes_behind_the_batch() -> None:
    made = scenario(deployments=[deploy(batching=batching(max=3, wait_ms=5.0, fixed=0.5))])
    # The first waits until 5 and starts then; the second reaches the node at 5: it waits for the server until 15.
    rows = both(made, at(0, 5))
    assert rows["queue_ms"].tolist() == [5.0, 10.0]


def test_servers_of_a_queue_that_finish_at_one_instant_are_settled_in_their_order() -> None:
    made = scenario(
        nodes=[node("edge", count=2), node("near", cloud=True), node("far", cloud=True)],
        links=[link(0.0), link(5.0, to="near"), link(9.0, to="far")],
        deployments=[deploy(servers=2), deploy("large", "near", queue_limit=1), deploy("large", "far", queue_limit=1)],
        rules={"second_inference": True},
    )
    # Server 0: the first request 0-10, the third 10-26. Server 1: the second 1-26. The nearer target goes to the third.
    asks = [Ask(0), Ask(1, work=2.5, min_accuracy=0.85), Ask(2, work=1.6, min_accuracy=0.85)]
    assert both(made, asks)["second"].tolist() == [-1, 2, 1]


def test_those_who_finish_at_one_instant_on_a_shared_node_are_settled_one_by_one_as_they_came() -> None:
    """Each still counts as there until its turn: the first finds the node, which large may use alone, taken by the
    second; the second finds it free."""
    made = scenario(
        devices=[shared_device(rho=0.0)],
        nodes=[node("cloud", cloud=True, serving="shared")],
        deployments=[deploy("small", "cloud"), deploy("large", "cloud", queue_limit=1)],
        rules={"second_inference": True},
    )
    rows = both(made, at(0, 0, min_accuracy=0.85))
    assert rows["second"].tolist() == [-1, 1]
    assert rows["outcome"].tolist() == [Outcome.INACCURATE, Outcome.SUCCESS]
    assert rows["latency_ms"].tolist() == [10.0, 30.0]


def test_finishing_together_is_in_the_order_of_reaching_the_node_not_of_asking() -> None:
    made = scenario(
        devices=[shared_device(rho=0.0)],
        nodes=[node("cloud", cloud=True, serving="shared")],
        links=[link(0.0), link(6.0, "far-site")],
        deployments=[deploy("small", "cloud"), deploy("large", "cloud", queue_limit=1)],
        rules={"second_inference": True},
        sites=("site", "far-site"),
    )
    # The first asks at 0 from afar, is there at 6 and has half of the work: until 11. The second is there from 1 to 11.
    asks = [Ask(0, site=1, work=0.5, min_accuracy=0.85), Ask(1, min_accuracy=0.85)]
    assert both(made, asks)["second"].tolist() == [1, -1]


# ---- second inference


def test_by_way_of_the_access_point_even_the_same_node_is_two_legs_away() -> None:
    made = scenario(
        nodes=[node("cloud", cloud=True)],
        links=[link(7.0, bandwidth_mbps=8.0)],
        deployments=[deploy("small", "cloud", share=0.5), deploy("large", "cloud", share=0.5)],
        rules={"second_inference": True, "offload_from": "access"},
    )
    rows = both(made, [Ask(0, size_kb=3.0, min_accuracy=0.85)])
    # 7 + 3 up, 20 at small (half speed), 7 down, 7 + 3 up again, 40 at large, 7 down.
    assert rows["second"].tolist() == [1]
    assert rows["net_ms"].tolist() == [34.0]
    assert rows["latency_ms"].tolist() == [94.0]


# ---- order at the same instant


def test_a_finish_comes_before_a_link_change_and_this_before_who_asks() -> None:
    made = scenario(links=[link(5.0)], changes=[link_change(at_s=0.015, delay_ms=50.0)])
    # There at 5, done at 15: its answer takes the link as it was. Who asks at 15 takes it as it is.
    rows = both(made, at(0, 15))
    assert rows["net_ms"].tolist() == [10.0, 100.0]


def test_requests_of_one_instant_are_numbered_by_source_then_by_row(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("time_s,size_kb\n1,1\n1,2\n")
    sources = [
        source(name, arrivals=arrivals(process="trace", file=str(tmp_path / f"{name}.csv"))) for name in ("one", "two")
    ]
    requests = make_workload(scenario(sources=sources, duration_s=2.0), 1).requests
    assert requests["source"].tolist() == [0, 0, 1, 1]
    assert requests["size_kb"].tolist() == [1.0, 2.0, 1.0, 2.0]
