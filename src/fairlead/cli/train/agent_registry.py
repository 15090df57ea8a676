"""The agents that `fairlead train` knows, by name. A new one is a line here, and its options in `options`.

torch is imported with `fairlead.learn`, inside of the functions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fairlead.cli.train.request_agents import ServingAgent, run_train_serving
from fairlead.cli.train.tapfinger import run_train_tasks
from fairlead.domain.errors import UserError
from fairlead.learn.shared.settings import numbers, tuned

if TYPE_CHECKING:
    from fairlead.learn.shared.environments import Place
    from fairlead.learn.shared.learner import Learner


def run_train(args: argparse.Namespace) -> int:
    """Run `fairlead train`; the exit code."""
    return AGENTS[args.agent](args)


def _aset_settings() -> Any:
    from fairlead.learn.aset.agent import AsetSettings

    return AsetSettings()


def _ecsrl_settings() -> Any:
    from fairlead.learn.ecsrl.agent import EcsrlSettings

    return EcsrlSettings()


def aset_learner(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    """What is trained for ASET."""
    from fairlead.learn.aset.agent import Aset, AsetSettings, actions_of

    mix = len(args.scenarios) > 1 if args.mix is None else args.mix  # else it takes one scenario for another
    settings = tuned(AsetSettings(mix=mix), args.hyper)
    if args.steps <= (first := settings.learning_starts):
        raise UserError(f"--steps {args.steps}: expected more than learning_starts={first}, where learning begins")
    return Aset(places, actions_of(args.actions), settings, args.seed, judged)


def ecsrl_learner(args: argparse.Namespace, places: list[Place], judged: list[Place]) -> Learner:
    """What is trained for ECSRL."""
    from fairlead.learn.ecsrl.agent import Ecsrl, EcsrlSettings

    (energies, energy), (degradations, degradation) = (
        _range(f"--{name}-weight", getattr(args, f"{name}_weight")) for name in ("energy", "degradation")
    )
    settings = EcsrlSettings(args.objective, energy, degradation, energies, degradations)
    if args.target is not None:
        if args.objective == "weighted":
            raise UserError(f"--target {args.target:g}: needs --objective constraint")
        settings = replace(settings, target=args.target)
    return Ecsrl(places, tuned(settings, args.hyper), args.seed, judged)


def _range(option: str, text: str) -> tuple[tuple[float, float], float]:
    """The range of a weight that is learnt, and the weight that the bundle heeds."""
    low, high, heeded, *more = (given := numbers(option, text, ":")) + given[:1] * (3 - len(given))
    if more or not low <= heeded <= high:
        raise UserError(f"{option} {text}: expected a number, a range such as 0:0.3, or 0:0.3:0.1 to use 0.1 of it")
    return (low, high), heeded


#: How each agent is trained.
AGENTS: dict[str, Callable[[argparse.Namespace], int]] = {
    "aset": partial(run_train_serving, agent=ServingAgent(_aset_settings, aset_learner)),
    "ecsrl": partial(run_train_serving, agent=ServingAgent(_ecsrl_settings, ecsrl_learner)),
    "tapfinger": run_train_tasks,
}
