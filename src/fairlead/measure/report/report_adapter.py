"""What differs between the reports of the two worlds.

`comparison_page` and `plot_files` ask here, and are the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairlead.measure.report.document import Document, check, points
from fairlead.measure.report.phrases import verdict
from fairlead.measure.report.plots import Plot, plots_of, plots_of_all
from fairlead.measure.report.plots.tasks import task_plots_of, task_plots_of_all
from fairlead.measure.report.tables import tables
from fairlead.measure.report.task_document import check_tasks, is_of_tasks, task_points
from fairlead.measure.report.task_phrases import task_verdict
from fairlead.measure.report.task_tables import task_tables


@dataclass(frozen=True)
class ReportAdapter:
    """How one kind of document is read; its points are of a class of their own."""

    check: Callable[[Any], None]
    points: Callable[[Document], list[Any]]
    verdict: Callable[[Any], str]
    tables: Callable[[Any], str]
    plots_of: Callable[[Document, Any, bool], list[Plot]]
    plots_of_all: Callable[[Document, bool], list[Plot]]


_SERVING = ReportAdapter(check, points, verdict, tables, plots_of, plots_of_all)
_TASKS = ReportAdapter(check_tasks, task_points, task_verdict, task_tables, task_plots_of, task_plots_of_all)


def adapter_of(document: Any) -> ReportAdapter:
    """The kind of a comparison or a sweep; what it is not is for `check` to say."""
    return _TASKS if is_of_tasks(document) else _SERVING
