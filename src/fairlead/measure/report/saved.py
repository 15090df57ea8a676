"""Reports of whatever `--json` writes: reads the file, writes the page and the plots of its kind. Called by the cli."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead.domain.errors import UserError
from fairlead.measure.report.document import Document, check
from fairlead.measure.report.page import write_report
from fairlead.measure.report.static import write_plots, write_study_plots
from fairlead.measure.report.study import check_study, is_study
from fairlead.measure.report.study_page import write_study_report


def read(path: Path) -> Document:
    """The document in a file that `--json` wrote."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; give one that `fairlead compare --json` wrote") from None
    except OSError as error:
        raise UserError(f"{path}: can't read it: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not JSON, or not text, or nested without end
        raise UserError(f"{path}: not JSON ({error}); give a file that `fairlead compare --json` wrote") from error
    try:
        check_study(document) if is_study(document) else check(document)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return dict(document)


def write_any_report(document: Document, path: Path) -> None:
    """Write the page that belongs to the document."""
    (write_study_report if is_study(document) else write_report)(document, path)


def write_any_plots(document: Document, folder: Path) -> list[Path]:
    """Write the plots that belong to the document; the paths written."""
    return (write_study_plots if is_study(document) else write_plots)(document, folder)
