"""The plots as PNG and SVG files, drawn by vl-convert from the same specs as the page. Called by the cli."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from fairlead.domain.errors import UserError
from fairlead.measure.report import degradation_document, explanation_document
from fairlead.measure.report.document import Document, about_each, sweep, what_ran
from fairlead.measure.report.explanation_phrases import title
from fairlead.measure.report.plots import Plot
from fairlead.measure.report.report_adapter import adapter_of
from fairlead.measure.report.style import CONFIG, Spec
from fairlead.measure.write_files import check_folder, safe_names, write_whole

_WIDTH, _SCALE = 760, 2
_LINE = 136  # characters of a subtitle
_MOST_PX = 20_000  # of a plot, on a side


def converter() -> ModuleType:
    """vl_convert, which is an extra: it draws the files and holds the page's JavaScript."""
    try:
        import vl_convert
    except ImportError:
        raise UserError("reports and plots need vl-convert: pip install vl-convert-python") from None
    return vl_convert


def write_plots(document: Document, folder: Path) -> list[Path]:
    """Write every plot as LABEL-PLOT.svg and .png into a folder, which is made; the paths written."""
    adapter_of(document).check(document)
    return _write(_specs(document), folder)


def write_degradation_plots(document: Document, folder: Path) -> list[Path]:
    """The same for degradation matrices, as DEVICE-PLOT.svg and .png."""
    degradation_document.check_degradation(document)
    found = degradation_document.devices(document)
    names = safe_names([measured.label for measured in found])
    specs = {
        f"{name}-{plot.name}": _titled(plot, f"{measured.label}: {degradation_document.what_ran(document)}")
        for name, measured in zip(names, found, strict=True)
        for plot in measured.plots()
    }
    return _write(specs, folder)


def write_explanation_plots(document: Document, folder: Path) -> list[Path]:
    """The same for an explained decision, as POLICY-PLOT.svg and .png."""
    explanation_document.check_explanation(document)
    (name,) = safe_names([Path(document["settings"]["policy"]).name])
    drawn = [plot for plot in explanation_document.plots(document) if plot.spec]
    subtitle = f"{title(document)}: {explanation_document.what_ran(document)}"
    return _write({f"{name}-{plot.name}": _titled(plot, subtitle) for plot in drawn}, folder)


def write_trace_plots(plots: Mapping[str, Plot], folder: Path, subtitle: str) -> list[Path]:
    """The same for plots of traced tasks, as NAME-PLOT.svg and .png."""
    return _write({f"{name}-{plot.name}": _titled(plot, subtitle) for name, plot in plots.items()}, folder)


def _write(specs: dict[str, Spec], folder: Path) -> list[Path]:
    vl_convert = converter()
    check_folder(folder)
    written: list[Path] = []
    for name, spec in specs.items():
        svg = vl_convert.vegalite_to_svg(spec)
        _check_size(name, svg)
        for suffix, content in ((".svg", svg.encode()), (".png", vl_convert.svg_to_png(svg, scale=_SCALE))):
            path = folder / f"{name}{suffix}"
            write_whole(path, content)
            written.append(path)
    return written


def _check_size(name: str, svg: str) -> None:
    """Refuse a drawing that runs far off its axes: as a PNG it would take all memory."""
    size = {side: float(pixels) for side, pixels in re.findall(r' (width|height)="([^"]+)"', svg[: svg.index(">")])}
    if not max(size.values()) <= _MOST_PX:
        pixels = " x ".join(f"{size[side]:.0f}" for side in ("width", "height"))
        raise UserError(f"the plot {name} would have {pixels} pixels: some of its figures can't be right")


def _specs(document: Document) -> dict[str, Spec]:
    """File name, without its ending -> spec."""
    found: dict[str, Spec] = {}
    adapter = adapter_of(document)
    points = adapter.points(document)
    each = [f"{label}: {words}" for label, words in about_each(points).items() if words and not sweep(document)]
    whole = "; ".join((*each, what_ran(document, points)))  # a plot of a sweep has the values on its axis
    for plot in adapter.plots_of_all(document, True):
        if plot.spec:
            found[plot.name] = _titled(plot, whole)
    for point, label in zip(points, safe_names(list(document["scenarios"])), strict=True):
        for plot in adapter.plots_of(document, point, True):
            if plot.spec:
                found[f"{label}-{plot.name}"] = _titled(plot, f"{point.label}: {what_ran(document, [point])}")
    return found


def _titled(plot: Plot, subtitle: str) -> Spec:
    notes = [f"{i}: {note}" for i, note in enumerate(plot.notes, start=1)]
    lines = [line for text in (subtitle, plot.caption, *notes) for line in textwrap.wrap(text, _LINE)]
    heading = {"text": plot.title, "subtitle": lines, "frame": "bounds", "offset": 16, "subtitlePadding": 5}
    look: Spec = {"config": CONFIG, "background": "white", "padding": 16, "width": _WIDTH, "title": heading}
    return {**(plot.spec or {}), **look}
