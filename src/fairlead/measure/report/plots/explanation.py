"""Plots of an explained decision: what the alternatives were worth, what drove the choice, what a replay led to."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_phrases import value_text
from fairlead.measure.report.plots.plot import ROW_PX, Plot, tooltip
from fairlead.measure.report.style import HUES, INK, OUTCOME_COLOURS, Spec

_FOR, _AGAINST, _OTHER = OUTCOME_COLOURS["success"], HUES[1], OUTCOME_COLOURS["rejected"]
_MOST = 15  # drivers in a plot
_LABEL_PX = 230
_ROOM_PX = 98
_ABOUT_DRIVERS = (
    "How far the lead of the choice over the best alternative there was would shrink were this at its value typical "
    "of training. Blue speaks for the choice, orange against it."
)
_ONE_AT_A_TIME = "One at a time, all else as it was: what inputs do together is not in it."


def worth(made: Document) -> Plot:
    """What each possible alternative was worth to the model."""
    scored = made["kind"] == "request"  # a score means something beside others only
    known = [a for a in made["alternatives"] if a["share" if scored else "value"] is not None]
    least = min((number(a["value"]) for a in known), default=0.0) if scored else 0.0
    rows: list[Spec] = [
        {
            "name": a["name"],
            "worth": number(a["value"]) - least,
            "value": f"{number(a['value']):.4g}",
            "share": f"{number(a['share']):.1%}" if scored else "",
            "kind": "chosen" if a["chosen"] else "alternative",
        }
        for a in sorted(known, key=lambda a: -number(a["value"]))
    ]
    left_out = len(made["alternatives"]) - len(known)
    caption = (
        "The model's scores, from the least of what was possible; the table has their softmax shares."
        if scored
        else "The model's value of each rule: the gain that it expects, in its own units."
    ) + (f" {left_out} without: the table says why." if left_out else "")
    if not rows:
        return Plot("worth", "What the alternatives were worth", "The model was not asked.")
    best = f"{rows[0]['name']} was worth most ({rows[0]['share'] if scored else rows[0]['value']})."
    x = {"title": "score above the least" if scored else "value", "tickCount": 5}
    hint = {"value": "value", **({"share": "share"} if scored else {})}
    colours = _colours("kind", {"chosen": _FOR, "alternative": _OTHER})
    return Plot(
        "worth",
        "What the alternatives were worth",
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
            "name": d["name"],
            "move": number(d["move"]),
            "text": f"{number(d['move']):+.4g}",
            "then": "the same" if d["then"] == made["chosen"] else d["then"],
            "kind": "for the choice" if number(d["move"]) > 0 else "against it",
            "seen": "" if group else value_text(seen[d["name"]]),
        }
        for d in found
    ]
    finding = f"Strongest is {rows[0]['name']}, which moves the margin by {rows[0]['text']}."
    hint = {"text": "moves the margin by", "then": "typical: then chosen"} | ({} if group else {"seen": "was"})
    spec = _bars(
        rows,
        "move",
        {"title": "margin", "tickCount": 5},
        hint,
        _colours("kind", {"for the choice": _FOR, "against it": _AGAINST}),
    )
    return Plot(name, title, f"{_ABOUT_DRIVERS} {_ONE_AT_A_TIME}", finding, spec=spec, room_px=_ROOM_PX)


def replay(made: Document, soon_s: float) -> Plot:
    """What the alternatives would have led to."""
    spans = {"soon": f"arriving within {soon_s:g} s", "run": "whole run"}
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
        return Plot("replay", title, "Nothing: no alternative would have changed how many requests succeed.")
    best = max(rows, key=lambda r: (r["span"] == spans["run"], r["more"]))
    colours = _colours("span", dict(zip(spans.values(), (HUES[2], HUES[0]), strict=True)))
    x = {"title": "more requests", "tickCount": 5, "format": "+~g"}
    spec = _bars(rows, "more", x, {"span": "among those", "text": "more"}, colours)
    spec["height"] = int(1.5 * spec["height"] / len(spans))
    spec["encoding"]["yOffset"] = {"field": "span", "sort": list(spans.values())}
    return Plot(
        "replay",
        title,
        f"The run again from its start with this one decision changed: requests in time and accurate, more than with "
        f"{made['chosen']}. One seed: what comes later differs by chance, too.",
        f"Over the whole run the best alternative, {best['name']}, makes {best['text']} requests.",
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
