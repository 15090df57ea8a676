"""Choose the policy of each window: ASET's question, as a batch of worlds with in-place buffers.

Needs NumPy and Numba alone; `envs` and `vector` make Gymnasium environments of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from fairlead.domain.errors import PolicyError, UserError
from fairlead.policies.addresses import ROWS_OF_WORDS, WORDS
from fairlead.policies.decider import compiled_rule
from fairlead.policies.guard import failure
from fairlead.policies.interface import find
from fairlead.policies.jit import typed_kernel
from fairlead.policies.observe import FLOATS, window_features
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.world_file import Worlds
from fairlead.sim.serving.addresses import world_at
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.window_view import WindowView, ended_window
from fairlead.sim.serving.world_arrays import AT_WINDOW, FAULT, INTO_DRAIN, WINDOW


@dataclass(frozen=True)
class WindowSettings:
    """What there is to choose from, and what is seen of it."""

    policies: tuple[str, ...] = ("closest", "load-balancing", "farthest", "cheaper", "least-impedance", "random")
    """Names of compiled policies, in the order of the actions. ASET's six by default; its Random taken as uniform."""
    mix: bool = False
    """Also show what the requests ask for, and how far the nodes are."""
    nodes: int | None = None
    """Pad the observation to so many nodes, so that one agent serves several topologies. None: as many as there are."""


class WindowBatch(Batch):
    """One step is one window of simulated time (the scenario's rules.window_ms) under the chosen policy.

    **Observation** (3 + N,), with `settings.mix` (7 + 2 N,), float32 in [0, 10], cut there: ASET's state, of the
    window that has just ended; at the start, the clients and links that are there already. N nodes, or
    `settings.nodes`: nodes that are not there are zeros. The capacity of a node is what it can serve in requests a
    second: of a queue node, the sum over its deployments at their typical input size; of a shared one, 1000 / mean time
    alone in ms. `features` has all names.

    | position | what | unit |
    |---|---|---|
    | 0 | qps: requests that arrived a second | capacity of all nodes |
    | 1 | rps: responses a second, delivered to clients | capacity of all nodes |
    | 2 | clients: streams open at the end of the window | capacity of all nodes / 10 qps |
    | 3 + n, with the mix 7 + n | load of node n: requests sent to it a second | its capacity |
    | with the mix: 3, 4, 5 | share of the arrivals with a deadline of at most 40, 80, 160 ms | 1 |
    | with the mix: 6 | mean min_accuracy of the arrivals | 1 |
    | with the mix: 7 + N + n | one-way delay to node n now, mean over sites; 10 for a link that is down | 100 ms |

    **Action**: which of `settings.policies` decides until the next edge. Every action is always possible; one out of
    range is an error of the caller.

    **Reward**: 1 - failures / arrivals of the window, in [0, 1]. Failures are those known within the window
    ('instant'): rejected, or delivered in it late or not accurate enough, whenever asked; so they can outnumber the
    arrivals, and the reward is cut at 0. When nothing arrived it is 1 if nothing failed, else 0. The last step includes
    what drains after the last window.

    **End**: `terminated` with the scenario's duration, after ceil(duration / window) steps. The episode is its whole
    workload and nothing follows, so that the value behind it is 0; it is not cut short, so `truncated` is never set.

    >>> from fairlead.scenarios.loader import load
    >>> from fairlead.sim.gym.world_file import worlds_of
    >>> batch = WindowBatch(worlds_of(load("dc-cloud", ["workload.duration_s=20"])), size=2)
    >>> batch.reset(seeds=1)
    >>> for _ in range(20):
    ...     batch.step([0, 1])  # closest in the one, load-balancing in the other world
    >>> batch.observations.shape, batch.terminated.tolist()
    ((2, 6), [True, True])
    """

    def __init__(self, worlds: Worlds, size: int, settings: WindowSettings = WindowSettings()) -> None:
        slots = _slots(worlds, settings)
        features = window_features(
            [*worlds.nodes, *(f"(none) {n}" for n in range(len(worlds.nodes), slots))], settings.mix
        )
        super().__init__(worlds, size, features, len(settings.policies), _pointers(settings.policies))
        self.settings = settings
        self.masks[:] = 1
        self._view = WindowView(worlds.plan, slots, settings.mix)
        self._score = _compiled_score()

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
            name = self.settings.policies[actions[b]]
            if error:
                raise failure(name, error) from error
            raise PolicyError(f"policy {name!r} chose an impossible candidate, {choice}")
        self._score(handle.world_words, handle.codes, self.rewards)

    def _begun(self, b: int) -> None:
        """Time 0 is the first stop."""

    def _bind(self, handle: Handle) -> None:
        """Nothing to prepare: beside a window, gathering the arguments of a kernel costs nothing."""

    def observe(self) -> None:
        """Fill observations; masks are all ones."""
        self._view.observe(self.handle, self.observations)


def _slots(worlds: Worlds, settings: WindowSettings) -> int:
    there = len(worlds.nodes)
    if settings.nodes is not None and settings.nodes < there:
        raise UserError(f"settings.nodes is {settings.nodes}: {worlds.name} has {there} nodes, so {there} or more")
    return settings.nodes or there


def _pointers(names: tuple[str, ...]) -> list[Any]:
    if not names:
        raise UserError("settings.policies: at least one policy is needed")
    policies = [find(name) for name in names]
    for policy in policies:
        if not policy.compiles:
            what = "learned" if policy.learned else "plain Python"
            raise UserError(f"policy {policy.name!r} is {what}; a window needs compiled ones")
    return [compiled_rule(policy) for policy in policies]


def _score(world_rows: Any, codes: Any, rewards: Any) -> None:
    for b in range(len(codes)):
        world = world_at(world_rows, b)
        first = ended_window(world, codes[b])
        last = first if codes[b] == WINDOW else len(world.windows) - 1
        failed = 0
        for w in range(first, last + 1):
            failed += world.windows[w].rejected + world.windows[w].late + world.windows[w].inaccurate
        rewards[b] = max(0.0, 1.0 - failed / max(world.windows[first].arrived, 1))


@cache
def _compiled_score() -> Any:
    return typed_kernel(_score, ROWS_OF_WORDS, WORDS, FLOATS)
