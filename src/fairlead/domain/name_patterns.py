"""Which of some names patterns such as `edge-*` stand for, as sets of bits: fast for thousands of both.

Called by what checks scenarios and makes arrays of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase


class Names:
    """Names in an order, of which some may be the same."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.all = (1 << len(self.names)) - 1
        self._of_name: dict[str, int] = {}
        for i, name in enumerate(self.names):
            self._of_name[name] = self._of_name.get(name, 0) | 1 << i
        self._of_pattern: dict[str, int] = {}  # of those that were asked for

    def called(self, name: str) -> int:
        """The set of those of this name."""
        return self._of_name.get(name, 0)

    def like(self, pattern: str) -> int:
        """The set of those that match."""
        if not any(c in pattern for c in "*?["):
            return self.called(pattern)
        if pattern not in self._of_pattern:
            found = (1 << i for i, name in enumerate(self.names) if fnmatchcase(name, pattern))
            self._of_pattern[pattern] = sum(found)
        return self._of_pattern[pattern]


def places(bits: int) -> Iterator[int]:
    """The places of a set, in order."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
