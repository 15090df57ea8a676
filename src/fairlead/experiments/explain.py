"""Why a learned policy decided as it did: its inputs, what the alternatives were worth, what drove the choice.

For one window of a selector or one request of a dispatcher, in the simulator. Drivers are found by setting an input, or
a group of inputs, to its typical value and asking the model again. With a replay, the run is played again from the
start with that one decision forced to each alternative. Called by the cli.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np

from fairlead import __version__
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments.decision_replay import Action, Case, Situation, Watched, find_case
from fairlead.experiments.policy_inputs import drives
from fairlead.experiments.result_file import plain, versions
from fairlead.policies.interface import Policy
from fairlead.policies.model_runtime import limits
from fairlead.sim.serving.world_arrays import World

SOON_S: Final = 60.0  #: A replay counts requests that arrive within this time after the decision separately.


@dataclass(frozen=True)
class Seen:
    """An input as the model saw it; `typical`, `low` and `high` are of training."""

    name: str
    unit: str
    value: float
    typical: float
    low: float
    high: float
    outside: bool  # of the range, widened: the fallback rule decides


@dataclass(frozen=True)
class Replayed:
    """What another choice would have led to: requests in time and accurate, more than there were."""

    run: int  # in the whole run
    soon: int  # among those that arrive within SOON_S
    outcome: str | None  # of the request itself
    latency_ms: float | None  # None when it was rejected


@dataclass(frozen=True)
class Alternative:
    """Something that could be done, the choice included."""

    name: str
    chosen: bool
    excluded: tuple[str, ...]  # why it was not possible
    value: float | None  # to the model
    share: float | None  # of a dispatcher: softmax over what was possible
    facts: dict[str, float] = field(default_factory=dict)  # of a candidate
    summary: str = ""  # of a rule
    replayed: Replayed | None = None


@dataclass(frozen=True)
class Driver:
    """An input, or inputs that belong together, and how far they moved the margin."""

    name: str
    group: bool
    move: float  # above 0: speaks for the choice
    then: str  # what would have been chosen had they been typical


@dataclass(frozen=True)
class Explanation:
    """One decision."""

    kind: str  # window or request
    number: int  # of the window, or the request's id
    at_s: float
    until_s: float  # of a request the same
    situation: Situation
    chosen: str
    fallback: str | None  # why a rule decided
    rule: str  # that would
    inputs: list[Seen]
    alternatives: list[Alternative]
    rival: str | None  # the best alternative; None when a rule decided, or when there is none
    margin: float | None  # value of the choice - value of the rival
    drivers: list[Driver]  # the strongest first


def explain(
    scenario: Scenario,
    policy: Policy,
    seed: int = 0,
    *,
    at_s: float | None = None,
    request: int | None = None,
    replay: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Explanation:
    """Explain the decision at a time, or about a request; `replay`: with what each alternative would have led to."""
    case = find_case(scenario, policy, seed, at_s, request)
    made, world = case.play()
    actions = case.actions(made)
    found = _explanation(case, made, actions)
    if not replay:
        return found
    others = {}
    possible = [a for a in actions if not a.excluded]
    for i, action in enumerate(possible):
        progress(i, len(possible))
        again = world if action.answer == made.answer else case.play(action.answer)[1]
        others[action.name] = _replayed(case, made, world, again)
    return replace(found, alternatives=[replace(a, replayed=others.get(a.name)) for a in found.alternatives])


def as_document(found: Explanation, scenario: Scenario, policy: Policy, **settings: Any) -> dict[str, Any]:
    """The explanation as plain data; `settings` are what was asked."""
    document = {
        "kind": "explanation",
        "fairlead": __version__,
        "versions": versions([policy]),
        "settings": {"scenario": scenario.name, "policy": policy.name, "hash": policy.hash, **settings},
        "title": scenario.title,
        "workload": scenario.workload_in_words(),
        "assumptions": [f"{path}: {words}" for path, words in scenario.assumptions()],
        "soon_s": SOON_S,
        "decision": asdict(found),
    }
    return dict(plain(document))


def _explanation(case: Case, made: Watched, actions: list[Action]) -> Explanation:
    values = _values(case, made)
    chosen = next(a for a in actions if a.answer == made.answer)
    rival = _rival(values, actions, chosen) if values is not None and not made.reason else None
    at_s, until_s = case.span_s(made)
    return Explanation(
        kind=case.kind,
        number=case.number(made),
        at_s=at_s,
        until_s=until_s,
        situation=case.situation(made),
        chosen=chosen.name,
        fallback=made.reason.value if made.reason else None,
        rule=case.bundle.fallback,
        inputs=_seen(case, made),
        alternatives=_alternatives(case, actions, values, chosen),
        rival=rival.name if rival else None,
        margin=float(values[chosen.output] - values[rival.output]) if values is not None and rival else None,
        drivers=_drivers(case, made, actions, chosen, rival) if rival else [],
    )


def _values(case: Case, made: Watched) -> Any | None:
    """What each output of the model is worth, float64 (A,); None when it can't be asked or answers without sense."""
    if made.observation is None:
        return None
    try:
        values = np.asarray(case.bundle.values(made.observation[None])[0], np.float64)
    except Exception:  # ONNX Runtime; the agent has noted it as its reason
        return None
    return values if np.isfinite(values).all() else None


def _rival(values: Any, actions: list[Action], chosen: Action) -> Action | None:
    others = [a for a in actions if not a.excluded and a is not chosen]
    return max(others, key=lambda a: values[a.output], default=None)


def _seen(case: Case, made: Watched) -> list[Seen]:
    if (shown := made.observation) is None:
        return []
    low, high, typical = case.manifest.low, case.manifest.high, _typical(case)
    least, most = limits(low, high)
    outside = ~((shown >= least) & (shown <= most))
    return [
        Seen(
            i.name,
            i.unit,
            i.natural(shown),
            i.natural(typical),
            i.natural(low),
            i.natural(high),
            outside=bool(outside[i.index]),
        )
        for i in case.inputs(made)[0]
    ]


def _typical(case: Case) -> Any:
    try:
        typical = np.array(case.manifest.document["typical"], np.float32)
    except (KeyError, TypeError, ValueError):
        typical = np.zeros(0, np.float32)
    if typical.shape != case.manifest.low.shape or not np.isfinite(typical).all():
        raise UserError(f"{case.bundle.folder}: typical in manifest.json needs {case.manifest.features} numbers")
    return typical


def _alternatives(case: Case, actions: list[Action], values: Any | None, chosen: Action) -> list[Alternative]:
    shares = {} if values is None else case.shares(actions, values)
    return [
        Alternative(
            a.name,
            a is chosen,
            a.excluded,
            None if values is None or a.output is None else float(values[a.output]),
            shares.get(a.name),
            a.facts,
            a.summary,
        )
        for a in actions
    ]


def _drivers(case: Case, made: Watched, actions: list[Action], chosen: Action, rival: Action) -> list[Driver]:
    inputs, groups = case.inputs(made)
    sets = {i.name: [i.index] for i in inputs} | groups
    by_output = {a.output: a.name for a in actions if a.output is not None and not a.excluded}
    pair, typical = (chosen.output, rival.output), _typical(case)
    moves = drives(case.bundle.values, made.observation, typical, list(sets.values()), list(by_output), pair)
    found = [
        Driver(name, name in groups, move, by_output[best]) for name, (move, best) in zip(sets, moves, strict=True)
    ]
    return sorted(found, key=lambda d: -abs(d.move))


def _replayed(case: Case, made: Watched, world: World, again: World) -> Replayed:
    more = (again.rows["outcome"] == Outcome.SUCCESS).astype(int) - (world.rows["outcome"] == Outcome.SUCCESS)
    after_ms = world.requests["now_ms"] - case.begins_ms(made)
    soon = (after_ms >= 0.0) & (after_ms < 1000.0 * SOON_S)
    return Replayed(int(more.sum()), int(more[soon].sum()), *case.ending(made, again))
