"""Writes testbed.csv, a family of tasks shaped to the ranges that TapFinger's table 2 gives: run it to make it anew.

Only the ranges are published: a ConvNet in 34-262 s, a Transformer in 75-264 s, Wav2Vec2 inference in 17-18 s, from (2
CPUs, 1 GPU) to (16, 8); and that time falls with CPUs at first and is then flat, and rises again where many GPUs wait
for few CPUs. So all between is assumed: with c CPUs and g GPUs,

    time = (work / g^scaling + feeding * (1 / c - 1 / 16)) * (1 + stall * max(0, g / c - 1)), brought to the range

and training progress is that of a validation loss that falls exponentially to its target.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

FILE = Path(__file__).parents[1] / "src/fairlead/scenarios/tasks/testbed.csv"

#: longest and shortest time in seconds, how it scales with GPUs, seconds of feeding by one CPU, stall, epochs
FAMILIES = {
    "convnet": (262.0, 34.0, 1.0, 60.0, 0.15, 10),
    "transformer": (264.0, 75.0, 0.62, 30.0, 0.10, 8),
    "wav2vec2": (18.0, 17.0, 0.0, 2.0, 0.0, 1),
}
CPUS, GPUS = range(2, 17), range(1, 9)


def time_s(name: str, cpus: int, gpus: int) -> float:
    """How long a task takes."""
    longest, shortest, scaling, feeding, stall, _ = FAMILIES[name]

    def shape(c: int, g: int) -> float:
        compute = longest / g**scaling + feeding * (1.0 / c - 1.0 / 16.0)
        return compute * (1.0 + stall * max(0.0, g / c - 1.0))

    low, high = shape(16, 8), shape(2, 1)
    return shortest + (longest - shortest) * (shape(cpus, gpus) - low) / (high - low)


def curve(name: str, whole_s: float) -> list[tuple[float, float]]:
    """Time and progress after each epoch."""
    epochs = FAMILIES[name][-1]
    if epochs == 1:
        return [(whole_s, 1.0)]
    fallen = [1.0 - math.exp(-2.0 * e / epochs) for e in range(1, epochs + 1)]
    return [(whole_s * e / epochs, f / fallen[-1]) for e, f in enumerate(fallen, start=1)]


def main() -> None:
    """Write the file beside this one."""
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("type", "cpu", "gpu", "time_s", "progress"))
        for name in FAMILIES:
            for cpus in CPUS:
                for gpus in GPUS:
                    for at_s, progress in curve(name, time_s(name, cpus, gpus)):
                        writer.writerow((name, cpus, gpus, f"{at_s:.2f}", f"{progress:.4f}"))


if __name__ == "__main__":
    main()
