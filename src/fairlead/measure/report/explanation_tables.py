"""The tables of an explained decision: alternatives, inputs, inputs that belong together. Text, as in `tables`.

Called by `explanation_page` and the command `explain`.
"""

from __future__ import annotations

from fairlead.measure.numerals import plain_number, signed
from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_words import heading, label, range_text, value_text
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Columns, Table

_FORMS = {"accuracy": "{:.3f}", "energy_mj": "{:,.0f}", "suffered": "{:.2f}", "in_flight": "{:.0f}"}  # others: 0.1


def alternatives(document: Document) -> Table:
    """The choice first, then by value; what was not possible last."""
    made = document["decision"]
    rows = sorted(
        made["alternatives"], key=lambda a: (not a["chosen"], bool(a["excluded"]), -(number(a["value"] or 0)))
    )
    columns = {
        "alternative": [a["name"] + (" (chosen)" if a["chosen"] else "") for a in rows],
        "score": [NOTHING if a["value"] is None else plain_number(number(a["value"])) for a in rows],
    }
    if any(a["facts"] for a in rows):
        columns["softmax share, %"] = [
            NOTHING if a["share"] is None else f"{100 * number(a['share']):.1f}" for a in rows
        ]
        for fact in dict.fromkeys(name for a in rows for name in a["facts"]):
            columns[heading(fact)] = [_cell(a["facts"].get(fact), _FORMS.get(fact, "{:,.1f}")) for a in rows]
        columns["excluded for"] = [", ".join(a["excluded"]) for a in rows]
    else:
        columns["what it does"] = [a["summary"] for a in rows]
    return Table("What could be done", columns | _replayed(document, rows), compares=True)


def _replayed(document: Document, rows: list[Document]) -> Columns:
    """What each alternative would have led to, if that was tried."""
    tried = [a["replayed"] for a in rows]
    if not any(tried):
        return {}
    columns = {
        title: [f"{again[field]:+d}" if again else NOTHING for again in tried]
        for title, field in (
            (f"more successes in {document['soon_s']:g} s", "soon"),
            ("more successes in the run", "run"),
        )
    }
    outcomes = [(again or {}).get("outcome") for again in tried]
    return columns | ({"outcome": [outcome or NOTHING for outcome in outcomes]} if any(outcomes) else {})


def inputs(made: Document) -> Table:
    """What the model saw; what drove the choice the most comes first."""
    moves = {d["name"]: d for d in made["drivers"] if not d["group"]}
    order = {name: i for i, name in enumerate(moves)}
    rows = sorted(made["inputs"], key=lambda i: order.get(i["name"], len(order)))
    columns = {
        "input": [label(i["name"]) for i in rows],
        "was": [value_text(i) for i in rows],
        "range in training": [range_text(i) for i in rows],
    }
    drivers = [moves.get(i["name"]) for i in rows]
    return Table("What the model saw", columns | (_drove(made, drivers) if moves else {}))


def groups(made: Document) -> Table:
    """Inputs that belong together, set to what is typical at once; the strongest first."""
    found = [d for d in made["drivers"] if d["group"]]
    return Table("Inputs that belong together", {"group": [d["name"] for d in found]} | _drove(made, found))


def _drove(made: Document, drivers: list[Document | None]) -> Columns:
    thens = [d and ("the same" if d["then"] == made["chosen"] else d["then"]) for d in drivers]
    return {
        "moves margin by": [signed(number(d["move"])) if d else NOTHING for d in drivers],
        "if typical, then chosen": [then or NOTHING for then in thens],
    }


def _cell(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(number(value))
