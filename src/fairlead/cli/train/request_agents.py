"""`fairlead train` of an agent that decides on requests: from what the user typed to places, a progress bar, words.

torch and Stable-Baselines3 are imported with `fairlead.learn`, when everything else is found to be right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import Progress

from fairlead.cli.standard_streams import note, say
from fairlead.cli.train.progress import BarTeller, check_options, need_libraries, progress_bar
from fairlead.domain.errors import UserError
from fairlead.learn.shared.settings import list_settings, numbers
from fairlead.scenarios.loader import load

if TYPE_CHECKING:
    from fairlead.learn.shared.environments import Place
    from fairlead.learn.shared.learner import Learner
    from fairlead.learn.shared.learning_curve import CurvePoint
    from fairlead.learn.shared.training import Answer

_NEEDS = ("torch", "stable_baselines3", "sb3_contrib", "onnx", "onnxscript", "tensorboard", "gymnasium")


class ServingAgent(NamedTuple):
    """What is known of such an agent; torch is not needed to know it."""

    settings: Callable[[], Any]  # those that --hyper changes, as they are unless told
    learner: Callable[[argparse.Namespace, list[Place], list[Place]], Learner]  # what is trained, where, judged where


def run_train_serving(args: argparse.Namespace, agent: ServingAgent) -> int:
    """Train an agent; the exit code."""
    if args.hyper == ["list"]:
        need_libraries(*_NEEDS)
        return list_settings(agent.settings())
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
    learner = agent.learner(args, places, others)
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
                raise UserError(f"{option if rates != [None] else '--scenario'}: {label!r} is given twice")
            found[label] = (name, here, scenario)
    return found


def _plain(number: float) -> str:
    """As a user would write it, with all of its digits."""
    return repr(int(number) if number.is_integer() else number)


def _hash(scenario: Any) -> str:
    return hashlib.sha256(json.dumps(asdict(scenario)).encode()).hexdigest()[:16]


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

    def validated(self, point: CurvePoint, best: bool) -> None:
        gap = f"{self._learner.gap_words(point.verdict.gap)} to the best rules"
        self.say(gap, f"step {point.step:,} after {point.seconds:.0f} s: {gap}", best)


def _close(args: argparse.Namespace, learner: Learner, answer: Answer) -> int:
    """Say what there is, and the exit code for it."""
    resume = "run the same command with --resume to continue"
    if answer.best < 0:
        kept = f"{answer.steps:,} steps are kept, {resume}" if answer.steps else "before training began"
        note(f"fairlead: interrupted, {kept}; there is no bundle yet, because nothing was validated")
        return 130
    best = answer.points[answer.best]
    say(f"{args.out}: the agent after {best.step:,} steps; gap to the best rule for each scenario and rate:")
    for p, place in enumerate(learner.judged):
        say(f"  {place.label}: {learner.gap_words(best.verdict.gap_at(p))}")
    first = learner.judged[0]
    changes = [word for change in first.overrides for word in ("--set", change)]
    bundle = args.out if Path(args.out).name != args.out else f"./{args.out}"  # a bare name could be another policy's
    example = ["fairlead", "compare", first.scenario, *changes, "--policies", f"{answer.best_rule},{bundle}"]
    say(f"try it on workloads that had no part in the training: {shlex.join(example)}")
    if answer.finished:
        return 0
    note(f"fairlead: interrupted after {answer.steps:,} steps; {resume}")
    return 130
