"""How far the nodes are, as windows of selectors show it; called by the simulator and, by `builder`, by a gateway."""

from __future__ import annotations

from typing import Any

from fairlead.policies.jit import kernel
from fairlead.policies.observe import FARTHEST_MS


@kernel
def measure_delays(fleet: Any, state: Any, delays_ms: Any) -> None:
    """Write the mean one-way delay over sites to each node now; a link that is down counts as FARTHEST_MS."""
    sites = fleet.rules[0].sites
    for n in range(len(delays_ms)):
        delays_ms[n] = 0.0
        for site in range(sites):
            link = state.links[site, n]
            delays_ms[n] += FARTHEST_MS if link.up_at_ms > 0.0 else min(link.net_ms, FARTHEST_MS)
        delays_ms[n] /= sites
