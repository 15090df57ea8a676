"""Asks a bundle's model, for all kinds of bundles: what is wrong with it, its time budget, its counters.

    runtime = ModelRuntime(bundle, "dispatcher", clock)
    reason = runtime.begin()                        why the model is not asked now, or None
    values = runtime.run({"observations": x}, (1, 5))      its outputs, each of this shape; None: it can't be used
    late = runtime.late()                           whether that took longer than the budget

Nothing raises. A choice is a function of the arguments alone; only with a clock, for live use, is an answer that came
too late dropped, and the model left in peace for the next decisions: for 1, then 3, 7 and so on while it stays late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fairlead.domain.outcomes import Fallback

if TYPE_CHECKING:
    from fairlead.policies.bundle import Fault, ModelBundle

Clock = Callable[[], int]  # nanoseconds, as time.perf_counter_ns

#: The range seen in training is widened by this share of its width, and by this much, which covers rounding.
WIDENED: Final = 0.1
ROUNDING: Final = 1e-3
#: The most decisions that a model which is late again and again is not asked for.
LONGEST_PAUSE: Final = 1023


class ModelRuntime:
    """One bundle's model at work, for one thread."""

    def __init__(self, bundle: ModelBundle[Any], clock: Clock | None = None) -> None:
        from fairlead.policies.bundle import Fault

        self.fault: Fault | None = None  # why the model is never asked
        self._clock, self._started_ns = clock, 0
        self._pause = self._unasked = 0  # after a late answer: decisions without the model, and those still to come
        manifest, model = bundle.manifest, bundle.model
        self._budget_ns = 0.0 if isinstance(manifest, Fault) else 1000.0 * manifest.budget_us
        self._model = None if isinstance(model, Fault) else model
        self.found(manifest)
        self.found(model)

    def found(self, what: object) -> None:
        """Note it if it is a fault; the first one counts."""
        from fairlead.policies.bundle import Fault

        if isinstance(what, Fault) and self.fault is None:
            self.fault = what

    def begin(self) -> Fallback | None:
        """A decision begins: why the model is not asked for it."""
        if self.fault:
            return self.fault.reason
        self._unasked -= 1
        if self._unasked >= 0:  # it was late before
            return Fallback.SLOW
        self._started_ns = self._clock() if self._clock else 0
        return None

    def run(self, inputs: Mapping[str, Any], shape: tuple[int, ...]) -> list[Any] | None:
        """The model's outputs, each of this shape and of its type."""
        assert self._model is not None
        try:
            return self._model.run(inputs, shape)
        except Exception:  # ONNX Runtime: out of memory, say; or an answer of another shape
            return None

    def late(self) -> bool:
        """Whether the decision took longer than the budget. Call it once, after `run`."""
        late = self._clock is not None and self._clock() - self._started_ns > self._budget_ns
        self._unasked = self._pause = min(2 * self._pause + 1, LONGEST_PAUSE) if late else 0
        return late


def limits(low: Any, high: Any) -> tuple[Any, Any]:
    """The least and the most of each input, float32, that a model is asked about."""
    slack = WIDENED * (high - low) + ROUNDING
    return (low - slack).astype(np.float32), (high + slack).astype(np.float32)
