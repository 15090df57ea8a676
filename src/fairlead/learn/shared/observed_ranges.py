"""What observations were seen in training: the range and the median of every input, for the manifest.

Outside of that range the network's behaviour is unknown, and the runtime asks the fallback rule instead. Filled by
`training` after each step; bounded in memory however long that takes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairlead.learn.shared.checkpoint import array_like

_ROWS: Final = 20_000  # kept for medians


class ObservedRanges:
    """Ranges of all, and an even sample of what actions led to."""

    def __init__(self) -> None:
        self._low: Any = np.inf
        self._high: Any = -np.inf
        self._steps, self._stride = 0, 1
        self._kept: list[Any] = []  # arrays (B, F) of every `_stride`th step

    def add(self, observations: Any, *others: Any) -> None:
        """Take in the observations (B, F) of a step; `others` widen the ranges, and are not sampled."""
        for some in (observations, *others):
            self._low = np.minimum(self._low, some.min(axis=0))
            self._high = np.maximum(self._high, some.max(axis=0))
        if self._steps % self._stride == 0:
            self._kept.append(observations.copy())
            if len(self._kept) * len(observations) > _ROWS:  # half of them do, of the past and from now on
                self._kept, self._stride = self._kept[::2], 2 * self._stride
        self._steps += 1

    def state(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {"low": self._low, "high": self._high, "steps": self._steps, "stride": self._stride, "kept": self._kept}

    @classmethod
    def restored(cls, state: dict[str, Any], inputs: int) -> ObservedRanges:
        """As it was when `state` was taken, of so many inputs. Raises what it likes where that is no such state."""
        made, row = cls(), np.empty(inputs, np.float32)
        made._steps, made._stride = int(state["steps"]), max(1, int(state["stride"]))
        if made._steps:
            made._low, made._high = (array_like(state[end], row) for end in ("low", "high"))
        made._kept = [array_like(some, np.empty((len(some), inputs), np.float32)) for some in state["kept"]]
        return made

    def rows(self) -> Any:
        """The sample (n, F)."""
        return np.concatenate(self._kept)

    def ranges(self) -> tuple[list[float], list[float], list[float]]:
        """Lowest, highest and median of every input."""
        return self._low.tolist(), self._high.tolist(), np.median(self.rows(), axis=0).tolist()
