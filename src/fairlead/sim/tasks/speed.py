"""How fast tasks are: a step's progress, and what is left of the work. Called by `engine`, `plan` and `snapshot`."""

from __future__ import annotations

import math
from typing import Any

from fairlead.policies.jit import inlined
from fairlead.sim.tasks.layout import RATE, ROOT, TaskPlan

_TOP = 1.2  # of the released form: tanh(amount / scale) * sqrt(1.2 - progress)


@inlined
def gain(plan: TaskPlan, kind: int, allocation: int, progress: float) -> float:
    """A step's progress without noise."""
    form = plan.form[kind]
    if form == RATE:
        return plan.rate[kind, allocation]
    if form == ROOT:
        return plan.rate[kind, allocation] * math.sqrt(_TOP - progress)
    first = plan.curve[kind, allocation]
    return _along(plan.curves, first, progress) if first >= 0 else 0.0


@inlined
def _along(curves: Any, first: int, progress: float) -> float:
    """How far a curve leads in one step from where it has this progress.

    A curve is its number of points, their distance in steps, and the points, which rise from 0 to 1.
    """
    points, distance, start = int(curves[first]), curves[first + 1], first + 2
    low, high = 0, points - 1  # the last point that is not above `progress`
    while low + 1 < high:
        middle = (low + high) // 2
        if curves[start + middle] <= progress:
            low = middle
        else:
            high = middle
    width = curves[start + low + 1] - curves[start + low]
    place = low + (progress - curves[start + low]) / width + 1.0 / distance  # in points, a step later
    whole = min(int(place), points - 2)
    reached = curves[start + whole] + (place - whole) * (curves[start + whole + 1] - curves[start + whole])
    return reached - progress


@inlined
def left(plan: TaskPlan, kind: int, progress: float) -> float:
    """The share of a task's work that is left, where work is what is done at an even pace."""
    if progress >= 1.0:
        return 0.0
    if plan.form[kind] == ROOT:
        end = math.sqrt(_TOP - 1.0)
        return (math.sqrt(_TOP - progress) - end) / (math.sqrt(_TOP) - end)
    return 1.0 - progress


@inlined
def steps_to_end(plan: TaskPlan, kind: int, allocation: int, most: int) -> float:
    """Steps that a task takes with this allocation, without noise; infinite above `most`."""
    progress, steps = 0.0, 0
    while progress < 1.0:
        if steps >= most:
            return math.inf
        progress += gain(plan, kind, allocation, progress)
        steps += 1
    return float(steps)
