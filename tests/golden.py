"""Golden decisions of the bundles that ship: snapshots met in the simulator, and what was decided there.

    python -m tests.golden        writes tests/golden/NAME.npz anew, for every bundle that ships

`test_bundles` asks the same bundles about the same snapshots through the live interface.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fairlead.domain.decision import Decision, RequestSnapshot, WindowSnapshot
from fairlead.domain.records import CANDIDATE
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.bundle_registry import LearnedPolicy, shipped
from fairlead.policies.decider import Setting
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.scenarios.loader import load
from fairlead.sim.serving import run_policy
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.world import new_world

FOLDER = Path(__file__).parent / "golden"
SEED = 77_001  # of no training: those are above 2**31
KEPT = 60  # decisions of each bundle, and
PLACES = 5  # from how many of the places that it was trained in


def recorded(policy: LearnedPolicy, scenario: Any, seed: int = SEED) -> list[tuple[Any, ...]]:
    """Every question that the simulator's host asked, and its answer: copies."""
    seen: list[tuple[Any, ...]] = []

    plan = build_plan(scenario)
    decider = policy.decider(run_policy.setting_of(plan))
    answer = decider.decide

    def noted(snapshot: Any, u: float = 0.0) -> Decision:
        made = answer(snapshot, u)
        if isinstance(snapshot, WindowSnapshot):
            seen.append((snapshot.stats[0].copy(), decider.rules[made.choice].name))
        else:
            seen.append((*(array.copy() for array in snapshot[:3]), u, made.choice))
        return made

    with patch.object(decider, "decide", noted):
        run_policy.run_decider(plan, new_world(plan, make_workload(scenario, seed)), decider)
    return seen


def spread(things: list[Any], n: int) -> list[Any]:
    """n of them, from the first to the last."""
    return [things[i] for i in np.unique(np.linspace(0, len(things) - 1, n).astype(int))]


def arrays(policy: LearnedPolicy) -> dict[str, Any]:
    """What a golden file holds."""
    manifest = policy.bundle.manifest
    assert not isinstance(manifest, Fault)
    places = spread(manifest.document["scenarios"], PLACES)
    runs = [recorded(policy, load(place["name"], place["overrides"])) for place in places]
    seen = [decision for run in runs for decision in spread(run, KEPT // len(places))]
    if manifest.kind == "selector":
        stats, names = zip(*seen, strict=True)
        return {"stats": np.array(stats), "chosen": np.array(names)}
    requests, candidates, excluded, u, choices = zip(*seen, strict=True)
    width = max(map(len, candidates))
    found = {"counts": np.array([len(c) for c in candidates]), "u": np.array(u), "choices": np.array(choices)}
    found["candidates"] = np.array([np.append(c, np.zeros(width - len(c), CANDIDATE)) for c in candidates])
    found["excluded"] = np.array([np.append(e, np.zeros(width - len(e), np.uint16)) for e in excluded])
    return found | {"requests": np.concatenate(requests)}


def asked_live(bundle: Bundle, golden: Any) -> tuple[list[Any], list[Any], int]:
    """The golden answers, those of the live interface to the same questions, and how many of these are the rule's."""
    manifest = bundle.manifest
    assert not isinstance(manifest, Fault)
    if manifest.kind == "selector":
        live = Selector("golden", bundle, Setting(manifest.slots, manifest.window_ms))
        chosen = [live.rules[i].name for row in golden["stats"] for i in live.select(row[None])]
        return golden["chosen"].tolist(), chosen, live.fallbacks.total()
    dispatcher = Dispatcher("golden", bundle)
    snapshots = zip(*(golden[name] for name in ("requests", "candidates", "excluded", "counts", "u")), strict=True)
    choices = [dispatcher.decide(RequestSnapshot(request, c[:n], e[:n]), u).choice for request, c, e, n, u in snapshots]
    return golden["choices"].tolist(), choices, dispatcher.fallbacks.total()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, policy in shipped().items():
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays(policy))
        print(f"{FOLDER.name}/{name}.npz")
