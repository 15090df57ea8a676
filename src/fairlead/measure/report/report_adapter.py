"""What differs between the results of the two worlds; pages, plot files and terminal tables are the same for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.measure.report.document import Document, check, points
from fairlead.measure.report.phrases import percent, verdict
from fairlead.measure.report.plots import Plot, plots_of, plots_of_all
from fairlead.measure.report.plots.tasks import task_plots_of, task_plots_of_all
from fairlead.measure.report.tables import OUTCOME_HEADINGS, Table, tables
from fairlead.measure.report.task_document import TaskPoint, check_tasks, is_of_tasks, task_points
from fairlead.measure.report.task_phrases import BOUND, steps, task_verdict
from fairlead.measure.report.task_tables import MEAN_HEADING, task_tables
from fairlead.measure.statistics import Estimate


@dataclass(frozen=True)
class ReportAdapter:
    """How one kind of document is read; its points are of a class of their own."""

    check: Callable[[Any], None]
    points: Callable[[Document], list[Any]]
    verdict: Callable[[Any], str]
    tables: Callable[[Any], list[Table]]
    about_tables: str  # what to know of their columns
    plots_of: Callable[[Document, Any, bool], list[Plot]]
    plots_of_all: Callable[[Document, bool], list[Plot]]
    swept: Mapping[str, str]  # what tables of a sweep show: figure -> heading; the first is the objective
    write: Callable[[Estimate], str]  # one of these as a cell
    bound: str  # what the bound is called


_SERVING = ReportAdapter(
    check,
    points,
    verdict,
    tables,
    "",
    plots_of,
    plots_of_all,
    OUTCOME_HEADINGS,
    percent,
    "upper bound",
)
_PRIVILEGES = """Privileges: what a policy knows that others can't see (the progress and speed of tasks), and whether it
resizes or pre-empts running tasks. Compare policies with equal privileges."""
_TASKS = ReportAdapter(
    check_tasks,
    task_points,
    task_verdict,
    task_tables,
    _PRIVILEGES,
    task_plots_of,
    task_plots_of_all,
    {TaskPoint.objective: MEAN_HEADING},
    steps,
    BOUND,
)


def adapter_of(document: Any) -> ReportAdapter:
    """The kind of a comparison or a sweep; what it is not is for `check` to say."""
    return _TASKS if is_of_tasks(document) else _SERVING
