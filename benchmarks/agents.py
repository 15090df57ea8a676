"""How long a learned policy takes to decide, against its bare model and a compiled rule in the same run.

    python -m benchmarks.agents [--json] [--aset POLICY] [--ecsrl POLICY]

Policies are bundles, by name or by folder. Every figure is the median in microseconds on one thread, over decisions
that the simulator met in the first scenario of the bundle's training: the features are made, the range is checked, the
model is run, the best possible action is taken; for windows from a gateway's plain counters. `..._ort_call_us` is
ONNX Runtime's call alone, `rule_decision_us` a compiled rule asked from Python about the same requests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import figures
from fairlead.domain.decision import Decision, RequestSnapshot, WindowSnapshot
from fairlead.domain.errors import UserError
from fairlead.domain.records import TRAFFIC
from fairlead.policies.bundle import Fault, Manifest
from fairlead.policies.bundle_registry import LearnedPolicy
from fairlead.policies.decider import Setting
from fairlead.policies.interface import find
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.scenarios.loader import load
from fairlead.sim.serving import run_policy
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.world import new_world

SEED = 1
DECISIONS = 2_000
REPEATS = 5


def _median_us(work: Callable[..., object], questions: Iterable[tuple[Any, ...]]) -> float:
    """The least median of some rounds over all questions, one by one."""
    best = np.inf
    for _ in range(REPEATS):
        times_ns = []
        for question in questions:
            start_ns = time.perf_counter_ns()
            work(*question)
            times_ns.append(time.perf_counter_ns() - start_ns)
        best = min(best, float(np.median(times_ns)) / 1000.0)
    return best


def _learned(name: str, kind: str) -> tuple[LearnedPolicy, Manifest]:
    try:
        policy = find(name)
    except UserError as error:
        raise SystemExit(f"{error}; --help tells how to give another") from None
    if not isinstance(policy, LearnedPolicy) or isinstance(policy.bundle.model, Fault):
        raise SystemExit(f"{name}: no bundle that can be run; give one (--help)")
    manifest = policy.bundle.manifest
    if isinstance(manifest, Fault) or manifest.kind != kind:
        raise SystemExit(f"{name}: no {kind}")
    return policy, manifest


def _scenario(manifest: Manifest) -> Any:
    first = manifest.document["scenarios"][0]
    return load(first["name"], first["overrides"])


def _snapshots(policy: LearnedPolicy, manifest: Manifest) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = []

    class Asked(Dispatcher):
        def decide(self, snapshot: Any, u: float = 0.0) -> Decision:
            if len(seen) < DECISIONS:
                seen.append((RequestSnapshot(*(array.copy() for array in snapshot[:3])), u))
            return super().decide(snapshot, u)

    scenario = _scenario(manifest)
    plan = build_plan(scenario)
    run_policy.run_decider(plan, new_world(plan, make_workload(scenario, SEED)), Asked(policy.name, policy.bundle))
    return seen


def _dispatch(name: str) -> dict[str, float]:
    policy, manifest = _learned(name, "dispatcher")
    snapshots = _snapshots(policy, manifest)
    live = Dispatcher(policy.name, policy.bundle, clock=time.perf_counter_ns)
    decision_us = _median_us(live.decide, snapshots)
    shown = [(asked.request[0], asked.candidates, asked.excluded, u) for asked, u in snapshots]
    rule_us = _median_us(live.fallback.entry_point, shown)
    rule_decider = live.fallback.decider(Setting(len(snapshots[0][0].candidates), 1000.0))
    fell_back = live.fallbacks.total() / live.decisions
    return {
        "ecsrl_decision_us": decision_us,
        "ecsrl_ort_call_us": _model_us(policy, manifest),
        "ecsrl_fallback_share": fell_back,
        "rule_decision_us": rule_us,
        "rule_decider_us": _median_us(rule_decider.decide, snapshots),
    }


def _select(name: str) -> dict[str, float]:
    policy, manifest = _learned(name, "selector")
    scenario = _scenario(manifest)
    run, n = run_policy.simulate(scenario, "load-balancing", SEED), len(scenario.nodes)
    live = Selector(policy.name, policy.bundle, Setting(n, scenario.rules.window_ms), clock=time.perf_counter_ns)
    traffic = np.zeros(len(run.windows) - 1, TRAFFIC)
    for field in ("arrived", "delivered", "clients"):
        traffic[field] = run.windows[field][:-1]
    capacity_qps, delays_ms = [100.0] * n, [5.0] * n
    rounds = 1 + DECISIONS // len(traffic)
    windows = [(traffic[w : w + 1], run.dispatched[w]) for _ in range(rounds) for w in range(len(traffic))]

    def decide(counts: Any, sent: Any) -> Any:
        return live.decide(WindowSnapshot(live.stats(counts, sent, delays_ms, capacity_qps, scenario.rules.window_ms)))

    return {"aset_decision_us": _median_us(decide, windows), "aset_ort_call_us": _model_us(policy, manifest)}


def _model_us(policy: LearnedPolicy, manifest: Manifest) -> float:
    return _median_us(policy.bundle.values, [(np.ones((1, manifest.features), np.float32),)] * DECISIONS)


#: What a process that only decides does; each part is printed with the memory and the time that it adds.
_ALONE = """
import json, os, time
def now():
    pages = int(open("/proc/self/statm").read().split()[1])
    return time.perf_counter(), pages * os.sysconf("SC_PAGE_SIZE") / 1e6
marks = [("start", *now())]
import numpy
marks.append(("numpy", *now()))
import numba
marks.append(("numba", *now()))
import onnxruntime
marks.append(("onnxruntime", *now()))
import numpy as np
from fairlead.domain.decision import RequestSnapshot
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies.decider import Setting
from fairlead.policies.interface import find
decider = find("ecsrl").decider(Setting(4, 1000.0))
decider.decide(RequestSnapshot(np.zeros(1, REQUEST), np.zeros(4, CANDIDATE), np.zeros(4, np.uint16)))
marks.append(("fairlead", *now()))
print(json.dumps(marks))
"""


def _alone() -> dict[str, float]:
    """Memory and time until a first decision in a process of its own, with compiled code in the cache."""
    best: dict[str, float] = {}
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True, check=True)
        marks = json.loads(done.stdout)
        found = {"decider_mb": marks[-1][2], "decider_import_s": marks[-1][1] - marks[0][1]}
        for (_, began, before), (name, ended, after) in pairwise(marks):
            found |= {f"decider_mb_{name}": after - before, f"decider_import_s_{name}": ended - began}
        if not best or found["decider_import_s"] < best["decider_import_s"]:
            best = found
    return best


def measure(aset: str, ecsrl: str) -> dict[str, float]:
    """All figures."""
    os.environ["OMP_NUM_THREADS"] = "1"
    return _select(aset) | _dispatch(ecsrl) | _alone()


if __name__ == "__main__":
    figures.main(__doc__, measure, aset="aset", ecsrl="ecsrl")
