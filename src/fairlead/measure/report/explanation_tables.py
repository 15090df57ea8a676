"""The tables of an explained decision: alternatives, inputs, inputs that belong together. Text, as in `tables`.

Called by `explanation_page` and the command `explain`.
"""

from __future__ import annotations

from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_phrases import value_text
from fairlead.measure.report.phrases import NOTHING
from fairlead.measure.report.tables import Columns, Table

_FACTS = {
    "completion_ms": ("expected completion, ms", "{:,.1f}"),
    "accuracy": ("accuracy", "{:.3f}"),
    "energy_mj": ("energy, mJ", "{:,.0f}"),
    "in_flight": ("in flight", "{:.0f}"),
}


def alternatives(document: Document) -> Table:
    """The choice first, then by value; what was not possible last."""
    made = document["decision"]
    rows = sorted(
        made["alternatives"], key=lambda a: (not a["chosen"], bool(a["excluded"]), -(number(a["value"] or 0)))
    )
    columns = {
        "alternative": [a["name"] + (" (chosen)" if a["chosen"] else "") for a in rows],
        "value to the model": [_cell(a["value"], "{:z.4g}") for a in rows],
    }
    if any(a["facts"] for a in rows):
        columns["share, %"] = [NOTHING if a["share"] is None else f"{100 * number(a['share']):.1f}" for a in rows]
        for fact in dict.fromkeys(name for a in rows for name in a["facts"]):
            heading, form = _FACTS.get(fact, (fact, "{:.4g}"))
            columns[heading] = [_cell(a["facts"].get(fact), form) for a in rows]
        columns["not possible"] = [", ".join(a["excluded"]) for a in rows]
    else:
        columns["what it does"] = [a["summary"] for a in rows]
    return Table("What could be done", columns | _replayed(document, rows), compares=True)


def _replayed(document: Document, rows: list[Document]) -> Columns:
    """What each alternative would have led to, if that was tried."""
    tried = [a["replayed"] for a in rows]
    if not any(tried):
        return {}
    columns = {
        heading: [f"{again[field]:+d}" if again else NOTHING for again in tried]
        for heading, field in ((f"more within {document['soon_s']:g} s", "soon"), ("more in the run", "run"))
    }
    outcomes = [(again or {}).get("outcome") for again in tried]
    return columns | ({"outcome": [outcome or NOTHING for outcome in outcomes]} if any(outcomes) else {})


def inputs(made: Document) -> Table:
    """What the model saw; what drove the choice the most comes first."""
    moves = {d["name"]: d for d in made["drivers"] if not d["group"]}
    order = {name: i for i, name in enumerate(moves)}
    rows = sorted(made["inputs"], key=lambda i: order.get(i["name"], len(order)))
    columns = {
        "input": [i["name"] for i in rows],
        "was": [value_text(i) for i in rows],
        "range in training": [f"{number(i['low']):.4g} to {number(i['high']):.4g}" for i in rows],
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
        "moves the margin by": [f"{number(d['move']):+z.4g}" if d else NOTHING for d in drivers],
        "if typical, then chosen": [then or NOTHING for then in thens],
    }


def _cell(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(number(value))
