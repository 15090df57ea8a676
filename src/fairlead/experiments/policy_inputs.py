"""The inputs of a learned policy in natural terms: names, units, groups that belong together, and which of them drove a
choice. Called by `explain`. Knows the layouts of `fairlead.policies.observe` by the names that it gives; runs no world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairlead.policies.observe import (
    CANDIDATE_UNITS,
    CLIENT_QPS,
    DELAY_MS,
    REQUEST_UNITS,
    dispatch_features,
    window_features,
)

_SUFFIXES: Final = {"_ms": "ms", "_kb": "kB", "_qps": "requests/s", "_mj": "mJ", "_mb": "MB", "_rate": "requests/s"}
Groups = dict[str, list[int]]  # name -> indices of inputs


@dataclass(frozen=True)
class Input:
    """One input: `index` in the observation, and how what is shown there becomes a number in `unit`."""

    index: int
    name: str
    unit: str = ""
    scale: float = 1.0
    shift: float = 0.0

    def natural(self, shown: Any) -> float:
        """The value in its unit, of an observation (F,)."""
        return float(shown[self.index]) * self.scale + self.shift


def dispatch_inputs(candidates: Sequence[str], slots: int, bound: bool) -> list[Input]:
    """ "dispatch-1" for candidates of these names; slots without a candidate are left out. `bound`: streams are."""
    found = []
    for i, feature in enumerate(dispatch_features(slots)):
        field, _, slot = feature.partition(" ")
        if slot and int(slot) >= len(candidates):
            continue
        name = f"{field} of {candidates[int(slot)]}" if slot else field
        unit = next((words for suffix, words in _SUFFIXES.items() if field.endswith(suffix)), "")
        scale = (CANDIDATE_UNITS if slot else REQUEST_UNITS).get(field, 1.0)
        if field == "load":
            unit, scale = ("% of capacity", 100.0 * scale) if bound else ("s of work", scale)
        found.append(Input(i, name, unit, scale, 1.0 if field == "suffered" else 0.0))
    return found


def dispatch_groups(candidates: Sequence[str], nodes: Sequence[str], slots: int) -> Groups:
    """Inputs that belong together: of the request, of a candidate, of a node with several (`nodes`: of each)."""
    of_slot: dict[str, list[int]] = {}
    for i, feature in enumerate(dispatch_features(slots)):
        of_slot.setdefault(feature.partition(" ")[2], []).append(i)
    singles = of_slot[""]
    groups = {"the request": singles[: len(REQUEST_UNITS)], "the weights": singles[len(REQUEST_UNITS) :]}
    groups |= {f"all inputs of {name}": of_slot[str(c)] for c, name in enumerate(candidates)}
    for node in dict.fromkeys(nodes):
        if nodes.count(node) > 1:
            groups[f"all inputs of node {node}"] = [
                i for c, n in enumerate(nodes) if n == node for i in of_slot[str(c)]
            ]
    groups["inputs not in use"] = [i for c in range(len(candidates), slots) for i in of_slot[str(c)]]
    return _several(groups)


def window_inputs(nodes: Sequence[str], slots: int, mix: bool, total_qps: float) -> list[Input]:
    """ "window-2" for these nodes, which can serve `total_qps` together; padding is left out."""
    known: dict[str, tuple[str, float]] = {
        "qps": ("requests/s", total_qps),
        "rps": ("answers/s", total_qps),
        "clients": ("", total_qps / CLIENT_QPS),
        "within": ("%", 100.0),
        "load": ("% of capacity", 100.0),
        "delay": ("ms", DELAY_MS),
        "min_accuracy": ("", 1.0),
    }
    features = enumerate(window_features(_padded(nodes, slots), mix))
    return [Input(i, name, *known[name.partition(" ")[0]]) for i, name in features if not name.endswith(" ")]


def window_groups(nodes: Sequence[str], slots: int, mix: bool) -> Groups:
    """Inputs that belong together: the traffic, the mix of requests, all of a node, all loads, all delays, padding."""
    names = window_features(_padded(nodes, slots), mix)
    used = [i for i, name in enumerate(names) if not name.endswith(" ")]
    loads, delays = ([i for i in used if names[i].startswith(word)] for word in ("load ", "delay "))
    mixed = [i for i in used[3:] if i not in loads and i not in delays]
    groups = {"the traffic": used[:3], "the deadline mix": mixed, "all loads": loads, "all delays": delays}
    for node in nodes:
        groups[f"all inputs of node {node}"] = [i for i in loads + delays if names[i].partition(" ")[2] == node]
    groups["inputs not in use"] = [i for i in range(len(names)) if i not in used]
    return _several(groups)


def _padded(nodes: Sequence[str], slots: int) -> list[str]:
    return [*nodes, *[""] * (slots - len(nodes))]


def _several(groups: Groups) -> Groups:
    """A group of one is the input itself."""
    return {name: indices for name, indices in groups.items() if len(indices) > 1}


def drives(
    model: Any, observation: Any, typical: Any, sets: Sequence[Sequence[int]], possible: Sequence[int], pair: Any
) -> list[tuple[float, int]]:
    """For each set of inputs: how far they move the margin, and which of the `possible` outputs would be the highest.

    The margin is the value of the output pair[0] over that of pair[1]. A set's move is the margin as it is minus the
    margin with the set at `typical`: above 0, these inputs being as they are speaks for the choice.
    """
    rows = np.repeat(np.asarray(observation, np.float32)[None], 1 + len(sets), axis=0)  # the first one stays
    for row, indices in zip(rows[1:], sets, strict=True):
        row[list(indices)] = typical[list(indices)]
    values = np.asarray(model(rows), np.float64)
    margins = values[:, pair[0]] - values[:, pair[1]]
    best = values[1:, list(possible)].argmax(axis=1)
    return [(float(margins[0] - m), possible[b]) for m, b in zip(margins[1:], best, strict=True)]
