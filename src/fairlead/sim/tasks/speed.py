"""How fast tasks are: a step's progress, and what is left of the work. Called by `engine`, `plan` and `snapshot`."""

from __future__ import annotations

import math
from typing import Any

from fairlead.policies.jit import inlined
from fairlead.policies.tasks.allocations import number_of
from fairlead.sim.tasks.world_arrays import CURVE, RATE, ROOT, TaskPlan

WHOLE = 1.0 - 1e-9  # progress at which a task is done: ten tenths add up to a little less than 1
_TOP = 1.2  # of the released form: tanh(amount / scale) * sqrt(1.2 - progress)


@inlined
def gain(plan: TaskPlan, task_type: int, allocation: int, progress: float) -> float:
    """A step's progress without noise."""
    form = plan.form[task_type]
    if form == RATE:
        return plan.rate[task_type, allocation]
    if form == ROOT:
        return plan.rate[task_type, allocation] * math.sqrt(_TOP - progress)
    first = plan.curve[task_type, allocation]
    return _along(plan.curves, first, progress) if first >= 0 else 0.0


@inlined
def _along(curves: Any, first: int, progress: float) -> float:
    """How far a curve leads in one step from where it has this progress.

    A curve is its number of points, their distance in steps, and the points, which rise from 0 to 1.
    """
    points, start = int(curves[first]), first + 2
    place = _place(curves, first, progress) + 1.0 / curves[first + 1]  # a step later
    whole = min(int(place), points - 2)
    reached = curves[start + whole] + (place - whole) * (curves[start + whole + 1] - curves[start + whole])
    return reached - progress


@inlined
def _place(curves: Any, first: int, progress: float) -> float:
    """Where a curve has this progress: the number of a point, with its fraction."""
    start, low, high = first + 2, 0, int(curves[first]) - 1  # low: the last point that is not above `progress`
    while low + 1 < high:
        middle = (low + high) // 2
        if curves[start + middle] <= progress:
            low = middle
        else:
            high = middle
    return low + (progress - curves[start + low]) / (curves[start + low + 1] - curves[start + low])


@inlined
def left(plan: TaskPlan, task_type: int, progress: float) -> float:
    """The share of a task's work that is left, where work is what is done at an even pace.

    Along measured curves that pace is that of the minimum: the share of its time that is left.
    """
    if progress >= WHOLE:
        return 0.0
    if plan.form[task_type] == ROOT:
        end = math.sqrt(_TOP - 1.0)
        return (math.sqrt(_TOP - progress) - end) / (math.sqrt(_TOP) - end)
    if plan.form[task_type] == CURVE:
        first = plan.curve[task_type, number_of(plan.minimum[task_type], plan.most, plan.elastic)]
        return 1.0 - _place(plan.curves, first, progress) / (plan.curves[first] - 1.0)
    return 1.0 - progress


@inlined
def steps_to_end(plan: TaskPlan, task_type: int, allocation: int, most: int) -> float:
    """Steps that a task takes with this allocation, without noise; infinite above `most`."""
    progress, steps = 0.0, 0
    while progress < WHOLE:
        if steps >= most:
            return math.inf
        progress += gain(plan, task_type, allocation, progress)
        steps += 1
    return float(steps)
