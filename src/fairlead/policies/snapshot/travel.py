"""The way of a request to a node: the link that it is sent on, and how long it should take."""

from __future__ import annotations

from typing import Any

from fairlead.policies.jit import inlined


@inlined
def second_row(fleet: Any, site: int, answered: int) -> int:
    """The link row that it is sent from: that of the node of the deployment that answered, or of the access point."""
    rules = fleet.rules[0]
    return rules.sites + fleet.deployments[answered].node if rules.offload_from_node else site


@inlined
def travel_ms(fleet: Any, state: Any, request: Any, d: int, now_ms: float, answered: int) -> float:
    """How long a request should be on its way to deployment `d`."""
    row, back_ms = request.site, 0.0
    if answered >= 0:
        row = second_row(fleet, request.site, answered)
        if not fleet.rules[0].offload_from_node:  # the first answer goes back before
            back = state.links[request.site, fleet.deployments[answered].node]
            back_ms = max(0.0, back.up_at_ms - now_ms) + back.net_ms
    link = state.links[row, fleet.deployments[d].node]
    return back_ms + link.net_ms + request.size_kb * link.ms_per_kb
