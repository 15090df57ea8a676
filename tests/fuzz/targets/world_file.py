"""Files of worlds (.npz), of requests and of tasks: bytes and arrays changed; loaded, and played for some steps."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from ..mutate import changed_bytes, changed_text, changed_tree
from ..target import Finding, Target

_STEPS = 20


class WorldFileTarget(Target):
    """See the module."""

    name = "world-file"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        from fairlead.scenarios.loader import load, load_tasks
        from fairlead.sim.gym.world_file import save_worlds
        from fairlead.sim.tasks.world_file import save_task_world, task_world

        for name, rate in (("ecsrl", "rate=2000"), ("aset-testbed", "rate=30"), ("shifting", "rate=20")):
            if not (file := seeds / f"{name}.npz").exists():
                save_worlds(file, load(name, [rate, "duration_s=3"]), [1, 2])
        for name in ("tapfinger-3", "tapfinger-testbed-3"):
            if not (file := seeds / f"tasks-{name}.npz").exists():
                save_task_world(task_world(load_tasks(name, ["tasks=20"])), file)
        self._files = {file.name: file.read_bytes() for file in sorted(seeds.glob("*.npz"))}
        for file in sorted(seeds.glob("*.npz")):  # so that no case waits for the compiler
            (_play_tasks if file.name.startswith("tasks") else _play)(file, Random(0))

    def make(self, random: Random, folder: Path) -> None:
        """One of them, with other bytes, or whole with other arrays."""
        name = random.choice(list(self._files))
        content = self._files[name]
        content = changed_bytes(random, content) if random.random() < 0.25 else _changed_archive(random, content)
        (folder / name).write_bytes(content)

    def run(self, random: Random, folder: Path) -> str:
        """Load it, and play."""
        from fairlead.domain.errors import UserError

        (file,) = folder.iterdir()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                (_play_tasks if file.name.startswith("tasks") else _play)(file, random)
        except UserError as error:
            if "\n" in str(error) or len(str(error)) > 4000:
                raise Finding(f"not one line: {error}") from error
            return "refused"
        return "played"


def _play(file: Path, random: Random) -> None:
    from fairlead.sim.gym.dispatch import DispatchBatch
    from fairlead.sim.gym.window import WindowBatch
    from fairlead.sim.gym.world_file import load_worlds

    worlds = load_worlds(file)
    for make in (DispatchBatch, WindowBatch):
        batch = make(worlds, 2)
        batch.reset(0)
        for _ in range(_STEPS):
            possible = [np.flatnonzero(mask) for mask in batch.masks]
            batch.step(np.array([random.choice(p.tolist() or [0]) for p in possible]))
            if not np.isfinite(batch.observations).all():
                raise Finding("an observation that is no number")


def _play_tasks(file: Path, random: Random) -> None:
    from fairlead.policies.tasks.tuned_rule import tuned_rule
    from fairlead.sim.tasks.batch import TaskBatch
    from fairlead.sim.tasks.world_file import load_task_world

    world = load_task_world(file)
    batch = TaskBatch(world.plan, 2, lambda b, episode: (b + episode, 1.0))
    for _ in range(_STEPS):
        slots, allocations = batch.by_rule(tuned_rule.compiled, world.rule)
        if random.random() < 0.5:
            slots = np.array(random.choices(range(12), k=slots.size)).reshape(slots.shape)
            allocations = np.array(random.choices(range(300), k=slots.size)).reshape(slots.shape)
        batch.step(slots, allocations, np.ones(slots.shape))


def _changed_archive(random: Random, content: bytes) -> bytes:
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice(list(arrays))
        if name == "about":
            arrays[name] = np.array(_changed_about(random, str(arrays[name])))
        elif random.random() < 0.05:
            del arrays[name]
        else:
            arrays[name] = _changed_array(random, arrays[name])
    made = io.BytesIO()
    np.savez_compressed(made, **arrays)
    return _with_bomb(made.getvalue()) if random.random() < 0.01 else made.getvalue()


def _changed_about(random: Random, text: str) -> str:
    if random.random() < 0.7:
        with suppress(ValueError, RecursionError):  # the text has been changed before
            return json.dumps(changed_tree(random, json.loads(text)))
    return changed_text(random, text.encode()).decode("utf-8", "replace")


def _changed_array(random: Random, array: Any) -> Any:
    if array.dtype.kind in "OUc":  # by a change before
        return array
    change = random.randrange(10)
    if change == 0:
        return array[: random.randrange(len(array) + 1)] if array.ndim else array
    if change == 1:
        return random.choice(
            (array[None], array.ravel(), np.repeat(array, 2, axis=0), array.T, np.asfortranarray(array))
        )
    if change == 2 and array.dtype.names is None:
        return array.astype(random.choice((np.float32, np.int8, np.uint64, np.complex128, np.bool_, "U8")))
    if change == 3:
        return (
            np.array([{"an": "object"}], dtype=object) if random.random() < 0.3 else np.zeros(random.choice((0, 1, 7)))
        )
    made = np.ascontiguousarray(array).copy()
    if not made.size:
        return made
    flat = made.reshape(-1)
    for _ in range(random.choice((1, 1, 3))):
        at = random.randrange(len(flat))
        if made.dtype.names and random.random() < 0.9:
            name = random.choice(made.dtype.names)
            field = flat[name]
            if field.dtype.names is None:
                field[at] = _value(random, field.dtype)
        elif made.dtype.names:
            flat.view(np.uint8)[random.randrange(made.nbytes)] = random.randrange(256)
        else:
            flat[at] = _value(random, made.dtype)
    return made


def _value(random: Random, dtype: Any) -> Any:
    if dtype.kind == "f":
        return random.choice((np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 5e-324, 1e15, 0.5, 3.0))
    if dtype.kind == "b":
        return random.random() < 0.5
    info = np.iinfo(dtype)
    return random.choice([v for v in (0, 1, -1, 2, 3, 7, 100, 65535, info.max, info.min) if info.min <= v <= info.max])


def _with_bomb(content: bytes) -> bytes:
    """The archive with a member that unpacks to four gigabytes, by what it says of itself."""
    made = io.BytesIO(content)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.npy", bytes(1 << 20))
    return made.getvalue().replace((1 << 20).to_bytes(4, "little"), (2**32 - 2).to_bytes(4, "little"))
