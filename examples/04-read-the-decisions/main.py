"""Reads the record of every request: where time is lost under one policy, and which requests another policy saves.

The requests are the same under every policy, row by row, so two runs can be compared request by request.
"""

from __future__ import annotations

import numpy as np

from fairlead.domain.outcomes import Outcome
from fairlead.scenarios.loader import load
from fairlead.sim.serving.run_policy import Run, simulate


def where_time_goes(run: Run, nodes: list[str]) -> None:
    """For each node: how many it served, how many too late, and what these waited for."""
    print(f"{'node':<8} {'served':>7} {'late':>6}   of a late one: {'network':>8} {'queue':>7} {'service':>8} ms")
    for i, name in enumerate(nodes):
        here = run.rows[run.rows["node"] == i]
        late = here[here["outcome"] == Outcome.LATE]
        means = [late[leg].mean() if len(late) else 0.0 for leg in ("net_ms", "queue_ms", "service_ms")]
        print(f"{name:<8} {len(here):>7} {len(late):>6}   {'':>14} {means[0]:>8.1f} {means[1]:>7.1f} {means[2]:>8.1f}")


def saved(before: Run, after: Run, tenants: tuple[str, ...]) -> None:
    """Which of the requests that failed before succeed after, and the other way round, by tenant."""
    failed = before.rows["outcome"] != Outcome.SUCCESS
    fails = after.rows["outcome"] != Outcome.SUCCESS
    for i, tenant in enumerate(tenants):
        mine = before.requests["tenant"] == i
        gained, lost = np.count_nonzero(mine & failed & ~fails), np.count_nonzero(mine & ~failed & fails)
        print(f"{tenant}: {gained} requests saved, {lost} lost, of {np.count_nonzero(mine)}")


def main() -> None:
    """Two policies on one workload."""
    scenario = load("ecsrl", ["duration_s=60"])
    closest = simulate(scenario, policy="closest", seed=0)
    best = simulate(scenario, policy="least-expected-completion", seed=0)
    assert (closest.requests["now_ms"] == best.requests["now_ms"]).all()
    print(f"closest: {closest.figures['success']:.1%} in time and accurate")
    where_time_goes(closest, list(scenario.nodes))
    print(f"\nleast-expected-completion: {best.figures['success']:.1%} in time and accurate")
    where_time_goes(best, list(scenario.nodes))
    print("\nfrom the first to the second:")
    saved(closest, best, scenario.workload.tenants)


if __name__ == "__main__":
    main()
