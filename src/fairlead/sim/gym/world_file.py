"""Where episodes come from: a plan, its names, and the workload of any seed; from a scenario, or saved in a file.

A file of worlds (.npz) takes training to a machine without scenario loader, YAML and pydantic. Called by the batches.
"""

from __future__ import annotations

import hashlib
import json
import operator
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairlead import __version__
from fairlead.domain.errors import UserError, one_line, shown
from fairlead.domain.records import REQUEST
from fairlead.domain.scenario import Scenario
from fairlead.inputs.arrays import read_npz, require
from fairlead.measure.write_files import write_whole
from fairlead.sim.serving.addresses import plan_words
from fairlead.sim.serving.drawn_workload import DrawnWorkload, draws_of, make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.plan_check import check_plan, check_workload
from fairlead.sim.serving.world_arrays import STREAM, Plan

_FORMAT: Final = 4
_EPISODES: Final = 2**31  # of one seed
SEEDS: Final = 2**32 - 1  #: Seeds of environments count modulo this, so that workloads' seeds fit into 63 bits.
WORKLOAD_SEEDS: Final = 2**63  #: Workloads' seeds are below.


@dataclass(frozen=True)
class Worlds:
    """The worlds of one scenario."""

    name: str
    plan: Plan = field(repr=False)
    models: tuple[str, ...]
    nodes: tuple[str, ...]
    sla_classes: tuple[str, ...]
    draw: Callable[[int], DrawnWorkload] = field(repr=False)
    """The workload of a seed. A file has a few: episodes take them in turn; asked for by a seed below 2**31, a workload
    that it lacks is an error."""


def workload_seed(seed: int, episode: int) -> int:
    """The workload of episode `episode` (0, 1, ...) of an environment seeded `seed`.

    Seeds count modulo 2**32 - 1; no two below that share a workload. None is below 2**31: such workloads are left to
    comparisons and tests, so that no agent is judged on what it has learned from, unless asked to by
    `options={"workload_seed": n}`.
    """
    return (1 + seed % SEEDS) * _EPISODES + episode % _EPISODES


def whole_number(what: str, value: Any, below: int | None = None) -> int:
    """The value as an int. Raises UserError for what is none, is negative, or not below the limit."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or (below is not None and number >= below):
        limit = "" if below is None else f" and below {below}"
        raise UserError(f"{what} {value!r}: a whole number from 0 on{limit} is needed")
    return number


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
    """Save the plan of `scenario` and its workloads for these seeds as an .npz file; other names get that ending."""
    worlds = worlds_of(scenario)
    workloads = [worlds.draw(whole_number("seed", seed, WORKLOAD_SEEDS)) for seed in seeds]
    if not workloads:
        raise UserError(f"{path}: a file of worlds needs at least one seed")
    about = {"format": _FORMAT, "fairlead": __version__, "seeds": [w.seed for w in workloads]}
    about |= {"scenario": hashlib.sha256(json.dumps(asdict(scenario)).encode()).hexdigest()}
    about |= {"name": worlds.name, "models": worlds.models, "nodes": worlds.nodes, "sla_classes": worlds.sla_classes}
    content = BytesIO()
    np.savez_compressed(
        content,
        about=np.array(json.dumps(about)),
        requests=np.concatenate([w.requests for w in workloads]),
        work=np.concatenate([w.draws["work"] for w in workloads]),
        streams=np.concatenate([w.streams for w in workloads]),
        sizes=np.array([(len(w.requests), len(w.streams)) for w in workloads]),
        **{f"plan_{name}": array for name, array in worlds.plan._asdict().items()},
    )
    write_whole(Path(path if str(path).endswith(".npz") else f"{path}.npz"), content.getvalue())


def load_worlds(path: str | Path) -> Worlds:
    """The worlds that `save_worlds` has saved."""
    try:
        return _read(path, read_npz(path))
    except UserError:
        raise
    except Exception as error:  # readers of zip, deflate, npy and JSON have many ways to say no
        raise UserError(f"{path}: no file of worlds, as save_worlds makes them ({one_line(error)})") from None


def _read(path: str | Path, file: Any) -> Worlds:
    about = json.loads(str(file["about"]))
    if about["format"] != _FORMAT:
        raise UserError(f"{path}: worlds of format {shown(about['format'])}, this version reads {_FORMAT}; save anew")
    plan = Plan(**{name: file[f"plan_{name}"] for name in Plan._fields})
    plan_words(plan)  # refuses arrays of other types
    workloads = _workloads(about["seeds"], file)
    models, nodes, sla_classes = (tuple(map(str, about[key])) for key in ("models", "nodes", "sla_classes"))
    check_plan(plan, len(models), len(nodes))
    for workload in workloads.values():
        check_workload(workload, plan, len(sla_classes))
    return Worlds(str(about["name"]), plan, models, nodes, sla_classes, partial(_pick, str(path), workloads))


def _workloads(seeds: list[int], file: Any) -> dict[int, DrawnWorkload]:
    dtypes = {"sizes": np.dtype(np.int64), "requests": REQUEST, "work": np.dtype(np.float64), "streams": STREAM}
    arrays = {name: file[name] for name in dtypes}
    for name, dtype in dtypes.items():
        require(arrays[name].dtype == dtype, f"{name} has another type")
    sizes, requests, work, streams = arrays.values()
    require(sizes.shape == (len(seeds), 2) and sizes.min() >= 0 and len(set(seeds)) == len(seeds), "sizes don't fit")
    ends = np.cumsum(sizes, axis=0)
    require(requests.shape == work.shape == (ends[-1, 0],) and streams.shape == (ends[-1, 1],), "sizes don't fit")
    made = {}
    for seed, (n, m), (r, s) in zip(seeds, sizes.tolist(), ends.tolist(), strict=True):
        require(type(seed) is int and 0 <= seed < WORKLOAD_SEEDS, "a seed is out of range")
        made[seed] = DrawnWorkload(seed, requests[r - n : r], draws_of(seed, work[r - n : r]), streams[s - m : s])
    return made


def _pick(path: str, workloads: dict[int, DrawnWorkload], seed: int) -> DrawnWorkload:
    if seed in workloads:
        return workloads[seed]
    if seed < _EPISODES:  # asked for by its number: no other will do
        raise UserError(f"{path}: has no workload of seed {seed}; it has {', '.join(map(str, workloads))}")
    environment, episode = divmod(seed, _EPISODES)  # both, so that the environments of a vector start apart
    return list(workloads.values())[(environment + episode) % len(workloads)]
