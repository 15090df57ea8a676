"""How fast the serving simulator is, against SimPy on the same workload and draws in the same run.

    python -m benchmarks.serving [--json]

Times are the best of several runs, for both. All accounting is on: rows per request, windows, energy, price.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np

from benchmarks import figures, yardstick
from fairlead.domain.scenario import Scenario
from fairlead.policies.interface import find
from fairlead.sim.serving.drawn_workload import DrawnWorkload, make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run
from fairlead.sim.serving.world import new_world, reset

REQUESTS = 17_000


def _best_s(prepare: Callable[[], None], work: Callable[[], object], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        prepare()
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _engine(scenario: Scenario, workload: DrawnWorkload, times: int) -> tuple[float, np.ndarray]:
    """Best seconds of a run, and the latencies."""
    plan, policy = build_plan(scenario), find("least-outstanding")
    world = new_world(plan, workload)
    seconds = _best_s(lambda: reset(plan, world, workload), lambda: run(plan, world, policy), times)
    return seconds, world.rows["latency_ms"].copy()


def measure() -> dict[str, float]:
    """All figures."""
    scenario = yardstick.scenario(12, REQUESTS)
    workload = yardstick.workload(scenario, REQUESTS)
    inputs = yardstick.simpy_inputs(scenario, workload)
    expected: list[float] = []
    simpy_s = _best_s(expected.clear, lambda: expected.extend(yardstick.simpy_latencies(*inputs)), 3)
    engine_s, latencies = _engine(scenario, workload, 200)
    draw_s = _best_s(lambda: None, lambda: make_workload(scenario, yardstick.SEED), 50)
    wide = yardstick.scenario(100, REQUESTS)
    wide_s, _ = _engine(wide, yardstick.workload(wide, REQUESTS), 100)
    long = yardstick.scenario(12, 10 * REQUESTS)
    long_s, _ = _engine(long, yardstick.workload(long, 10 * REQUESTS), 30)
    return {
        "requests_per_s": REQUESTS / engine_s,
        "requests_per_s_with_drawing": REQUESTS / (engine_s + draw_s),
        "simpy_requests_per_s": REQUESTS / simpy_s,
        "times_simpy": simpy_s / engine_s,
        "largest_difference": float(np.abs(latencies - np.array(expected)).max()),
        "requests_per_s_100_nodes": REQUESTS / wide_s,
        "time_ratio_10x": long_s / engine_s,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


if __name__ == "__main__":
    figures.main(__doc__, measure)
