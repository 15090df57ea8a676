"""One decision of a learned policy, watched in the simulator: found by time or by request, remembered, forced.

    case = find_case(scenario, policy, seed, at_s=30.0, request=None)
    decision, world = case.play()       the run as it is; play(answer) forces this one decision to another answer

Called by `explain`. Selectors decide windows, dispatchers requests: a case of each kind says what could be done and
what the model was shown.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairlead.domain.decision import Decision, WindowSnapshot
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import REASON_NAMES, Fallback, Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments.policy_inputs import (
    Groups,
    Input,
    dispatch_groups,
    dispatch_inputs,
    window_groups,
    window_inputs,
)
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.decider import Setting, Snapshot, of_request
from fairlead.policies.expected_times import completion_ms
from fairlead.policies.interface import Policy, find, registry
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.policies.snapshot.capacity import capacity_qps
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run_decider, setting_of
from fairlead.sim.serving.world import new_world
from fairlead.sim.serving.world_arrays import World

Situation = dict[str, str | float]
_SHOWN = ("deadline_ms", "min_accuracy", "size_kb", "rate_qps")  # of a request
_FACTS = ("net_ms", "queue_ms", "suffered", "accuracy", "energy_mj", "in_flight")  # of a candidate


@dataclass(frozen=True)
class Action:
    """Something that could be done."""

    name: str
    answer: int  # the agent's answer that means it
    output: int | None  # of the model; None: it has none for this
    excluded: tuple[str, ...] = ()  # why it is not possible
    facts: dict[str, float] = field(default_factory=dict)  # of a candidate
    summary: str = ""  # of a rule


@dataclass(frozen=True)
class Watched:
    """What an agent was asked, and its answer."""

    observation: Any | None  # float32 (F,); None when the model has too few inputs
    answer: int
    reason: Fallback | None  # why the rule decided
    request: Any = None  # REQUEST; of dispatchers, as what follows
    candidates: Any = None  # CANDIDATE (C,)
    excluded: Any = None  # uint16 (C,)


class _WatchedSelector(Selector):
    """Records what it is asked about one window, and gives the answer that it was set to."""

    def __init__(self, name: str, bundle: Bundle, setting: Setting, window: int, forced: int | None) -> None:
        super().__init__(name, bundle, setting)
        self._window, self._forced = window, forced
        self.seen: Watched | None = None

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As a Selector does."""
        window = self.decisions
        made = super().decide(snapshot, u)
        if window != self._window or not isinstance(snapshot, WindowSnapshot):
            return made
        names = [rule.name for rule in self.rules]  # the fallback rule may be one of the actions, too
        self.seen = Watched(snapshot.stats[0].copy(), names.index(names[made.choice]), made.fallback)
        if self._forced is not None:
            self.active = self._forced
        return made


class _WatchedDispatcher(Dispatcher):
    """Records what it is asked about the first wanted request, and gives the answer that it was set to."""

    def __init__(self, name: str, bundle: Bundle, wanted: Callable[[Any], bool], forced: int | None) -> None:
        super().__init__(name, bundle)
        self._wanted, self._forced = wanted, forced
        self.seen: Watched | None = None

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As a Dispatcher does."""
        made = super().decide(snapshot, u)
        request, candidates, excluded = of_request(snapshot)
        if self.seen or not self._wanted(request[0]):
            return made
        observation = None if made.fallback == Fallback.SIZE else self.observation[0].copy()
        shown = request[0].copy(), candidates.copy(), excluded.copy()
        self.seen = Watched(observation, made.choice, made.fallback, *shown)
        return made if self._forced is None else made._replace(choice=self._forced)


class Case(ABC):
    """One decision of a policy in the run of one seed of a scenario."""

    kind: str

    def __init__(self, scenario: Scenario, name: str, bundle: Bundle, seed: int) -> None:
        if isinstance(bundle.manifest, Fault):
            raise _unusable(name, bundle, bundle.manifest)
        self.scenario, self.name, self.bundle, self.manifest = scenario, name, bundle, bundle.manifest
        self.plan, self.workload = build_plan(scenario), make_workload(scenario, seed)

    def play(self, forced: int | None = None) -> tuple[Watched, World]:
        """The decision and the finished world, in which this one decision is forced to the answer, if one is given."""
        world = new_world(self.plan, self.workload)
        agent = self._agent(forced)
        if agent.fault:
            raise _unusable(self.name, self.bundle, agent.fault)
        run_decider(self.plan, world, agent)
        if agent.seen is None:
            raise UserError(self._nothing(world))
        return agent.seen, world

    @abstractmethod
    def _agent(self, forced: int | None) -> _WatchedSelector | _WatchedDispatcher: ...

    @abstractmethod
    def _nothing(self, world: World) -> str:
        """Why nothing was decided."""

    @abstractmethod
    def span_s(self, made: Watched) -> tuple[float, float]:
        """From when to when the decision holds; for a request its time, twice."""

    @abstractmethod
    def number(self, made: Watched) -> int:
        """Of the window, or the request's id."""

    @abstractmethod
    def situation(self, made: Watched) -> Situation:
        """What it was about, in natural terms."""

    @abstractmethod
    def actions(self, made: Watched) -> list[Action]:
        """What could be done; of equals the policy takes the first."""

    @abstractmethod
    def inputs(self, made: Watched) -> tuple[list[Input], Groups]:
        """What the model is shown."""

    @abstractmethod
    def shares(self, actions: list[Action], values: Any) -> dict[str, float]:
        """The softmax share of each possible action, given what the model's outputs are worth; empty without them."""

    @abstractmethod
    def begins_ms(self, made: Watched) -> float:
        """When the first request arrives that the decision can be about."""

    @abstractmethod
    def ending(self, made: Watched, world: World) -> tuple[str | None, float | None]:
        """Outcome and latency of the request that was decided; None where there is no such request, or no answer."""


def find_case(scenario: Scenario, policy: Policy, seed: int, at_s: float | None, request: int | None) -> Case:
    """The decision of `policy` at a time, or about a request; what can't be one is a UserError."""
    if policy.bundle is None:
        learned = ", ".join(name for name, p in registry()[0].items() if p.learned)
        which = f"give {learned}, or the folder of a bundle" if learned else "give the folder of a bundle"
        raise UserError(f"policy {policy.name!r} is a rule, and only learned policies can be explained: {which}")
    duration_s = scenario.workload.duration_s
    if at_s is not None and not 0.0 <= at_s < duration_s:
        raise UserError(f"--at {at_s:g}: {scenario.name} runs from 0 s to before {duration_s:g} s")
    if policy.selects:
        if at_s is None:
            raise UserError(f"--request {request}: {policy.name} decides for windows of time: give a time with --at")
        return _WindowCase(scenario, policy.name, policy.bundle, seed, at_s)
    return _RequestCase(scenario, policy.name, policy.bundle, seed, at_s, request)


def _unusable(name: str, bundle: Bundle, fault: Fault) -> UserError:
    return UserError(
        f"the model of policy {name!r} can't be used here ({fault.why}), so its fallback rule {bundle.fallback} "
        "decides everything and there is nothing to explain"
    )


class _WindowCase(Case):
    """The window under way at a time."""

    kind = "window"

    def __init__(self, scenario: Scenario, name: str, bundle: Bundle, seed: int, at_s: float) -> None:
        super().__init__(scenario, name, bundle, seed)
        self._setting = setting_of(self.plan)
        self._window_s = self._setting[1] / 1000.0
        self._window = int(1000.0 * at_s // self._setting[1])

    def _agent(self, forced: int | None) -> _WatchedSelector:
        return _WatchedSelector(self.name, self.bundle, self._setting, self._window, forced)

    def _nothing(self, world: World) -> str:
        return f"{self.scenario.name}: nothing was decided for window {self._window}"

    def span_s(self, made: Watched) -> tuple[float, float]:
        start_s = self._window * self._window_s
        return start_s, min(start_s + self._window_s, self.scenario.workload.duration_s)

    def number(self, made: Watched) -> int:
        return self._window

    def situation(self, made: Watched) -> Situation:
        if self._window == 0:
            return {"inputs of": "the start: the connected clients and the links"}
        start_s = self._window * self._window_s
        return {"inputs of": f"the window before, {start_s - self._window_s:g} to {start_s:g} s"}

    def actions(self, made: Watched) -> list[Action]:
        names, rule = self.manifest.actions, self.bundle.fallback
        found = [Action(name, i, i, summary=find(name).summary) for i, name in enumerate(names)]
        if made.answer == len(names):  # the fallback rule decided, and the model can't choose it
            found.append(Action(rule, made.answer, None, summary=find(rule).summary))
        return found

    def inputs(self, made: Watched) -> tuple[list[Input], Groups]:
        shape = list(self.scenario.nodes), self.manifest.slots, self.manifest.mix
        return window_inputs(*shape, float(capacity_qps(self.plan).sum())), window_groups(*shape)

    def shares(self, actions: list[Action], values: Any) -> dict[str, float]:
        return {}  # values are gains, which mean something by themselves

    def begins_ms(self, made: Watched) -> float:
        return self._window * self._setting[1]

    def ending(self, made: Watched, world: World) -> tuple[str | None, float | None]:
        return None, None


class _RequestCase(Case):
    """The first request that is decided at or after a time, or the one of an id."""

    kind = "request"

    def __init__(
        self, scenario: Scenario, name: str, bundle: Bundle, seed: int, at_s: float | None, request: int | None
    ) -> None:
        super().__init__(scenario, name, bundle, seed)
        self._at_s, self._request, count = at_s, request, len(self.workload.requests)
        if request is not None and not 0 <= request < count:
            raise UserError(f"--request {request}: {scenario.name} has requests 0 to {count - 1} with seed {seed}")

    def _wanted(self, request: Any) -> bool:
        if self._at_s is None:
            return bool(request["id"] == self._request)
        return bool(request["now_ms"] >= 1000.0 * self._at_s)

    def _agent(self, forced: int | None) -> _WatchedDispatcher:
        return _WatchedDispatcher(self.name, self.bundle, self._wanted, forced)

    def _nothing(self, world: World) -> str:
        if self._request is None:
            return f"--at {self._at_s:g}: no request is decided from then on"
        asked, row, before = f"--request {self._request}", world.rows[self._request], slice(0, self._request)
        if row["bound"]:
            same = world.requests["stream"][before] == world.requests["stream"][self._request]
            first = np.flatnonzero(same & (world.rows["bound"][before] == 0))[-1]
            return f"{asked}: it went where its stream is bound since request {first}, so explain that one"
        why = ", ".join(_words(row["reason"]))
        return f"{asked}: it was rejected because no candidate was feasible ({why}), so nothing was decided"

    def span_s(self, made: Watched) -> tuple[float, float]:
        at_s = float(made.request["now_ms"]) / 1000.0
        return at_s, at_s

    def number(self, made: Watched) -> int:
        return int(made.request["id"])

    def situation(self, made: Watched) -> Situation:
        asked, workload = made.request, self.scenario.workload
        names: Situation = {
            "model": list(self.scenario.models)[asked["model"]],
            "source": list(workload.sources)[asked["source"]],
            "site": workload.sites[asked["site"]],
        }
        return names | {name: float(asked[name]) for name in _SHOWN}

    def actions(self, made: Watched) -> list[Action]:
        known, records = made.observation is not None, made.candidates.view(np.recarray)
        found = [
            Action(name, c, c if known else None, _words(made.excluded[c]), _facts(records[c]))
            for c, (name, _) in enumerate(self._places(made))
        ]
        return [*found, Action("reject", -1, self.manifest.slots if known else None)]

    def inputs(self, made: Watched) -> tuple[list[Input], Groups]:
        names, nodes = (list(column) for column in zip(*self._places(made), strict=True))
        bound = self.scenario.rules.dispatch == "stream"
        return dispatch_inputs(names, self.manifest.slots, bound), dispatch_groups(names, nodes, self.manifest.slots)

    def shares(self, actions: list[Action], values: Any) -> dict[str, float]:
        possible = [a for a in actions if not a.excluded]
        scores = values[[a.output for a in possible]]
        weights = np.exp(scores - scores.max())
        return {a.name: float(w) for a, w in zip(possible, weights / weights.sum(), strict=True)}

    def begins_ms(self, made: Watched) -> float:
        return float(made.request["now_ms"])

    def ending(self, made: Watched, world: World) -> tuple[str | None, float | None]:
        row = world.rows[self.number(made)]
        latency_ms = float(row["latency_ms"])
        return Outcome(row["outcome"]).name.lower(), None if math.isnan(latency_ms) else latency_ms

    def _places(self, made: Watched) -> list[tuple[str, str]]:
        """Name and node of each candidate."""
        first = int(self.plan.models[made.request["model"]]["first"])
        rows = self.scenario.placements()[first : first + len(made.candidates)]
        return [(f"{variant.name} on {node.name}", node.name) for _, variant, node in rows]


def _words(bits: Any) -> tuple[str, ...]:
    return tuple(name for bit, name in REASON_NAMES.items() if int(bits) & bit)


def _facts(candidate: Any) -> dict[str, float]:
    return {"completion_ms": float(completion_ms(candidate))} | {name: float(candidate[name]) for name in _FACTS}
