"""Reports of whatever `--json` writes: reads the file, writes the page and the plots of its kind. Called by the cli."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from fairlead.domain.errors import UserError, printable
from fairlead.inputs.read_files import read_json
from fairlead.measure.report.comparison_page import write_report
from fairlead.measure.report.degradation_document import check_degradation, is_degradation
from fairlead.measure.report.degradation_page import write_degradation_report
from fairlead.measure.report.document import Document
from fairlead.measure.report.explanation_document import check_explanation, is_explanation
from fairlead.measure.report.explanation_page import write_explanation_report
from fairlead.measure.report.plot_files import write_degradation_plots, write_explanation_plots, write_plots
from fairlead.measure.report.report_adapter import adapter_of

F = TypeVar("F")
_MOST_MB = 256


def read(path: Path) -> Document:
    """The document in a file that `--json` wrote."""
    try:
        document = read_json(path, _MOST_MB)
    except UserError as error:
        raise UserError(f"{error}; give a file that `fairlead compare --json` wrote") from None
    try:
        _of(document, adapter_of(document).check, check_degradation, check_explanation)(document)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return dict(document)


def write_any_report(document: Document, path: Path) -> None:
    """Write the page that belongs to the document."""
    _of(document, write_report, write_degradation_report, write_explanation_report)(_printable(document), path)


def write_any_plots(document: Document, folder: Path) -> list[Path]:
    """Write the plots that belong to the document; the paths written."""
    return _of(document, write_plots, write_degradation_plots, write_explanation_plots)(_printable(document), folder)


def _printable(value: Any) -> Any:
    """The same document without control characters, which end vl-convert's process."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def _of(document: Any, comparison: F, degradation: F, explanation: F) -> F:
    """What belongs to the kind of the document."""
    return degradation if is_degradation(document) else explanation if is_explanation(document) else comparison
