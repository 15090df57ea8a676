"""Where episodes come from: a plan, its names, and the workload of any seed; from a scenario, or saved in a file.

A file of worlds (.npz) takes training to a machine without scenario loader, YAML and pydantic. Called by the batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead.domain.errors import UserError, one_line
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.sim.serving.layout import STREAM, Plan
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.workload import Workload, draws_of, make_workload

_FORMAT: Final = 1
_EPISODES: Final = 2**31


@dataclass(frozen=True)
class Worlds:
    """The worlds of one scenario."""

    name: str
    plan: Plan = field(repr=False)
    models: tuple[str, ...]
    nodes: tuple[str, ...]
    sla_classes: tuple[str, ...]
    draw: Callable[[int], Workload] = field(repr=False)
    """The workload of a seed. A file has a few: it then is one of them, the seed's own where the file has it."""


def workload_seed(seed: int, episode: int) -> int:
    """The workload of episode `episode` (0, 1, ...) of an environment seeded `seed`.

    No two seeds below 2**32 - 1 share one, and none is below 2**31: such seeds are left to comparisons and tests, so
    that no agent is judged on what it has learned from, unless asked to by `options={"workload_seed": n}`.
    """
    return (1 + seed % (2**32 - 1)) * _EPISODES + episode % _EPISODES


def worlds_of(scenario: Scenario) -> Worlds:
    """The worlds of a scenario, drawn when they are needed."""
    return Worlds(
        name=scenario.name,
        plan=build_plan(scenario),
        models=tuple(scenario.models),
        nodes=tuple(scenario.nodes),
        sla_classes=scenario.workload.sla_classes,
        draw=partial(make_workload, scenario),
    )


def save_worlds(path: str | Path, scenario: Scenario, seeds: Iterable[int]) -> None:
    """Save the plan of `scenario` and its workloads for these seeds as an .npz file."""
    worlds = worlds_of(scenario)
    workloads = [worlds.draw(seed) for seed in seeds]
    if not workloads:
        raise UserError(f"{path}: a file of worlds needs at least one seed")
    about = {"format": _FORMAT, "name": worlds.name, "models": worlds.models, "nodes": worlds.nodes}
    about |= {"sla_classes": worlds.sla_classes, "seeds": [w.seed for w in workloads]}
    np.savez_compressed(
        path,
        about=np.array(json.dumps(about)),
        requests=np.concatenate([w.requests for w in workloads]),
        work=np.concatenate([w.draws["work"] for w in workloads]),
        streams=np.concatenate([w.streams for w in workloads]),
        sizes=np.array([(len(w.requests), len(w.streams)) for w in workloads]),
        **{f"plan_{name}": array for name, array in worlds.plan._asdict().items()},
    )


def load_worlds(path: str | Path) -> Worlds:
    """The worlds that `save_worlds` has saved."""
    try:
        with np.load(path) as file:
            about = json.loads(str(file["about"]))
            if about["format"] != _FORMAT:
                raise UserError(f"{path}: worlds of format {about['format']}, this version reads {_FORMAT}; save anew")
            plan = Plan(**{name: file[f"plan_{name}"] for name in Plan._fields})
            workloads = _workloads(about["seeds"], file["sizes"], file["requests"], file["work"], file["streams"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no file of worlds, as save_worlds makes them ({one_line(error)})") from None
    names = {key: tuple(about[key]) for key in ("models", "nodes", "sla_classes")}
    return Worlds(name=about["name"], plan=plan, draw=partial(_pick, workloads), **names)


def _workloads(seeds: list[int], sizes: Any, requests: Any, work: Any, streams: Any) -> dict[int, Workload]:
    made, r, s = {}, 0, 0
    requests, streams = np.ascontiguousarray(requests, REQUEST), np.ascontiguousarray(streams, STREAM)
    for seed, (n, m) in zip(seeds, sizes.tolist(), strict=True):
        draws = draws_of(seed, work[r : r + n])
        made[seed] = Workload(seed, requests[r : r + n], draws, streams[s : s + m])
        r, s = r + n, s + m
    return made


def _pick(workloads: dict[int, Workload], seed: int) -> Workload:
    if seed in workloads:
        return workloads[seed]
    environment, episode = divmod(seed, _EPISODES)  # both, so that the environments of a vector start apart
    return list(workloads.values())[(environment + episode) % len(workloads)]
