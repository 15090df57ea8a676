"""`fairlead train`: from what the user typed to places and settings, a progress bar, and words at the end.

torch and Stable-Baselines3 are imported with `fairlead.learn`, when everything else is found to be right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from fairlead.cli.streams import note, say
from fairlead.cli.train.progress import BarTeller, check_options, need_libraries, progress_bar
from fairlead.domain.errors import UserError
from fairlead.learn.shared.settings import list_settings, numbers, tuned
from fairlead.scenarios.loader import load

if TYPE_CHECKING:
    from fairlead.learn.shared.environments import Place
    from fairlead.learn.shared.learner import Learner
    from fairlead.learn.shared.learning_curve import Point
    from fairlead.learn.shared.training import Answer

_NEEDS = ("torch", "stable_baselines3", "sb3_contrib", "onnx", "onnxscript", "tensorboard", "gymnasium")


def run_train(args: argparse.Namespace) -> int:
    """Run `fairlead train`; the exit code."""
    if args.agent == "tapfinger":
        from fairlead.cli.train.tapfinger import run_train_tasks

        return run_train_tasks(args)
    if args.hyper == ["list"]:
        return _list(args.agent)
    check_options(args)
    scenarios = _scenarios(args, "--rates", args.rates)
    judged = _scenarios(args, "--validation-rates", args.validation_rates) if args.validation_rates is not None else {}
    need_libraries(*_NEEDS)
    from fairlead.learn.shared.environments import Place
    from fairlead.learn.shared.training import Question, train
    from fairlead.sim.gym.world_file import worlds_of

    places, others = (
        [
            Place(label, name, overrides, _hash(scenario), worlds_of(scenario))
            for label, (name, overrides, scenario) in some.items()
        ]
        for some in (scenarios, judged)
    )
    learner = (_aset if args.agent == "aset" else _ecsrl)(args, places, others)
    question = Question(learner, args.steps, Path(args.out), _command(args))
    with progress_bar() as bar:
        answer = train(question, _Teller(bar, learner), args.resume)
    return _close(args, learner, answer)


def _scenarios(args: argparse.Namespace, option: str, text: str | None) -> dict[str, tuple[str, tuple[str, ...], Any]]:
    """Name, overrides and scenario of each place, by label; `text` is what `option` gives as rates."""
    overrides = list(args.overrides)
    if getattr(args, "window_ms", None) is not None:
        overrides.append(f"window_ms={_plain(args.window_ms)}")
    rates = numbers(option, text) if text is not None else [None]
    found: dict[str, tuple[str, tuple[str, ...], Any]] = {}
    for name in args.scenarios:
        for rate in rates:
            here = tuple(overrides if rate is None else [*overrides, f"rate={_plain(rate)}"])
            scenario = load(name, here)
            label = scenario.name if rate is None else f"{scenario.name} rate={_plain(rate)}"
            if label in found:
                raise UserError(f"{option if rates != [None] else '--scenario'}: {label!r} is there twice")
            found[label] = (name, here, scenario)
    return found


def _plain(number: float) -> str:
    """As a user would write it, with all of its digits."""
    return repr(int(number) if number.is_integer() else number)


def _hash(scenario: Any) -> str:
    return hashlib.sha256(json.dumps(asdict(scenario)).encode()).hexdigest()[:16]


def _aset(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    from fairlead.learn.aset.agent import Aset, AsetSettings, actions_of

    mix = len(args.scenarios) > 1 if args.mix is None else args.mix  # else it takes one scenario for another
    settings = tuned(AsetSettings(mix=mix), args.hyper)
    if args.steps <= (first := settings.learning_starts):
        raise UserError(f"--steps {args.steps}: expected more than learning_starts={first}, where learning begins")
    return Aset(places, actions_of(args.actions), settings, args.seed, judged)


def _ecsrl(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    from fairlead.learn.ecsrl.agent import Ecsrl, EcsrlSettings

    (energies, energy), (degradations, degradation) = (
        _range(f"--{name}-weight", getattr(args, f"{name}_weight")) for name in ("energy", "degradation")
    )
    settings = EcsrlSettings(args.objective, energy, degradation, energies, degradations)
    if args.target is not None:
        if args.objective == "weighted":
            raise UserError(f"--target {args.target:g}: this is for --objective constraint")
        settings = replace(settings, target=args.target)
    return Ecsrl(places, tuned(settings, args.hyper), args.seed, judged)


def _range(option: str, text: str) -> tuple[tuple[float, float], float]:
    """The range of a weight that is learnt, and the weight that the bundle heeds."""
    low, high, heeded, *more = (given := numbers(option, text, ":")) + given[:1] * (3 - len(given))
    if more or not low <= heeded <= high:
        raise UserError(f"{option} {text}: expected a number, a range such as 0:0.3, or 0:0.3:0.1 to heed 0.1 of it")
    return (low, high), heeded


def _list(agent: str) -> int:
    need_libraries(*_NEEDS)
    from fairlead.learn.aset.agent import AsetSettings
    from fairlead.learn.ecsrl.agent import EcsrlSettings

    return list_settings(AsetSettings() if agent == "aset" else EcsrlSettings())


def _command(args: argparse.Namespace) -> str:
    """The command that trains the same again, whatever the default of steps will be."""
    words = ["fairlead", "train", args.agent, *(w for name in args.scenarios for w in ("--scenario", name))]
    words += [w for override in args.overrides for w in ("--set", override)]
    for option in (
        "rates",
        "validation_rates",
        "actions",
        "window_ms",
        "objective",
        "energy_weight",
        "degradation_weight",
        "target",
    ):
        if (value := getattr(args, option, None)) is not None:
            words += [f"--{option.replace('_', '-')}", _plain(value) if isinstance(value, float) else value]
    if (mix := getattr(args, "mix", None)) is not None:
        words.append("--mix" if mix else "--no-mix")
    words += [w for change in args.hyper for w in ("--hyper", change)]
    return shlex.join([*words, "--steps", str(args.steps), "--seed", str(args.seed), "--out", args.out])


class _Teller(BarTeller):
    def __init__(self, bar: Progress, learner: Learner) -> None:
        super().__init__(bar, "steps")
        self._learner = learner

    def validated(self, point: Point, best: bool) -> None:
        gap = f"{self._learner.gap_words(point.verdict.gap)} to the best rules"
        self.say(gap, f"step {point.step:,} after {point.seconds:.0f} s: {gap}", best)


def _close(args: argparse.Namespace, learner: Learner, answer: Answer) -> int:
    """Say what there is, and the exit code for it."""
    resume = "run the same command with --resume to continue"
    if answer.best < 0:
        kept = f"{answer.steps:,} steps are kept, {resume}" if answer.steps else "before training began"
        note(f"fairlead: interrupted, {kept}; there is no bundle yet: nothing was validated")
        return 130
    best = answer.points[answer.best]
    say(f"{args.out}: the agent after {best.step:,} steps; gap to the best rule of each place:")
    for p, place in enumerate(learner.judged):
        say(f"  {place.label}: {learner.gap_words(best.verdict.gap_at(p))}")
    first = learner.judged[0]
    changes = [word for change in first.overrides for word in ("--set", change)]
    bundle = args.out if Path(args.out).name != args.out else f"./{args.out}"  # a bare name could be another policy's
    example = ["fairlead", "compare", first.scenario, *changes, "--policies", f"{answer.best_rule},{bundle}"]
    say(f"try it on workloads that had no part in this: {shlex.join(example)}")
    if answer.finished:
        return 0
    note(f"fairlead: interrupted after {answer.steps:,} steps; {resume}")
    return 130
