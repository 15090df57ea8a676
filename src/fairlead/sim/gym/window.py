"""Choose the policy of each window: ASET's question, as a batch of worlds with in-place buffers.

Needs NumPy and Numba alone; `envs` and `vector` make Gymnasium environments of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from fairlead.domain.errors import PolicyError, UserError, one_line
from fairlead.policies.interface import find
from fairlead.policies.jit import inlined, typed_kernel
from fairlead.sim.gym.batch import FLOATS, LIMIT, OBSERVATIONS, Batch
from fairlead.sim.gym.worlds import Worlds
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.layout import AT_WINDOW, DONE, FAULT, INTO_DRAIN, WINDOW, Plan
from fairlead.sim.serving.words import ROWS_OF_WORDS, WORDS, world_at

#: The rate that the number of clients is compared with the capacity by.
CLIENT_QPS: Final = 10.0


@dataclass(frozen=True)
class WindowSettings:
    """What there is to choose from."""

    policies: tuple[str, ...] = ("closest", "load-balancing", "farthest", "cheaper", "least-impedance", "random")
    """Names of compiled policies, in the order of the actions. ASET's six by default; its Random taken as uniform."""


class WindowBatch(Batch):
    """One step is one window of simulated time (the scenario's rules.window_ms) under the chosen policy.

    **Observation** (3 + N,) float32 in [0, 10], cut there: ASET's state, of the window that has just ended; zeros at
    the start. N nodes; the capacity of a node is what it can serve in requests a second: of a queue node, the sum over
    its deployments at their typical input size; of a shared one, 1000 / mean time alone in ms.

    | position | what | unit |
    |---|---|---|
    | 0 | qps: requests that arrived a second | capacity of all nodes |
    | 1 | rps: responses a second, delivered to clients | capacity of all nodes |
    | 2 | clients: streams open at the end of the window | capacity of all nodes / 10 qps |
    | 3 + n | load of node n: requests sent to it a second | its capacity |

    **Action**: which of `settings.policies` decides until the next edge. Every action is always possible; one out of
    range is an error of the caller.

    **Reward**: 1 - failures / arrivals of the window, in [0, 1]. Failures are those known within the window
    ('instant'): rejected, or delivered in it late or not accurate enough, whenever asked; so they can outnumber the
    arrivals, and the reward is cut at 0. When nothing arrived it is 1 if nothing failed, else 0. The last step includes
    what drains after the last window.

    **End**: `terminated` with the scenario's duration, after ceil(duration / window) steps. The episode is its whole
    workload and nothing follows, so that the value behind it is 0; it is not cut short, so `truncated` is never set.

    >>> from fairlead.scenarios.loader import load
    >>> from fairlead.sim.gym.worlds import worlds_of
    >>> batch = WindowBatch(worlds_of(load("dc-cloud", ["workload.duration_s=20"])), size=2)
    >>> batch.reset(seeds=1)
    >>> for _ in range(20):
    ...     batch.step([0, 1])  # closest in the one, load-balancing in the other world
    >>> batch.observations.shape, batch.terminated.tolist()
    ((2, 6), [True, True])
    """

    def __init__(self, worlds: Worlds, size: int, settings: WindowSettings = WindowSettings()) -> None:
        features = ["qps", "rps", "clients", *(f"load {n}" for n in worlds.nodes)]
        super().__init__(worlds, size, features, len(settings.policies), _pointers(settings.policies))
        self.settings = settings
        self.masks[:] = 1
        capacity_qps = _capacity_qps(worlds.plan)
        total_qps, window_s = capacity_qps.sum(), worlds.plan.rules["window_ms"][0] / 1000.0
        units = [total_qps * window_s] * 2 + [total_qps / CLIENT_QPS, *(capacity_qps * window_s)]
        self._scale = 1.0 / np.array(units)
        self._score, self._observe = _compiled()

    def _advance(self) -> None:
        handle, actions = self.handle, self.actions
        if (handle.codes == FAULT).any():
            raise PolicyError("a policy has failed in this episode: reset first")
        if not (actions.min() >= 0 and actions.max() < self.masks.shape[1]):
            raise UserError(f"actions are 0..{self.masks.shape[1] - 1}, not {actions.min()}..{actions.max()}")
        handle.chosen[:] = actions
        error: BaseException | None = None
        try:
            handle.advance(AT_WINDOW | INTO_DRAIN)
        except (Exception, SystemExit) as raised:  # whatever a policy's code raises
            error = raised
        for b in np.flatnonzero(handle.codes == FAULT):
            choice = handle.worlds[b].clock[0]["choice"]
            what = f"failed: {one_line(error)}" if error else f"chose an impossible candidate, {choice}"
            raise PolicyError(f"policy {self.settings.policies[actions[b]]!r} {what}") from error
        self._score(handle.world_words, handle.codes, self.rewards)

    def _begun(self, b: int) -> None:
        """Time 0 is the first stop."""

    def _bind(self, handle: Handle) -> None:
        """Nothing to prepare: beside a window, gathering the arguments of a kernel costs nothing."""

    def observe(self) -> None:
        """Fill observations; masks are all ones."""
        self._observe(self.handle.world_words, self.handle.codes, self._scale, self.observations)


def _pointers(names: tuple[str, ...]) -> list[Any]:
    if not names:
        raise UserError("settings.policies: at least one policy is needed")
    policies = [find(name) for name in names]
    for policy in policies:
        if policy.kind != "compiled":
            raise UserError(f"policy {policy.name!r} is plain Python; a window needs compiled ones")
    return [policy.compiled for policy in policies]


def _capacity_qps(plan: Plan) -> Any:
    """What each node can serve, in requests a second."""
    deployments = plan.deployments
    per_request_ms = deployments["typical_ms"] * deployments["batch_share"]
    n = plan.links.shape[1]
    queues = np.bincount(deployments["node"], deployments["servers"] * 1000.0 / per_request_ms, n)
    number, sum_ms = np.bincount(deployments["node"], minlength=n), np.bincount(deployments["node"], per_request_ms, n)
    shared = np.zeros(n, np.bool_)
    shared[plan.stations["node"][plan.stations["deployment"] < 0]] = True
    return np.where(number == 0, 1.0, np.where(shared, 1000.0 * number / np.maximum(sum_ms, 1e-300), queues))


def _score(world_rows: Any, codes: Any, rewards: Any) -> None:
    for b in range(len(codes)):
        world = world_at(world_rows, b)
        first = _window(world, codes[b])
        last = first if codes[b] == WINDOW else len(world.windows) - 1
        failed = 0
        for w in range(first, last + 1):
            failed += world.windows[w].rejected + world.windows[w].late + world.windows[w].inaccurate
        rewards[b] = max(0.0, 1.0 - failed / max(world.windows[first].arrived, 1))


def _observe(world_rows: Any, codes: Any, scale: Any, observations: Any) -> None:
    for b in range(len(codes)):
        world, out = world_at(world_rows, b), observations[b]
        w = _window(world, codes[b])
        if w < 0:
            out[:] = 0.0
            continue
        window = world.windows[w]
        out[0] = min(window.arrived * scale[0], LIMIT)
        out[1] = min(window.delivered * scale[1], LIMIT)
        out[2] = min(window.clients * scale[2], LIMIT)
        for n in range(world.dispatched.shape[1]):
            out[3 + n] = min(world.dispatched[w, n] * scale[3 + n], LIMIT)


@inlined
def _window(world: Any, code: int) -> int:
    """The window that has just ended: -1 at the start, at the end the last that has arrivals."""
    window = world.clock[0].window
    return window - 1 if code != DONE else min(window, len(world.windows) - 2)


@cache
def _compiled() -> tuple[Any, Any]:
    return typed_kernel(_score, ROWS_OF_WORDS, WORDS, FLOATS), typed_kernel(
        _observe, ROWS_OF_WORDS, WORDS, FLOATS, OBSERVATIONS
    )
