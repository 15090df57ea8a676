"""`fairlead train`: from what the user typed to places and settings, a progress bar, and words at the end.

torch and Stable-Baselines3 are imported with `fairlead.learn`, when everything else is found to be right.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import inspect
import json
import math
import shlex
import sys
from dataclasses import asdict, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fairlead.domain.errors import UserError, nearest
from fairlead.scenarios.loader import load

if TYPE_CHECKING:
    from fairlead.learn.curve import Point
    from fairlead.learn.environments import Place
    from fairlead.learn.learner import Learner
    from fairlead.learn.training import Answer

_NEEDS = ("torch", "stable_baselines3", "sb3_contrib", "onnx", "onnxscript", "tensorboard", "gymnasium")
_MOST_STEPS = 10**10
#: Settings that have options of their own; and those that are shares.
_OPTIONS = (
    "objective",
    "energy_weight",
    "degradation_weight",
    "energy_weights",
    "degradation_weights",
    "target",
    "mix",
)
_SHARES = ("gamma", "gae_lambda", "epsilon_first", "epsilon_last", "exploration", "clip")
S = TypeVar("S")


def run_train(args: argparse.Namespace) -> int:
    """Run `fairlead train aset` or `fairlead train ecsrl`; the exit code."""
    if args.hyper == ["list"]:
        return _list(args.agent)
    _check(args)
    scenarios = _scenarios(args, "--rates", args.rates)
    judged = _scenarios(args, "--validation-rates", args.validation_rates) if args.validation_rates is not None else {}
    _need_libraries()
    from fairlead.learn.environments import Place
    from fairlead.learn.training import Question, train
    from fairlead.sim.gym.worlds import worlds_of

    places, others = (
        [
            Place(label, name, overrides, _hash(scenario), worlds_of(scenario))
            for label, (name, overrides, scenario) in some.items()
        ]
        for some in (scenarios, judged)
    )
    learner = (_aset if args.agent == "aset" else _ecsrl)(args, places, others)
    question = Question(learner, args.steps, Path(args.out), _command(args))
    with _bar() as bar:
        answer = train(question, _Teller(bar, learner), args.resume)
    return _close(args, learner, answer)


def _check(args: argparse.Namespace) -> None:
    """Refuse wrong options before anything is loaded."""
    if not args.scenarios:
        raise UserError("--scenario: it must be said where to learn (`fairlead scenarios` lists names)")
    if not args.out:
        raise UserError("--out: the folder that the bundle goes to is missing")
    if not 1 <= args.steps <= _MOST_STEPS:
        raise UserError(f"--steps {args.steps}: expected a whole number from 1 on")
    if not 0 <= args.seed < 2**31:
        raise UserError(f"--seed {args.seed}: expected a whole number from 0 to 2^31 - 1")


def _need_libraries() -> None:
    if missing := [name for name in _NEEDS if importlib.util.find_spec(name) is None]:
        raise UserError(f"training needs {missing[0]}: pip install 'fairlead[train]' (from a checkout: '.[train]')")


def _scenarios(args: argparse.Namespace, option: str, text: str | None) -> dict[str, tuple[str, tuple[str, ...], Any]]:
    """Name, overrides and scenario of each place, by label; `text` is what `option` gives as rates."""
    overrides = list(args.overrides)
    if getattr(args, "window_ms", None) is not None:
        overrides.append(f"window_ms={_plain(args.window_ms)}")
    rates = _numbers(option, text) if text is not None else [None]
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


def _numbers(option: str, text: str, separator: str = ",") -> list[float]:
    try:
        numbers = [float(part) for part in text.split(separator)]
    except ValueError:
        numbers = []
    if not numbers or not all(math.isfinite(n) and n >= 0 for n in numbers):
        raise UserError(f"{option} {text}: expected numbers, such as {separator.join(('30', '60'))}")
    return numbers


def _hash(scenario: Any) -> str:
    return hashlib.sha256(json.dumps(asdict(scenario)).encode()).hexdigest()[:16]


def _aset(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    from fairlead.learn.aset import Aset, AsetSettings, actions_of

    mix = len(args.scenarios) > 1 if args.mix is None else args.mix  # else it takes one scenario for another
    settings = _tuned(AsetSettings(mix=mix), args.hyper)
    if args.steps <= (first := settings.learning_starts):
        raise UserError(f"--steps {args.steps}: expected more than learning_starts={first}, where learning begins")
    return Aset(places, actions_of(args.actions), settings, args.seed, judged)


def _ecsrl(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    from fairlead.learn.ecsrl import Ecsrl, EcsrlSettings

    (energies, energy), (degradations, degradation) = (
        _range(f"--{name}-weight", getattr(args, f"{name}_weight")) for name in ("energy", "degradation")
    )
    settings = EcsrlSettings(args.objective, energy, degradation, energies, degradations)
    if args.target is not None:
        if args.objective == "weighted":
            raise UserError(f"--target {args.target:g}: this is for --objective constraint")
        settings = replace(settings, target=args.target)
    return Ecsrl(places, _tuned(settings, args.hyper), args.seed, judged)


def _range(option: str, text: str) -> tuple[tuple[float, float], float]:
    """The range of a weight that is learnt, and the weight that the bundle heeds."""
    low, high, heeded, *more = (numbers := _numbers(option, text, ":")) + numbers[:1] * (3 - len(numbers))
    if more or not low <= heeded <= high:
        raise UserError(f"{option} {text}: expected a number, a range such as 0:0.3, or 0:0.3:0.1 to heed 0.1 of it")
    return (low, high), heeded


def _tuned(settings: S, changes: list[str]) -> S:
    """The settings with what --hyper changes."""
    for change in changes:
        name, equals, text = change.partition("=")
        known = {f.name: getattr(settings, f.name) for f in fields(settings)}  # type: ignore[arg-type]
        if name in _OPTIONS and name in known:
            option = name.removesuffix("s").replace("_", "-")
            raise UserError(f"--hyper {change}: this has an option of its own, --{option}")
        if name not in known:
            raise UserError(f"--hyper {change}: unknown setting{nearest(name, known)}; --hyper list shows them")
        try:
            value = _like(known[name], text) if equals else None
        except ValueError:
            value = None
        if value is None:
            raise UserError(f"--hyper {change}: expected {name}=VALUE, such as {name}={_as_text(known[name])}")
        _check_setting(name, value)
        settings = replace(settings, **{name: value})  # type: ignore[type-var]
    return settings


def _check_setting(name: str, value: Any) -> None:
    """Refuse numbers that nothing can be trained with."""
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, int) and number < 1:
            raise UserError(f"--hyper {name}={number}: expected a whole number from 1 on")
        if isinstance(number, float) and not (math.isfinite(number) and number >= 0):
            raise UserError(f"--hyper {name}={number:g}: expected a number from 0 on")
        if name in _SHARES and number > 1:
            raise UserError(f"--hyper {name}={number:g}: expected a share, from 0 to 1")


def _like(default: Any, text: str) -> Any:
    """The text as a value of the default's type."""
    if isinstance(default, bool):
        return {"true": True, "false": False}[text] if text in ("true", "false") else None
    if isinstance(default, tuple):
        return tuple(type(default[0])(part) for part in text.split(","))
    return type(default)(text)


def _as_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(agent: str) -> int:
    """Print the settings that --hyper can change, and what each means."""
    _need_libraries()
    from fairlead.learn.aset import AsetSettings
    from fairlead.learn.ecsrl import EcsrlSettings

    settings = AsetSettings() if agent == "aset" else EcsrlSettings()
    words = _meanings(type(settings))
    for name, value in asdict(settings).items():
        if name not in _OPTIONS:
            print(f"{f'{name}={_as_text(value)}':28}{words.get(name, '')}".rstrip())
    return 0


def _meanings(settings: type) -> dict[str, str]:
    """What the docstrings below the fields say."""
    (body,) = ast.parse(inspect.getsource(settings)).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(str(words.value.value).split())
        for field, words in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant)
    }


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


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[gap]}"),
        console=(console := Console(stderr=True)),
        transient=True,
        disable=not console.is_terminal,
    )


class _Teller:
    """Moves the bar; where there is no terminal, a line for each validation."""

    def __init__(self, bar: Progress, learner: Learner) -> None:
        self._bar, self._learner = bar, learner
        self._task = bar.add_task("starting", total=None, speed="", gap="")

    def doing(self, what: str) -> None:
        self._bar.update(self._task, description=what)

    def step(self, done: int, total: int) -> None:
        speed = self._bar.tasks[0].speed
        words = f"{done:,} of {total:,} steps{f', {speed:,.0f} a second' if speed else ''}"
        self._bar.update(self._task, completed=done, total=total, speed=words)

    def validated(self, point: Point, best: bool) -> None:
        gap = f"{self._learner.gap_words(point.verdict.gap)} to the best rules"
        self._bar.update(self._task, gap=gap)
        if self._bar.disable:
            line = f"step {point.step:,} after {point.seconds:.0f} s: {gap}{' (best so far)' if best else ''}"
            print(line, file=sys.stderr, flush=True)


def _close(args: argparse.Namespace, learner: Learner, answer: Answer) -> int:
    """Say what there is, and the exit code for it."""
    resume = "the same command with --resume goes on"
    if answer.best < 0:
        kept = f"{answer.steps:,} steps are kept, {resume}" if answer.steps else "before training began"
        print(f"fairlead: interrupted, {kept}; there is no bundle yet: nothing was validated", file=sys.stderr)
        return 130
    best = answer.points[answer.best]
    print(f"{args.out}: the agent after {best.step:,} steps; gap to the best rule of each place:")
    for p, place in enumerate(learner.judged):
        print(f"  {place.label}: {learner.gap_words(best.verdict.gap_at(p))}")
    first = learner.judged[0]
    changes = [word for change in first.overrides for word in ("--set", change)]
    bundle = args.out if Path(args.out).name != args.out else f"./{args.out}"  # a bare name could be another policy's
    example = ["fairlead", "compare", first.scenario, *changes, "--policies", f"{answer.best_rule},{bundle}"]
    print(f"try it on workloads that had no part in this: {shlex.join(example)}")
    if answer.finished:
        return 0
    print(f"fairlead: interrupted after {answer.steps:,} steps; {resume}", file=sys.stderr)
    return 130
