"""Runs learned policies: what the simulator's host calls at its stops, and a gateway for live requests.

    Dispatcher(bundle).decide(request, candidates, excluded, u) -> int     where a request goes; -1 rejects it
    Selector(bundle, nodes, window_ms).select(stats) -> int32 (B,)         which of its `rules` decides from now on

The possible action of the highest value is taken, of equals the first. Whenever the model can't be asked or its answer
can't be used, the bundle's fallback rule decides and a counter goes up: nothing raises. A choice is a function of the
arguments alone; only with a clock, for live use, is one that came too late dropped, and the model left in peace for the
next decisions: for 1, then 3, 7 and so on while it stays late. An object reuses its buffers: each thread needs its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Fallback
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies.bundle import LAST_RESORT, Bundle, Fault, Manifest, Model
from fairlead.policies.interface import Policy, find
from fairlead.policies.jit import typed_kernel
from fairlead.policies.observe import EXCLUDED, SINGLES, observe_dispatch, slot_scales, window_stats

Clock = Callable[[], int]  # nanoseconds, as time.perf_counter_ns

#: The range seen in training is widened by this share of its width, and by this much, which covers rounding.
WIDENED: Final = 0.1
ROUNDING: Final = 1e-3
#: The most decisions that a model which is late again and again is not asked for.
LONGEST_PAUSE: Final = 1023

_FAILED: Final = -2


class _Learned:
    """What both kinds have in common: the model and what it knows, the rule behind it, and the counters."""

    def __init__(self, bundle: Bundle, kind: str, clock: Clock | None) -> None:
        self.decisions = 0
        self.fallbacks: Counter[Fallback] = Counter()
        self.fault: Fault | None = None  # why the model is never asked
        self._clock = clock
        self._pause = self._unasked = 0  # after a late answer: decisions without the model, and those still to come
        self._model: Model = _no_model
        self._manifest: Manifest | None = None
        manifest, model = bundle.manifest, bundle.model
        rule = _rule(bundle.fallback)
        for found in (manifest, model, rule):
            self._found(found)
        self.fallback: Policy = find(LAST_RESORT) if isinstance(rule, Fault) else rule
        if isinstance(manifest, Fault) or isinstance(model, Fault):
            return
        if manifest.kind != kind:
            self._found(Fault(Fallback.CORRUPT, f"it is a {manifest.kind}, not a {kind}"))
        self._manifest, self._model = manifest, model
        self._least, self._most = limits(manifest)

    def _found(self, what: object) -> None:
        """Note it if it is a fault; the first one counts."""
        if isinstance(what, Fault) and self.fault is None:
            self.fault = what

    def _paused(self) -> bool:
        """Whether to decide without the model, which was late before."""
        self._unasked -= 1
        return self._unasked >= 0

    def _start_ns(self) -> int:
        return self._clock() if self._clock else 0

    def _too_slow(self, start_ns: int) -> bool:
        budget_us = self._manifest.budget_us if self._manifest else np.inf
        late = self._clock is not None and self._clock() - start_ns > 1000.0 * budget_us
        self._unasked = self._pause = min(2 * self._pause + 1, LONGEST_PAUSE) if late else 0
        return late


class Dispatcher(_Learned):
    """Where each request goes (ECSRL)."""

    def __init__(self, bundle: Bundle, clock: Clock | None = None) -> None:
        super().__init__(bundle, "dispatcher", clock)
        self._rule = next(iter(self.fallback.compiled.overloads.values())).entry_point
        if self._manifest is None or self.fault:
            return
        self._slots = self._manifest.slots
        self._scale, self._shift = slot_scales(self._slots)
        self._preference = np.array(self._manifest.preference, np.float32)
        self._observation = np.zeros((1, self._manifest.features), np.float32)
        self._observe, (self._inside, self._best) = observe_dispatch(), _compiled()

    def decide(self, request: Any, candidates: Any, excluded: Any, u: float) -> int:
        """The index of a feasible candidate, or -1. `request` is a REQUEST record or an array (1,) of them."""
        if candidates.dtype != CANDIDATE or request.dtype != REQUEST or excluded.dtype != np.uint16:
            raise TypeError("decide needs REQUEST, CANDIDATE and uint16, as fairlead.domain.records has them")
        request = np.asarray(request).reshape(1)
        candidates, excluded = np.ascontiguousarray(candidates), np.ascontiguousarray(excluded)
        self.decisions += 1
        choice = self._ask(request, candidates, excluded)
        if isinstance(choice, Fallback):
            self.fallbacks[choice] += 1
            return int(self._rule(request[0], candidates, excluded, u))
        return choice

    def _ask(self, request: Any, candidates: Any, excluded: Any) -> int | Fallback:
        if self.fault:
            return self.fault.reason
        if self._paused():
            return Fallback.SLOW
        start_ns = self._start_ns()
        if len(candidates) > self._slots:
            return Fallback.SIZE
        out = self._observation
        self._observe(request, candidates, excluded, self._scale, self._shift, self._preference, out[0])
        if not self._inside(out[0], self._least, self._most):
            return Fallback.RANGE
        try:
            choice: int = self._best(self._model(out)[0], excluded)
        except Exception:  # ONNX Runtime: out of memory, say
            choice = _FAILED
        slow = self._too_slow(start_ns)
        if choice == _FAILED:
            return Fallback.OUTPUT
        return Fallback.SLOW if slow else choice


class Selector(_Learned):
    """Which rule decides in the next window (ASET), for a world of so many nodes and windows of this length."""

    def __init__(self, bundle: Bundle, nodes: int, window_ms: float, clock: Clock | None = None) -> None:
        super().__init__(bundle, "selector", clock)
        self.rules: tuple[Policy, ...] = (self.fallback,)  # what `select` points at; the last is the fallback
        self.nodes, self.mix = nodes, False  # what `stats` has inputs for
        if self._manifest is None or self.fault:
            return
        self.nodes, self.mix = max(nodes, self._manifest.slots), self._manifest.mix
        actions = [_rule(name) for name in self._manifest.actions]
        for action in actions:
            self._found(action)
        self.rules = (*(a for a in actions if isinstance(a, Policy)), self.fallback)
        if nodes > self._manifest.slots:
            self._found(Fault(Fallback.SIZE, f"it knows at most {self._manifest.slots} nodes, here are {nodes}"))
        if window_ms != self._manifest.window_ms:
            why = f"it was trained on windows of {self._manifest.window_ms:g} ms, here they are {window_ms:g} ms"
            self._found(Fault(Fallback.RANGE, why))

    def stats(self, traffic: Any, sent: Any, delays_ms: Any, capacity_qps: Any, window_ms: float) -> Any:
        """What `select` is asked about, of a window's counters; see `fairlead.policies.observe.window_stats`."""
        return window_stats(traffic, sent, delays_ms, capacity_qps, window_ms, self.nodes, self.mix)

    def select(self, stats: Any) -> Any:
        """For each row of `stats` (B, F) the index of a rule, int32 (B,).

        Before the first window a row has the clients and, of the mix, the links that are there already; else zeros.
        """
        self.decisions += len(stats)
        chosen = np.full(len(stats), len(self.rules) - 1, np.int32)
        if self.fault:
            self.fallbacks[self.fault.reason] += len(stats)
            return chosen
        if self._paused():
            self.fallbacks[Fallback.SLOW] += len(stats)
            return chosen
        start_ns = self._start_ns()
        inside = ((stats >= self._least) & (stats <= self._most)).all(axis=1)
        try:
            values = self._model(stats)
        except Exception:  # ONNX Runtime: out of memory, say
            values = np.full((len(stats), 1), np.nan)
        usable = np.isfinite(values).all(axis=1)
        slow = self._too_slow(start_ns)
        for b in range(len(stats)):
            if not inside[b]:
                self.fallbacks[Fallback.RANGE] += 1
            elif not usable[b]:
                self.fallbacks[Fallback.OUTPUT] += 1
            elif slow:
                self.fallbacks[Fallback.SLOW] += 1
            else:
                chosen[b] = values[b].argmax()
        return chosen


def limits(manifest: Manifest) -> tuple[Any, Any]:
    """The least and the most of each input, float32 (F,), that the model is asked about."""
    slack = WIDENED * (manifest.high - manifest.low) + ROUNDING
    return (manifest.low - slack).astype(np.float32), (manifest.high + slack).astype(np.float32)


def _rule(name: str) -> Policy | Fault:
    try:
        rule = find(name)
    except UserError as error:
        return Fault(Fallback.MISSING, str(error))
    return rule if rule.kind == "compiled" else Fault(Fallback.CORRUPT, f"{name!r} is no compiled rule")


def _no_model(observations: Any) -> Any:
    raise RuntimeError("asked a model that is not there")


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


@cache
def _compiled() -> tuple[Any, Any]:
    return typed_kernel(_inside, *[SINGLES] * 3), typed_kernel(_best, SINGLES, EXCLUDED)
