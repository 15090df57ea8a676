"""Trains TapFinger: validation, checkpoints, stopping and resuming, the curve, and the bundle at the end.

    fairlead train tapfinger --scenario S --out DIR ...
    python -m fairlead.learn.tapfinger --world world.npz --out DIR [--steps N] [--device cuda] [--resume] ...

The second form needs NumPy, Numba and torch alone: where ONNX's exporter is missing it leaves out the bundle, which the
first then makes of the same checkpoint (`--resume`).

    DIR/model.onnx, manifest.json, curve.csv    the bundle: the best network so far by its validation
    DIR/checkpoint                              one file, replaced whole
    DIR/logs                                    for TensorBoard (first form)

A checkpoint has the networks, the optimiser, the states of all random generators and of all worlds: a training that is
resumed on a CPU goes on exactly as if it had not been stopped. (On a GPU sums come in any order.) The algorithm is in
`ppo`. Nothing here prints, but the second form.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shlex
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from fairlead import __version__
from fairlead.domain.errors import UserError
from fairlead.experiments.workers import noted_interrupts
from fairlead.learn.shared.checkpoint import broken_checkpoint, read_checkpoint, write_checkpoint
from fairlead.learn.shared.settings import TAPFINGER_STEPS, numbers, tuned
from fairlead.learn.shared.training_folder import alone, check_same
from fairlead.learn.tapfinger.network import ABLATIONS, SIZES
from fairlead.learn.tapfinger.ppo import State, TapFingerSettings, TaskCurvePoint, Training
from fairlead.measure.write_files import write_whole
from fairlead.policies.conflicts import PRIORS
from fairlead.sim.tasks.world_file import TaskWorld, load_task_world


class Tell(Protocol):
    """Receives the progress of a training."""

    def doing(self, what: str) -> None:
        """What is under way."""

    def step(self, done: int, total: int) -> None:
        """So many joint decisions are done."""

    def figures(self, step: int, figures: dict[str, float]) -> None:
        """What a roll-out or a validation was like."""

    def validated(self, point: TaskCurvePoint, best: bool) -> None:
        """There is a new point of the curve."""


@dataclass(frozen=True)
class TapFingerQuestion:
    """What is to be trained, and where to."""

    world: TaskWorld
    settings: TapFingerSettings
    steps: int
    seed: int
    device: str
    out: Path
    reproduce: str  # the command

    def __post_init__(self) -> None:
        settings = self.settings
        if settings.size not in SIZES:
            raise UserError(f"size {settings.size!r}: expected {' or '.join(SIZES)}")
        if settings.ablation not in ("", *ABLATIONS):
            raise UserError(f"ablation {settings.ablation!r}: expected {', '.join(ABLATIONS)}")
        if settings.group < 2 or settings.worlds % settings.group:
            raise UserError(
                f"group={settings.group}: expected at least 2, and worlds={settings.worlds} a multiple of it"
            )
        if settings.minibatches > (rows := settings.worlds * settings.rollout):
            raise UserError(
                f"minibatches={settings.minibatches}: a roll-out has no more than {rows} decisions to share"
            )
        if any(rate <= 0 for rate in settings.rates):
            raise UserError(f"--rates {','.join(f'{rate:g}' for rate in settings.rates)}: expected more than 0")
        if settings.prior not in PRIORS:
            raise UserError(f"prior={settings.prior}: expected {' or '.join(PRIORS)}")
        if settings.validation_workloads < 2:
            raise UserError(f"validation_workloads={settings.validation_workloads}: expected a whole number from 2 on")
        if self.device not in ("cpu", "cuda"):
            raise UserError(f"--device {self.device}: expected cpu or cuda")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise UserError("--device cuda: torch finds no GPU here")
        if self.steps < 1:
            raise UserError(f"--steps {self.steps}: expected a whole number from 1 on")

    def identity(self) -> dict[str, Any]:
        """All that the result depends on; a checkpoint of another is refused."""
        digest = hashlib.sha256(self.world.rule.tobytes())
        for array in self.world.plan:
            digest.update(np.ascontiguousarray(array).tobytes())
        scenario = f"{self.world.name} {digest.hexdigest()[:12]}"
        return {"scenario": scenario, "steps": self.steps, "seed": self.seed} | asdict(self.settings)


def default_device() -> str:
    """A GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def open_logs(out: Path) -> Any:
    """A writer of TensorBoard's logs, with `add_scalar(name, value, step)` and `close()`."""
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(out / "logs"))


def train_tapfinger(question: TapFingerQuestion, tell: Tell, resume: bool, seconds: float = float("inf")) -> State:
    """Train to the end, for so many seconds, or until Ctrl-C or SIGTERM; what is there then is kept."""
    torch.set_num_threads(1)  # its matrices are small
    torch.set_float32_matmul_precision("high")
    with alone(question.out, resume), noted_interrupts() as stop:
        training = Training(question.world, question.settings, question.seed, question.steps, question.device)
        if resume:
            _restore(question, training)
        _run(question, training, tell, stop, time.monotonic() + seconds)
        _save(question, training)
        if training.state.points and importlib.util.find_spec("onnxscript"):
            _write_bundle(question, training)
    return training.state


def _run(question: TapFingerQuestion, training: Training, tell: Tell, stop: threading.Event, end: float) -> None:
    """Learn, and validate now and then."""
    state, began = training.state, time.monotonic() - training.state.seconds
    if not training.finished:
        state.device = torch.cuda.get_device_name() if question.device == "cuda" else "cpu"
    while not training.finished:
        if stop.is_set() or time.monotonic() > end:
            return
        if training.cloning:
            tell.doing(f"cloning the tuned rule ({state.cloned} of {training.settings.clone})")
            tell.figures(0, {"clone/loss": training.update()})
        elif not _due(question, state):
            tell.doing("training")
            tell.figures(state.step, {"train/entropy": training.update()})
            tell.step(min(state.step, question.steps), question.steps)
        state.seconds = time.monotonic() - began
        if not training.cloning and _due(question, state):
            tell.doing("validating")
            point = training.validate(stop)
            if point is None:
                return
            figures = {"validation/completion_steps": point.completion_steps, "validation/gap": point.gap}
            tell.figures(state.step, figures)
            tell.validated(point, point is state.best_point)
            _save(question, training)


def _due(question: TapFingerQuestion, state: State) -> bool:
    """Whether it is time to validate: at the start, so many times, and at the end."""
    last = state.points[-1].step if state.points else -1
    between = question.steps / question.settings.validations
    return last < 0 or state.step - last >= between or (last < state.step and state.step >= question.steps)


def _save(question: TapFingerQuestion, training: Training) -> None:
    saved = training.saved() | {"identity": question.identity(), "fairlead": __version__}
    write_checkpoint(question.out / "checkpoint", saved)
    write_whole(question.out / "curve.csv", curve_of(training.state))


def curve_of(state: State) -> str:
    """The validations as CSV."""
    rows = [f"{p.step},{p.seconds:.1f},{p.completion_steps:.5f},{p.gap:.5f},{p.ci95:.5f}\n" for p in state.points]
    return "step,seconds,completion_steps,gap,ci95\n" + "".join(rows)


def _restore(question: TapFingerQuestion, training: Training) -> None:
    """Go on from the checkpoint, if it is of this question."""
    file = question.out / "checkpoint"
    saved = read_checkpoint(file, "fairlead train tapfinger", question.device)
    check_same(file, saved, question.identity())
    try:
        training.restore(saved)
    except Exception as error:  # of the libraries, each in its own way
        raise broken_checkpoint(file, error) from None


def _write_bundle(question: TapFingerQuestion, training: Training) -> None:
    from fairlead.learn.tapfinger.export import write_bundle

    world, best = question.world, training.state.best_point
    network = training.network.cpu()
    network.load_state_dict(training.state.best)
    lacks = f", {question.settings.ablation}" if question.settings.ablation else ""
    manifest = {
        "name": question.out.resolve().name,
        "summary": f"TapFinger agent ({question.settings.size}{lacks}): places tasks and chooses their allocations",
        "tasks": world.tasks,
        "prior": question.settings.prior,
        "seed": question.seed,
        "device": training.state.device,
        "steps": best.step,
        "scenarios": [{"name": world.name, "overrides": list(world.overrides)}],
        "settings": asdict(question.settings) | {"steps": question.steps},
        "fairlead": __version__,
        "reproduce": question.reproduce,
        "validation": {"workloads": question.settings.validation_workloads} | asdict(best),
    }
    write_bundle(question.out, network, world, manifest, curve_of(training.state))


# ---- the stand-alone form


class _Print:
    def doing(self, what: str) -> None:
        """Nothing: lines are for validations."""

    def step(self, done: int, total: int) -> None:
        """Nothing."""

    def figures(self, step: int, figures: dict[str, float]) -> None:
        """Nothing."""

    def validated(self, point: TaskCurvePoint, best: bool) -> None:
        print(words(point) + (" (best so far)" if best else ""), flush=True)


def words(point: TaskCurvePoint) -> str:
    """A validation in one line."""
    gap = f"{point.gap:+z.3f} ±{point.ci95:.3f} to the tuned rule"
    return f"{point.step:,} decisions after {point.seconds:.0f} s: {point.completion_steps:.3f} steps, {gap}"


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", type=Path, required=True, help="a file of `fairlead train tapfinger --world`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=TAPFINGER_STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=default_device(), help="cpu or cuda (default: cuda if there is one)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--size", default="small", help=" or ".join(SIZES))
    parser.add_argument("--ablation", default="", help=", ".join(ABLATIONS))
    parser.add_argument("--rates", help="arrival rates per step to train at, such as 2,3,4")
    parser.add_argument("--hyper", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    rates = tuple(numbers("--rates", args.rates)) if args.rates else ()
    settings = tuned(TapFingerSettings(size=args.size, ablation=args.ablation, rates=rates), args.hyper)
    options = {name: getattr(args, name) for name in ("world", "steps", "seed", "size", "ablation", "rates")}
    words = [word for name, value in options.items() if value not in (None, "") for word in (f"--{name}", str(value))]
    words += [word for change in args.hyper for word in ("--hyper", change)]
    command = shlex.join(["python", "-m", "fairlead.learn.tapfinger", *words, "--out", str(args.out)])
    world = load_task_world(args.world)
    question = TapFingerQuestion(world, settings, args.steps, args.seed, args.device, args.out, command)
    state = train_tapfinger(question, _Print(), args.resume, args.seconds)
    return 0 if state.step >= args.steps else 130
