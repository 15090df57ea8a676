"""The report of degradation matrices: what each device does, heat maps, curves, tables. Called by the cli."""

from __future__ import annotations

from html import escape
from pathlib import Path

from fairlead.measure.degradation_matrix import names
from fairlead.measure.numerals import counted
from fairlead.measure.report.degradation_document import Measured, check_degradation, devices, what_ran
from fairlead.measure.report.degradation_tables import ABOUT_CELLS, matrix_table, slopes_table
from fairlead.measure.report.document import Document
from fairlead.measure.report.html import assumptions, details, drawn, figure, frame, label_chooser, pairs, versions
from fairlead.measure.report.phrases import listed
from fairlead.measure.write_files import write_whole


def write_degradation_report(document: Document, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, degradation_page(document))


def degradation_page(document: Document) -> str:
    """The page as text."""
    check_degradation(document)
    found = devices(document)
    kinds = list(dict.fromkeys(m.device for measured in found for m in measured.matrices))
    plots = [measured.plots() for measured in found]
    places = {plot.name: plot for own in sorted(plots, key=len) for plot in own}  # the most that a device has
    parts = {
        "title": f"How workloads slow each other down on {listed(kinds)}",
        "subtitle": what_ran(document),
        "notice": "",
        "verdicts": pairs("verdicts", {measured.label: escape(verdict(measured)) for measured in found}),
        "controls": _controls(found),
        "figures": "\n".join(figure(places[name]) for name in sorted(places, key=_order)),
        "about_tables": f"<p>{ABOUT_CELLS}</p>",
        "tables": "\n".join(_tables(i, measured) for i, measured in enumerate(found)),
        "settings": _settings(document),
    }
    return frame(parts, [{"plots": {plot.name: drawn(plot) for plot in own}} for own in plots])


def verdict(measured: Measured) -> str:
    """One sentence: how fast each arriving model degrades, and how many workloads fit."""
    slopes = [
        f"{fit.slope:z.2f} to that of {name} (R² {fit.r2:.3f})"
        for name, m in zip(names(measured.matrices), measured.matrices, strict=True)
        if (fit := m.fit())
    ]
    levels = [level for m in measured.matrices for level in m.curve()]
    full = [level.running for level in levels if level.infinite]
    first, most = min(full, default=0), levels[-1].running
    room = f"from {first} workloads on, not all mixes fit" if full else f"all mixes of up to {most} workloads fit"
    if not slopes:
        return f"There are too few mixes for a fit; {room}."
    return f"The slow-down grows with each further workload: it adds {listed(slopes)}; {room}."


def _order(name: str) -> tuple[bool, bool, int]:
    """Heat maps by their number, the curve, slopes by rho."""
    return name == "by-rho", name == "curve", int(name.rpartition("-")[2]) if name.startswith("matrix-") else 0


def _controls(found: list[Measured]) -> str:
    chooser = label_chooser("Device", [measured.label for measured in found], 0)
    return f"<details open><summary>Choose what is shown</summary>{chooser}</details>"


def _tables(index: int, measured: Measured) -> str:
    made = [f'<div data-label="{index}"><h3>{escape(measured.label)}</h3>']
    for name, m in zip(names(measured.matrices), measured.matrices, strict=True):
        made.append(details(matrix_table(m, name), is_open=True))
    if measured.slopes:
        made.append(details(slopes_table(measured.slopes), is_open=False))
    return "\n".join([*made, "</div>"])


def _settings(document: Document) -> str:
    given = {k: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in document["settings"].items() if v}
    rows = {k: escape(v) for k, v in given.items()} | {"versions": escape(versions(document))}
    found = document.get("assumptions") or []
    listed_assumptions = assumptions(counted(len(found), "assumption"), found) if found else ""
    return pairs("settings", rows) + listed_assumptions
