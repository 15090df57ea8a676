"""`fairlead report`: makes the page, and the plots as files, of a result that was saved with --json."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairlead.cli.standard_streams import note
from fairlead.measure.report.plot_files import converter
from fairlead.measure.report.render import read, write_any_plots, write_any_report
from fairlead.measure.write_files import check_different, check_folder, check_writable


def run_report(args: argparse.Namespace) -> int:
    """Run the command."""
    result, output, plots = args.result, args.output, args.plots
    path = Path(output) if output else Path(result).with_suffix(".html")
    check_writable(path)
    check_different({"the result": result, "-o": path})
    if plots:
        check_folder(Path(plots))
    converter()
    document = read(Path(result))
    write_any_report(document, path)
    note(f"report written to {path}")
    if plots:
        note(f"{len(write_any_plots(document, Path(plots)))} plots written to {plots}")
    return 0
