"""Dispatch each request: ECSRL's question, as a batch of worlds with in-place buffers.

Needs NumPy and Numba alone; `envs` and `vector` make Gymnasium environments of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import types

from fairlead.domain.errors import PolicyError
from fairlead.policies.addresses import ROWS_OF_WORDS, WORDS
from fairlead.policies.jit import typed_kernel
from fairlead.policies.observe import (
    FLOATS,
    REQUEST_UNITS,
    SINGLES,
    SLOT,
    observe_candidates,
    observe_request,
    slot_features,
    slot_scales,
)
from fairlead.sim.gym.batch import FLAGS, MASKS, OBSERVATIONS, TABLE, Batch
from fairlead.sim.gym.world_file import Worlds
from fairlead.sim.serving.addresses import plan_at, world_at
from fairlead.sim.serving.handle import Handle
from fairlead.sim.serving.world_arrays import AT_DECIDE, DECIDE, FAULT


@dataclass(frozen=True)
class DispatchSettings:
    """What the reward is made of."""

    success_weight: float = 1.0
    """For each request that ended in time and accurate enough."""
    energy_weight: float = 0.0
    """Taken off for each joule above idle that an ended request has used (ECSRL's alpha)."""
    degradation_weight: float = 0.0
    """Taken off for each ended request's time in service / time alone - 1 (ECSRL's beta)."""
    foresees: bool = False
    """Keep up what is foreseen of candidates, for rules that are asked beside the agent; no part of the observation."""


class DispatchBatch(Batch):
    """One step is one decision: where a request goes; where the scenario binds streams, where a stream goes.

    **Observation** (F,) float32 in [0, 10], cut there. With M models, S SLA classes and C slots, C being the most
    candidates of any model; `features` has all names.

    | position | what | unit |
    |---|---|---|
    | 0..3 | request: deadline_ms, min_accuracy, size_kb, rate_qps | 100, 1, 100, 10 |
    | 4.. | model, one of M | 1 |
    | 4 + M.. | SLA class, one of S | 1 |
    | 4 + M + S + 16 c | slot c: feasible | 1 |
    | + 1.. | net_ms, net_sd_ms, transfer_ms, proc_ms | 100, 10, 100, 100 |
    | + 5.. | service_rate, load, queue_ms | 100, 1, 100 |
    | + 8.. | suffered - 1, caused, accuracy | 1 |
    | + 11.. | energy_mj, price, free_mb, in_flight, others_in_flight | 1000, 1e-6, 10000, 10, 10 |
    | 4 + M + S + 16 C + c | slot c: in the cloud | 1 |

    Slots that the model has no candidate for are zeros. When nothing is left to decide, all is zeros.

    **Action**: 0..C-1 sends the request to that candidate, C rejects it. `masks` (C + 1) has 1 for feasible candidates
    and for C. Any other action counts as C and is marked in `invalid`; it never raises.

    **Reward**: over the requests that ended since the last decision, success_weight * successes - energy_weight *
    joules - degradation_weight * sum of (time in service / time alone - 1). `components` (B, 3) has the three sums.
    The last step's reward includes all that ends after the last decision. What the host rejects because nothing is
    feasible is no decision and counts nothing; in `failures` (B,), what ended without success, it counts.

    ECSRL (poster, formula 1) minimises the sum over steps t of alpha E_t + beta d_t, E_t being the power consumption
    and d_t the *mean* degradation of the requests that complete in step t. Here it is otherwise, because:

    - a step is a decision, which the poster leaves open, and in most steps no request or one ends. So degradation is
      summed: a mean would weigh a request by how many happen to end with it, a sum is the same however steps are cut;
    - of a ratio 1 is taken off, so that a request that nothing slows down costs nothing;
    - energy is above idle: what idles away does not depend on decisions;
    - success is ours: without it, to reject everything would be best.

    **End**: `terminated` when every request is settled. The episode is its whole workload and nothing follows, so that
    the value behind it is 0; it is not cut short, so `truncated` is never set.

    >>> from fairlead.scenarios.loader import load
    >>> from fairlead.sim.gym.world_file import worlds_of
    >>> batch = DispatchBatch(worlds_of(load("ecsrl", ["workload.duration_s=10"])), size=4)
    >>> batch.reset(seeds=1)
    >>> for _ in range(100):
    ...     batch.step(batch.masks.argmax(axis=1))  # the first feasible candidate
    >>> batch.observations.shape, batch.masks.shape
    ((4, 77), (4, 5))
    """

    def __init__(self, worlds: Worlds, size: int, settings: DispatchSettings = DispatchSettings()) -> None:
        plan = worlds.plan
        slots = int((plan.models["last"] - plan.models["first"]).max())
        super().__init__(worlds, size, _features(worlds, slots), slots + 1, ())
        self.settings, self.foresees = settings, settings.foresees
        self.invalid = np.zeros(size, np.bool_)  # (B,) the action was not possible and counted as a rejection
        self.components = np.zeros((size, 3))  # (B, 3) successes, joules, degradation of what ended in this step
        self.failures = np.zeros(size)  # (B,) what ended in this step without success
        self._totals = np.zeros((size, 4))  # (B, 4) the same since the start, up to the last step
        self._weights = np.array([settings.success_weight, -settings.energy_weight, -settings.degradation_weight])
        self._scale, self._shift = slot_scales(slots)
        self._choose, self._score, self._observe = _compiled()
        self._arguments: list[tuple[Any, ...]] = []

    def _bind(self, handle: Handle) -> None:
        cloud = self.worlds.plan.deployments["cloud"].astype(np.float32)
        seen = len(self.worlds.sla_classes), cloud, self._scale, self._shift
        scored = self._weights, self._totals, self.components, self.failures, self.rewards
        self._arguments = [
            (handle.world_words, self.actions, self.masks.shape[1] - 1, handle.chosen, self.invalid),
            (handle.world_words, handle.codes, *scored),
            (handle.plan_words, handle.world_words, handle.codes, *seen, self.observations, self.masks),
        ]

    def _advance(self) -> None:
        handle = self.handle
        self._choose(*self._arguments[0])
        handle.advance(AT_DECIDE)
        if self._score(*self._arguments[1]):
            raise PolicyError("a world was given an impossible choice and stands still: reset first")

    def _begun(self, b: int) -> None:
        self._totals[b] = 0.0
        self.handle.advance_one(b, AT_DECIDE)

    def observe(self) -> None:
        """Fill observations and masks."""
        self._observe(*self._arguments[2])


def _features(worlds: Worlds, slots: int) -> list[str]:
    names = [*REQUEST_UNITS, *(f"model {m}" for m in worlds.models), *(f"sla {s}" for s in worlds.sla_classes)]
    return names + slot_features(slots) + [f"cloud {c}" for c in range(slots)]


def _choose(world_rows: Any, actions: Any, reject: int, chosen: Any, invalid: Any) -> None:
    """Actions to choices of the engine. The world says what is possible: callers may have written into the masks."""
    for b in range(len(actions)):
        world, action = world_at(world_rows, b), actions[b]
        clock = world.clock[0]
        possible = clock.waiting and action >= 0 and action < clock.last - clock.first
        possible = possible and world.excluded[clock.first + action] == 0
        invalid[b] = not possible and action != reject
        chosen[b] = action if possible else -1


def _score(
    world_rows: Any, codes: Any, weights: Any, totals: Any, components: Any, failures: Any, rewards: Any
) -> bool:
    """What has ended since the last step. True when a world stands still."""
    faulty = False
    for b in range(len(rewards)):
        faulty |= codes[b] == FAULT
        clock = world_at(world_rows, b).clock[0]
        components[b, 0] = clock.succeeded - totals[b, 0]
        components[b, 1] = clock.energy_mj * 1e-3 - totals[b, 1]
        components[b, 2] = clock.degradation - totals[b, 2]
        failures[b] = clock.finished + clock.rejected - clock.succeeded - totals[b, 3]
        totals[b, 3] += failures[b]
        rewards[b] = 0.0
        for i in range(3):
            totals[b, i] += components[b, i]
            rewards[b] += weights[i] * components[b, i]
    return faulty


def _observe(
    plan_row: Any,
    world_rows: Any,
    codes: Any,
    classes: int,
    cloud: Any,
    scale: Any,
    shift: Any,
    observations: Any,
    masks: Any,
) -> None:
    plan = plan_at(plan_row)
    reject = masks.shape[1] - 1
    for b in range(len(codes)):
        out, mask = observations[b], masks[b]
        mask[reject] = 1
        if codes[b] != DECIDE:
            out[:] = 0.0
            mask[:reject] = 0
            continue
        world = world_at(world_rows, b)
        clock = world.clock[0]
        request = world.requests[clock.request]
        observe_request(request, out)
        head = 4 + len(plan.models) + classes
        out[4:head] = 0.0
        out[4 + request.model] = 1.0
        out[4 + len(plan.models) + request.sla] = 1.0
        count, clouds = clock.last - clock.first, head + reject * SLOT
        candidates, excluded = world.candidates[clock.first : clock.last], world.excluded[clock.first : clock.last]
        observe_candidates(candidates, excluded, scale, shift, out[head:clouds])
        for c in range(count):
            mask[c] = excluded[c] == 0
            out[clouds + c] = cloud[clock.first + c]
        if count < reject:
            out[clouds + count :] = 0.0
            mask[count:reject] = 0


@cache
def _compiled() -> tuple[Any, Any, Any]:
    return (
        typed_kernel(_choose, ROWS_OF_WORDS, WORDS, types.int64, WORDS, FLAGS),
        typed_kernel(_score, ROWS_OF_WORDS, WORDS, FLOATS, TABLE, TABLE, FLOATS, FLOATS),
        typed_kernel(_observe, WORDS, ROWS_OF_WORDS, WORDS, types.int64, *[SINGLES] * 3, OBSERVATIONS, MASKS),
    )
