"""Plots of an explained decision: the scores of the alternatives, what drove the choice, what a replay led to."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.measure.numerals import counted, plain_number, signed
from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_phrases import ABOUT_GROUPS, ABOUT_INPUTS, ABOUT_SCORES, about_replay
from fairlead.measure.report.explanation_words import label, value_text
from fairlead.measure.report.plots.plot import ROW_PX, Plot, tooltip
from fairlead.measure.report.style import HUES, INK, OUTCOME_COLOURS, Spec

_FOR, _AGAINST, _OTHER = OUTCOME_COLOURS["success"], HUES[1], OUTCOME_COLOURS["rejected"]
_MOST = 15  # drivers in a plot
_LABEL_PX = 290
_ROOM_PX = 98
_SCORES = "Scores of the alternatives"
_COLOURS = "Blue bars speak for the choice, orange bars against it."


def worth(made: Document) -> Plot:
    """The model's score of each possible alternative."""
    scored = made["kind"] == "request"  # a score means something beside others only
    known = [a for a in made["alternatives"] if a["share" if scored else "value"] is not None]
    least = min((number(a["value"]) for a in known), default=0.0) if scored else 0.0
    rows: list[Spec] = [
        {
            "name": a["name"],
            "worth": number(a["value"]) - least,
            "value": plain_number(number(a["value"])),
            "share": f"{number(a['share']):.1%}" if scored else "",
            "kind": "chosen" if a["chosen"] else "alternative",
        }
        for a in sorted(known, key=lambda a: -number(a["value"]))
    ]
    left_out = len(made["alternatives"]) - len(known)
    above = " Bars begin at the lowest score." if scored else ""
    without = f" Not drawn: {counted(left_out, 'alternative')} without a score." if left_out else ""
    caption = f"The model's score of each possible alternative. {ABOUT_SCORES[made['kind']]}{above}{without}"
    if not rows:
        return Plot("worth", _SCORES, "The model was not asked.")
    best = f"The highest score is that of {rows[0]['name']}, {rows[0]['value']}."
    x = {"title": "score above the lowest" if scored else "score", "tickCount": 5}
    hint = {"value": "score", **({"share": "softmax share"} if scored else {})}
    colours = _colours("kind", {"chosen": _FOR, "alternative": _OTHER})
    return Plot(
        "worth",
        _SCORES,
        caption,
        best,
        spec=_bars(rows, "worth", x, hint, colours),
        room_px=_ROOM_PX,
    )


def drivers(made: Document, group: bool) -> Plot:
    """The strongest inputs, or groups of inputs."""
    seen = {i["name"]: i for i in made["inputs"]}
    found = [d for d in made["drivers"] if d["group"] == group and number(d["move"])][:_MOST]
    name, title = ("groups", "Inputs that belong together") if group else ("inputs", "Which inputs drove the choice")
    if not found:
        why = "A rule decided, so no input of the model did." if made["fallback"] else "None of them moves the margin."
        return Plot(name, title, why)
    rows: list[Spec] = [
        {
            "name": d["name"] if group else label(d["name"]),
            "move": number(d["move"]),
            "text": signed(number(d["move"])),
            "then": "the same" if d["then"] == made["chosen"] else d["then"],
            "kind": "for the choice" if number(d["move"]) > 0 else "against it",
            "seen": "" if group else value_text(seen[d["name"]]),
        }
        for d in found
    ]
    finding = f"What moves the margin the most, by {rows[0]['text']}, is: {rows[0]['name']}."
    hint = {"text": "moves margin by", "then": "if typical, then chosen"} | ({} if group else {"seen": "was"})
    spec = _bars(
        rows,
        "move",
        {"title": "moves the margin by", "tickCount": 5},
        hint,
        _colours("kind", {"for the choice": _FOR, "against it": _AGAINST}),
    )
    return Plot(
        name, title, f"{ABOUT_GROUPS if group else ABOUT_INPUTS} {_COLOURS}", finding, spec=spec, room_px=_ROOM_PX
    )


def replay(document: Document) -> Plot:
    """What the alternatives would have led to."""
    made = document["decision"]
    spans = {"soon": f"requests that arrive within {document['soon_s']:g} s", "run": "all requests of the run"}
    rows: list[Spec] = [
        {"name": a["name"], "more": a["replayed"][span], "span": words, "text": f"{a['replayed'][span]:+d}"}
        for a in made["alternatives"]
        if a["replayed"] and not a["chosen"]
        for span, words in spans.items()
    ]
    title = "What the alternatives would have led to"
    if not rows:
        return Plot("replay", title, "There was no alternative.")
    if not any(row["more"] for row in rows):
        return Plot("replay", title, "No alternative would have changed how many requests succeed.")
    best = max(rows, key=lambda r: (r["span"] == spans["run"], r["more"]))
    colours = _colours("span", dict(zip(spans.values(), (HUES[2], HUES[0]), strict=True)))
    x = {"title": "more successes", "tickCount": 5, "tickMinStep": 1, "format": "+~g"}
    spec = _bars(rows, "more", x, {"span": "among", "text": "more successes"}, colours)
    spec["height"] = int(1.5 * spec["height"] / len(spans))
    spec["encoding"]["yOffset"] = {"field": "span", "sort": list(spans.values())}
    return Plot(
        "replay",
        title,
        about_replay(document),
        f"Over the whole run, {best['text']} requests succeed with {best['name']}, the best alternative.",
        spec=spec,
        room_px=_ROOM_PX,
    )


def _colours(field: str, colours: dict[str, str]) -> Spec:
    legend = {"title": None, "orient": "bottom", "symbolType": "square", "columns": 1}
    scale = {"domain": list(colours), "range": list(colours.values())}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def _bars(rows: Sequence[Spec], field: str, axis: Spec, hint: Spec, colours: Spec) -> Spec:
    names = list(dict.fromkeys(r["name"] for r in rows))
    y_axis = {
        "title": None,
        "ticks": False,
        "domain": False,
        "labelPadding": 8,
        "labelColor": INK,
        "labelLimit": _LABEL_PX,
    }
    return {
        "height": ROW_PX * len(rows),
        "params": [],
        "data": {"values": list(rows)},
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": {"field": "name", "type": "nominal", "sort": names, "axis": y_axis},
            "x": {"field": field, "type": "quantitative", "axis": axis},
            "color": colours,
            "tooltip": tooltip("name", hint),
        },
    }
