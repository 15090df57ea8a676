"""The compiled serving engine: worlds small enough to work out by hand, then what holds whatever the world."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan
from typing import Any

import numpy as np
import pytest

from builders import (
    SMALL,
    Ask,
    batching,
    choosing,
    deploy,
    finished,
    link,
    link_change,
    log_of,
    node,
    play,
    rich_scenario,
    scenario,
    seen,
    shared_device,
    source,
    variant,
    workload_of,
)
from fairlead.domain.errors import PolicyError
from fairlead.domain.outcomes import Outcome, Reason
from fairlead.domain.scenario import Scenario
from fairlead.measure.serving_figures import serving_figures
from fairlead.policies.interface import find
from fairlead.policies.randomness import POLICY, uniform
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import copy_state, like, new_world, reset
from fairlead.sim.serving.world_arrays import AT_DECIDE, AT_WINDOW, DECIDE, DONE, WINDOW, World

approx = pytest.approx


def column(world: World, name: str) -> list[Any]:
    return world.rows[name].tolist()


def outcomes(world: World) -> list[Outcome]:
    return [Outcome(o) for o in world.rows["outcome"]]


def reasons(world: World) -> list[Reason]:
    return [Reason(int(r)) for r in world.rows["reason"]]


def at(*times_ms: float, **more: Any) -> list[Ask]:
    return [Ask(t, **more) for t in times_ms]


# ---- queues


def test_fifo_queue_makes_the_later_wait() -> None:
    world = play(scenario(), [Ask(0), Ask(4, work=2.0), Ask(25)])
    # 10 ms each, the second 20: served 0-10, 10-30, 30-40.
    assert column(world, "queue_ms") == [0.0, 6.0, 5.0]
    assert column(world, "service_ms") == [10.0, 20.0, 10.0]
    assert column(world, "latency_ms") == [10.0, 26.0, 15.0]
    assert outcomes(world) == [Outcome.SUCCESS] * 3


def test_service_time_grows_with_size_and_shrinks_with_share() -> None:
    made = scenario(variants=[variant(per_kb_ms=0.5)], deployments=[deploy(share=0.5)])
    # (10 + 0.5 * 8) / 0.5 = 28
    assert column(play(made, [Ask(0, size_kb=8.0)]), "service_ms") == [28.0]


def test_two_servers_on_two_devices_run_at_full_speed() -> None:
    world = play(scenario(nodes=[node(count=2)], deployments=[deploy(servers=2)]), at(0, 1, 2))
    # 0-10 and 1-11; the third takes the first server: 10-20.
    assert column(world, "queue_ms") == [0.0, 0.0, 8.0]
    assert column(world, "latency_ms") == [10.0, 10.0, 18.0]


def test_two_servers_on_one_device_run_at_half_speed() -> None:
    world = play(scenario(deployments=[deploy(servers=2)]), at(0, 1, 2))
    # 20 ms each: 0-20, 1-21, 20-40.
    assert column(world, "service_ms") == [20.0] * 3
    assert column(world, "latency_ms") == [20.0, 20.0, 38.0]


def test_one_server_on_four_devices_is_no_faster_than_one_device() -> None:
    assert column(play(scenario(nodes=[node(count=4)]), at(0)), "service_ms") == [10.0]


def test_full_batch_starts_before_its_wait_is_over() -> None:
    world = play(scenario(deployments=[deploy(batching=batching(max=2, wait_ms=100.0, fixed=0.5))]), at(0, 3))
    # Starts at 3, takes 0.5 * 10 + 0.5 * (10 + 10) = 15, ends at 18.
    assert column(world, "queue_ms") == [3.0, 0.0]
    assert column(world, "service_ms") == [15.0, 15.0]
    assert column(world, "latency_ms") == [18.0, 15.0]


def test_batch_starts_when_its_first_has_waited_long_enough() -> None:
    made = scenario(deployments=[deploy(batching=batching(max=3, wait_ms=5.0, fixed=0.25))])
    world = play(made, [Ask(0), Ask(3, work=2.0), Ask(7)])
    # The first two start at 5 and take 0.25 * 20 + 0.75 * 30 = 27.5: until 32.5. The third, overdue since 12, then
    # runs alone: 10 ms.
    assert column(world, "queue_ms") == [5.0, 2.0, 25.5]
    assert column(world, "service_ms") == [27.5, 27.5, 10.0]
    assert column(world, "latency_ms") == [32.5, 29.5, 35.5]


def test_batch_takes_no_more_than_its_size() -> None:
    world = play(scenario(deployments=[deploy(batching=batching(max=2, fixed=0.5))]), at(0, 1, 2, 3))
    # No wait: 0-10 alone; then two in 15 ms, 10-25; the last alone, 25-35.
    assert column(world, "queue_ms") == [0.0, 9.0, 8.0, 22.0]
    assert column(world, "service_ms") == [10.0, 15.0, 15.0, 10.0]


@pytest.mark.parametrize(("fixed", "batch_ms"), [(0.0, 20.0), (1.0, 10.0)])
def test_fixed_part_of_a_batch_is_paid_once(fixed: float, batch_ms: float) -> None:
    # fixed 0: the sum, 10 + 10; fixed 1: the longest, 10.
    made = scenario(deployments=[deploy(batching=batching(max=2, wait_ms=9.0, fixed=fixed))])
    assert column(play(made, at(0, 0)), "service_ms") == [batch_ms] * 2


# ---- shared nodes

SHARED = node(serving="shared")


def test_processor_sharing_halves_the_speed_of_two() -> None:
    world = play(scenario(devices=[shared_device(rho=1.0)], nodes=[SHARED]), at(0, 4))
    # The first does 4 alone, its other 6 take 12: ends at 16. The second did 6 by then, 4 alone: ends at 20.
    assert column(world, "service_ms") == [16.0, 16.0]
    assert column(world, "queue_ms") == [0.0, 0.0]
    # 20 W above idle: 4 ms whole + 12 ms half = 10 ms -> 200 mJ and 10e-6 each; the node is busy for 20 ms.
    assert column(world, "energy_mj") == approx([200.0, 200.0])
    assert column(world, "price") == approx([10e-6, 10e-6])
    assert world.nodes["busy_ms"].tolist() == [20.0]
    assert world.nodes["energy_mj"].tolist() == [400.0]


def test_linear_interference_weighs_the_times_alone() -> None:
    made = scenario(devices=[shared_device(rho=0.5)], nodes=[SHARED], deployments=[deploy("small"), deploy("large")])
    world = play(made, at(0, 0), policy=choosing(0, 1))
    # small beside large: 1 + 0.5 * 20 / 10 = 2 -> ends at 20. large beside small: 1 + 0.5 * 10 / 20 = 1.25 -> has
    # done 20 / 1.25 = 16 by then; its last 4 alone: ends at 24.
    assert column(world, "latency_ms") == approx([20.0, 24.0])


def test_curve_slows_by_number_and_ends_in_no_memory() -> None:
    world = play(scenario(devices=[shared_device(curve={"default": (1.0, 1.5)})], nodes=[SHARED]), at(0, 4, 5, 13))
    # The first does 4 alone, its other 6 take 6 * 1.5 = 9: ends at 13. The second did 6 by then; 4 are left. The
    # third would be one too many. The fourth comes at 13, when there is room: the second's 4 take 6, until 19; the
    # fourth did 4 by then, 6 alone: until 25.
    assert reasons(world) == [0, 0, Reason.NO_MEMORY, 0]
    assert [x for x in column(world, "latency_ms") if not isnan(x)] == approx([13.0, 15.0, 12.0])


def test_curve_of_a_variant_overrides_the_default() -> None:
    made = scenario(
        devices=[shared_device(curve={"default": (1.0, 2.0), "large": (1.0, 4.0)})],
        nodes=[SHARED],
        deployments=[deploy("small"), deploy("large")],
    )
    # small at half speed ends at 20; large at a quarter did 5, and has 15 left: ends at 35.
    assert column(play(made, at(0, 0), policy=choosing(0, 1)), "latency_ms") == approx([20.0, 35.0])


def matrix_scenario(small: Any, large: Any) -> Scenario:
    """Cells [how many small][how many large] beside it, of each."""
    shared = shared_device(axes=("small", "large"), matrix={"small": small, "large": large})
    return scenario(devices=[shared], nodes=[SHARED], deployments=[deploy("small"), deploy("large")])


def test_matrix_slows_by_who_runs_and_an_infinite_cell_is_no_memory() -> None:
    made = matrix_scenario(small=((1.0, 3.0), (1.5, inf)), large=((1.0, 1.5), (2.0, inf)))
    world = play(made, at(0, 4, 5), policy=choosing(0, 1, 0))
    # small does 4 alone, then its other 6 beside a large at 1/3: ends at 22. large beside a small, at 1/2, did 9 by
    # then; 11 alone: ends at 33. A third, of either variant, has the cell [1][1]: infinite.
    assert column(world, "latency_ms")[:2] == approx([22.0, 29.0])
    assert reasons(world) == [0, 0, Reason.NO_MEMORY]


def test_matrix_refuses_who_would_stop_the_others() -> None:
    # large itself would run well beside a small, but the small's cell beside a large is infinite.
    made = matrix_scenario(small=((1.0, inf), (inf, inf)), large=((1.0, 1.0), (1.0, 1.0)))
    world = play(made, at(0, 1, 10))
    assert reasons(world) == [0, Reason.NO_MEMORY, 0]


def test_matrix_is_infinite_past_its_edge() -> None:
    world = play(matrix_scenario(small=((1.0,), (1.0,)), large=((1.0,), (1.0,))), at(0, 1, 2))
    # Rows for 0 and 1 small, one column: no large can be beside; the third small would have 2 beside it.
    assert reasons(world) == [0, 0, Reason.NO_MEMORY]


def test_matrix_does_not_count_a_variant_that_is_on_no_axis() -> None:
    shared = shared_device(axes=("large", "other"), matrix={"small": ((1.0,), (2.0,)), "large": ((1.0,), (inf,))})
    made = scenario(devices=[shared], nodes=[SHARED], deployments=[deploy("small"), deploy("large")])
    # Small ones are counted nowhere, so two of them and a large one find no others: 10 ms and, beside a large, 20 ms.
    world = play(made, at(0, 0, 100, 100), policy=choosing(0, 0, 1, 0))
    assert column(world, "service_ms") == approx([10.0, 10.0, 20.0, 20.0])


def test_memory_of_requests_under_way_limits_a_shared_node() -> None:
    made = scenario(devices=[shared_device(rho=0.0)], nodes=[SHARED], variants=[variant(memory_mb=100.0, run_mb=400.0)])
    # 1000 - 100 of weights = 900: room for two of 400. The first leaves at 10.
    assert reasons(play(made, at(0, 1, 2, 10))) == [0, 0, Reason.NO_MEMORY, 0]


def test_memory_of_requests_under_way_does_not_count_on_a_queue_node() -> None:
    made = scenario(variants=[variant(memory_mb=100.0, run_mb=400.0)])
    assert reasons(play(made, at(0, 1, 2))) == [0, 0, 0]


# ---- who is admitted


def test_queue_limit_counts_from_the_decision_to_the_end_of_service() -> None:
    world = play(scenario(links=[link(5.0)], deployments=[deploy(queue_limit=2)]), at(0, 1, 14, 15))
    # The first is served 5-15, the second 15-25; at 14 both are in flight, at 15 the first has just left.
    assert reasons(world) == [0, 0, Reason.NO_CAPACITY, 0]
    assert column(world, "queue_ms") == [0.0, 9.0, 0.0, 5.0]  # the fourth: there at 20, served 25-35


def test_nominal_deadline_excludes_only_when_asked() -> None:
    asks = [Ask(0, size_kb=4.0, deadline_ms=28.0), Ask(100, size_kb=4.0, deadline_ms=27.9)]
    slow = link(5.0, delay_sd_ms=1.0, bandwidth_mbps=8.0)
    # 2 * (5 + 2 * 1) + 4 kB * 8 / 8 Mbit/s + 10 = 28
    world = play(scenario(links=[slow], rules={"admit": ("deadline",)}), asks)
    assert reasons(world) == [0, Reason.TOO_LATE]
    assert reasons(play(scenario(links=[slow]), asks)) == [0, 0]


def test_nominal_accuracy_excludes_only_when_asked() -> None:
    asks = [Ask(0, min_accuracy=0.8), Ask(100, min_accuracy=0.81)]
    assert reasons(play(scenario(rules={"admit": ("accuracy",)}), asks)) == [0, Reason.TOO_INACCURATE]
    assert outcomes(play(scenario(), asks)) == [Outcome.SUCCESS, Outcome.INACCURATE]


def test_regions_and_certificates_decide_where_a_source_may_run() -> None:
    nodes = [node("eu", region="eu", certificates=("iso",)), node("us", region="us")]
    sources = [
        source("anywhere"),
        source("american", regions=("us",)),
        source("certified", certificates=("iso",)),
        source("asian", regions=("asia",)),
        source("medical", certificates=("iso", "med")),
    ]
    made = scenario(nodes=nodes, deployments=[deploy(on="*")], sources=sources)
    world = play(made, [Ask(100.0 * i, source=i) for i in range(5)])
    assert column(world, "node") == [0, 1, 0, -1, -1]
    assert reasons(world) == [0, 0, 0, Reason.NOT_ALLOWED, Reason.NOT_ALLOWED]


def test_reason_is_the_easiest_of_each_candidates_hardest_obstacle() -> None:
    nodes = [node("near", region="eu"), node("far", region="us")]
    made = scenario(
        nodes=nodes,
        links=[link(0.0), link(100.0, to="far")],
        deployments=[deploy(on="*", queue_limit=1)],
        sources=[source(), source("american", regions=("us",))],
        rules={"admit": ("deadline",)},
    )
    asks = [Ask(0, deadline_ms=50.0), Ask(1, deadline_ms=50.0), Ask(2, deadline_ms=50.0, source=1)]
    # near: full. far: 2 * 100 + 10 > 50. For the American near is full and forbidden, so far is the easier to lift.
    assert reasons(play(made, asks)) == [0, Reason.NO_CAPACITY, Reason.TOO_LATE]


def test_policy_that_declines_rejects() -> None:
    world = play(scenario(), at(0, 1), policy=choosing(-1, 0))
    assert reasons(world) == [Reason.DECLINED, 0]
    assert outcomes(world) == [Outcome.REJECTED, Outcome.SUCCESS]
    assert column(world, "node") == [-1, 0]
    assert column(world, "queue_ms") == [0.0, 0.0]
    assert isnan(column(world, "latency_ms")[0])
    assert isnan(column(world, "accuracy")[0])


@pytest.mark.parametrize(
    ("choice", "what"), [(2, "of 2 candidates"), (-2, "of 2 candidates"), (0, "which is excluded")]
)
def test_impossible_choice_ends_the_run_and_names_the_policy(choice: int, what: str) -> None:
    made = scenario(nodes=[node("a"), node("b")], deployments=[deploy(on="*", queue_limit=1)])
    with pytest.raises(PolicyError) as error:
        play(made, at(0, 1), policy=choosing(0, choice))
    assert str(error.value) == f"policy 'script' chose index {choice}, {what}, for request 1"


# ---- links


def test_transfer_is_paid_on_the_way_up_only() -> None:
    world = play(scenario(links=[link(3.0, bandwidth_mbps=8.0)]), [Ask(0, size_kb=6.0)])
    # 3 + 6 kB * 8 / 8 Mbit/s up, 3 down
    assert column(world, "net_ms") == [12.0]
    assert column(world, "latency_ms") == [22.0]


def test_delays_are_normal_and_cut_at_zero() -> None:
    world = play(scenario(links=[link(3.0, delay_sd_ms=2.0)]), [Ask(0, up=1.5, down=-4.0)])
    # up 3 + 2 * 1.5 = 6; down max(0, 3 - 8) = 0
    assert column(world, "net_ms") == [6.0]


def test_sites_have_links_of_their_own_and_later_links_override() -> None:
    made = scenario(links=[link(1.0), link(7.0, from_="west")], sites=("east", "west"))
    # 1 + 10 + 1 and 7 + 10 + 7
    assert column(play(made, [Ask(0, site=0), Ask(100, site=1)]), "latency_ms") == [12.0, 24.0]


def test_link_change_affects_what_is_sent_later() -> None:
    made = scenario(links=[link(5.0)], changes=[link_change(at_s=0.02, delay_ms=50.0)])
    world = play(made, at(0, 10, 18, 20))
    # Served 5-15, 15-25, 25-35 (there at 23), 70-80 (sent at 20, with the change). Answers after 20 take 50.
    assert column(world, "latency_ms") == [20.0, 65.0, 67.0, 110.0]


def test_what_ends_beyond_all_windows_counts_in_the_last() -> None:
    """A window's number is an index that compiled code does not check."""
    endless = scenario(variants=[variant(ms=1e15)])
    world = play(endless, at(0, 10, work=1e15))
    assert world.windows["late"].tolist() == [0, 2]


def test_bandwidth_can_change() -> None:
    changes = [link_change(at_s=0.1, bandwidth_mbps=2.0)]
    world = play(scenario(links=[link(1.0, bandwidth_mbps=8.0)], changes=changes), at(0, 100, size_kb=3.0))
    # 1 + 3 * 8 / 8 + 1, then 1 + 3 * 8 / 2 + 1
    assert column(world, "net_ms") == [5.0, 14.0]


def test_last_of_several_changes_at_one_instant_counts() -> None:
    changes = [link_change(at_s=0.1, delay_ms=ms) for ms in (9.0, 4.0)]
    # 4 + 10 + 4
    assert column(play(scenario(links=[link(1.0)], changes=changes), at(100)), "latency_ms") == [18.0]


OUTAGE = (link_change(at_s=0.01, to="edge", up=False), link_change(at_s=0.1, to="edge", up=True))


def test_outage_makes_unreachable_and_answers_wait_for_the_link() -> None:
    world = play(scenario(links=[link(2.0)], changes=OUTAGE), at(5, 20, 100))
    # The first is there at 7, served until 17, waits until 100, and is back at 102.
    assert reasons(world) == [0, Reason.UNREACHABLE, 0]
    assert column(world, "net_ms")[0] == 2.0 + 83.0 + 2.0
    assert column(world, "latency_ms")[0] == 97.0
    assert column(world, "latency_ms")[2] == 14.0


def test_outage_of_one_node_leaves_the_others() -> None:
    made = scenario(nodes=[node(), node("other")], deployments=[deploy(on="*")], changes=OUTAGE)
    assert column(play(made, at(0, 20, 200)), "node") == [0, 1, 0]


# ---- streams


def in_streams(*asks: tuple[float, int, float]) -> list[Ask]:
    """(time, stream, rate) each."""
    return [Ask(t, stream=s, rate_qps=r) for t, s, r in asks]


def two_nodes(dispatch: str = "stream", **more: Any) -> Scenario:
    """10 ms each, so 100 requests a second each."""
    return scenario(nodes=[node("a"), node("b")], deployments=[deploy(on="*")], rules={"dispatch": dispatch}, **more)


def test_stream_is_bound_by_its_first_request() -> None:
    asks = in_streams((0, 0, 10.0), (1, 0, 10.0), (2, 1, 10.0), (3, 1, 10.0))
    world = play(two_nodes(), asks, [500.0, 500.0], policy=choosing(1, 0, 0, 1))
    # The policy is asked for requests 0 and 2 only.
    assert column(world, "node") == [1, 1, 0, 0]
    assert column(world, "bound") == [0, 1, 0, 1]
    assert world.clock[0]["decisions"] == 2


def test_every_request_is_decided_without_binding() -> None:
    asks = in_streams((0, 0, 10.0), (1, 0, 10.0))
    world = play(two_nodes("request"), asks, [500.0], policy=choosing(1, 0))
    assert column(world, "node") == [1, 0]
    assert column(world, "bound") == [0, 0]


def test_single_requests_are_decided_even_with_binding() -> None:
    world = play(two_nodes(), at(0, 1), policy=choosing(1, 0))
    assert column(world, "node") == [1, 0]
    assert column(world, "bound") == [0, 0]


def test_bound_load_stays_within_one_and_a_refused_stream_asks_again() -> None:
    asks = in_streams(
        (0, 0, 60.0), (1, 1, 60.0), (2, 2, 40.0), (3, 3, 50.0), (50, 3, 50.0), (100, 3, 50.0), (120, 3, 50.0)
    )
    world = play(two_nodes(), asks, [100.0, 500.0, 500.0, 500.0])
    # Loads of 100 requests a second: a takes 0.6, then b 0.6 (a would have 1.2), then a 0.4 (exactly 1). Stream 3, 0.5,
    # fits nowhere until stream 0 ends at 100 and leaves 0.4 at a.
    assert reasons(world) == [0, 0, 0, Reason.NO_CAPACITY, Reason.NO_CAPACITY, 0, 0]
    assert column(world, "node") == [0, 1, 0, -1, -1, 0, 0]
    assert column(world, "bound") == [0, 0, 0, 0, 0, 0, 1]


def test_load_of_a_shared_node_is_that_of_all_its_variants() -> None:
    made = scenario(
        devices=[shared_device(rho=0.0)],
        nodes=[SHARED],
        deployments=[deploy("small"), deploy("large")],
        rules={"dispatch": "stream"},
    )
    world = play(made, in_streams((0, 0, 60.0), (1, 1, 21.0), (2, 2, 50.0)), [500.0] * 3, policy=choosing(0, 0, 0))
    # 0.6 + 0.21; a rate of 50 is 0.5 as small and 1.0 as large: neither fits.
    assert reasons(world) == [0, 0, Reason.NO_CAPACITY]


def test_load_is_zero_again_when_all_streams_have_ended() -> None:
    asks = in_streams((0, 0, 33.3), (1, 1, 7.7), (2, 2, 0.1))
    world = play(two_nodes(), asks, [30.0, 20.0, 10.0], policy=choosing(0, 0, 0))
    assert world.candidates["load"].tolist() == [0.0, 0.0]
    assert world.clock[0]["open_streams"] == 0


def test_stream_moves_when_its_node_is_cut_off_and_stays_where_it_went() -> None:
    changes = [link_change(at_s=0.1, to="a", up=False), link_change(at_s=0.2, to="a", up=True)]
    asks = in_streams((0, 0, 60.0), (50, 0, 60.0), (150, 0, 60.0), (250, 0, 60.0), (260, 1, 60.0))
    world = play(two_nodes(changes=changes), asks, [500.0, 500.0])
    assert column(world, "node") == [0, 0, 1, 1, 0]
    assert column(world, "bound") == [0, 1, 0, 1, 0]  # the last: a's load went along, so a has room


def test_stream_moves_when_its_queue_is_full() -> None:
    made = scenario(
        nodes=[node("a"), node("b")], deployments=[deploy(on="*", queue_limit=1)], rules={"dispatch": "stream"}
    )
    world = play(made, in_streams((0, 0, 50.0), (5, 0, 50.0), (6, 0, 50.0), (12, 0, 50.0)), [500.0])
    # a is full until 10, so at 5 it moves to b, full until 15; at 6 nothing has room; at 12 it asks again.
    assert column(world, "node") == [0, 1, -1, 0]
    assert reasons(world) == [0, 0, Reason.NO_CAPACITY, 0]
    assert column(world, "bound") == [0, 0, 0, 0]


def test_bound_request_never_passes_the_end_of_a_degradation_table() -> None:
    made = scenario(devices=[shared_device(curve={"default": (1.0,)})], nodes=[SHARED], rules={"dispatch": "stream"})
    world = play(made, in_streams((0, 0, 50.0), (5, 0, 50.0), (10, 0, 50.0), (20, 0, 50.0)), [500.0])
    # One at a time. At 5 the first still runs; at 10 it has just ended.
    assert reasons(world) == [0, Reason.NO_MEMORY, 0, 0]
    assert column(world, "bound") == [0, 0, 0, 1]
    assert Outcome.PENDING not in outcomes(world)


def test_load_at_the_end_of_a_stream_is_free_for_one_that_starts_then() -> None:
    made = scenario(rules={"dispatch": "stream"})
    world = play(made, in_streams((0, 0, 60.0), (49, 1, 60.0), (50, 2, 60.0)), [50.0, 49.5, 500.0])
    assert reasons(world) == [0, Reason.NO_CAPACITY, 0]


# ---- second inference

EDGE_AND_CLOUD = (node("edge"), node("cloud", cloud=True))
LINKS = (
    link(2.0, "site", "edge"),
    link(20.0, "site", "cloud"),
    link(15.0, "edge", "cloud", bandwidth_mbps=16.0),
)


def with_cloud(**more: Any) -> Scenario:
    """small at the edge, large in the cloud; edge to cloud half a millisecond per kB."""
    rules = {"second_inference": True, **more.pop("rules", {})}
    given = {"nodes": EDGE_AND_CLOUD, "links": LINKS, "deployments": [deploy(), deploy("large", "cloud")]}
    return scenario(rules=rules, **{**given, **more})


def test_second_inference_from_the_node() -> None:
    world = play(with_cloud(), [Ask(0, size_kb=6.0, min_accuracy=0.85)])
    # 2 up, 10 at the edge, 15 + 3 to the cloud, 20 there, 20 down: 70. Energy 20 W * (10 + 20) ms.
    (row,) = world.rows
    assert row["latency_ms"] == 70.0
    assert (row["net_ms"], row["queue_ms"], row["service_ms"]) == (40.0, 0.0, 30.0)
    assert row["energy_mj"] == approx(600.0)
    assert row["price"] == approx(30e-6)
    assert row["accuracy"] == 0.9
    assert (row["node"], row["variant"], row["choice"], row["second"]) == (0, 0, 0, 1)
    assert outcomes(world) == [Outcome.SUCCESS]
    assert world.windows["escalated"].tolist() == [1, 0]


def test_second_inference_by_way_of_the_access_point() -> None:
    world = play(with_cloud(rules={"offload_from": "access"}), [Ask(0, size_kb=6.0, min_accuracy=0.85)])
    # 2 up, 10 at the edge, 2 down, 20 up to the cloud, 20 there, 20 down: 74.
    assert column(world, "latency_ms") == [74.0]
    assert column(world, "energy_mj") == approx([600.0])
    assert column(world, "second") == [1]


def test_second_inference_on_the_same_node_travels_nowhere() -> None:
    halves = [deploy("small", "cloud", share=0.5), deploy("large", "cloud", share=0.5)]
    world = play(with_cloud(deployments=halves), [Ask(0, min_accuracy=0.85)])
    # Half speed: 20 up, 20 at small, 40 at large, 20 down.
    assert column(world, "latency_ms") == [100.0]
    assert column(world, "second") == [1]


def test_good_answer_needs_no_second_inference() -> None:
    world = play(with_cloud(), [Ask(0, min_accuracy=0.8)])
    assert column(world, "second") == [-1]
    assert column(world, "latency_ms") == [14.0]  # 2 + 10 + 2


def test_bad_answer_is_delivered_where_second_inference_is_off() -> None:
    world = play(with_cloud(rules={"second_inference": False}), [Ask(0, min_accuracy=0.85)])
    assert outcomes(world) == [Outcome.INACCURATE]
    assert column(world, "second") == [-1]


def test_second_inference_happens_once() -> None:
    variants = [variant(accuracy_sd=0.1), variant("large", 0.9, 20.0, accuracy_sd=0.1)]
    world = play(with_cloud(variants=variants), [Ask(0, min_accuracy=0.85, quality=-1.0)])
    # 0.8 - 0.1, then 0.9 - 0.1: the same draw. Still not enough.
    assert column(world, "accuracy") == approx([0.8])
    assert outcomes(world) == [Outcome.INACCURATE]


NO_TARGETS = {
    "no cloud": {"nodes": [node("edge"), node("cloud")]},
    "no better variant": {"variants": [SMALL, variant("large", 0.8, 20.0)]},
    "cut off": {
        "changes": [link_change(at_s=0.0, from_="edge", up=False), link_change(at_s=0.5, from_="edge", up=True)]
    },
    "not allowed": {
        "nodes": [node("edge", region="eu"), node("cloud", cloud=True)],
        "sources": [source(regions=("eu",))],
    },
}


@pytest.mark.parametrize("given", NO_TARGETS.values(), ids=NO_TARGETS)
def test_first_answer_is_delivered_when_no_cloud_takes_it(given: Any) -> None:
    world = play(with_cloud(**given), [Ask(0, min_accuracy=0.85)])
    assert outcomes(world) == [Outcome.INACCURATE]
    assert column(world, "latency_ms") == [14.0]
    assert column(world, "accuracy") == [0.8]
    assert column(world, "second") == [-1]


def test_second_inference_goes_where_it_should_end_first() -> None:
    nodes = [node("edge", count=4), node("near", cloud=True), node("far", cloud=True)]
    made = scenario(
        nodes=nodes,
        links=[link(0.0), link(5.0, "edge", "near"), link(12.0, "edge", "far")],
        deployments=[deploy(servers=4), deploy("large", "near"), deploy("large", "far", queue_limit=1)],
        rules={"second_inference": True},
    )
    world = play(made, at(0, 1, 2, 3, min_accuracy=0.85))
    # Expected of near: 2 * 5 + 20 for each in flight there + 20, so 30, 50, 50, 70; of far: 2 * 12 + 20 = 44, until the
    # second has filled it.
    assert column(world, "second") == [1, 2, 1, 1]
    # The edge answers at 10, 11, 12, 13. Near has them at 15, 17, 18 and serves 15-35, 35-55, 55-75; far serves 23-43.
    assert column(world, "latency_ms") == approx([35.0, 42.0, 53.0, 72.0])


# ---- outcomes


def test_late_comes_before_inaccurate_and_the_bounds_are_kept() -> None:
    limits = [(10.0, 0.8), (9.9, 0.8), (10.0, 0.81), (9.9, 0.81)]
    asks = [Ask(100.0 * i, deadline_ms=d, min_accuracy=a) for i, (d, a) in enumerate(limits)]
    # Each takes 10 ms and answers with 0.8.
    expected = [Outcome.SUCCESS, Outcome.LATE, Outcome.INACCURATE, Outcome.LATE]
    assert outcomes(play(scenario(), asks)) == expected


def test_quality_of_an_answer_follows_its_draw() -> None:
    world = play(scenario(variants=[variant(accuracy_sd=0.05)]), [Ask(0, min_accuracy=0.8, quality=q) for q in (1, -2)])
    # 0.8 + 0.05 * 1 and 0.8 - 0.05 * 2
    assert column(world, "accuracy") == approx([0.85, 0.7])
    assert outcomes(world) == [Outcome.SUCCESS, Outcome.INACCURATE]


# ---- energy and price


def test_batch_shares_its_energy_and_price_alike() -> None:
    world = play(scenario(deployments=[deploy(batching=batching(max=2, wait_ms=9.0, fixed=0.5))]), at(0, 0))
    # 15 ms * 20 W = 300 mJ and 15e-6, halved
    assert column(world, "energy_mj") == approx([150.0, 150.0])
    assert column(world, "price") == approx([7.5e-6, 7.5e-6])


def test_node_pays_idle_power_all_the_time_and_busy_power_by_part() -> None:
    made = scenario(nodes=[node(count=4)], deployments=[deploy(share=0.5, servers=2)])
    plan = build_plan(made)
    world = new_world(plan, workload_of(at(0, 0, 50)))
    run(plan, world, choosing(0, 0, 0))
    # A server is one of four devices: 20 W, 1e-6 per ms. Three services of 10 ms: 600 mJ, each 200.
    assert column(world, "energy_mj") == approx([200.0] * 3)
    assert column(world, "price") == approx([10e-6] * 3)
    figures = serving_figures(log_of(made, world))
    # Idle 4 * 10 W * 1000 ms = 40 J, and 0.6 J; busy 30 ms of a quarter in 1000 ms.
    assert figures["energy_j"] == approx(40.6)
    assert figures["utilisation"] == approx(0.0075)
    assert figures["energy_per_success_mj"] == approx(40600 / 3)
    assert figures["cost_per_success"] == approx(10e-6)


def test_makespan_lasts_until_the_last_service_ends() -> None:
    made = scenario(duration_s=0.02)
    plan = build_plan(made)
    world = new_world(plan, workload_of([Ask(5, work=4.0)]))
    run(plan, world, choosing(0))
    figures = serving_figures(log_of(made, world))
    # Served 5-45: idle 10 W * 45 ms + 20 W * 40 ms = 1250 mJ; busy 40 of 45.
    assert figures["energy_j"] == approx(1.25)
    assert figures["utilisation"] == approx(40 / 45)


def test_world_without_requests_ends() -> None:
    world = play(scenario(), [])
    assert len(world.rows) == 0
    assert world.clock[0]["now_ms"] >= 1000.0


# ---- what holds in any world

POLICIES = ("round-robin", "power-of-two-choices", "least-expected-completion", "load-balancing")


@pytest.fixture(params=["request", "stream"])
def rich(request: pytest.FixtureRequest) -> Scenario:
    return rich_scenario(request.param)


def test_rich_world_has_every_outcome(rich: Scenario) -> None:
    """Guards the tests below: they would say little of a world in which little happens."""
    world = finished(rich, 1, find("round-robin"))
    assert np.bincount(world.rows["outcome"], minlength=5)[1:].min() > 20
    assert not np.count_nonzero(world.rows["outcome"] == Outcome.PENDING)
    assert np.count_nonzero(world.rows["second"] >= 0) > 20
    assert (world.rows["bound"].sum() > 20) == (rich.rules.dispatch == "stream")


@pytest.mark.parametrize("name", POLICIES)
def test_stepping_through_decisions_equals_the_fused_run(rich: Scenario, name: str) -> None:
    policy, plan = find(name), build_plan(rich)
    world = new_world(plan, make_workload(rich, 3))
    handle, clock = Handle(plan, [world]), world.clock[0]
    requests, candidates = world.requests.view(np.recarray), world.candidates.view(np.recarray)
    asked = 0
    handle.advance(AT_DECIDE)
    while handle.codes[0] == DECIDE:
        first, last, i = clock["first"], clock["last"], clock["request"]
        u = uniform(int(clock["seed"]), POLICY, int(i), 0)
        handle.chosen[0] = policy.function(requests[i], candidates[first:last], world.excluded[first:last], u)
        handle.advance(AT_DECIDE)
        asked += 1
    assert handle.codes[0] == DONE
    assert asked == clock["decisions"] > 100
    assert seen(world) == seen(finished(rich, 3, policy))


def test_python_policy_decides_like_the_compiled_one(rich: Scenario) -> None:
    policy = find("least-expected-completion")
    assert seen(finished(rich, 3, replace(policy, kind="python"))) == seen(finished(rich, 3, policy))


def test_stopping_at_every_window_changes_nothing(rich: Scenario) -> None:
    policy, plan = find("least-outstanding"), build_plan(rich)
    world = new_world(plan, make_workload(rich, 3))
    handle, edges = Handle(plan, [world], [policy.compiled]), []
    handle.advance(AT_WINDOW)
    while handle.codes[0] == WINDOW:
        edges.append(float(world.clock[0]["now_ms"]))
        handle.advance(AT_WINDOW)
    assert edges == [250.0 * (i + 1) for i in range(20)]
    assert seen(world) == seen(finished(rich, 3, policy))


@pytest.mark.parametrize("stops", [0, AT_WINDOW])
def test_batch_of_worlds_equals_single_runs(rich: Scenario, stops: int) -> None:
    policy, plan, seeds = find("least-outstanding"), build_plan(rich), (3, 4, 5)
    handle = Handle(plan, [new_world(plan, make_workload(rich, seed)) for seed in seeds], [policy.compiled])
    while (handle.codes != DONE).any():
        handle.advance(stops)
    for world, seed in zip(handle.worlds, seeds, strict=True):
        assert seen(world) == seen(finished(rich, seed, policy))


def test_worlds_of_a_batch_run_under_the_policies_chosen_for_them(rich: Scenario) -> None:
    policies, plan = [find("least-outstanding"), find("round-robin")], build_plan(rich)
    worlds = [new_world(plan, make_workload(rich, 3)) for _ in range(3)]
    handle = Handle(plan, worlds, [p.compiled for p in policies])
    handle.chosen[:] = 1, 0, 1
    handle.advance(0)
    for world, policy in zip(worlds, (policies[1], policies[0], policies[1]), strict=True):
        assert seen(world) == seen(finished(rich, 3, policy))


def test_finished_worlds_of_a_batch_are_left_alone() -> None:
    made = rich_scenario()
    plan, policy = build_plan(made), find("least-outstanding")
    handle = Handle(plan, [new_world(plan, make_workload(made, seed)) for seed in (3, 4)], [policy.compiled])
    before = seen(handle.worlds[0])
    handle.codes[0] = DONE
    handle.advance(0)
    assert handle.codes.tolist() == [DONE, DONE]
    assert seen(handle.worlds[0]) == before
    assert handle.worlds[1].clock[0]["arrived"] > 0


def test_world_takes_smaller_and_larger_workloads_than_its_first(rich: Scenario) -> None:
    plan, policy = build_plan(rich), find("least-outstanding")
    small, other = (make_workload(rich, seed) for seed in (3, 4))
    large = replace(other, requests=np.repeat(other.requests, 2), draws=np.repeat(other.draws, 2))
    large.requests["id"] = np.arange(len(large.requests))
    handle = Handle(plan, [new_world(plan, small)], [policy.compiled])
    for workload in (large, small):
        handle.reset(0, workload)
        handle.advance(0)
        (world,), n = handle.worlds, len(workload.requests)
        expected = new_world(plan, workload)
        run(plan, expected, policy)
        assert world.clock[0]["arrived"] == n
        assert seen(world._replace(rows=world.rows[:n])) == seen(expected)


def test_reset_world_runs_like_a_new_one(rich: Scenario) -> None:
    plan, first, other = build_plan(rich), find("least-outstanding"), find("round-robin")
    workload = make_workload(rich, 3)
    world = new_world(plan, workload)
    run(plan, world, other)
    reset(plan, world, workload)
    run(plan, world, first)
    assert seen(world) == seen(finished(rich, 3, first))


def test_world_reset_half_way_runs_like_a_new_one(rich: Scenario) -> None:
    plan, policy = build_plan(rich), find("least-outstanding")
    workload = make_workload(rich, 3)
    world = new_world(plan, workload)
    handle = Handle(plan, [world], [policy.compiled])
    for _ in range(9):  # into the outage, with queues, batches and bindings under way
        handle.advance(AT_WINDOW)
    reset(plan, world, workload)
    run(plan, world, policy)
    assert seen(world) == seen(finished(rich, 3, policy))


def test_windows_count_what_the_rows_say(rich: Scenario) -> None:
    world = finished(rich, 3, find("least-expected-completion"))
    rows, windows = world.rows, world.windows
    last = len(windows) - 1

    def per_window(times_ms: Any, chosen: Any, weights: Any = None) -> list[float]:
        which = np.minimum((times_ms[chosen] / 250.0).astype(int), last)
        return np.bincount(which, None if weights is None else weights[chosen], last + 1).tolist()

    came, back = rows["time_ms"], rows["time_ms"] + rows["latency_ms"]
    rejected = rows["outcome"] == Outcome.REJECTED
    assert windows["arrived"].tolist() == per_window(came, came >= 0)
    assert windows["rejected"].tolist() == per_window(came, rejected)
    assert windows["delivered"].tolist() == per_window(back, ~rejected)
    for name, outcome in (("succeeded", Outcome.SUCCESS), ("late", Outcome.LATE), ("inaccurate", Outcome.INACCURATE)):
        assert windows[name].tolist() == per_window(back, rows["outcome"] == outcome)
    assert windows["latency_ms"] == approx(per_window(back, ~rejected, rows["latency_ms"]))
    assert windows["energy_mj"] == approx(per_window(back, ~rejected, rows["energy_mj"]))
    assert windows["escalated"].sum() == np.count_nonzero(rows["second"] >= 0)


def test_dispatched_counts_the_decisions_carried_out(rich: Scenario) -> None:
    world = finished(rich, 3, find("least-expected-completion"))
    sent = world.rows[world.rows["outcome"] != Outcome.REJECTED]
    assert world.dispatched.sum(axis=0).tolist() == np.bincount(sent["node"], minlength=3).tolist()
    per_window = world.windows["arrived"] - world.windows["rejected"]
    assert world.dispatched.sum(axis=1).tolist() == per_window.tolist()


def test_latency_is_the_sum_of_its_parts(rich: Scenario) -> None:
    rows = finished(rich, 3, find("least-expected-completion")).rows
    rows = rows[rows["outcome"] != Outcome.REJECTED]
    assert rows["latency_ms"] == approx(rows["net_ms"] + rows["queue_ms"] + rows["service_ms"])


def test_equal_seeds_give_equal_bytes_and_others_do_not(rich: Scenario) -> None:
    policy = find("power-of-two-choices")
    one, same, other = (finished(rich, seed, policy) for seed in (3, 3, 4))
    assert seen(one) == seen(same)
    assert seen(one) != seen(other)


def without_seq(requests: Any) -> list[bytes]:
    return [requests[name].tobytes() for name in requests.dtype.names if name != "seq"]


def test_workload_is_the_same_whatever_the_policy(rich: Scenario) -> None:
    workload = make_workload(rich, 3)
    worlds = [finished(rich, 3, find(name)) for name in ("round-robin", "closest")]
    assert seen(worlds[0]) != seen(worlds[1])
    for world in worlds:
        assert without_seq(world.requests) == without_seq(workload.requests)
        assert world.draws.tobytes() == workload.draws.tobytes()


def test_seq_numbers_the_decisions(rich: Scenario) -> None:
    world = finished(rich, 3, find("round-robin"))
    decided = (world.rows["outcome"] != Outcome.REJECTED) & (world.rows["bound"] == 0)
    assert world.requests["seq"][decided].tolist() == list(range(world.clock[0]["decisions"]))


@pytest.mark.parametrize(
    ("duration_s", "window_ms"), [(14.7, 0.7), (1.0, 1000 / 19), (0.1, 0.3), (1.1, 1.1 / 3), (2.0, 5e3)]
)
def test_odd_windows_end_with_the_run(duration_s: float, window_ms: float) -> None:
    """The last window's edge can round to just below the duration."""
    made = scenario(rules={"window_ms": window_ms})
    made = replace(made, workload=replace(made.workload, duration_s=duration_s))
    world = play(made, [Ask(now_ms=0.0), Ask(now_ms=50.0)])
    assert column(world, "outcome") == [1, 1]
    assert world.clock["finished"][0] == 2
    assert np.isfinite(world.nodes["energy_mj"]).all()
    assert world.windows["delivered"].sum() == 2


def test_a_server_uses_one_device_at_most() -> None:
    """share * count / servers = 4 devices for one server: it is as fast as one, and pays for one."""
    wide = play(scenario(nodes=[node(count=4)], deployments=[deploy(servers=1)]), [Ask(now_ms=0.0)])
    one = play(scenario(nodes=[node(count=1)], deployments=[deploy(servers=1)]), [Ask(now_ms=0.0)])
    for field in ("service_ms", "energy_mj", "price"):
        assert column(wide, field) == column(one, field)
    assert wide.nodes["busy_ms"][0] == approx(one.nodes["busy_ms"][0] / 4)


def test_a_world_that_is_put_to_where_another_is_goes_on_as_it(rich: Scenario) -> None:
    plan, workload = build_plan(rich), make_workload(rich, 5)
    rules = [find(name).compiled for name in ("closest", "farthest", "load-balancing")]
    handle = Handle(plan, [new_world(plan, workload) for _ in range(3)], rules)
    alone = Handle(plan, [new_world(plan, workload)], rules)
    handle.chosen[:] = [0, 1, 2]
    alone.chosen[:] = 2
    for _ in range(2):
        handle.advance(AT_WINDOW)
        alone.advance(AT_WINDOW)
    kept, codes, arrived = like(handle.worlds[0], plan), handle.codes.copy(), handle.worlds[0].clock[0]["next_request"]
    under_way = [np.flatnonzero(w.rows["outcome"][:arrived] == Outcome.PENDING) for w in handle.worlds]
    first = int(min(pending[0] for pending in under_way))
    assert 0 < first < arrived
    last = int(np.searchsorted(workload.requests["now_ms"], 3 * plan.rules["window_ms"][0], side="right"))
    copy_state(handle.worlds[2], kept, first, last)
    handle.advance(AT_WINDOW)  # one window on, which is then taken back
    for world in handle.worlds:
        copy_state(kept, world, first, last)
    handle.codes[:], handle.chosen[:] = codes, 1
    alone.chosen[:] = 1
    handle.advance(0)
    alone.advance(0)
    for world in handle.worlds:
        for name, ours, its in zip(World._fields, alone.worlds[0], world, strict=True):
            if name not in ("requests", "jobs", "heap"):  # leftovers; and the number of a decision that was taken back
                part = slice(first, None) if name == "rows" else slice(None)  # what was settled before stays its own
                assert ours[part].tobytes() == its[part].tobytes(), name
