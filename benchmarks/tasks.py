"""How fast the world of tasks is: steps on one core, against the reference simulator, and every policy's episode.

    python -m benchmarks.tasks [--json]

A step is one joint action: every cluster wants a task that fits, with amounts that are possible, or nothing, all drawn;
conflicts are resolved; time goes on when nobody starts anything. Drawing the actions and new workloads is included.
`decision_us` is the median time of one joint decision of a TapFinger bundle on one thread, from the snapshot to the
placements, in states that the tuned rule comes to; the network is not trained, which takes as long (this part needs
torch, to make it). The tuned rule's time for the same is beside it.
"""

from __future__ import annotations

import random
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from benchmarks import figures
from fairlead.domain.outcomes import Fallback
from fairlead.domain.tasks import TaskScenario
from fairlead.policies.conflicts import COPIES
from fairlead.policies.jit import typed_kernel
from fairlead.policies.tasks.learned import from_folder
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.reference.tasks import ReferenceTasks
from fairlead.sim.tasks.engine import advance, begin, over
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.handle import FINE, Handle
from fairlead.sim.tasks.numba_types import plan_type, proposals_type, worlds_type
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.policy_catalog import task_policies
from fairlead.sim.tasks.proposals import Proposals, agree, new_proposals, propose_at_random
from fairlead.sim.tasks.run_policy import new_placements, run_tasks
from fairlead.sim.tasks.world_arrays import TaskPlan, TaskWorlds
from fairlead.sim.tasks.world_file import task_world
from fairlead.sim.tasks.worlds import new_worlds

WORLDS, STEPS = 256, 1000
EPISODES = {"sia": 2, "rollout": 2}  # of the others 50


def _play(plan: TaskPlan, worlds: TaskWorlds, proposals: Proposals, steps: int) -> None:
    for b in range(len(worlds.world)):
        for draw in range(steps):
            propose_at_random(plan, worlds, b, proposals, draw)
            if agree(plan, worlds, b, proposals, COPIES) == 0:
                advance(plan, worlds, b)
            if over(plan, worlds, b):
                begin(plan, worlds, b, worlds.world[b].seed + 1_000_003, worlds.world[b].rate)


@cache
def _compiled_play() -> Any:
    return typed_kernel(_play, plan_type(), worlds_type(), proposals_type(), types.int64)


def _steps_per_s(scenario: TaskScenario, times: int = 8) -> float:
    plan = build_task_plan(scenario)
    worlds = new_worlds(plan, np.arange(WORLDS))
    proposals, play = new_proposals(worlds), _compiled_play()
    play(plan, worlds, proposals, 100)
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        play(plan, worlds, proposals, STEPS)
        best = min(best, time.process_time() - start)
    return WORLDS * STEPS / best


def _reference_steps_per_s(scenario: TaskScenario) -> float:
    """The same play in the reference simulator, one episode."""
    world, dice, names = ReferenceTasks(scenario, 1), random.Random(1), list(scenario.clusters)
    steps, start = 0, time.process_time()
    while world.future or world.waiting or world.running:
        started = 0
        for name in names:
            fitting = [
                t for t in world.pending[name] if all(world.free[name][r] >= a for r, a in t.type.minimum.items())
            ]
            chosen = dice.choice([None, *fitting])
            if chosen is not None:
                low = chosen.type.minimum
                started += world.start(
                    chosen.number, name, {r: dice.randint(a, min(16, world.free[name][r])) for r, a in low.items()}
                )
        steps += 1
        if not started:
            world.advance()
    return steps / (time.process_time() - start)


def _episode_s(scenario: TaskScenario, name: str) -> float:
    plan, policy = build_task_plan(scenario), task_policies()[name]
    given = policy.parameters(facts_of(scenario, plan))
    episodes = EPISODES.get(name, 50)
    run_tasks(plan, new_worlds(plan, [0]), policy, given)
    worlds = new_worlds(plan, np.arange(episodes))
    start = time.process_time()
    run_tasks(plan, worlds, policy, given)
    return (time.process_time() - start) / episodes


def _decision_us(scenario: TaskScenario, size: str, decisions: int) -> dict[str, float]:
    import torch

    from fairlead.learn.tapfinger.export import write_bundle
    from fairlead.learn.tapfinger.network import TapFinger
    from fairlead.learn.tapfinger.play import shape_of

    world = task_world(scenario)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        manifest = {"summary": "untrained", "tasks": world.tasks, "prior": "copies"}
        write_bundle(Path(folder), TapFinger(shape_of(world.plan), size), world, manifest, "")
        policy = from_folder("untrained", Path(folder))
        placer = policy.decider(world.rule)  # opens the model while its file is there
    taken: dict[str, list[int]] = {"": [], "_tuned_rule": []}
    handle = Handle(world.plan, new_worlds(world.plan, [0]))
    answer = new_placements(world.plan, handle.room)
    while len(taken[""]) < decisions and not handle.over:
        snapshot = handle.snapshot()
        if (snapshot.excluded == 0).any():
            rule = tuned_rule.decider(world.rule)
            for who, decide in (("", placer.decide), ("_tuned_rule", rule.decide)):
                start = time.perf_counter_ns()
                decide(snapshot, 0.5, answer)
                taken[who].append(time.perf_counter_ns() - start)
        count = tuned_rule.compiled(handle.snapshot(), world.rule, 0.5, answer)
        assert handle.place(answer, count) == FINE
        handle.advance()
    assert not placer.fallbacks[Fallback.OUTPUT]  # else the rule was timed
    return {f"decision_us_{size}{who}": float(np.median(ns[5:])) / 1000 for who, ns in taken.items()}


def measure() -> dict[str, float]:
    """All figures; `tapfinger-3` unless the name says otherwise."""
    scenario = load_tasks("tapfinger-3")
    fast, slow = _steps_per_s(scenario), _reference_steps_per_s(scenario)
    found = {"env_steps_per_s": fast, "reference_steps_per_s": slow, "times_reference": fast / slow}
    found["env_steps_per_s_6_hetero"] = _steps_per_s(load_tasks("tapfinger-6-hetero"), 3)
    found |= _decision_us(scenario, "small", 400) | _decision_us(scenario, "paper", 100)
    return found | {f"episode_s_{name.replace('-', '_')}": _episode_s(scenario, name) for name in task_policies()}


if __name__ == "__main__":
    figures.main(__doc__, measure)
