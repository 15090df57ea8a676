"""Makes a bundle of a TapFinger network: `model.onnx`, `manifest.json` and the curve in one folder.

The model takes the observations of one world, "tasks-1", of any number of clusters, tasks and slots, and gives for each
cluster the slot and the allocation that it likes best, and how much it wants the slot. What runs it needs no torch
(fairlead.policies.tasks.learned). Called by `tapfinger`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from fairlead.domain.task_facts import needed
from fairlead.learn.shared.export import model_bytes
from fairlead.learn.tapfinger.network import Inputs, TapFinger
from fairlead.learn.tapfinger.play import Cut, as_inputs, used
from fairlead.learn.tapfinger.ppo import VALIDATION_SEED
from fairlead.measure.write_files import write_whole
from fairlead.policies.bundle import FORMAT, PLACER
from fairlead.policies.tasks.bundle import OUTPUTS
from fairlead.policies.tasks.observe import LONGEST, RANGED, TEN, VERSION
from fairlead.policies.tasks.tuned_rule import tuned_rule
from fairlead.sim.tasks.batch import TaskBatch
from fairlead.sim.tasks.world_arrays import TaskPlan
from fairlead.sim.tasks.world_file import TaskWorld

_AGREE: Final = 2e-3  # scores that are nearly the same count as the same, see `choose`
_EXAMPLES: Final = 8
BUDGET_US: Final = 50_000.0  #: For a decision, live.
_AMID: Final = 40  # decisions


class Greedy(nn.Module):
    """The most likely choices of a network."""

    def __init__(self, network: TapFinger) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Of each cluster: slot, allocation and the slot's probability (1, N)."""
        return self.network.choose(Inputs(*inputs))


def as_onnx(network: TapFinger, example: Inputs) -> bytes:
    """The network as a model of one world; `example` is any, with at least two of everything."""
    n, u, r, p = (torch.export.Dim(name, min=1, max=4096) for name in ("clusters", "rows", "runs", "slots"))
    shapes = ({1: n}, {1: n}, {1: u}, {1: r}, {1: n, 2: p}, {1: n, 2: p}, {1: u, 2: n}, {1: r, 2: n})
    return model_bytes(Greedy(network), tuple(example), (shapes,), list(Inputs._fields), list(OUTPUTS))


def check(model: bytes, network: TapFinger, examples: list[Inputs]) -> None:
    """Compare the model with the network, choice by choice."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for x in examples:
        answer = session.run(list(OUTPUTS), {name: t.numpy() for name, t in zip(Inputs._fields, x, strict=True)})
        slot, allocation, score = map(torch.from_numpy, answer)
        with torch.no_grad():
            tokens, scores, _ = network.embed(x)
            amounts = network.allocate(x, tokens, slot)
        off = (torch.softmax(scores, -1).gather(-1, slot[..., None])[..., 0] - score).abs()
        for marks, chosen in ((scores, slot), (amounts, allocation)):  # as good as the best, but for rounding
            off = torch.maximum(off, marks.amax(-1) - marks.gather(-1, chosen[..., None])[..., 0])
        if float(off.max()) > _AGREE:
            raise RuntimeError(f"the exported network does not choose what torch chooses (off by {float(off.max()):g})")


def write_bundle(folder: Path, network: TapFinger, world: TaskWorld, manifest: dict[str, Any], curve: str) -> None:
    """Write the bundle; the manifest is last, with the hash of the model that it belongs to."""
    examples = _examples(world)
    model = as_onnx(network.eval(), examples[0])
    check(model, network, examples)
    write_whole(folder / "model.onnx", model)
    write_whole(folder / "curve.csv", curve)
    low, high = ranges(world.plan)
    head = {"format": FORMAT, "kind": PLACER, "features": VERSION}
    about = {"budget_us": BUDGET_US, "low": low, "high": high}
    whole = head | manifest | about | {"sha256": hashlib.sha256(model).hexdigest()}
    write_whole(folder / "manifest.json", json.dumps(whole, indent=1, allow_nan=False) + "\n")


def ranges(plan: TaskPlan) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The least and the most that the worlds of a plan can show of each column of "tasks-1", by part."""
    k, types = needed(plan.role), len(plan.minimum)
    most, capacity = np.maximum(plan.most[:k], 1), plan.capacity[:, :k]
    share = capacity * len(capacity) / np.maximum(capacity.sum(axis=0), 1)
    shown = float(plan.rules["pending"][0]) / TEN
    flags, none = [1.0] * types, [0.0] * (types + 2)
    tasks = [0.0] * k + none
    low = {"cluster": [*[0.0] * k, *share.min(axis=0), 0.0, 0.0], "pending": tasks, "running": tasks}
    high = {
        "cluster": [*(capacity.max(axis=0) / most), *share.max(axis=0), shown, LONGEST],
        "pending": [*(plan.minimum[:, :k].max(axis=0) / most), *flags, LONGEST, 1.0],
        "running": [*np.maximum(plan.minimum[:, :k].max(axis=0) / most, 1.0), *flags, LONGEST, LONGEST],
    }
    assert tuple(low) == tuple(high) == RANGED
    least, greatest = ({part: [float(x) for x in ends[part]] for part in RANGED} for ends in (low, high))
    return least, greatest


def _examples(world: TaskWorld) -> list[Inputs]:
    """Observations amid episodes that the tuned rule plays, whole and cut to what is there."""
    rate = float(world.plan.rules["rate"][0])
    batch = TaskBatch(world.plan, _EXAMPLES, lambda b, episode: (VALIDATION_SEED + _EXAMPLES * episode + b, rate))
    for _ in range(_AMID):
        slots, allocations = batch.by_rule(tuned_rule.compiled, world.rule)
        batch.step(slots, allocations, np.ones(slots.shape))
    whole = as_inputs(batch.observations, torch.device("cpu"))
    rows = [Inputs(*(part[b : b + 1] for part in whole)) for b in range(_EXAMPLES)]
    sizes = used(batch.observations.slots, batch.observations.runs_on)
    cut = [Cut(*(max(1, int(n)) for n in size)).apply(x) for size, x in zip(sizes, rows, strict=True)]
    return [*rows, *(Inputs(*(part.contiguous() for part in x)) for x in cut)]
