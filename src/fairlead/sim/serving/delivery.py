"""From an answer to an outcome: the way back, the second inference in the cloud, and the books of the window.

Called by `stations` when a service ends; sends on through `calendar` and keeps candidates true
by `snapshot.candidates`. Makes no decision of a policy.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.domain.outcomes import Outcome
from fairlead.policies.expected_times import in_time
from fairlead.policies.jit import index, inlined, kernel
from fairlead.policies.randomness import NETWORK, SECOND_DOWN, SECOND_UP, normal
from fairlead.policies.snapshot.candidates import book
from fairlead.policies.snapshot.second_inference import second_choice
from fairlead.policies.snapshot.travel import second_row
from fairlead.policies.snapshot.under_way import depart, leave
from fairlead.sim.serving.calendar import push

_SUCCESS: Final = np.uint8(Outcome.SUCCESS)
_LATE: Final = np.uint8(Outcome.LATE)
_INACCURATE: Final = np.uint8(Outcome.INACCURATE)


@inlined
def delay_ms(link: Any, z: float) -> float:
    """One-way delay: normal, cut at 0; `z` is the leg's standard normal draw."""
    return max(0.0, link.net_ms + link.net_sd_ms * z)


@inlined
def window_at(plan: Any, world: Any, at_ms: float) -> int:
    """The window of an instant; the last takes the rest, also what lies beyond the numbers that count windows."""
    return int(min(at_ms / plan.rules[0].window_ms, len(world.windows) - 1.0))


@inlined
def answered(plan: Any, world: Any, job: int, now_ms: float) -> None:
    """The node has answered: deliver the answer, or repeat it in the cloud when it is not good enough."""
    deployment = plan.deployments[world.jobs[job].deployment]
    book(plan, world, world.jobs[job].deployment, -1)
    if len(world.kept) > 0:
        leave(plan, world, job, now_ms)
    quality = deployment.accuracy + deployment.accuracy_sd * world.draws[job].quality
    world.rows[job].accuracy = quality
    if plan.rules[0].second_inference and quality < world.requests[job].min_accuracy and not world.jobs[job].second:
        if escalate(plan, world, job, now_ms):
            return
    deliver(plan, world, job, now_ms)


@inlined
def deliver(plan: Any, world: Any, job: int, now_ms: float) -> None:
    """Send the answer back and settle the outcome. During an outage the answer waits for the link."""
    request, row, clock = world.requests[job], world.rows[job], world.clock[0]
    node = plan.deployments[world.jobs[job].deployment].node
    link = world.links[request.site, node]
    wait_ms = max(0.0, link.up_at_ms - now_ms)
    second = world.jobs[job].second
    down_ms = delay_ms(link, normal(clock.seed, NETWORK, job, SECOND_DOWN) if second else world.draws[job].down)
    at_ms = now_ms + wait_ms + down_ms
    row.net_ms += wait_ms + down_ms
    row.latency_ms = at_ms - request.now_ms
    window = world.windows[window_at(plan, world, at_ms)]
    if not in_time(row.latency_ms, request.deadline_ms):
        row.outcome = _LATE
        window.late += 1
    elif row.accuracy < request.min_accuracy:
        row.outcome = _INACCURATE
        window.inaccurate += 1
    else:
        row.outcome = _SUCCESS
        window.succeeded += 1
        clock.succeeded += 1
    window.delivered += 1
    window.latency_ms += row.latency_ms
    window.energy_mj += row.energy_mj
    clock.finished += 1
    clock.energy_mj += row.energy_mj
    clock.degradation += row.service_ms / world.jobs[job].alone_ms - 1.0
    clock.last_ms = max(clock.last_ms, now_ms)


@kernel
def escalate(plan: Any, world: Any, job: int, now_ms: float) -> bool:
    """Send the request on to the cloud, from the node or by way of its access point. False: nothing there takes it."""
    request, rules, clock = world.requests[job], plan.rules[0], world.clock[0]
    answered_by = index(world.jobs[job].deployment)
    node = plan.deployments[answered_by].node
    row = second_row(plan, request.site, answered_by)
    choice = second_choice(plan, world, request, answered_by, row)
    if choice < 0:
        return False
    d = index(choice)
    travel_ms = 0.0
    if not rules.offload_from_node:
        back = world.links[request.site, node]
        travel_ms = max(0.0, back.up_at_ms - now_ms) + delay_ms(back, world.draws[job].down)
    target = plan.deployments[d].node
    link = world.links[row, target]
    travel_ms += delay_ms(link, normal(clock.seed, NETWORK, job, SECOND_UP)) + request.size_kb * link.ms_per_kb
    world.rows[job].net_ms += travel_ms
    world.rows[job].second = d
    world.jobs[job].deployment = d
    world.jobs[job].second = True
    book(plan, world, d, 1)
    if len(world.kept) > 0:
        depart(plan, world, job, d, request, now_ms, answered_by)
    push(world.heap, clock.joining, now_ms + travel_ms, job)
    clock.joining += 1
    world.windows[window_at(plan, world, now_ms)].escalated += 1
    return True
