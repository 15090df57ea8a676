"""The plots of worlds of tasks, one file each. Pages and files call `task_plots_of` and `task_plots_of_all`."""

from __future__ import annotations

from fairlead.measure.report.document import Document, highlighted
from fairlead.measure.report.plots.by_scenario import across
from fairlead.measure.report.plots.over_swept_values import over_values
from fairlead.measure.report.plots.plot import Plot, Style, of_how_many
from fairlead.measure.report.plots.tasks.by_task_type import by_type, given
from fairlead.measure.report.plots.tasks.completion import STEPS, completion, distribution
from fairlead.measure.report.plots.tasks.over_steps import alive, used_over_time
from fairlead.measure.report.plots.tasks.resource_use import used
from fairlead.measure.report.plots.tasks.speeds import speeds
from fairlead.measure.report.style import by_look
from fairlead.measure.report.task_document import TaskPoint, task_points


def task_plots_of(document: Document, point: TaskPoint, legend: bool) -> list[Plot]:
    """The plots of one label; none when no seed of it is finished. `legend`: whether they must explain themselves."""
    if not point.ranking:
        return []
    style = Style(by_look(document), highlighted(document, point), legend)
    of_some = [
        distribution(point, style),
        alive(point, style),
        by_type(point, style),
        *given(point, style),
        *used_over_time(point, style),
    ]
    return [completion(point), *(of_how_many(plot, style) for plot in of_some), used(point), *speeds(point)]


def task_plots_of_all(document: Document, legend: bool) -> list[Plot]:
    """The plots of all labels together: against a swept value, or across scenarios."""
    found = task_points(document)
    drawn = over_values(document, found, STEPS, legend), across(document, found, STEPS, legend)
    return [plot for plot in drawn if plot is not None]
