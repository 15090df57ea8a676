"""The report of an explained decision: what was chosen, bars of alternatives and drivers, tables. Called by the cli."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from fairlead.measure.numerals import counted
from fairlead.measure.report.document import Document
from fairlead.measure.report.explanation_document import check_explanation, plots, what_ran
from fairlead.measure.report.explanation_phrases import beyond_training, title, verdict
from fairlead.measure.report.explanation_tables import alternatives, groups, inputs
from fairlead.measure.report.explanation_words import situation
from fairlead.measure.report.html import assumptions, details, drawn, figure, frame, label_chooser, pairs, versions
from fairlead.measure.write_files import write_whole


def write_explanation_report(document: Document, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, explanation_page(document))


def explanation_page(document: Document) -> str:
    """The page as text."""
    check_explanation(document)
    made, own = document["decision"], plots(document)
    parts = {
        "title": title(document),
        "subtitle": what_ran(document),
        "notice": _notice(made),
        "verdicts": pairs("verdicts", {f"{made['kind']} {made['number']}": escape(verdict(document))}),
        # Nothing to choose; the page's script wants a label all the same.
        "controls": f"<details hidden>{label_chooser('Decision', ['it'], 0)}</details>",
        "figures": "\n".join(map(figure, own)),
        "about_tables": "",
        "tables": "\n".join(_tables(document)),
        "settings": _settings(document),
    }
    return frame(parts, [{"plots": {plot.name: drawn(plot) for plot in own}}])


def _notice(made: Document) -> str:
    words = beyond_training(made)
    return f'<div class="notice"><p>{escape(words)}</p></div>' if words else ""


def _tables(document: Document) -> list[str]:
    made = document["decision"]
    found = [table for table in (alternatives(document), inputs(made), groups(made)) if table.rows]
    return [details(table, is_open=i == 0) for i, table in enumerate(found)]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )


def _settings(document: Document) -> str:
    given = document["settings"] | situation(document["decision"])
    rows = {k: escape(_words(v)) for k, v in given.items() if v is not None and v != []} | {
        "versions": escape(versions(document))
    }
    found = document.get("assumptions") or []
    return pairs("settings", rows) + (assumptions(counted(len(found), "assumption"), found) if found else "")
