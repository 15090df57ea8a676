"""The schema of result documents, as far as reports read them: every field with its type.

`document.check`, `check_degradation` and `check_explanation` hold documents against them, so that nothing
behind these meets a wrong type. What else a document has is not looked at. `task_schema` has that of worlds of tasks.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, Field, FiniteFloat, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes the one in typing from Python 3.12 on only


def _number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None or value in ("inf", "-inf") or (is_number and abs(value) < _MOST):
        return value
    raise ValueError("should be a number, 'inf', '-inf', or null for none")


def _drawable(value: Any) -> Any:
    if isinstance(value, int | float) and not abs(value) < _MOST:
        raise ValueError("should be finite")
    _encodable(str(value))
    return value


def _encodable(value: str) -> str:
    value.encode()  # JSON can hold halves of characters, a file can't
    return value


_MOST = 1e300
Number = Annotated[Any, AfterValidator(_number)]
Text = Annotated[str, AfterValidator(_encodable)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Edges = Annotated[list[FiniteFloat], Field(min_length=2)]


class EstimateForm(TypedDict):
    """A mean with its interval."""

    mean: Number
    ci95: Number
    n: Count


class BoundForm(EstimateForm):
    """That of what no policy can pass."""

    by_seed: NotRequired[list[Number] | None]


class _Outcomes(TypedDict):
    success: list[Count]
    late: list[Count]
    inaccurate: list[Count]
    rejected: list[Count]


class _Learned(TypedDict):
    decisions: Count
    fallbacks: dict[Text, Count]
    active: dict[Text, list[FiniteFloat]]  # of selectors


class _Detail(TypedDict):
    outcomes: _Outcomes
    latency: list[Count]
    load: dict[Text, list[Number]]
    learned: NotRequired[_Learned | None]


class _Policy(TypedDict):
    figures: dict[Text, EstimateForm | None]
    behind_best: EstimateForm | None
    by_seed: dict[Text, list[Number]]
    detail: NotRequired[_Detail | None]  # older documents have none, and get a line of their own


class _Change(TypedDict):
    at_s: FiniteFloat
    what: Text


class _Scenario(TypedDict):
    title: NotRequired[Text | None]
    workload: NotRequired[Text | None]
    seeds: list[int]
    ranking: list[Text]
    assumptions: list[Text]
    bound: NotRequired[BoundForm | None]
    changes: NotRequired[list[_Change] | None]
    time_s: NotRequired[Edges]
    latency_ms: NotRequired[Edges]
    policies: dict[Text, _Policy]


class _Sweep(TypedDict):
    param: Text
    values: list[Annotated[Any, AfterValidator(_drawable)]]


class SettingsForm(TypedDict):
    """What was asked."""

    seeds: list[int]
    policies: list[Text]
    set: NotRequired[list[Text] | None]
    sweep: NotRequired[_Sweep | None]


class _Document(TypedDict):
    fairlead: Text
    versions: dict[Text, Text]
    settings: SettingsForm
    policies: dict[Text, dict[Text, Text]]
    complete: NotRequired[bool]
    stopped: NotRequired[Text | None]
    failures: NotRequired[dict[Text, Text] | None]
    warnings: NotRequired[list[Text] | None]
    scenarios: dict[Text, _Scenario]


class _Slopes(TypedDict):
    rho: list[FiniteFloat]
    slope: list[Number]


class _Matrix(TypedDict):
    device: Text
    nodes: list[Text]
    arriving: Text
    axes: Annotated[list[Text], Field(min_length=1, max_length=2)]
    alone_ms: FiniteFloat
    cells: Annotated[list[Annotated[list[Number], Field(min_length=1)]], Field(min_length=1)]
    by_rho: NotRequired[_Slopes | None]


class _Degradation(TypedDict):
    fairlead: Text
    versions: dict[Text, Text]
    settings: dict[Text, Text | int | list[Text] | None]
    title: Text
    measured: Text
    assumptions: NotRequired[list[Text] | None]
    matrices: Annotated[list[_Matrix], Field(min_length=1)]


class _Seen(TypedDict):
    name: Text
    unit: Text
    value: Number
    typical: Number
    low: Number
    high: Number
    outside: bool


class _Replayed(TypedDict):
    run: int
    soon: int
    outcome: Text | None
    latency_ms: Number


class _Alternative(TypedDict):
    name: Text
    chosen: bool
    excluded: list[Text]
    value: Number
    share: Number
    facts: dict[Text, Number]
    summary: Text
    replayed: _Replayed | None


class _Driver(TypedDict):
    name: Text
    group: bool
    move: FiniteFloat
    then: Text


class _Decision(TypedDict):
    kind: Literal["window", "request"]
    number: Count
    at_s: FiniteFloat
    until_s: FiniteFloat
    situation: dict[Text, Text | FiniteFloat]
    chosen: Text
    fallback: Text | None
    rule: Text
    inputs: list[_Seen]
    alternatives: Annotated[list[_Alternative], Field(min_length=1)]
    rival: Text | None
    margin: Number
    drivers: list[_Driver]


class _Asked(TypedDict):
    policy: Text
    set: NotRequired[list[Text] | None]


class _Explanation(TypedDict):
    fairlead: Text
    versions: dict[Text, Text]
    settings: _Asked
    title: Text
    workload: NotRequired[Text | None]
    assumptions: NotRequired[list[Text] | None]
    soon_s: FiniteFloat
    decision: _Decision


COMPARISON, DEGRADATION, EXPLANATION = _Document, _Degradation, _Explanation  #: what a document can be


@cache
def _form(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def first_fault(document: Any, kind: Any = COMPARISON) -> str:
    """Where the document departs from the form, and what would be right, in one line; empty when it does not."""
    try:
        _form(kind).validate_python(document, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where, what = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        return " ".join(f"{where}: {what[0].lower()}{what[1:]}".split())
    return ""
