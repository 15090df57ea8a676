"""How fast the environments are, against single ones, the bare engine and Gymnasium's CartPole in the same run.

    python -m benchmarks.gym [--json]

On one core, observation and mask included, per second of CPU time, since others share the machine. Every figure is the
best of REPEATS runs. A run of a batch is about an episode of each world, its reset and the drawing of its workload
included; `..._without_resets` are without. A run of a single environment is of some episodes, their resets included.
Actions are made beforehand. Dispatch runs the yardstick of `benchmarks.serving` (12 nodes) and ecsrl, windows run
full-edge.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from benchmarks import figures, yardstick
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import find
from fairlead.scenarios.loader import load
from fairlead.sim.gym.batch import Batch
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.window import WindowBatch
from fairlead.sim.gym.world_file import worlds_of
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset

REPEATS = 6
NODES = 12
REQUESTS = 17_000
DISPATCH_STEPS = 16_000  # a little less than an episode, so that every run has one reset of each world
DISPATCH_WORLDS = 64
WINDOW_WORLDS = 4
SINGLE_STEPS = 40_000  # more than two episodes of dispatch
SYNC_VECTOR_STEPS = 500


def _best_per_s(work: Callable[[], float], before: Callable[[], object] = lambda: None) -> float:
    """The highest rate of the runs; `work` returns how much it did, `before` is not counted."""
    best = 0.0
    for _ in range(REPEATS):
        before()
        start = time.process_time()
        done = work()
        best = max(best, done / (time.process_time() - start))
    return best


def _actions(batch: Batch, steps: int) -> Any:
    """Actions (steps, B): fast nodes of the yardstick more often, so that no queue grows for ever; else any."""
    rng = np.random.default_rng(1)
    choices = batch.masks.shape[1] - (1 if isinstance(batch, DispatchBatch) else 0)
    weights = np.ones(choices)
    if batch.worlds.name == "yardstick":
        weights = 1.0 / batch.worlds.plan.deployments["typical_ms"]
    return rng.choice(choices, (steps, batch.size), p=weights / weights.sum())


def _dispatch(scenario: Scenario) -> tuple[float, float]:
    """Decisions a second, with and without resets."""
    batch = DispatchBatch(worlds_of(scenario), DISPATCH_WORLDS)
    actions = _actions(batch, DISPATCH_STEPS)

    def play() -> float:
        for row in actions:
            batch.step(row)
        return float(actions.size)

    def play_from_reset() -> float:
        batch.reset(1)
        return play()

    batch.reset(1)  # allocates
    return _best_per_s(play_from_reset), _best_per_s(play, before=lambda: batch.reset(1))


def _window(scenario: Scenario) -> tuple[float, float]:
    """Simulated requests a second, with and without resets."""
    batch = WindowBatch(worlds_of(scenario), WINDOW_WORLDS)
    steps = round(scenario.workload.duration_s * 1000.0 / scenario.rules.window_ms)
    actions = _actions(batch, steps)
    batch.reset(1)

    def play(n: int) -> float:
        arrived = 0.0
        for t in range(n):
            if t == n - 1:
                arrived = sum(float(w.clock[0]["arrived"]) for w in batch.handle.worlds)
            batch.step(actions[t])
        return arrived  # but for those of the last window

    with_resets = _best_per_s(lambda: play(steps))
    return with_resets, _best_per_s(lambda: play(steps - 1), before=lambda: batch.reset(1))


def _engine(scenario: Scenario, policy: str) -> float:
    """Requests a second of the engine alone."""
    plan, workload = build_plan(scenario), make_workload(scenario, 1)
    world = new_world(plan, workload)

    def play() -> float:
        run(plan, world, find(policy))
        return float(len(workload.requests))

    return _best_per_s(play, before=lambda: reset(plan, world, workload))


def _drawing(scenario: Scenario) -> float:
    """Requests drawn a second."""
    return _best_per_s(lambda: float(len(make_workload(scenario, 1).requests)))


def _single(env: Any) -> float:
    """Steps a second of one environment."""
    actions = np.random.default_rng(1).integers(env.action_space.n, size=SINGLE_STEPS).tolist()

    def play() -> float:
        env.reset(seed=1)
        for action in actions:
            if env.step(action)[2]:
                env.reset()
        return float(SINGLE_STEPS)

    env.reset(seed=1)  # allocates
    return _best_per_s(play)


def _sync_vector(scenario: Scenario) -> float:
    """Decisions a second of Gymnasium's own vectorisation of single environments."""
    envs = gymnasium.make_vec(
        "fairlead/Dispatch-v1", num_envs=DISPATCH_WORLDS, vectorization_mode="sync", scenario=scenario
    )
    envs.reset(seed=1)
    actions = np.random.default_rng(1).integers(NODES, size=(SYNC_VECTOR_STEPS, DISPATCH_WORLDS))

    def play() -> float:
        for row in actions:
            envs.step(row)
        return float(actions.size)

    return _best_per_s(play)


def measure() -> dict[str, float]:
    """All figures."""
    simple, ecsrl, full_edge = yardstick.scenario(NODES, REQUESTS), load("ecsrl"), load("full-edge")
    dispatch, dispatch_only = _dispatch(simple)
    dispatch_ecsrl, dispatch_ecsrl_only = _dispatch(ecsrl)
    window, window_only = _window(full_edge)
    return {
        "dispatch_decisions_per_s": dispatch,
        "dispatch_decisions_per_s_without_resets": dispatch_only,
        "dispatch_sync_vector_decisions_per_s": _sync_vector(simple),
        "dispatch_engine_alone_requests_per_s": _engine(simple, "least-outstanding"),
        "dispatch_drawn_requests_per_s": _drawing(simple),
        "dispatch_ecsrl_decisions_per_s": dispatch_ecsrl,
        "dispatch_ecsrl_decisions_per_s_without_resets": dispatch_ecsrl_only,
        "dispatch_ecsrl_engine_alone_requests_per_s": _engine(ecsrl, "random"),
        "dispatch_ecsrl_drawn_requests_per_s": _drawing(ecsrl),
        "window_requests_per_s": window,
        "window_requests_per_s_without_resets": window_only,
        "window_engine_alone_requests_per_s": _engine(full_edge, "random"),
        "window_drawn_requests_per_s": _drawing(full_edge),
        "single_env_steps_per_s": _single(gymnasium.make("fairlead/Dispatch-v1", scenario=simple)),
        "single_env_ecsrl_steps_per_s": _single(gymnasium.make("fairlead/Dispatch-v1", scenario=ecsrl)),
        "single_cartpole_steps_per_s": _single(gymnasium.make("CartPole-v1")),
    }


if __name__ == "__main__":
    figures.main(__doc__, measure)
