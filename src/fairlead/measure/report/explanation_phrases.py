"""An explained decision in words: what was chosen, and the inputs that spoke for it and against it.

Called by the command `explain` and by the page. Plain text, as in `phrases`.
"""

from __future__ import annotations

from fairlead.measure.report.document import Document, number
from fairlead.measure.report.phrases import listed

_NAMED = 3  # reasons for, and as many against
_IDLE = ("in_flight", "others_in_flight")
_FACTORS = {"suffered": "slow-down", "caused": "slow-down of others"}
_WORDS = _FACTORS | {
    "net_ms": "network delay",
    "net_sd_ms": "deviation of the network delay",
    "transfer_ms": "transfer time",
    "proc_ms": "service time",
    "service_rate": "service rate",
    "queue_ms": "queueing time",
    "energy_mj": "energy",
    "free_mb": "free memory",
    "in_flight": "number of requests in flight",
    "others_in_flight": "number of other models' requests in flight",
    "deadline_ms": "deadline",
    "min_accuracy": "required accuracy",
    "size_kb": "size of the request",
    "rate_qps": "rate of the stream",
    "qps": "rate of requests",
    "rps": "rate of answers",
    "clients": "number of clients",
}


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


def beyond_training(made: Document) -> str:
    """The inputs that training has never seen like this; empty when there are none."""
    outside = [
        f"{i['name']} {number(i['value']):.4g} ({number(i['low']):.4g} to {number(i['high']):.4g} in training)"
        for i in made["inputs"]
        if i["outside"]
    ]
    return f"Beyond what was seen in training: {listed(outside)}." if outside else ""


def because(made: Document) -> str:
    """The reasons for the choice and against it, strongest first: one sentence each; empty when there are none."""
    moves = _moves(made)
    strongest = sorted((name for name in moves if moves[name]), key=lambda name: -abs(moves[name]))
    reasons = {name: text for name in strongest if (text := _reason(made, name))}
    speak_for = [text for name, text in reasons.items() if moves[name] > 0][:_NAMED]
    against = [text for name, text in reasons.items() if moves[name] < 0][:_NAMED]
    sentences = [f"Chosen because {listed(speak_for)}."] if speak_for else []
    sentences += [f"{'Against it' if speak_for else 'Against the choice'}: {listed(against)}."] if against else []
    return " ".join(sentences)


def value_text(seen: Document) -> str:
    """An input's value, with what is typical."""
    unit = f" {seen['unit']}" if seen["unit"] else ""
    return f"{number(seen['value']):.4g}{unit} (typical {number(seen['typical']):.4g})"


def _moves(made: Document) -> dict[str, float]:
    """How far each input moves the margin; a field of the choice and the same field of the rival count as one."""
    moves: dict[str, float] = {}
    for driver in made["drivers"]:
        if not driver["group"]:
            name, _, place = driver["name"].partition(" of ")
            key = name if place in (made["chosen"], made["rival"]) else driver["name"]
            moves[key] = moves.get(key, 0.0) + number(driver["move"])
    return moves


def _reason(made: Document, name: str) -> str:
    """'the slow-down is 1.0 on nano, against 2.3 on xavier'; empty when both have the same."""
    inputs = {i["name"]: i for i in made["inputs"]}
    chosen, rival = (inputs.get(f"{name} of {made[side]}") for side in ("chosen", "rival"))
    if chosen is None or rival is None:
        seen = inputs.get(name)
        return f"the {_named(name)} is {value_text(seen)}" if seen else ""
    here, there = _amount(name, chosen), _amount(name, rival)
    if here == there:
        return ""
    place, other = _places(made)
    busy = [inputs.get(f"{field} of {made['chosen']}") for field in _IDLE]
    if name == "suffered" and all(i is not None and not number(i["value"]) for i in busy):
        return f"{place} is idle (slow-down {here}, against {there} on {other})"
    return f"the {_named(name)} is {here} on {place}, against {there} on {other}"


def _named(name: str) -> str:
    field, of, place = name.partition(" of ")
    if of:
        return f"{_WORDS.get(field, field)} of {place}"
    kind, _, node = name.partition(" ")
    return f"{kind} of {node}" if node and kind in ("load", "delay") else _WORDS.get(name, name)


def _amount(name: str, seen: Document) -> str:
    value = number(seen["value"])
    return f"{value:.1f}" if name in _FACTORS else f"{value:.3g} {seen['unit']}".strip()


def _places(made: Document) -> tuple[str, str]:
    """The nodes, or, where these are the same, the variants on them."""
    (one, here), (two, there) = ((name, name.rpartition(" on ")[2]) for name in (made["chosen"], made["rival"]))
    return (one, two) if here == there else (here, there)
