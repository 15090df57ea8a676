"""What the inputs of learned policies are called in explanations, and how their values are written, with units.

A document names inputs by the fields of the records ("net_ms of resnet-18 on tx2"), which programs read. Sentences,
tables and plots have their words from here alone. Plain text, as in `phrases`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairlead.measure.numerals import plain_number
from fairlead.measure.report.document import Document, number

FACTORS = ("suffered", "caused")
_FEASIBLE = "feasible"


@dataclass(frozen=True)
class Words:
    """One field: as a label or heading, in a sentence, and what it is measured in."""

    label: str
    unit: str = ""
    noun: str = ""  # after 'the'; empty: the label
    times: float = 1.0  # written values are so many times those of the document


_FIELDS = {
    # a request
    "deadline_ms": Words("deadline", "ms"),
    "min_accuracy": Words("required accuracy"),
    "size_kb": Words("size", "kB", "size of the request"),
    "rate_qps": Words("rate of the stream", "requests/s"),
    # a candidate
    _FEASIBLE: Words("feasible"),
    "net_ms": Words("network delay", "ms"),
    "net_sd_ms": Words("deviation of delay", "ms", "standard deviation of the network delay"),
    "transfer_ms": Words("transfer time", "ms"),
    "proc_ms": Words("service time alone", "ms"),
    "service_rate": Words("service rate", "requests/s"),
    "load": Words("load"),
    "queue_ms": Words("queueing time", "ms"),
    "suffered": Words("slow-down"),
    "caused": Words("slow-down of others", noun="slow-down added to others"),
    "accuracy": Words("accuracy"),
    "energy_mj": Words("energy", "mJ"),
    "price": Words("cost per million", noun="cost per million requests", times=1e6),
    "free_mb": Words("free memory", "MB"),
    "in_flight": Words("in flight", noun="number of requests in flight"),
    "others_in_flight": Words("others in flight", noun="number of other variants' requests in flight"),
    "completion_ms": Words("expected completion", "ms"),
    # what a dispatcher was trained to weigh
    "energy_weight": Words("weight on energy"),
    "degradation_weight": Words("weight on slow-downs"),
    # a window
    "qps": Words("arrival rate", "requests/s"),
    "rps": Words("answer rate", "answers/s"),
    "clients": Words("open streams", noun="number of open streams"),
    "within": Words("deadlines within", "%", "share of deadlines within"),
    "delay": Words("network delay", "ms"),
}
_OF_NODES = {"load": "of", "delay": "to"}


def words_of(field: str) -> Words:
    """The words of a field; one that is not known keeps its name."""
    return _FIELDS.get(field, Words(field))


def heading(field: str) -> str:
    """The heading of a column of it."""
    words = words_of(field)
    return f"{words.label}, {words.unit}" if words.unit else words.label


def split(name: str) -> tuple[str, str]:
    """The field of an input, and the candidate, node or limit that it is of; that is empty for the others."""
    field, _, place = name.partition(" of ")
    if place:
        return field, place
    field, _, rest = name.partition(" ")
    return (field, rest) if field in (*_OF_NODES, "within") else (name, "")


def label(name: str) -> str:
    """An input in a table or a plot."""
    field, place = split(name)
    if " of " in name:
        return f"{place}: {words_of(field).label}"
    return _joined(field, words_of(field).label, place)


def statement(name: str, seen: Document, beside: str) -> str:
    """An input in a sentence, with its value and what it stands beside: 'the deadline is 76 ms (typical 155)'."""
    field, place = split(name)
    noun = words_of(field).noun or words_of(field).label
    if field == _FEASIBLE:
        return f"{place} is {'feasible' if number(seen['value']) else 'excluded'} ({beside})"
    if " of " in name:
        return f"for {place}, the {noun} is {amount(seen)} ({beside})"
    return f"the {_joined(field, noun, place)} is {amount(seen)} ({beside})"


def value_text(seen: Document) -> str:
    """An input's value, with what is typical."""
    return f"{amount(seen)} ({typical_text(seen)})"


def typical_text(seen: Document) -> str:
    """What is typical of training."""
    return f"typical {_written(seen, 'typical')}"


def range_text(seen: Document) -> str:
    """The values that training has seen."""
    return f"{_written(seen, 'low')} to {_written(seen, 'high')}"


def amount(seen: Document) -> str:
    """An input's value with its unit."""
    return f"{_written(seen, 'value')} {seen['unit']}".strip()


def situation(made: Document) -> dict[str, str]:
    """What a decision was about, with units: heading -> text. A single request has no rate of its stream."""
    found = {}
    for field, value in made["situation"].items():
        if isinstance(value, str):
            found[field] = value
        elif field != "rate_qps" or value:
            found[words_of(field).label] = f"{plain_number(number(value))} {words_of(field).unit}".strip()
    return found


def _joined(field: str, words: str, place: str) -> str:
    return f"{words} {_OF_NODES[field]} {place}" if field in _OF_NODES else f"{words} {place}".strip()


def _written(seen: Document, which: str) -> str:
    field = split(seen["name"])[0]
    value = words_of(field).times * number(seen[which])
    if field == _FEASIBLE:
        return "yes" if value > 0.5 else "no"
    return f"{value:.1f}" if field in FACTORS and math.isfinite(value) else plain_number(value)
