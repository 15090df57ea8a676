"""Runs learned policies: what the simulator's host asks at its stops, and a gateway for live requests.

    Dispatcher(name, bundle).decide(RequestSnapshot(...), u)       where a request goes; -1 rejects it
    Selector(name, bundle, setting).decide(WindowSnapshot(stats))  which of its `rules` decides from now on

The possible action of the highest value is taken, of equals the first. Whenever the model can't be asked or its answer
can't be used, the bundle's fallback rule decides and a counter goes up: nothing raises.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numba import types

from fairlead.domain.decision import Decision, WindowSnapshot
from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.outcomes import Fallback
from fairlead.policies.bundle import LAST_RESORT, Bundle, Fault, Manifest
from fairlead.policies.decider import Decider, Setting, Snapshot, compiled_rule, decide_by, of_request
from fairlead.policies.interface import Policy, find
from fairlead.policies.jit import typed_kernel
from fairlead.policies.model_runtime import Clock, ModelRuntime, limits
from fairlead.policies.observe import EXCLUDED, SINGLES, observe_dispatch, slot_scales, window_stats

_FAILED: Final = -2
_OUTSIDE: Final = -3
_REASONS: Final = {_FAILED: Fallback.OUTPUT, _OUTSIDE: Fallback.RANGE}


class LearnedDecider(Decider):
    """What both kinds have in common: the model's runtime and the rule behind it."""

    def __init__(self, name: str, bundle: Bundle, kind: str, clock: Clock | None) -> None:
        super().__init__(name, bundle.hash)
        self.bundle = bundle
        self.runtime = ModelRuntime(bundle, clock)
        self.fallback, manifest = fallback_rule(bundle), bundle.manifest
        self.runtime.found(_rule(bundle.fallback))
        if isinstance(manifest, Manifest) and manifest.kind != kind:
            self.runtime.found(Fault(Fallback.CORRUPT, f"it is a {manifest.kind}, not a {kind}"))
        self.rules, self.foresees = (self.fallback,), self.fallback.foresees
        self.manifest = manifest if isinstance(manifest, Manifest) and not self.fault else None
        if self.manifest:
            self._least, self._most = limits(self.manifest.low, self.manifest.high)

    @property
    def fault(self) -> Fault | None:
        """Why the model is never asked."""
        return self.runtime.fault

    def decided(self, requests: int) -> None:
        """As Decider has it: here the fallback rule decided them."""
        super().decided(requests)
        if self.fault and not self.windows:
            self.fallbacks[self.fault.reason] += requests


class Dispatcher(LearnedDecider):
    """Where each request goes (ECSRL)."""

    def __init__(self, name: str, bundle: Bundle, clock: Clock | None = None) -> None:
        super().__init__(name, bundle, "dispatcher", clock)
        if self.manifest is None:
            return
        self.rules = ()  # it must be asked about each request
        self._slots = self.manifest.slots
        self._scale, self._shift = slot_scales(self._slots)
        self._preference = np.array(self.manifest.preference, np.float32)
        self._shape = 1, self.manifest.values
        self.observation = np.zeros((1, self.manifest.features), np.float32)  # what the model was shown last
        self._inputs = {"observations": self.observation}
        self._observe, (self._inside, self._best, _) = observe_dispatch(), _compiled()

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As Decider has it."""
        request, candidates, excluded = of_request(snapshot)
        self.decisions += 1
        choice = self._ask(request, candidates, excluded)
        if isinstance(choice, Fallback):
            self.fallbacks[choice] += 1
            return decide_by(self.fallback, snapshot, u, choice)
        return Decision(choice, 1.0, self.name, self.hash)

    def _ask(self, request: Any, candidates: Any, excluded: Any) -> int | Fallback:
        if (why := self.runtime.begin()) is not None:
            return why
        if len(candidates) > self._slots:
            return Fallback.SIZE
        out = self.observation[0]
        self._observe(request, candidates, excluded, self._scale, self._shift, self._preference, out)
        if not self._inside(out, self._least, self._most):
            return Fallback.RANGE
        answer = self.runtime.run(self._inputs, self._shape)
        choice: int = _FAILED if answer is None else self._best(answer[0][0], excluded)
        late = self.runtime.late()
        if choice == _FAILED:
            return Fallback.OUTPUT
        return Fallback.SLOW if late else choice


class Selector(LearnedDecider):
    """Which rule decides in the next window (ASET), for a world of so many nodes and windows of this length."""

    windows = True

    def __init__(self, name: str, bundle: Bundle, setting: Setting, clock: Clock | None = None) -> None:
        super().__init__(name, bundle, "selector", clock)
        nodes, window_ms = setting
        self.nodes, self.mix = nodes, False  # what `stats` has inputs for
        if self.manifest is not None:
            self._fit(self.manifest, nodes, window_ms)
        self._why = self.fault.reason if self.fault else None  # why the fallback rule is active

    def _fit(self, manifest: Manifest, nodes: int, window_ms: float) -> None:
        """Get ready to ask the model; what does not fit is a fault."""
        self.nodes, self.mix = max(nodes, manifest.slots), manifest.mix
        self._choose = _compiled()[2]
        actions = [_rule(name) for name in manifest.actions]
        for action in actions:
            self.runtime.found(action)
        self.rules = (*(a for a in actions if isinstance(a, Policy)), self.fallback)  # the last is the fallback
        self.foresees = any(rule.foresees for rule in self.rules)
        self.active = len(self.rules) - 1
        if nodes > manifest.slots:
            why = f"it has inputs for {manifest.slots} nodes at most, and there are {nodes} here"
            self.runtime.found(Fault(Fallback.SIZE, why))
        if window_ms != manifest.window_ms:
            why = f"it was trained on windows of {manifest.window_ms:g} ms, here they are {window_ms:g} ms"
            self.runtime.found(Fault(Fallback.RANGE, why))

    def stats(self, traffic: Any, sent: Any, delays_ms: Any, capacity_qps: Any, window_ms: float) -> Any:
        """What a window's snapshot is made of: its counters; see `fairlead.policies.observe.window_stats`."""
        return window_stats(traffic, sent, delays_ms, capacity_qps, window_ms, self.nodes, self.mix)

    def decide(self, snapshot: Snapshot, u: float = 0.0) -> Decision:
        """As Decider has it: of a window which rule is active from now on; of a request what that rule decides.

        Before the first window there are the clients and, of the mix, the links that are there already; else zeros.
        """
        if not isinstance(snapshot, WindowSnapshot):
            return decide_by(self.rules[self.active], snapshot, u, self._why)
        chosen, reasons = self._pick(snapshot.stats)
        self.active, self._why = int(chosen[0]), reasons[0]
        decided_by = self.fallback if self._why else self
        return Decision(self.active, 1.0, decided_by.name, decided_by.hash, self._why)

    def select(self, stats: Any) -> Any:
        """For each row of `stats` (B, F) the index of a rule, int32 (B,); `active` stays as it is."""
        return self._pick(stats)[0]

    def _pick(self, stats: Any) -> tuple[Any, list[Fallback | None]]:
        """For each row the index of a rule, and why that is the fallback rule."""
        rows = len(stats)
        self.decisions += rows
        chosen = np.full(rows, len(self.rules) - 1, np.int32)
        if (why := self.runtime.begin()) is not None:
            self.fallbacks[why] += rows
            return chosen, [why] * rows
        stats = np.ascontiguousarray(stats, np.float32)
        if stats.shape != (rows, len(self._least)):
            raise TypeError(f"stats need {len(self._least)} numbers for each window")
        answer = self.runtime.run({"observations": stats}, (rows, len(self.rules) - 1))
        values = np.full((rows, 1), np.nan, np.float32) if answer is None else answer[0]
        self._choose(stats, self._least, self._most, values, chosen)
        reasons = [_REASONS.get(choice) for choice in chosen.tolist()]
        if self.runtime.late():
            reasons = [why or Fallback.SLOW for why in reasons]
        for b, why in enumerate(reasons):
            if why:
                self.fallbacks[why] += 1
                chosen[b] = len(self.rules) - 1
        return chosen, reasons


def fallback_rule(bundle: Bundle) -> Policy:
    """Who decides where the model can't: the rule that the bundle names, or the last resort if that can't be used."""
    rule = _rule(bundle.fallback)
    if not isinstance(rule, Fault):
        return rule
    compiled_rule(last := find(LAST_RESORT))
    return last


def _rule(name: str) -> Policy | Fault:
    try:
        rule = find(name)
    except UserError as error:
        return Fault(Fallback.MISSING, str(error))
    if not rule.compiles:
        return Fault(Fallback.CORRUPT, f"{name!r} is not a compiled rule")
    try:
        compiled_rule(rule)  # now, so that no decision waits for it, or finds that it can't be
    except PolicyError as error:  # a third party's
        return Fault(Fallback.CORRUPT, str(error))
    return rule


def _inside(observation: Any, least: Any, most: Any) -> bool:
    """Whether every input lies in its range; what is no number does not."""
    inside = True
    for i in range(len(observation)):
        inside &= observation[i] >= least[i] and observation[i] <= most[i]
    return inside


def _best(values: Any, excluded: Any) -> int:
    """The first of the highest among feasible candidates and the rejection, which is the last; -2 without sense."""
    for i in range(len(values)):
        if not np.isfinite(values[i]):
            return _FAILED
    best, highest = -1, np.float32(-np.inf)
    for c in range(len(excluded)):
        if excluded[c] == 0 and values[c] > highest:
            best, highest = c, values[c]
    return best if highest >= values[len(values) - 1] else -1


def _choose(stats: Any, least: Any, most: Any, values: Any, chosen: Any) -> None:
    """The first of the highest values of each row; -2 where one is no number, -3 where an input is out of range."""
    for b in range(len(stats)):
        best = 0
        for a in range(values.shape[1]):
            if not np.isfinite(values[b, a]):
                best = _FAILED
                break
            if values[b, a] > values[b, best]:
                best = a
        for i in range(stats.shape[1]):
            if not (stats[b, i] >= least[i] and stats[b, i] <= most[i]):
                best = _OUTSIDE
                break
        chosen[b] = best


@cache
def _compiled() -> tuple[Any, Any, Any]:
    rows, choices = types.Array(types.float32, 2, "C"), types.Array(types.int32, 1, "C")
    return (
        typed_kernel(_inside, *[SINGLES] * 3),
        typed_kernel(_best, SINGLES, EXCLUDED),
        typed_kernel(_choose, rows, SINGLES, SINGLES, rows, choices),
    )
