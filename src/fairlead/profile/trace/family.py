"""A family of task types from traces: the files that a world of tasks is made of, as texts.

`curves.csv` has the measured progress, `types.yaml` the types that use it, for any scenario of tasks to extend, and
`family.yaml` clusters and arrivals around them, all assumed, so that they can be tried at once. Called by the command;
writes nothing. What the loader makes of these texts is tested with it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

import yaml

from fairlead import __version__
from fairlead.measure.numerals import counted
from fairlead.profile.trace.allocation_grid import Traced
from fairlead.profile.trace.allocations import Allocation

_CLUSTERS, _TASKS_AT_ONCE = 3, 4  # clusters, and tasks of the largest amounts in each
_LOAD = 0.7  # of what they hold when each task has its minimum
_TASKS = 200
_ROLES = {"cpu": "processor", "gpu": "accelerator"}


def family(traces: Sequence[Traced], machine: str) -> dict[str, str]:
    """The files by name."""
    date = max(run.date for one in traces for runs in one.runs.values() for run in runs)
    source = f"measured by fairlead trace on {machine}, {date}, fairlead {__version__}"
    gpus = any(allocation.gpu for one in traces for allocation in one.runs)
    resources = ("cpu", "gpu") if gpus else ("cpu",)
    return {
        "curves.csv": _curves(traces, resources),
        "types.yaml": f"# Types of tasks, {source}.\n{_yaml(_types(traces, resources, source))}",
        "family.yaml": f"# A scenario to try these types in. Each trace overwrites it: extend it in another file.\n"
        f"{_yaml(_world(traces, resources))}",
    }


def _yaml(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, sort_keys=False, width=math.inf, default_flow_style=None, allow_unicode=True)


def _curves(traces: Sequence[Traced], resources: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("type", *resources, "time_s", "progress"))
    for one in traces:
        for allocation in one.runs:
            for time_s, progress in _rising(one.median(allocation).curve()):
                amounts = (getattr(allocation, name) for name in resources)
                writer.writerow((one.task.name, *amounts, f"{time_s:.6f}", f"{progress:.6g}"))
    return text.getvalue()


def _rising(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points whose times differ as they are written; of those that don't, the last."""
    at = {round(time_s, 6): progress for time_s, progress in points}
    return [(time_s, progress) for time_s, progress in at.items() if time_s > 0]


def _types(traces: Sequence[Traced], resources: Sequence[str], source: str) -> dict[str, Any]:
    each = round(1 / len(traces), 3)
    shares = [round(1 - each * (len(traces) - 1), 3), *[each] * (len(traces) - 1)]
    return {
        "world": "tasks",
        "types": {
            one.task.name: {
                "share": share,
                "minimum": _amounts(min(one.runs), resources),
                "speed": {"form": "trace", "file": "curves.csv", "source": f"{source}; {_end(one)}"},
                "source": "minimum: the smallest allocation that was traced",
                "assumed": ["share"],
            }
            for one, share in zip(traces, shares, strict=True)
        },
    }


def _end(one: Traced) -> str:
    if one.of is not None:
        return f"inference of {counted(one.of, 'sample')}"
    return f"training to a validation loss of {one.target_loss:g}"


def _world(traces: Sequence[Traced], resources: Sequence[str]) -> dict[str, Any]:
    largest = _amounts(max(a for one in traces for a in one.runs), resources)
    least = _amounts(min(a for one in traces for a in one.runs), resources)
    has = {name: _TASKS_AT_ONCE * amount for name, amount in largest.items()}
    longest_s = max(one.median(allocation).total_s for one in traces for allocation in one.runs)
    interval_s = round_to_125(longest_s / 10)
    steps = [math.ceil(one.median(min(one.runs)).total_s / interval_s) for one in traces]
    fit = _CLUSTERS * min(has[name] // amount for name, amount in least.items() if amount)
    rate = _LOAD * fit / (sum(steps) / len(steps))
    return {
        "world": "tasks",
        "extends": "types",
        "title": f"Traced tasks on {_CLUSTERS} clusters: {', '.join(one.task.name for one in traces)}",
        "resources": {name: {"role": _ROLES[name], "most_per_task": amount} for name, amount in largest.items()},
        "clusters": {f"edge-{n}": {"amounts": dict(has), "assumed": True} for n in range(1, _CLUSTERS + 1)},
        "workload": {
            "tasks": _TASKS,
            "rate_per_step": float(f"{rate:.2g}"),
            "reach": {"draw": "subset", "assumed": True},
            "assumed": True,
        },
        "rules": {
            "interval_s": interval_s,
            "assumed": True,
            "source": "interval: about a tenth of the longest time",
        },
        "tuned_rule": {
            "by": "cpu",
            "wanted": {},
            "least": {},
            "assumed": True,
            "source": "each task gets its minimum; fairlead tune finds a better one",
        },
    }


def _amounts(allocation: Allocation, resources: Sequence[str]) -> dict[str, int]:
    return {name: getattr(allocation, name) for name in resources}


def round_to_125(number: float) -> float:
    """The nearest of ..., 0.5, 1, 2, 5, 10, ... by ratio."""
    power = math.floor(math.log10(number))
    near = [float(f"{first}e{power + more}") for more in (0, 1) for first in (1, 2, 5)]
    return min(near, key=lambda one: abs(math.log(one / number)))
