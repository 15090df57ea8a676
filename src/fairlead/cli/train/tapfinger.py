"""`fairlead train tapfinger`: from what the user typed to a world and settings, a progress bar, and words at the end.

torch is imported with `fairlead.learn`, when everything else is found to be right.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from fairlead.cli.standard_streams import note, say
from fairlead.cli.train.progress import BarTeller, check_options, need_libraries, progress_bar
from fairlead.domain.errors import UserError
from fairlead.learn.shared.settings import list_settings, numbers, tuned
from fairlead.measure.write_files import check_writable, writing
from fairlead.scenarios.loader import load_tasks
from fairlead.sim.tasks.world_file import save_task_world, task_world

if TYPE_CHECKING:
    from fairlead.learn.tapfinger.ppo import State, TapFingerSettings, TaskCurvePoint

_NEEDS = ("torch", "onnx", "onnxscript", "tensorboard")


def run_train_tasks(args: argparse.Namespace) -> int:
    """Run `fairlead train tapfinger`; the exit code."""
    if args.hyper == ["list"]:
        need_libraries(*_NEEDS)
        return list_settings(_settings(args, []))
    if args.scenarios and len(args.scenarios) > 1:
        raise UserError("--scenario: this agent trains on one scenario, so give it once")
    if args.world and args.scenarios:
        check_writable(file := Path(args.world))
        save_task_world(_world(args), file)
        say(f"{args.world} is ready for python -m fairlead.learn.tapfinger --world {args.world} --out DIR")
        return 0
    check_options(args)
    world = _world(args)
    need_libraries(*_NEEDS)
    from fairlead.learn.tapfinger.training import TapFingerQuestion, default_device, open_logs, train_tapfinger

    settings, out = _settings(args, args.hyper), Path(args.out)
    device = args.device or default_device()
    question = TapFingerQuestion(world, settings, args.steps, args.seed, device, out, _command(args))
    with progress_bar() as bar:
        teller = _Teller(bar, lambda: open_logs(out))
        state = train_tapfinger(question, teller, args.resume)
        with writing(out):
            teller.close()
    return _close(args, state)


def _world(args: argparse.Namespace) -> Any:
    name, overrides = args.scenarios[0], tuple(args.overrides)
    return task_world(load_tasks(name, overrides), overrides)


def _settings(args: argparse.Namespace, hyper: list[str]) -> TapFingerSettings:
    from fairlead.learn.tapfinger.ppo import TapFingerSettings

    settings = TapFingerSettings(size=args.size, ablation=args.ablation or "")
    if args.rates is not None:
        settings = replace(settings, rates=tuple(numbers("--rates", args.rates)))
    return tuned(settings, hyper)


def _command(args: argparse.Namespace) -> str:
    """The command that trains the same again, whatever the defaults will be."""
    words = ["fairlead", "train", "tapfinger", "--scenario", args.scenarios[0]]
    words += [w for override in args.overrides for w in ("--set", override)]
    for option in ("rates", "ablation"):
        if (value := getattr(args, option)) is not None:
            words += [f"--{option}", value]
    words += [w for change in args.hyper for w in ("--hyper", change)]
    words += ["--size", args.size]
    return shlex.join([*words, "--steps", str(args.steps), "--seed", str(args.seed), "--out", args.out])


class _Teller(BarTeller):
    """Moves the bar and writes TensorBoard's logs."""

    def __init__(self, bar: Progress, logs: Any) -> None:
        super().__init__(bar, "decisions")
        self._make_logs = logs
        self._logs: Any = None

    def figures(self, step: int, figures: dict[str, float]) -> None:
        self._logs = self._logs or self._make_logs()
        for name, value in figures.items():
            self._logs.add_scalar(name, value, step)

    def validated(self, point: TaskCurvePoint, best: bool) -> None:
        from fairlead.learn.tapfinger.training import words

        self.say(f"{point.gap:+z.3f} ±{point.ci95:.3f} steps to the tuned rule", words(point), best)

    def close(self) -> None:
        if self._logs is not None:
            self._logs.close()


def _close(args: argparse.Namespace, state: State) -> int:
    """Say what there is, and the exit code for it."""
    from fairlead.learn.tapfinger.training import words

    resume = "run the same command with --resume to continue"
    if not state.points:
        note(f"fairlead: interrupted, {resume}; there is no bundle yet: nothing was validated")
        return 130
    changes = [word for change in args.overrides for word in ("--set", change)]
    bundle = args.out if Path(args.out).name != args.out else f"./{args.out}"  # a bare name could be another policy's
    example = ["fairlead", "compare", args.scenarios[0], *changes, "--policies", f"tuned-rule,{bundle}"]
    say(f"{args.out}: the agent after {words(state.best_point)}")
    say(f"try it on workloads that had no part in the training: {shlex.join(example)}")
    if state.step >= args.steps:
        return 0
    note(f"fairlead: interrupted after {state.step:,} decisions; {resume}")
    return 130
