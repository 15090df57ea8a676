"""Golden decisions of the task bundles that ship: what agents saw in the simulator, and what they chose.

    python -m tests.task_golden        writes tests/golden/NAME.npz anew, for every task bundle that ships

`test_task_bundles` asks the same models again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairlead.policies.tasks.bundle import OUTPUTS
from fairlead.policies.tasks.learned import LearnedTaskPolicy, learned_task_policies
from fairlead.policies.tasks.observe import Observations
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.facts import facts_of
from fairlead.sim.tasks.plan import build_task_plan
from fairlead.sim.tasks.run_policy import run_tasks
from fairlead.sim.tasks.worlds import new_worlds

FOLDER = Path(__file__).parent / "golden"
SEED, TASKS, KEPT = 77_001, 60, 30
ARITHMETIC = "arithmetic"  # of the processor: the last digits of a model differ, and so may what comes after


def arrays(policy: LearnedTaskPolicy) -> dict[str, Any]:
    """What a golden file holds: inputs and outputs of some decisions, by number and name."""
    place = policy.bundle.manifest.document["scenarios"][0]
    scenario = load_tasks(place["name"], (*place["overrides"], f"tasks={TASKS}"))
    plan = build_task_plan(scenario)
    model, met = policy.bundle.model, []
    names = list(OUTPUTS)

    class Asked:
        def run(self, inputs: dict[str, Any], shape: Any) -> Any:
            answer = model.run(inputs, shape)
            met.append({name: array.copy() for name, array in inputs.items()} | dict(zip(names, answer, strict=True)))
            return answer

    policy.bundle.model = Asked()
    run_tasks(plan, new_worlds(plan, [SEED]), policy, policy.parameters(facts_of(scenario, plan)))
    policy.bundle.model = model
    some = np.unique(np.linspace(0, len(met) - 1, KEPT).astype(int))
    kept = {f"{n}.{name}": array for n, i in enumerate(some) for name, array in met[i].items()}
    return kept | {ARITHMETIC: np.array(policy.bundle.arithmetic)}


def asked_again(policy: LearnedTaskPolicy, golden: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The golden answers, and those of the model now."""
    found = []
    for n in range(len({key.partition(".")[0] for key in golden}) - 1):
        inputs = {name: golden[f"{n}.{name}"] for name in Observations._fields}
        now = dict(zip(OUTPUTS, policy.bundle.model.run(inputs, inputs["slots"].shape[:2]), strict=True))
        found.append(({name: golden[f"{n}.{name}"] for name in OUTPUTS}, now))
    return found


if __name__ == "__main__":
    for shipped_name, shipped_policy in learned_task_policies().items():
        np.savez_compressed(FOLDER / f"{shipped_name}.npz", **arrays(shipped_policy))
        print(f"{FOLDER.name}/{shipped_name}.npz")
