"""Deciders: a policy at work. In goes a snapshot, out comes a Decision; hosts don't ask what kind of policy it is.

    decider = find("closest").decider(Setting(nodes=11, window_ms=1000.0))
    decision = decider.decide(RequestSnapshot(request, candidates, excluded), u)

A decider with `windows` wants a WindowSnapshot at the edge of each window. One with compiled `rules` need
not be asked about requests: a host may call the one that is `active` itself, as the simulator's engine does, and then
says so by `decided`. A decider counts what it did and reuses its buffers: each thread needs its own.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fairlead.domain.decision import Decision, RequestSnapshot, WindowSnapshot
from fairlead.domain.errors import PolicyError
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies.guard import REQUEST_FIELDS, Guard, check_choice, compiled

if TYPE_CHECKING:
    from fairlead.policies.interface import Policy


Snapshot = RequestSnapshot | WindowSnapshot

_ROUNDING = 1e-9  # a probability may be a sum that is a little above 1


class Setting(NamedTuple):
    """What a decider must know of where it decides."""

    nodes: int
    window_ms: float  # the length of a window


class Decider(ABC):
    """A policy at work."""

    windows = False  #: Whether it wants a WindowSnapshot before the first window and at the end of each.
    nodes = 0  #: For how many nodes that snapshot must be made (`fairlead.policies.observe`),
    mix = False  #: and whether with the mix of requests.
    foresees = False  #: Whether it may read what is foreseen of candidates (`FORESEEN`), which is NaN else.

    def __init__(self, name: str, code: str) -> None:
        self.name, self.hash = name, code
        self.rules: tuple[Policy, ...] = ()  # compiled ones, of which `active` decides requests; none: it must be asked
        self.active = 0
        self.decisions = 0  # of requests or streams; for a decider with `windows`, of windows
        self.fallbacks: Counter[Fallback] = Counter()

    @abstractmethod
    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """The answer to a snapshot; `u` is a uniform number of this decision."""

    def decided(self, requests: int) -> None:
        """So many requests were decided by the active rule, called by the host itself."""
        if not self.windows:
            self.decisions += requests


class RuleDecider(Decider):
    """A compiled rule."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.name, policy.hash)
        compiled_rule(policy)  # now, so that no decision waits for it
        self.rules, self.foresees = (policy,), policy.foresees

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As Decider has it."""
        self.decisions += 1
        return decide_by(self.rules[0], snapshot, u)


class PythonDecider(Decider):
    """A policy in Python, which gets copies: it can't change what it is shown. What it raises is a PolicyError."""

    foresees = True

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.name, policy.hash)
        self._policy = policy
        self._guard = Guard(policy.name, policy.function)

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As Decider has it."""
        request, candidates, excluded = of_request(snapshot)
        self.decisions += 1
        shown = request.view(np.recarray)[0].copy(), candidates.view(np.recarray).copy(), excluded.copy()
        with self._guard:
            choice = operator.index(self._policy.function(*shown, u))
        return _checked(self._policy, choice, request, candidates, excluded)


def decide_by(rule: Policy, snapshot: Snapshot, u: float, why: Fallback | None = None) -> Decision:
    """What a compiled rule decides about a request."""
    request, candidates, excluded = of_request(snapshot)
    with Guard(rule.name, rule.function):
        choice = int(rule.entry_point(request[0], candidates, excluded, u))
    return _checked(rule, choice, request, candidates, excluded, why)


def compiled_rule(rule: Policy) -> Any:
    """The code of a compiled rule; a PolicyError when it does not compile."""
    return compiled(rule, REQUEST_FIELDS)


def of_request(snapshot: Any) -> tuple[Any, Any, Any]:
    """The arrays of a request's snapshot, as compiled code can take them."""
    request, candidates, excluded = snapshot[:3]
    if candidates.dtype != CANDIDATE or request.dtype != REQUEST or excluded.dtype != np.uint16:
        raise TypeError("a snapshot needs REQUEST, CANDIDATE and uint16, as fairlead.domain.records has them")
    return np.asarray(request).reshape(1), np.ascontiguousarray(candidates), np.ascontiguousarray(excluded)


def _checked(
    policy: Policy, choice: int, request: Any, candidates: Any, excluded: Any, why: Fallback | None = None
) -> Decision:
    """The decision for a choice. A PolicyError when it, or what the policy says of its probability, can't be."""
    check_choice(policy.name, choice, excluded, int(request["id"][0]))
    with Guard(policy.name, policy.probability, "failed to tell the probability of its choice"):
        probability = policy.probability_of(request, candidates, excluded, choice)
    if not (0.0 <= probability <= 1.0 + _ROUNDING or math.isnan(probability)):
        told = f"told a probability of {probability:g} for its choice, which must be 0 to 1, or NaN where it is unknown"
        raise PolicyError(f"policy {policy.name!r} {told}, for request {int(request['id'][0])}")
    return Decision(choice, min(probability, 1.0), policy.name, policy.hash, why)  # the least of NaN and 1 is NaN
