"""Scenario to arrays: a `Plan` is the fleet and what the network does over time.

Called once per scenario by whoever runs worlds (`run_policy`, `experiments`); expects a scenario that `check` found
sound.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from fairlead.domain.scenario import Scenario
from fairlead.policies.snapshot.fleet import build_fleet, per_kb_ms
from fairlead.sim.serving.world_arrays import LINK_CHANGE, Plan


def build_plan(scenario: Scenario) -> Plan:
    """The arrays that the engine runs on."""
    fleet = build_fleet(scenario)
    return Plan(*fleet, changes=_all_changes(scenario, fleet.links))


def _all_changes(scenario: Scenario, links: Any) -> Any:
    """Each change of one link after the start as (time, row, node, new values)."""
    changes: list[tuple[float, int, int, tuple[float, float, float, float]]] = []
    for row, end in enumerate((*scenario.workload.sites, *scenario.nodes)):
        for column, node in enumerate(scenario.nodes):
            if end != node:
                changes += _changes(scenario, end, node, row, column, tuple(links[row, column].tolist()))
    changes.sort(key=lambda c: c[0])
    return np.array(changes, LINK_CHANGE)


def _changes(
    scenario: Scenario, end: str, node: str, row: int, column: int, start: tuple[float, ...]
) -> list[tuple[float, int, int, tuple[float, float, float, float]]]:
    """How one link changes: its values after each instant at which something about it does."""
    mine = [c for c in scenario.link_changes if fnmatchcase(end, c.from_) and fnmatchcase(node, c.to)]
    net_ms, sd_ms, ms_per_kb, _ = start
    up = True
    states: list[tuple[float, float, float, float, bool]] = []
    for at_s in sorted({c.at_s for c in mine}):
        for change in (c for c in mine if c.at_s == at_s):
            net_ms = net_ms if change.delay_ms is None else change.delay_ms
            sd_ms = sd_ms if change.delay_sd_ms is None else change.delay_sd_ms
            ms_per_kb = ms_per_kb if change.bandwidth_mbps is None else per_kb_ms(change.bandwidth_mbps)
            up = up if change.up is None else change.up
        states.append((at_s * 1000.0, net_ms, sd_ms, ms_per_kb, up))
    found = []
    for i, (at_ms, net, sd, per_kb, is_up) in enumerate(states):
        up_at_ms = 0.0 if is_up else next(later[0] for later in states[i:] if later[4])
        found.append((at_ms, row, column, (net, sd, per_kb, up_at_ms)))
    return found
