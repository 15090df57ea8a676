"""Watching a host: what stays is looked at seldom, what changes often, and hardware that flaps is not forgotten.

A USB accelerator that resets, or a driver that is loaded anew, is gone for seconds: it stays in the list as not
present until `keep_s` have passed, so that labels do not come and go with it. Pure but for its detector and its clock:
the caller sleeps until `due` and calls `look`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fairlead.detect.detector import Accelerator, Detection


@dataclass(frozen=True)
class Periods:
    """How often to look, and how long to remember, in seconds."""

    static_s: float = 60.0  # hardware and its facts
    dynamic_s: float = 5.0  # load, temperature, clocks, memory, power
    keep_s: float = 300.0  # hardware that is gone


@dataclass(frozen=True)
class Seen:
    """An accelerator, and whether it is there."""

    accelerator: Accelerator
    last_s: float  # when it was there

    def present(self, now_s: float) -> bool:
        """Whether it was there at the last look."""
        return self.last_s >= now_s


@dataclass
class Watch:
    """What is known of a host over time."""

    detect: Callable[[], Detection]
    measure: Callable[[Detection], Detection]
    periods: Periods = Periods()
    _seen: dict[str, Seen] = field(default_factory=dict)  # by id
    _found: Detection | None = None  # at the last look
    _static_s: float = 0.0  # of the last looks
    _dynamic_s: float = 0.0

    def due(self) -> float:
        """When to look again."""
        if self._found is None:
            return 0.0
        return min(self._static_s + self.periods.static_s, self._dynamic_s + self.periods.dynamic_s)

    def look(self, now_s: float) -> list[str]:
        """Look at what is due; returns what became of the hardware since the last time, in words."""
        before, words = self._found, []
        if before is None or now_s >= self._static_s + self.periods.static_s:
            found = self.detect()
            words = self._remember(found, now_s)
            self._static_s = now_s
        else:
            found = self.measure(before)
        if before is not None:
            found = _rates(before, found, now_s - self._dynamic_s)
        self._found, self._dynamic_s = found, now_s
        for one in found.accelerators:
            self._seen[one.id] = replace(self._seen[one.id], accelerator=one)
        return words

    @property
    def fresh(self) -> bool:
        """Whether the last look was at the hardware too."""
        return self._static_s == self._dynamic_s

    @property
    def known(self) -> Detection:
        """The last look, with hardware that is gone for a short time as it was."""
        if self._found is None:
            raise RuntimeError("look first")
        return replace(self._found, accelerators=tuple(seen.accelerator for seen in self._seen.values()))

    @property
    def missing(self) -> list[str]:
        """The ids of the hardware that is gone, and not forgotten yet."""
        return [key for key, seen in self._seen.items() if not seen.present(self._static_s)]

    def _remember(self, found: Detection, now_s: float) -> list[str]:
        words, gone_before = [], set(self.missing) if self._found else set()
        for one in found.accelerators:
            if one.id not in self._seen:
                words.append(f"found {one.id}: {one.title}")
            elif one.id in gone_before:
                words.append(f"back {one.id}")
            elif changed := _changes(self._seen[one.id].accelerator, one):
                words.append(f"changed {one.id}: {changed}")
            self._seen[one.id] = Seen(one, now_s)
        for key, seen in list(self._seen.items()):
            if now_s - seen.last_s > self.periods.keep_s:
                del self._seen[key]
                words.append(f"forgotten {key}")
            elif not seen.present(now_s) and key not in gone_before:
                words.append(f"gone {key}; remembered for {self.periods.keep_s:g} s")
        return words


def _changes(before: Accelerator, now: Accelerator) -> str:
    facts = {k: (before.facts.get(k), now.facts.get(k)) for k in sorted(set(before.facts) | set(now.facts))}
    return ", ".join(f"{k} {old} -> {new}" for k, (old, new) in facts.items() if old != new)


def _rates(before: Detection, now: Detection, seconds: float) -> Detection:
    """With the growth a second of each counter, where it grew."""
    last = {one.id: one.counters for one in before.accelerators}
    made = []
    for one in now.accelerators:
        grown = {k: v - last[one.id][k] for k, v in one.counters.items() if k in last.get(one.id, {})}
        rates = {k: round(g / seconds, 4) for k, g in grown.items() if g >= 0 and seconds > 0}
        made.append(replace(one, figures={**one.figures, **rates}))
    return replace(now, accelerators=tuple(made))
