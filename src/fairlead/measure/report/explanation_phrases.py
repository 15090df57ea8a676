"""An explained decision in words: what was chosen, and the inputs that spoke for it and against it.

Called by the command `explain`, by the page and by its plots. Plain text, as in `phrases`; `explanation_words` names
inputs and writes their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.measure.numerals import plain_number
from fairlead.measure.report.document import Document, number
from fairlead.measure.report.explanation_words import (
    FACTORS,
    amount,
    range_text,
    split,
    statement,
    typical_text,
    words_of,
)

_NAMED = 3  # reasons for, and as many against
_IDLE = ("in_flight", "others_in_flight")
_REJECT = "reject"
_FALLBACKS = {
    "missing": "its bundle, its model or one of its rules is missing",
    "corrupt": "its model or its description is damaged",
    "version": "it was trained on other inputs than those of this version",
    "size": "there are more nodes or candidates than it has inputs for",
    "range": "some of its inputs were outside the range of its training",
    "output": "it failed, or answered with something that is not a number",
    "slow": "it took longer than its time budget",
}
ABOUT_SCORES = {
    "request": "A score has a meaning only beside the other scores of the same request.",
    "window": "The score of a rule is the gain that the model expects from it, in the units of its training.",
}
_MARGIN = "The margin is the score of the choice minus that of the best alternative."
ABOUT_INPUTS = (
    f"{_MARGIN} An input moves it by as much as it would shrink if the input had its typical value of the training; "
    "below 0, it would grow. Inputs are changed one at a time, so effects that they only have together are not shown."
)
ABOUT_GROUPS = (
    f"{_MARGIN} A group of inputs moves it by as much as it would shrink if all of them had their typical values of "
    "the training; below 0, it would grow."
)


def when(made: Document) -> str:
    """What was decided, and when."""
    if made["kind"] == "window":
        return f"window {made['number']}, {made['at_s']:g} to {made['until_s']:g} s"
    return f"request {made['number']} at {made['at_s']:.3f} s"


def title(document: Document) -> str:
    """The question that an explanation answers."""
    return f"Why {document['settings']['policy']} {_did(document['decision'])}"


def verdict(document: Document) -> str:
    """What was chosen, how clearly, and because of what."""
    made, policy = document["decision"], document["settings"]["policy"]
    if made["fallback"]:
        why = _FALLBACKS.get(made["fallback"], made["fallback"])
        return f"The fallback rule {made['rule']} {_did(made)}: the model of {policy} did not decide, because {why}."
    if made["rival"] is None:
        return f"{policy} {_did(made)}; nothing else was possible."
    return f"{policy} {_did(made)}{_lead(made)}. {because(made)}".rstrip()


def _did(made: Document) -> str:
    return "rejected the request" if made["chosen"] == _REJECT else f"chose {made['chosen']}"


def _lead(made: Document) -> str:
    chosen, rival = ("rejecting" if made[side] == _REJECT else made[side] for side in ("chosen", "rival"))
    if not made["margin"]:
        return f": the scores of {chosen} and {rival} are equal, and the first of equals is taken"
    whose = "the score of rejecting" if chosen == "rejecting" else "its score"
    return f": {whose} is {plain_number(number(made['margin']))} above that of {rival}, the best alternative"


def beyond_training(made: Document) -> str:
    """The inputs that training has never seen like this; empty when there are none."""
    outside = [statement(i["name"], i, f"{range_text(i)} in training") for i in made["inputs"] if i["outside"]]
    return f"Outside the range of the training: {_series(outside)}." if outside else ""


def about_replay(document: Document) -> str:
    """What the figures of a replay are."""
    return (
        "The run was repeated from its start, once for each alternative, with this one decision replaced. The figures "
        f"say how many more requests succeed than with {document['decision']['chosen']}, among those that arrive "
        f"within {document['soon_s']:g} s and in the whole run. This is one seed, so chance plays a part."
    )


def because(made: Document) -> str:
    """The reasons for the choice and against it, strongest first: one sentence each; empty when there are none."""
    moves = _moves(made)
    strongest = sorted((name for name in moves if moves[name]), key=lambda name: -abs(moves[name]))
    reasons = {name: text for name in strongest if (text := _reason(made, name))}
    speak_for = [text for name, text in reasons.items() if moves[name] > 0][:_NAMED]
    against = [text for name, text in reasons.items() if moves[name] < 0][:_NAMED]
    did = "Rejected" if made["chosen"] == _REJECT else "Chosen"
    sentences = [f"{did} because {_series(speak_for)}."] if speak_for else []
    sentences += [f"{'Against it' if speak_for else 'Against the choice'}: {_series(against)}."] if against else []
    return " ".join(sentences)


def _series(clauses: Sequence[str]) -> str:
    """'a', 'a; and b', 'a; b; and c': clauses that have commas of their own."""
    return "; ".join((*clauses[:-1], f"and {clauses[-1]}")) if len(clauses) > 1 else clauses[0]


def _moves(made: Document) -> dict[str, float]:
    """How far each input moves the margin; a field of the choice and the same field of the rival count as one."""
    places, names = (made["chosen"], made["rival"]), {i["name"] for i in made["inputs"]}
    moves: dict[str, float] = {}
    for driver in made["drivers"]:
        if not driver["group"]:
            field, place = split(driver["name"])
            of_both = place in places and all(f"{field} of {one}" in names for one in places)
            key = field if of_both else driver["name"]
            moves[key] = moves.get(key, 0.0) + number(driver["move"])
    return moves


def _reason(made: Document, name: str) -> str:
    """'the slow-down is 1.0 on nano, against 2.3 on xavier'; empty when both have the same."""
    inputs = {i["name"]: i for i in made["inputs"]}
    chosen, rival = (inputs.get(f"{name} of {made[side]}") for side in ("chosen", "rival"))
    if chosen is None or rival is None:
        return statement(name, seen, typical_text(seen)) if (seen := inputs.get(name)) else ""
    here, there = amount(chosen), amount(rival)
    if here == there:
        return ""
    place, at_place, at_other = _places(made)
    busy = [inputs.get(f"{field} of {made['chosen']}") for field in _IDLE]
    if name in FACTORS[:1] and all(i is not None and not number(i["value"]) for i in busy):
        return f"{place} is idle (slow-down {here}, against {there} {at_other})"
    return f"the {words_of(name).noun or words_of(name).label} is {here} {at_place}, against {there} {at_other}"


def _places(made: Document) -> tuple[str, str, str]:
    """The node of the choice, 'on' it and 'on' that of the rival; where these are the same, 'for' the variants."""
    (one, here), (two, there) = ((name, name.rpartition(" on ")[2]) for name in (made["chosen"], made["rival"]))
    return (here, f"for {one}", f"for {two}") if here == there else (here, f"on {here}", f"on {there}")
