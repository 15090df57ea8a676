"""Trains TapFinger: the stand-alone form, with checkpoints and a curve.

    python -m fairlead.learn.tapfinger --world world.npz --out DIR [--steps N] [--device cuda] [--resume]

needs NumPy, Numba and torch alone. The algorithm is in `tapfinger_ppo`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from fairlead.domain.errors import UserError, nearest
from fairlead.learn.tapfinger_ppo import Point, State, TapFingerSettings, Training
from fairlead.measure.files import write_whole
from fairlead.sim.tasks.files import load_task_world


def train(training: Training, out: Path, resume: bool, until_s: float, tell: Callable[[str], None]) -> State:
    """Train to the end or for so many seconds; `out` has the checkpoint and the curve at any time."""
    file, state = out / "checkpoint.pt", training.state
    out.mkdir(parents=True, exist_ok=True)
    if resume and not file.exists():
        raise UserError(f"{out}: there is no checkpoint to resume; without --resume, training begins")
    if resume:
        saved = torch.load(file, map_location=training.device, weights_only=False)
        training.network.load_state_dict(saved["network"])
        training.optimiser.load_state_dict(saved["optimiser"])
        training.state = state = saved["state"]
    began = time.monotonic() - state.seconds
    end = time.monotonic() + until_s
    if not resume:
        every = max(1, training.settings.clone // 10)
        training.clone(
            lambda done, loss: tell(f"cloning the rule: {done}, loss {loss:.3f}") if done % every == 0 else None
        )
        state.seconds = time.monotonic() - began
        tell(_words(training.validate()))
        _save(training, file, out)
    between = max(1, training.steps // training.settings.validations)
    while state.step < training.steps and time.monotonic() < end:
        entropy = training.update()
        state.seconds = time.monotonic() - began
        if state.step - state.points[-1].step >= between or state.step >= training.steps:
            tell(f"{_words(training.validate())}, entropy {entropy:.3f}")
            _save(training, file, out)
    _save(training, file, out)
    return state


def _save(training: Training, file: Path, out: Path) -> None:
    kept = {
        "network": training.network.state_dict(),
        "optimiser": training.optimiser.state_dict(),
        "state": training.state,
    }
    part = file.with_suffix(".part")
    torch.save(kept, part)
    part.replace(file)
    rows = ["step,seconds,steps,gap,ci95"]
    rows += [f"{p.step},{p.seconds:.1f},{p.steps:.5f},{p.gap:.5f},{p.ci95:.5f}" for p in training.state.points]
    write_whole(out / "curve.csv", "\n".join(rows) + "\n")


def _words(point: Point) -> str:
    return (
        f"{point.step:,} decisions, {point.seconds:.0f} s: {point.steps:.3f} steps, "
        f"{point.gap:+.3f} ±{point.ci95:.3f} to the tuned rule"
    )


def _pair(item: str) -> tuple[str, str]:
    name, _, text = item.partition("=")
    return name, text


def _setting(name: str, text: str) -> Any:
    """A setting as it was typed, as what it is; a list of numbers has commas."""
    known = asdict(TapFingerSettings())
    if name not in known:
        raise UserError(f"--hyper {name}: unknown setting{nearest(name, known)}")
    try:
        if isinstance(known[name], tuple):
            return tuple(float(part) for part in text.split(","))
        return type(known[name])(text)
    except ValueError:
        raise UserError(f"--hyper {name}={text}: expected something like {known[name]}") from None


def main() -> int:
    """The stand-alone form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=50_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; --resume goes on")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--hyper", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    settings = TapFingerSettings(**{name: _setting(name, text) for name, text in map(_pair, args.hyper)})
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    training = Training(load_task_world(args.world), settings, args.seed, args.steps, args.device)
    print(json.dumps(asdict(settings)), flush=True)
    train(training, args.out, args.resume, args.seconds, lambda words: print(words, flush=True))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as wrong:
        sys.exit(f"tapfinger: {wrong}")
