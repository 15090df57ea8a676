"""Train all agents of tapfinger.md, several at once on one GPU.

    python docs/results/train_tapfinger.py worlds FOLDER                 write what the trainings play in
    python docs/results/train_tapfinger.py train FOLDER [--seconds N]    train in there, or go on
    python docs/results/train_tapfinger.py bundles FOLDER [--out runs]   make bundles of those that are finished
    python docs/results/train_tapfinger.py ship FOLDER                   put the best of every three into the package

The second needs NumPy, Numba and torch alone, with `src` on the path, and can be stopped and started again; it leaves
FOLDER/NAME-SEED/checkpoint. Each process has a core of its own (by `taskset`) and uses a little of the GPU; where MPS
runs they share it better.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tapfinger_settings import TRAININGS

_SPARE = 30  # seconds that a process may need to stop


def worlds(folder: Path) -> None:
    """The worlds of all trainings, as files."""
    for name, training in TRAININGS.items():
        changes = [word for change in training.overrides for word in ("--set", change)]
        where = ["--scenario", training.scenario, *changes, "--world", str(folder / f"{name}.npz")]
        subprocess.run(["fairlead", "train", "tapfinger", *where], check=True)


def train(folder: Path, names: list[str], at_once: int, seconds: float) -> None:
    """Train what is not finished yet."""
    end = time.monotonic() + seconds
    jobs = [(name, seed) for seed in range(3) for name in names]
    cores, own = queue.SimpleQueue[int](), sorted(os.sched_getaffinity(0))
    for i in range(at_once):
        cores.put(own[i % len(own)])
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda job: _train(folder, job[0], job[1], end, cores), jobs))
    for name, seed in sorted(jobs):
        log = folder / f"{name}-{seed}.log"
        print(f"{name}-{seed}: {log.read_text().splitlines()[-1] if log.exists() else 'not begun'}", flush=True)


def _train(folder: Path, name: str, seed: int, end: float, cores: queue.SimpleQueue[int]) -> None:
    out, training, left = folder / f"{name}-{seed}", TRAININGS[name], end - time.monotonic()
    if (out / "finished").exists() or left < _SPARE:
        return
    what = ["--world", str(folder / f"{name}.npz"), *training.options, "--steps", str(training.steps)]
    how = ["--seed", str(seed), "--device", "cuda", "--seconds", str(left), "--out", str(out)]
    again = ["--resume"] if (out / "checkpoint").exists() else []
    core = cores.get()
    with (folder / f"{name}-{seed}.log").open("a") as log:
        command = [
            "taskset",
            "-c",
            str(core),
            sys.executable,
            "-m",
            "fairlead.learn.tapfinger",
            *what,
            *how,
            *again,
        ]
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode == 0:
            (out / "finished").touch()
    cores.put(core)


def bundles(folder: Path, out: Path) -> None:
    """Go on with what is finished, on a CPU: all that is left is the bundle."""
    for name, training in TRAININGS.items():
        for seed in range(3):
            if not (folder / f"{name}-{seed}/finished").exists():
                continue
            (made := out / f"{name}-{seed}").mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / f"{name}-{seed}/checkpoint", made / "checkpoint")
            subprocess.run([*training.command(name, seed, out), "--resume"], check=True)


def ship(folder: Path) -> None:
    """Put the bundles in here that were best on their validation workloads, of three seeds each, into the package."""
    from fairlead.policies.tasks.learned import SHIPPED  # not there where `train` may run

    for name, training in TRAININGS.items():
        found = [json.loads(file.read_text()) for file in sorted(folder.glob(f"{name}-?/manifest.json"))]
        if not training.ships or len(found) < 3:
            continue
        best = min(found, key=lambda manifest: manifest["validation"]["completion_steps"])
        (made := SHIPPED / training.ships).mkdir(parents=True, exist_ok=True)
        for file in ("model.onnx", "curve.csv"):
            shutil.copy(folder / best["name"] / file, made / file)
        (made / "manifest.json").write_text(json.dumps(best | {"name": training.ships}, indent=1) + "\n")
        print(f"{training.ships}: {best['name']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["worlds", "train", "bundles", "ship"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--names", default=",".join(TRAININGS), help="of trainings, all by default")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--out", type=Path, default=Path("runs"))
    args = parser.parse_args()
    if unknown := set(args.names.split(",")) - set(TRAININGS):
        parser.error(f"--names: {', '.join(sorted(unknown))}: expected some of {', '.join(TRAININGS)}")
    if args.what == "worlds":
        args.folder.mkdir(parents=True, exist_ok=True)
        worlds(args.folder)
    elif args.what == "train":
        train(args.folder, args.names.split(","), args.at_once, args.seconds)
    elif args.what == "ship":
        ship(args.folder)
    else:
        bundles(args.folder, args.out)


if __name__ == "__main__":
    main()
