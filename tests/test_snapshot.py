"""The snapshot builder: told what is under way, it shows what the simulator's engine shows, bit for bit.

What is foreseen rests on when each request was sent and has finished: there it is held to the reference world.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from builders import Ask, deploy, link, node, play, rich_scenario, scenario, shared_device, source, variant
from fairlead.domain.outcomes import Reason
from fairlead.domain.records import CANDIDATE, FORESEEN, REQUEST, TRAFFIC
from fairlead.domain.scenario import Scenario
from fairlead.policies.observe import count_mix, window_size, window_stats
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.snapshot.builder import SnapshotBuilder
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.policies.snapshot.fleet import build_fleet
from fairlead.policies.snapshot.fleet_arrays import PROMISED
from fairlead.sim.reference import serving as reference
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.window_view import WindowView
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import AT_DECIDE, AT_WINDOW, DECIDE, WINDOW, Plan, World
from test_reference import make_case, witness

CASES = 24
SHOWN = [name for name in CANDIDATE.names or () if name not in FORESEEN]


def under_way(plan: Plan, world: World) -> Any:
    """How many requests are on their way to each deployment, or there."""
    counts = world.candidates["in_flight"].astype(np.int64)
    for d, deployed in enumerate(plan.deployments):
        station = plan.stations[deployed["station"]]
        if station["deployment"] < 0:
            counts[d] = world.counts[PROMISED, station["first"] + deployed["resident"]]
    return counts


class Told:
    """A builder that is told, decision by decision, what has changed in a simulated world."""

    def __init__(self, plan: Plan, builder: SnapshotBuilder) -> None:
        self.plan, self.builder = plan, builder
        self.there: list[list[int]] = [[] for _ in plan.deployments]  # the numbers of those sent to each
        self.bound: dict[int, tuple[int, float]] = {}  # by stream: where, and its load
        self.links = plan.links.copy()

    def catch_up(self, world: World) -> None:
        now_ms, request = float(world.clock["now_ms"][0]), world.requests[:1]  # any: nothing here goes by who it was
        for d, (now, there) in enumerate(zip(under_way(self.plan, world), self.there, strict=True)):
            while len(there) < now:
                there.append(self.builder.sent(request, d, now_ms))
            while len(there) > now:
                self.builder.finished(there.pop(), now_ms)
        for stream, (d, load) in list(self.bound.items()):
            if world.streams["bound"][stream] != d:
                self.builder.unbind(d, load)
                del self.bound[stream]
        for row, n in np.argwhere(world.links != self.links).tolist():
            net_ms, sd_ms, ms_per_kb, up_at_ms = world.links[row, n].tolist()
            self.builder.set_link(row, n, net_ms, sd_ms, ms_per_kb, up=up_at_ms == 0.0)
        self.links = world.links.copy()

    def decided(self, request: Any, d: int) -> None:
        """What the engine does with a choice: a stream's is kept."""
        if self.plan.rules["bind_streams"][0] and request["stream"] >= 0:
            self.bound[int(request["stream"])] = d, self.builder.bind(d, float(request["rate_qps"]))


@pytest.mark.parametrize("chunk", range(4))
def test_builder_shows_what_the_engine_shows(chunk: int) -> None:
    assert sum(decisions_shown_alike(number) for number in range(chunk, CASES, 4)) > 100


def decisions_shown_alike(number: int) -> int:
    """How many decisions one random scenario had, all of them on the same bits."""
    made, drawn = make_case(number)
    plan = build_plan(made)
    world, told = new_world(plan, drawn), Told(plan, SnapshotBuilder(build_fleet(made)))
    handle, clock, decisions = Handle(plan, [world]), world.clock[0], 0
    handle.advance(AT_DECIDE)
    while handle.codes[0] == DECIDE:
        first, last, i = int(clock["first"]), int(clock["last"]), int(clock["request"])
        told.catch_up(world)
        shown = told.builder.snapshot(world.requests[i : i + 1])
        assert shown.first == first
        assert shown.feasible
        for name in SHOWN:
            of_engine = world.candidates[name][first:last]
            assert shown.candidates[name].tobytes() == of_engine.tobytes(), f"request {i} {name}"
        assert shown.excluded.tobytes() == world.excluded[first:last].tobytes(), f"request {i}"
        feasible = np.flatnonzero(shown.excluded == 0)
        handle.chosen[0] = feasible[int(uniform(number, POLICY, i, 0) * len(feasible))]
        told.decided(world.requests[i], first + int(handle.chosen[0]))
        handle.advance(AT_DECIDE)
        decisions += 1
    return decisions


class Hosted(reference.World):
    """A reference world that tells a builder of all that happens, and holds what the two foresee against each other."""

    def __init__(self, number: int) -> None:
        made, drawn = make_case(number)
        super().__init__(made, drawn, witness([]))
        self.builder = SnapshotBuilder(build_fleet(made))
        self.numbers: dict[int, int] = {}  # of what is under way, by request
        self.found: list[dict[str, float]] = []  # foreseen of the present request
        self.foreseen = 0  # candidates with something to foresee

    def _change_links(self, change: Any) -> None:
        super()._change_links(change)
        ends, nodes = [*self.scenario.workload.sites, *self.scenario.nodes], list(self.scenario.nodes)
        for (end, to), now in self.links.items():
            where = ends.index(end), nodes.index(to)
            self.builder.set_link(*where, now.delay_ms, now.sd_ms, now.transfer_ms(1.0), up=now.up)
            if not now.up:  # a host can't know until when
                self.builder.state.links["up_at_ms"][where] = self._up_again_ms(end, to)

    def _send(self, job: Any, leaves_ms: float, from_: str, z: float) -> None:
        answered = int(job.row["choice"]) if job.second else -1
        number = self.builder.sent(np.array([job.request]), job.place.index, self.now, answered)
        self.numbers[int(job.request["id"])] = number
        super()._send(job, leaves_ms, from_, z)

    def _answered(self, job: Any) -> None:
        self.builder.finished(self.numbers.pop(int(job.request["id"])), self.now)
        super()._answered(job)

    def _foreseen(self, *of_candidate: Any) -> dict[str, float]:
        self.found.append(super()._foreseen(*of_candidate))
        return self.found[-1]

    def _decide(self, request: Any) -> Any:
        self.found = []
        shown = self.builder.snapshot(np.array([request]))
        decided = super()._decide(request)
        for name in FORESEEN:
            mine = [found[name] for found in self.found]
            assert np.allclose(shown.candidates[name], mine, rtol=1e-6, atol=1e-6), f"request {request['id']} {name}"
        self.foreseen += int((shown.candidates["wait_ms"] > 0.0).sum())
        return decided


@pytest.mark.parametrize("chunk", range(4))
def test_builder_foresees_what_the_reference_foresees(chunk: int) -> None:
    foreseen = 0
    for number in range(chunk, 5 * CASES, 4):
        world = Hosted(number)
        world.run()
        assert not world.numbers
        foreseen += world.foreseen
    assert foreseen > 1000


def asked(**fields: Any) -> Any:
    request = np.zeros(1, REQUEST)
    request["deadline_ms"], request["size_kb"] = 100.0, 1.0
    for name, value in fields.items():
        request[name] = value
    return request


def test_queue_counts_what_is_sent_and_what_has_come_back() -> None:
    builder, numbers = SnapshotBuilder(build_fleet(scenario(rules={"dispatch": "request"}))), []
    for in_flight, queue_ms in ((0, 0.0), (1, 10.0), (2, 20.0)):
        shown = builder.snapshot(asked())
        assert (shown.candidates["in_flight"][0], shown.candidates["queue_ms"][0]) == (in_flight, queue_ms)
        assert shown.candidates["wait_ms"][0] == queue_ms
        numbers.append(builder.sent(asked(), shown.first))
    builder.finished(numbers[0], 4.0)  # sooner than the 10 ms that it should have taken
    assert builder.snapshot(asked(now_ms=5.0)).candidates["wait_ms"][0] == 19.0
    assert builder.snapshot(asked()).candidates["in_flight"][0] == 2


def test_link_that_is_down_excludes_its_node() -> None:
    made = scenario(nodes=[node("near"), node("far")], deployments=[deploy(on="*")], links=[link()])
    builder = SnapshotBuilder(build_fleet(made))
    builder.set_link(0, 1, net_ms=5.0, net_sd_ms=0.5, ms_per_kb=0.0, up=False)
    shown = builder.snapshot(asked())
    assert shown.excluded.tolist() == [0, Reason.UNREACHABLE]
    builder.set_link(0, 1, net_ms=7.0, net_sd_ms=0.5, ms_per_kb=0.0)
    shown = builder.snapshot(asked())
    assert shown.excluded.tolist() == [0, 0]
    assert shown.candidates["net_ms"].tolist() == [0.0, 7.0]


def test_shared_node_without_memory_has_nothing_feasible() -> None:
    made = scenario(
        devices=[shared_device(rho=0.5)],
        nodes=[node(serving="shared")],
        variants=[variant(memory_mb=100.0, run_mb=600.0)],
    )
    builder = SnapshotBuilder(build_fleet(made))
    assert builder.snapshot(asked()).feasible
    builder.sent(asked(), 0)
    shown = builder.snapshot(asked())
    assert not shown.feasible
    assert shown.excluded.tolist() == [Reason.NO_MEMORY]


# ---- bound streams


def test_bound_place_takes_requests_while_there_is_room_and_a_link() -> None:
    nodes = [node("near"), node("far", region="abroad")]
    sources = [source(), source("careful", regions=("home",))]
    made = scenario(nodes=nodes, deployments=[deploy(on="*", queue_limit=1)], sources=sources)
    builder = SnapshotBuilder(build_fleet(made))
    assert builder.can_take(asked(), 1)
    assert not builder.can_take(asked(source=1), 1)  # it may not go abroad
    number = builder.sent(asked(), 1)
    assert not builder.can_take(asked(), 1)
    assert builder.can_take(asked(), 0)
    builder.finished(number, 10.0)
    assert builder.can_take(asked(), 1)
    builder.set_link(0, 1, net_ms=1.0, net_sd_ms=0.0, ms_per_kb=0.0, up=False)
    assert not builder.can_take(asked(), 1)


# ---- second inference


def with_clouds(offload_from: str = "access", second_inference: bool = True) -> Scenario:
    """`small` on the edge (0); `large` in a near (1) and in a far cloud (2)."""
    return scenario(
        nodes=[node("edge"), node("near", cloud=True), node("far", cloud=True)],
        links=[link(2.0), link(10.0, to="near"), link(25.0, to="far"), link(90.0, from_="edge", to="near")],
        deployments=[deploy("small", "edge"), deploy("large", "near"), deploy("large", "far")],
        rules={"second_inference": second_inference, "offload_from": offload_from},
    )


def test_second_inference_goes_to_the_better_cloud_that_should_answer_first() -> None:
    builder = SnapshotBuilder(build_fleet(with_clouds()))
    assert builder.second_choice(asked(), 0) == 1
    builder.sent(asked(), 1)  # 60 ms with the round trip, against 70 in the far cloud
    assert builder.second_choice(asked(), 0) == 1
    builder.sent(asked(), 1)  # 80 ms
    assert builder.second_choice(asked(), 0) == 2
    builder.set_link(0, 2, net_ms=25.0, net_sd_ms=0.0, ms_per_kb=0.0, up=False)
    assert builder.second_choice(asked(), 0) == 1
    builder.set_link(0, 1, net_ms=10.0, net_sd_ms=0.0, ms_per_kb=0.0, up=False)
    assert builder.second_choice(asked(), 0) == -1


def test_second_inference_needs_a_better_variant_and_the_scenarios_leave() -> None:
    builder = SnapshotBuilder(build_fleet(with_clouds()))
    assert builder.second_choice(asked(), 1) == -1
    assert SnapshotBuilder(build_fleet(with_clouds(second_inference=False))).second_choice(asked(), 0) == -1


@pytest.mark.parametrize(("offload_from", "expected"), [("access", 1), ("node", 2)])
def test_second_inference_is_sent_from_where_the_engine_sends_it(offload_from: str, expected: int) -> None:
    made = with_clouds(offload_from)
    builder = SnapshotBuilder(build_fleet(made))
    (row,) = play(made, [Ask(0.0, min_accuracy=0.85)]).rows
    assert builder.second_choice(asked(), int(row["choice"])) == row["second"] == expected


def test_snapshot_after_a_second_choice_is_seen_from_the_site_again() -> None:
    builder = SnapshotBuilder(build_fleet(with_clouds("node")))
    before = builder.snapshot(asked()).candidates.copy()
    builder.second_choice(asked(size_kb=9.0), 0)
    assert builder.snapshot(asked()).candidates.tobytes() == before.tobytes()


# ---- windows of selectors


@pytest.mark.parametrize("dispatch", ["request", "stream"])
def test_stats_of_a_window_are_those_of_the_simulator(dispatch: str) -> None:
    made = rich_scenario(dispatch)
    fleet, plan = build_fleet(made), build_plan(made)
    world, builder, slots = new_world(plan, make_workload(made, 3)), SnapshotBuilder(fleet), 5
    handle, view, links = Handle(plan, [world]), WindowView(plan, slots, mix=True), plan.links.copy()
    expected, first, delays = np.zeros((1, window_size(slots, mix=True)), np.float32), 0, set()
    handle.advance(AT_DECIDE | AT_WINDOW)
    while handle.codes[0] in (DECIDE, WINDOW):
        if handle.codes[0] == DECIDE:
            here = slice(int(world.clock["first"][0]), int(world.clock["last"][0]))
            handle.chosen[0] = np.flatnonzero(world.excluded[here] == 0)[0]
        else:
            view.observe(handle, expected)
            w, traffic = int(world.clock["window"][0]) - 1, np.zeros(1, TRAFFIC)
            for field in ("arrived", "delivered", "clients"):
                traffic[field] = world.windows[field][w]
            last = int(world.clock["next_request"][0])
            for request in world.requests[first:last]:
                count_mix(traffic[0], request)
            for row, n in np.argwhere(world.links != links).tolist():
                net_ms, sd_ms, ms_per_kb, up_at_ms = world.links[row, n].tolist()
                builder.set_link(row, n, net_ms, sd_ms, ms_per_kb, up=up_at_ms == 0.0)
            first, links = last, world.links.copy()
            counts = traffic, world.dispatched[w], builder.delays_ms()
            stats = window_stats(*counts, capacity_qps(fleet), made.rules.window_ms, slots, mix=True)
            assert stats.tobytes() == expected.tobytes()
            delays.add(float(counts[2][0]))
        handle.advance(AT_DECIDE | AT_WINDOW)
    assert len(delays) == 2  # with the link to the pair up and down
    assert first > 100


# ---- what can't be


@pytest.mark.parametrize(
    ("slip", "line"),
    [
        (lambda builder: builder.sent(asked(), -1), "no deployment -1: there are 1"),
        (lambda builder: builder.sent(asked(), 1), "no deployment 1: there are 1"),
        (lambda builder: builder.sent(asked(), 0, answered=1), "no deployment 1: there are 1"),
        (lambda builder: builder.sent(asked(site=9), 0), "of source 0 at site 9: there are 1 models"),
        (lambda builder: builder.finished(0, 1.0), "no request 0 is under way"),
        (lambda builder: builder.finished(-1, 1.0), "no request -1 is under way"),
        (lambda builder: builder.bind(7, 1.0), "no deployment 7: there are 1"),
        (lambda builder: builder.unbind(-2, 0.5), "no deployment -2: there are 1"),
        (lambda builder: builder.can_take(asked(), 1), "no deployment 1: there are 1"),
        (lambda builder: builder.second_choice(asked(), 1), "no deployment 1: there are 1"),
        (lambda builder: builder.snapshot(asked(site=5000)), "at site 5000: there are 1 models, 1 sources and 1 sites"),
        (lambda builder: builder.snapshot(asked(source=1)), "of source 1 at site 0: there are 1 models"),
        (lambda builder: builder.snapshot(asked(model=1)), "a request for model 1 of source 0"),
        (lambda builder: builder.set_link(9, 0, 1.0, 0.0, 0.0), "no link from 9 to 0: there are 2 ends and 1 nodes"),
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(slip: Any, line: str) -> None:
    builder = SnapshotBuilder(build_fleet(scenario()))
    before = [array.tobytes() for array in builder.state]
    with pytest.raises(ValueError, match=line):
        slip(builder)
    assert [array.tobytes() for array in builder.state] == before


def test_part_of_a_request_is_not_sent() -> None:
    with pytest.raises(TypeError, match="float"):
        SnapshotBuilder(build_fleet(scenario())).sent(asked(), 0.5)  # type: ignore[arg-type]


def test_request_finishes_once_and_its_number_is_given_again() -> None:
    builder = SnapshotBuilder(build_fleet(scenario()))
    number = builder.sent(asked(), 0)
    builder.finished(number, 1.0)
    with pytest.raises(ValueError, match=f"no request {number} is under way"):
        builder.finished(number, 2.0)
    assert builder.sent(asked(), 0) == number
    assert builder.snapshot(asked()).candidates["in_flight"].tolist() == [1.0]


def test_there_is_room_for_any_number_of_requests() -> None:
    builder = SnapshotBuilder(build_fleet(scenario()))
    numbers = [builder.sent(asked(), 0) for _ in range(100)]
    assert len(set(numbers)) == 100
    patient = asked(deadline_ms=5000.0)  # for others the search for a wait ends at their deadline
    assert builder.snapshot(patient).candidates["wait_ms"].tolist() == [1000.0]
    for number in numbers[50:]:
        builder.finished(number, 0.0)
    shown = builder.snapshot(patient)
    assert (shown.candidates["in_flight"][0], shown.candidates["wait_ms"][0]) == (50.0, 500.0)


def test_a_copy_goes_its_own_way() -> None:
    builder = SnapshotBuilder(build_fleet(scenario()))
    first = builder.sent(asked(), 0)
    copied = copy.deepcopy(builder)
    second = copied.sent(asked(), 0)
    for which, in_flight in ((builder, 1.0), (copied, 2.0)):
        candidates = which.snapshot(asked()).candidates
        assert (candidates["in_flight"][0], candidates["wait_ms"][0]) == (in_flight, 10.0 * in_flight)
    copied.finished(first, 5.0)
    copied.finished(second, 5.0)
    with pytest.raises(ValueError, match="no request 0 is under way"):
        copied.finished(first, 5.0)
    assert copied.snapshot(asked(now_ms=5.0)).candidates["wait_ms"].tolist() == [0.0]
    assert builder.snapshot(asked(now_ms=5.0)).candidates["wait_ms"].tolist() == [5.0]
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(builder)
