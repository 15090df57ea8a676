"""The form of result documents of worlds of tasks, as far as reports read them; `schema` has what they share.

`task_document.check_tasks` holds documents against it.
"""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from fairlead.measure.report.schema import BoundForm, Count, Edges, EstimateForm, Number, SettingsForm, Text

Square = Annotated[int, Field(ge=0, le=10**40)]  # of counts, which may be as many as 2**53
Axis = Annotated[list[Count], Field(min_length=1)]


class _Learned(TypedDict):
    decisions: Count
    fallbacks: dict[Text, Count]


class _Detail(TypedDict):
    alive: list[Count]
    alive_squares: list[Square]
    used: dict[Text, list[Count]]  # by resource
    completion: list[Count]
    given: dict[Text, dict[Text, list[Count]]]  # by type and resource
    learned: NotRequired[_Learned | None]


class _Policy(TypedDict):
    figures: dict[Text, EstimateForm | None]
    behind_best: EstimateForm | None
    by_seed: dict[Text, list[Number]]
    detail: _Detail


class _Change(TypedDict):
    at_step: FiniteFloat
    what: Text


class _Speed(TypedDict):
    amounts: Annotated[dict[Text, Axis], Field(min_length=1, max_length=2)]  # by resource
    steps: list[list[Number]]


class _Scenario(TypedDict):
    title: NotRequired[Text | None]
    workload: NotRequired[Text | None]
    seeds: list[int]
    ranking: list[Text]
    assumptions: list[Text]
    bound: NotRequired[BoundForm | None]
    step_s: Annotated[FiniteFloat, Field(gt=0)]
    changes: list[_Change]
    time_steps: Edges
    completion_steps: Edges
    capacity: dict[Text, Count]  # by resource
    speeds: dict[Text, _Speed]  # by type
    policies: dict[Text, _Policy]


class _Placer(TypedDict):
    package: Text
    kind: Text
    hash: Text
    knows: list[Text]
    preempts: bool
    resizes: bool


class _Document(TypedDict):
    fairlead: Text
    versions: dict[Text, Text]
    settings: SettingsForm
    policies: dict[Text, _Placer]
    complete: NotRequired[bool]
    stopped: NotRequired[Text | None]
    failures: NotRequired[dict[Text, Text] | None]
    warnings: NotRequired[list[Text] | None]
    scenarios: dict[Text, _Scenario]


TASKS = _Document
