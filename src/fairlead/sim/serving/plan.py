"""Scenario to arrays: a `Plan` is the fleet and what the network does over time.

Called once per scenario where worlds run (`run_policy`, `experiments`); expects a scenario that `check` found sound.
"""

from __future__ import annotations

import math
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from fairlead.domain.hardware import LinkChange
from fairlead.domain.name_patterns import places
from fairlead.domain.scenario import Scenario
from fairlead.policies.snapshot.fleet import build_fleet, per_kb_ms
from fairlead.sim.serving.world_arrays import LINK_CHANGE, Plan


def build_plan(scenario: Scenario) -> Plan:
    """The arrays that the engine runs on."""
    fleet = build_fleet(scenario)
    return Plan(*fleet, changes=_all_changes(scenario, fleet.links))


def _all_changes(scenario: Scenario, links: Any) -> Any:
    """Each change of one link after the start as (time, row, node, new values)."""
    ends, nodes = scenario.end_names, scenario.node_names
    of_link: dict[tuple[int, int], list[LinkChange]] = {}
    for change in scenario.link_changes:
        columns = [*places(nodes.like(change.to))]
        for row in places(ends.like(change.from_)):
            for column in columns:
                if ends.names[row] != nodes.names[column]:
                    of_link.setdefault((row, column), []).append(change)
    changes = [
        (at_ms, *link, state)
        for link in sorted(of_link)
        for at_ms, state in _states(of_link[link], tuple(links[link].tolist()))
    ]
    return np.array(sorted(changes, key=lambda change: change[0]), LINK_CHANGE)


def _states(mine: list[LinkChange], start: tuple[float, ...]) -> list[tuple[float, tuple[float, float, float, float]]]:
    """How one link changes: its values after each instant at which something about it does."""
    net_ms, sd_ms, ms_per_kb, _ = start
    up = True
    states: list[tuple[float, float, float, float, bool]] = []
    by_time = groupby(sorted(mine, key=attrgetter("at_s")), key=attrgetter("at_s"))
    for at_s, together in by_time:
        for change in together:
            net_ms = net_ms if change.delay_ms is None else change.delay_ms
            sd_ms = sd_ms if change.delay_sd_ms is None else change.delay_sd_ms
            ms_per_kb = ms_per_kb if change.bandwidth_mbps is None else per_kb_ms(change.bandwidth_mbps)
            up = up if change.up is None else change.up
        states.append((at_s * 1000.0, net_ms, sd_ms, ms_per_kb, up))
    found, up_at_ms = [], math.inf
    for at_ms, net, sd, per_kb, is_up in reversed(states):
        up_at_ms = at_ms if is_up else up_at_ms
        found.append((at_ms, (net, sd, per_kb, 0.0 if is_up else up_at_ms)))
    return found[::-1]
