"""The report of an explained decision: what was chosen, bars of alternatives and drivers, tables. Called by the cli."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from fairlead.measure.numerals import counted
from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_document import check_explanation, plots, replayed
from fairlead.measure.report.explanation_phrases import because, value_text
from fairlead.measure.report.html import assumptions, drawn, figure, frame, label_chooser, pairs, versions
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Columns, table
from fairlead.measure.write_files import write_whole


def write_explanation_report(document: Document, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, explanation_page(document))


def explanation_page(document: Document) -> str:
    """The page as text."""
    check_explanation(document)
    made, settings = document["decision"], document["settings"]
    own = plots(document)
    parts = {
        "title": f"Why {settings['policy']} chose {made['chosen']}",
        "subtitle": f"{document['title']}; {when(made)}",
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


def when(made: Document) -> str:
    """What was decided, and when."""
    if made["kind"] == "window":
        return f"window {made['number']}, {made['at_s']:g} to {made['until_s']:g} s"
    return f"request {made['number']} at {made['at_s']:.3f} s"


def verdict(document: Document) -> str:
    """What was chosen, how clearly, and because of what."""
    made, policy = document["decision"], document["settings"]["policy"]
    if made["fallback"]:
        return (
            f"The fallback rule {made['rule']} chose {made['chosen']}: the model of {policy} did not decide "
            f"({made['fallback']})."
        )
    if made["rival"] is None:
        return f"{policy} chose {made['chosen']}; nothing else was possible."
    ahead = f"{number(made['margin']):.4g} ahead of" if made["margin"] else "the first of equals, level with"
    return f"{policy} chose {made['chosen']}, {ahead} {made['rival']}. {because(made)}".rstrip()


def _notice(made: Document) -> str:
    outside = [i for i in made["inputs"] if i["outside"]]
    if not outside:
        return ""
    words = [
        f"{i['name']} {number(i['value']):.4g}, {number(i['low']):.4g} to {number(i['high']):.4g}" for i in outside
    ]
    return f'<div class="notice"><p>Beyond what was seen in training: {escape("; ".join(words))}.</p></div>'


def _tables(document: Document) -> list[str]:
    made = document["decision"]
    found = {"What could be done": _alternatives(document), "What the model saw": _inputs(made)}
    groups = [d for d in made["drivers"] if d["group"]]
    found["Inputs that belong together"] = {
        "group": [d["name"] for d in groups],
        "moves the margin by": [f"{number(d['move']):+.4g}" for d in groups],
        "typical: then chosen": [d["then"] for d in groups],
    }
    return [
        f"<details{' open' if i == 0 else ''}><summary>{escape(title)}</summary>{table(title, columns)}</details>"
        for i, (title, columns) in enumerate(found.items())
        if next(iter(columns.values()))
    ]


def _alternatives(document: Document) -> Columns:
    rows = sorted(document["decision"]["alternatives"], key=lambda a: (not a["chosen"], bool(a["excluded"])))
    columns = {
        "alternative": [a["name"] + (" (chosen)" if a["chosen"] else "") for a in rows],
        "value": [_cell(a["value"]) for a in rows],
    }
    if any(a["facts"] for a in rows):
        columns["share"] = [NOTHING if a["share"] is None else f"{number(a['share']):.1%}" for a in rows]
        for fact in dict.fromkeys(name for a in rows for name in a["facts"]):
            columns[fact] = [_cell(a["facts"].get(fact)) for a in rows]
        columns["not possible"] = [", ".join(a["excluded"]) for a in rows]
    else:
        columns["what it does"] = [a["summary"] for a in rows]
    if replayed(document):
        for heading, field in ((f"more within {document['soon_s']:g} s", "soon"), ("more in the run", "run")):
            columns[heading] = [f"{a['replayed'][field]:+d}" if a["replayed"] else NOTHING for a in rows]
        outcomes = [(a["replayed"] or {}).get("outcome") for a in rows]
        columns |= {"outcome": [o or NOTHING for o in outcomes]} if any(outcomes) else {}
    return columns


def _inputs(made: Document) -> Columns:
    moves = {d["name"]: d for d in made["drivers"] if not d["group"]}
    columns = {
        "input": [i["name"] for i in made["inputs"]],
        "was": [value_text(i) for i in made["inputs"]],
        "range in training": [f"{number(i['low']):.4g} to {number(i['high']):.4g}" for i in made["inputs"]],
    }
    if moves:
        columns["moves the margin by"] = [
            f"{number(moves[i['name']]['move']):+.4g}" if i["name"] in moves else NOTHING for i in made["inputs"]
        ]
        columns["typical: then chosen"] = [
            moves[i["name"]]["then"] if i["name"] in moves else NOTHING for i in made["inputs"]
        ]
    return columns


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


def _cell(value: float | None) -> str:
    return NOTHING if value is None else f"{number(value):.4g}"


def _settings(document: Document) -> str:
    given = document["settings"] | document["decision"]["situation"]
    rows = {k: escape(_words(v)) for k, v in given.items() if v is not None and v != []} | {
        "versions": escape(versions(document))
    }
    found = document.get("assumptions") or []
    return pairs("settings", rows) + (assumptions(counted(len(found), "assumption"), found) if found else "")
