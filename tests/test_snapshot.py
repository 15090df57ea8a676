"""The snapshot builder: told what is under way, it shows what the simulator's engine shows, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import deploy, link, node, scenario, shared_device, variant
from fairlead.domain.outcomes import Reason
from fairlead.domain.records import REQUEST
from fairlead.policies.randomness import POLICY, uniform
from fairlead.policies.snapshot.builder import SnapshotBuilder
from fairlead.policies.snapshot.fleet import build_fleet
from fairlead.policies.snapshot.fleet_arrays import PROMISED
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import AT_DECIDE, DECIDE, Plan, World
from test_reference import make_case

CASES = 24


def under_way(plan: Plan, world: World) -> Any:
    """How many requests are on their way to each deployment, or there."""
    counts = world.candidates["in_flight"].astype(np.int64)
    for d, deployed in enumerate(plan.deployments):
        station = plan.stations[deployed["station"]]
        if station["deployment"] < 0:
            counts[d] = world.counts[PROMISED, station["first"] + deployed["kind"]]
    return counts


class Told:
    """A builder that is told, decision by decision, what has changed in a simulated world."""

    def __init__(self, plan: Plan, builder: SnapshotBuilder) -> None:
        self.plan, self.builder = plan, builder
        self.there = np.zeros(len(plan.deployments), np.int64)
        self.bound: dict[int, tuple[int, float]] = {}  # by stream: where, and its load
        self.links = plan.links.copy()

    def catch_up(self, world: World) -> None:
        now = under_way(self.plan, world)
        for d in range(len(now)):
            for _ in range(max(0, now[d] - self.there[d])):
                self.builder.sent(d)
            for _ in range(max(0, self.there[d] - now[d])):
                self.builder.finished(d)
        self.there = now
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
        assert shown.candidates.tobytes() == world.candidates[first:last].tobytes(), f"request {i}"
        assert shown.excluded.tobytes() == world.excluded[first:last].tobytes(), f"request {i}"
        feasible = np.flatnonzero(shown.excluded == 0)
        handle.chosen[0] = feasible[int(uniform(number, POLICY, i, 0) * len(feasible))]
        told.decided(world.requests[i], first + int(handle.chosen[0]))
        handle.advance(AT_DECIDE)
        decisions += 1
    return decisions


def asked(**fields: Any) -> Any:
    request = np.zeros(1, REQUEST)
    request["deadline_ms"], request["size_kb"] = 100.0, 1.0
    for name, value in fields.items():
        request[name] = value
    return request


def test_queue_counts_what_is_sent_and_what_has_come_back() -> None:
    builder = SnapshotBuilder(build_fleet(scenario(rules={"dispatch": "request"})))
    for in_flight, queue_ms in ((0, 0.0), (1, 10.0), (2, 20.0)):
        shown = builder.snapshot(asked())
        assert (shown.candidates["in_flight"][0], shown.candidates["queue_ms"][0]) == (in_flight, queue_ms)
        builder.sent(shown.first)
    builder.finished(0)
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
    builder.sent(0)
    shown = builder.snapshot(asked())
    assert not shown.feasible
    assert shown.excluded.tolist() == [Reason.NO_MEMORY]
