"""The report of degradation matrices: what each device does, heat maps, curves, tables. Called by the cli."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path

from fairlead.measure.degradation_matrix import names
from fairlead.measure.numerals import counted
from fairlead.measure.report.degradation_document import Measured, check_degradation, devices
from fairlead.measure.report.document import Document
from fairlead.measure.report.html import assumptions, details, drawn, figure, frame, label_chooser, pairs, versions
from fairlead.measure.report.phrases import NOTHING, listed
from fairlead.measure.report.tables import Table
from fairlead.measure.write_files import write_whole

_ABOUT_TABLES = """<p>Rows: how many of the first model run already; columns: how many of the second. A cell is the time
of the newcomer beside them / its time alone, and infinite where it does not fit.</p>"""


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
        "subtitle": f"{document['title']}; measured {document['measured']}",
        "notice": "",
        "verdicts": pairs("verdicts", {measured.label: escape(verdict(measured)) for measured in found}),
        "controls": _controls(found),
        "figures": "\n".join(figure(places[name]) for name in sorted(places, key=_order)),
        "about_tables": _ABOUT_TABLES,
        "tables": "\n".join(_tables(i, measured) for i, measured in enumerate(found)),
        "settings": _settings(document),
    }
    return frame(parts, [{"plots": {plot.name: drawn(plot) for plot in own}} for own in plots])


def verdict(measured: Measured) -> str:
    """One sentence: how fast each arriving model degrades, and how many workloads fit."""
    slopes = [
        f"{fit.slope:z.2f} times its time alone to {name} (R² {fit.r2:.3f})"
        for name, m in zip(names(measured.matrices), measured.matrices, strict=True)
        if (fit := m.fit())
    ]
    levels = [level for m in measured.matrices for level in m.curve()]
    full = [level.running for level in levels if level.infinite]
    room = f"from {min(full)} on, not all mixes fit" if full else f"all mixes of up to {levels[-1].running} fit"
    return f"Each workload more adds {listed(slopes)}; {room}." if slopes else f"Nothing to fit; {room}."


def _order(name: str) -> tuple[bool, bool, int]:
    """Heat maps by their number, the curve, slopes by rho."""
    return name == "by-rho", name == "curve", int(name.rpartition("-")[2]) if name.startswith("matrix-") else 0


def _controls(found: list[Measured]) -> str:
    chooser = label_chooser("Device", [measured.label for measured in found], 0)
    return f"<details open><summary>Choose what is shown</summary>{chooser}</details>"


def _tables(index: int, measured: Measured) -> str:
    made = [f'<div data-label="{index}"><h3>{escape(measured.label)}</h3>']
    for name, m in zip(names(measured.matrices), measured.matrices, strict=True):
        across = f", across {m.axes[1]}" if len(m.axes) > 1 else ""
        title = f"{name} arriving; down {m.axes[0]}{across}"
        columns = {"running": [str(i) for i in range(len(m.cells))]} | {
            (str(r) if len(m.axes) > 1 else "degradation"): [_number(row[r]) for row in m.cells]
            for r in range(len(m.cells[0]))
        }
        made.append(details(Table(title, columns), is_open=True))
    if measured.slopes:
        title = "Slope of the linear fit by rho"
        slopes = [dict(found) for found in measured.slopes.values()]
        rhos = sorted({rho for found in slopes for rho in found})
        columns = {"arriving": list(measured.slopes)} | {
            f"{rho:g}": [_number(found.get(rho, math.nan)) for found in slopes] for rho in rhos
        }
        made.append(details(Table(title, columns), is_open=False))
    return "\n".join([*made, "</div>"])


def _number(value: float) -> str:
    return NOTHING if math.isnan(value) else "∞" if math.isinf(value) else f"{value:z.2f}"


def _settings(document: Document) -> str:
    given = {k: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in document["settings"].items() if v}
    rows = {k: escape(v) for k, v in given.items()} | {"versions": escape(versions(document))}
    found = document.get("assumptions") or []
    listed_assumptions = assumptions(counted(len(found), "assumption"), found) if found else ""
    return pairs("settings", rows) + listed_assumptions
