"""Every option by which a request could still succeed: the stations it would use, from when, until when, for how long.

Made from a plan and a workload with all draws known (work, network, quality), for `prices`. Only what no policy can
change is counted: an option is left out only when it fails whatever else happens, so the set is never too small.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from fairlead.policies.jit import jit
from fairlead.policies.randomness import NETWORK, SECOND_DOWN, SECOND_UP, normal
from fairlead.sim.serving.drawn_workload import DrawnWorkload
from fairlead.sim.serving.world_arrays import Plan

#: All is possible this much earlier and later, so that rounding cuts off nothing. Far more than `TOLERANCE_MS`, up to
#: which the world takes a late answer for one in time.
SLACK_MS: Final = 1e-6

#: One option: `work_ms` of one server of a station within release..due.
WAY: Final = np.dtype(
    [
        ("station", np.int32),
        ("then", np.int32),  # row of the second inference that must follow, -1 when the first is good enough
        ("release_ms", np.float64),
        ("due_ms", np.float64),
        ("work_ms", np.float64),
    ],
    align=True,
)


class ServiceOptions(NamedTuple):
    """The options of all requests: those of request i are `first[start[i] : start[i + 1]]`."""

    start: Any  # int64 (R + 1,)
    first: Any  # WAY
    second: Any  # WAY: second inferences, see `then`


_CHUNK: Final = 50_000  # requests at a time: there is room for the most options that they could have


class Links(NamedTuple):
    """Each link's states in turn: those of (row, node) are `state[first[row, node] : first[row, node + 1]]`."""

    first: Any  # int64 (rows, N + 1)
    at_ms: Any  # float64: from when
    until_ms: Any  # float64: the next state's at_ms
    state: Any  # LINK


def service_options_of(plan: Plan, workload: DrawnWorkload) -> ServiceOptions:
    """All options of all requests."""
    links = _timeline(plan)
    bindable = np.zeros((max(1, len(workload.streams)), len(plan.deployments)), np.bool_)
    start = np.zeros(len(workload.requests) + 1, np.int64)
    most = int((plan.models["last"] - plan.models["first"]).max())
    repeats = int(plan.rules["second_inference"][0]) * most
    firsts, seconds = [np.empty(0, WAY)], [np.empty(0, WAY)]
    n = m = 0
    for i in range(0, len(workload.requests), _CHUNK):
        part = slice(i, i + _CHUNK)
        requests, draws = workload.requests[part], workload.draws[part]
        first, second = (np.empty(len(requests) * most * room, WAY) for room in (max(1, repeats), repeats))
        here = start[i : i + len(requests)]
        made, again = _find(plan, links, requests, draws, workload.seed, bindable, here, first, second, m)
        here += n
        firsts.append(first[:made].copy())
        seconds.append(second[:again].copy())
        n, m = n + made, m + again
    start[-1] = n
    return ServiceOptions(start, np.concatenate(firsts), np.concatenate(seconds))


def _timeline(plan: Plan) -> Links:
    rows, nodes = plan.links.shape
    states: list[list[tuple[float, Any]]] = [
        [(-np.inf, plan.links[i // nodes, i % nodes])] for i in range(rows * nodes)
    ]
    for change in plan.changes:
        states[change["row"] * nodes + change["node"]].append((float(change["at_ms"]), change["link"]))
    counts = np.array([len(s) for s in states]).reshape(rows, nodes)
    ends = np.cumsum(counts).reshape(rows, nodes)
    at_ms = np.array([at for s in states for at, _ in s])
    until_ms = np.array([at for s in states for at in (*[a for a, _ in s[1:]], np.inf)])
    return Links(
        first=np.concatenate([ends[:, :1] - counts[:, :1], ends], axis=1).astype(np.int64),
        at_ms=at_ms,
        until_ms=until_ms,
        state=np.array([link for s in states for _, link in s], plan.links.dtype),
    )


@jit
def _delay_ms(link: Any, z: float) -> float:
    return max(0.0, link.net_ms + link.net_sd_ms * z)


@jit
def _state_at(links: Any, row: int, node: int, t_ms: float) -> Any:
    first, last = links.first[row, node], links.first[row, node + 1]
    return links.state[first + np.searchsorted(links.until_ms[first:last], t_ms, side="right")]


@jit
def _states(links: Any, row: int, node: int, from_ms: float, to_ms: float) -> tuple[int, int]:
    """The states, first..last, that the link is in at some moment of from..to."""
    first, last = links.first[row, node], links.first[row, node + 1]
    begun = np.searchsorted(links.at_ms[first:last], to_ms, side="right")
    return first + np.searchsorted(links.until_ms[first:last], from_ms, side="left"), first + begun


@jit
def _latest_end(links: Any, row: int, node: int, z: float, earliest_ms: float, deadline_ms: float) -> float:
    """The latest moment, not before `earliest_ms`, at which an answer can leave and be in time; -inf when none is."""
    latest_ms = -np.inf
    first, last = _states(links, row, node, earliest_ms, deadline_ms)
    for k in range(first, last):
        link = links.state[k]
        left_ms = deadline_ms - _delay_ms(link, z)
        end_ms = min(links.until_ms[k], left_ms)
        if link.up_at_ms > 0.0:  # the answer waits for the link
            end_ms = links.until_ms[k] if link.up_at_ms <= left_ms else -np.inf
        if end_ms >= max(earliest_ms, links.at_ms[k]):
            latest_ms = max(latest_ms, end_ms)
    return latest_ms


@jit
def _fastest_ms(links: Any, row: int, node: int, z: float, size_kb: float, from_ms: float, to_ms: float) -> float:
    """The shortest time over the link at any moment from..to; infinite when it is down all the time."""
    best_ms = np.inf
    first, last = _states(links, row, node, from_ms, to_ms)
    for k in range(first, last):
        link = links.state[k]
        if link.up_at_ms == 0.0:
            best_ms = min(best_ms, _delay_ms(link, z) + size_kb * link.ms_per_kb)
    return best_ms


@jit
def _back_ms(links: Any, row: int, node: int, z: float, from_ms: float, to_ms: float) -> float:
    """The same for an answer on its way back, which may wait for the end of an outage: it is not asked to be up."""
    best_ms = np.inf
    first, last = _states(links, row, node, from_ms, to_ms)
    for k in range(first, last):
        best_ms = min(best_ms, _delay_ms(links.state[k], z))
    return best_ms


@jit
def _admits(rules: Any, deployment: Any, link: Any, request: Any) -> bool:
    """Whether the scenario's rules let a policy choose the deployment, if it is empty."""
    proc_ms = deployment.base_ms + deployment.per_kb_ms * request.size_kb
    if rules.admit_accuracy and deployment.accuracy < request.min_accuracy:
        return False
    if rules.admit_deadline:
        nominal_ms = 2.0 * (link.net_ms + 2.0 * link.net_sd_ms) + request.size_kb * link.ms_per_kb + proc_ms
        if nominal_ms > request.deadline_ms + SLACK_MS:
            return False
    if rules.bind_streams:
        return bool(request.rate_qps * proc_ms * deployment.batch_share <= deployment.servers * 1000.0 * (1.0 + 1e-9))
    return True


@jit
def _set(way: Any, deployment: Any, alone_ms: float, release_ms: float, due_ms: float, then: int) -> None:
    way.station, way.then = deployment.station, then
    way.release_ms, way.due_ms = max(0.0, release_ms - SLACK_MS), due_ms + SLACK_MS
    # Its part of a full batch: fixed * longest + (1 - fixed) * sum >= the sum of these parts.
    way.work_ms = alone_ms * deployment.batch_share


@jit
def _find(
    plan: Any, links: Any, requests: Any, draws: Any, seed: int, bindable: Any, start: Any,
    first: Any, second: Any, before: int,
) -> tuple[int, int]:  # fmt: skip
    """Fill in `start` and a chunk's options; returns the counts of first and second. `before`: second ones so far."""
    rules, n, m = plan.rules[0], 0, 0
    for i in range(len(requests)):
        start[i] = n
        request = requests[i]
        for d in range(plan.models[request.model].first, plan.models[request.model].last):
            deployment = plan.deployments[d]
            link = _state_at(links, request.site, deployment.node, request.now_ms)
            admitted = _admits(rules, deployment, link, request)
            if rules.bind_streams and request.stream >= 0:  # a binding made earlier is followed, admissible now or not
                admitted = admitted or bindable[request.stream, d]
                bindable[request.stream, d] = admitted
            if plan.denied[request.source, d] or link.up_at_ms > 0.0 or not admitted:
                continue
            up_ms = _delay_ms(link, draws[i].up) + request.size_kb * link.ms_per_kb
            alone_ms = (deployment.base_ms + deployment.per_kb_ms * request.size_kb) * draws[i].work
            quality = deployment.accuracy + deployment.accuracy_sd * draws[i].quality
            release_ms, deadline_ms = request.now_ms + up_ms, request.now_ms + request.deadline_ms + SLACK_MS
            if quality < request.min_accuracy:
                if rules.second_inference:
                    n, m = _find_second(
                        plan, links, request, draws[i], seed, d, release_ms, alone_ms, deadline_ms,
                        first, n, second, m, before,
                    )  # fmt: skip
                continue
            earliest_ms = release_ms + alone_ms - SLACK_MS
            due_ms = _latest_end(links, request.site, deployment.node, draws[i].down, earliest_ms, deadline_ms)
            if due_ms > -np.inf:
                _set(first[n], deployment, alone_ms, release_ms, due_ms, -1)
                n += 1
    return n, m


@jit
def _find_second(
    plan: Any, links: Any, request: Any, draw: Any, seed: int, d: int,
    release_ms: float, alone_ms: float, deadline_ms: float, first: Any, n: int, second: Any, m: int, before: int,
) -> tuple[int, int]:  # fmt: skip
    """Add the options by a second inference after a poor first one on `d`; returns the new counts."""
    deployment, rules = plan.deployments[d], plan.rules[0]
    earliest_ms = release_ms + alone_ms - SLACK_MS
    row, back_ms = request.site, 0.0
    if rules.offload_from_node:
        row = rules.sites + deployment.node
    else:
        back_ms = _back_ms(links, request.site, deployment.node, draw.down, earliest_ms, deadline_ms)
    z_up, z_down = normal(seed, NETWORK, request.id, SECOND_UP), normal(seed, NETWORK, request.id, SECOND_DOWN)
    for c in range(plan.models[request.model].first, plan.models[request.model].last):
        cloud = plan.deployments[c]
        quality = cloud.accuracy + cloud.accuracy_sd * draw.quality
        if not cloud.cloud or cloud.accuracy <= deployment.accuracy or quality < request.min_accuracy:
            continue
        if plan.denied[request.source, c]:
            continue
        travel_ms = back_ms + _fastest_ms(links, row, cloud.node, z_up, request.size_kb, earliest_ms, deadline_ms)
        again_ms = (cloud.base_ms + cloud.per_kb_ms * request.size_kb) * draw.work
        there_ms = earliest_ms + travel_ms
        due_ms = _latest_end(links, request.site, cloud.node, z_down, there_ms + again_ms, deadline_ms)
        if there_ms < np.inf and due_ms > -np.inf:
            _set(first[n], deployment, alone_ms, release_ms, due_ms - again_ms - travel_ms, before + m)
            _set(second[m], cloud, again_ms, there_ms, due_ms, -1)
            n, m = n + 1, m + 1
    return n, m
