"""Two dispatchers by hand in the gym: the fastest place, and the fastest place unless it would be too late there."""

import numpy as np

from fairlead.policies.observe import CANDIDATE_UNITS, REQUEST_UNITS
from fairlead.scenarios.loader import load
from fairlead.sim.gym.dispatch import DispatchBatch
from fairlead.sim.gym.world_file import worlds_of

WORLDS = 8


def shown(batch: DispatchBatch, name: str) -> np.ndarray:
    """A candidate's field, for every world and slot, back in its own unit."""
    columns = [batch.features.index(f"{name} {slot}") for slot in range(batch.masks.shape[1] - 1)]
    return batch.observations[:, columns] * CANDIDATE_UNITS[name]


def success(rate: float, turns_away: bool) -> float:
    """Mean success of a batch of episodes."""
    batch = DispatchBatch(worlds_of(load("ecsrl", [f"rate={rate}", "duration_s=10"])), WORLDS)
    batch.reset(seeds=1)
    reject = batch.masks.shape[1] - 1
    finished: list[float] = []
    while len(finished) < WORLDS:
        service_ms = shown(batch, "proc_ms") * (1.0 + shown(batch, "suffered"))  # the slow-down by others included
        there_ms = shown(batch, "queue_ms") + shown(batch, "transfer_ms") + service_ms
        total_ms = np.where(batch.masks[:, :reject], 2.0 * shown(batch, "net_ms") + there_ms, np.inf)
        actions = total_ms.argmin(axis=1)
        if turns_away:
            deadline_ms = batch.observations[:, batch.features.index("deadline_ms")] * REQUEST_UNITS["deadline_ms"]
            actions[total_ms.min(axis=1) > deadline_ms] = reject
        batch.step(actions)
        finished += batch.final_success[batch.terminated].tolist()
    return float(np.mean(finished))


for rate in (3400, 14_000, 28_000):
    print(f"{rate:6} requests a minute: all accepted {success(rate, False):6.1%}, ", end="")
    print(f"those that would be late turned away {success(rate, True):6.1%}")
