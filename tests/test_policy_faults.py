"""What third parties' policies do wrong costs their own runs alone; what can't be known of their code is not made up.

`test_plugins` has the same through the real command.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from fairlead.domain.decision import RequestSnapshot
from fairlead.domain.errors import PolicyError, UserError
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.domain.task_records import PENDING, Placements, Snapshot
from fairlead.experiments import serving_trial, task_trial
from fairlead.experiments.task_trial import run_task_trial
from fairlead.experiments.trial import Trial
from fairlead.policies import chance_in_time, expected_times
from fairlead.policies.decider import Setting, decide_by
from fairlead.policies.guard import Guard
from fairlead.policies.interface import Policy, find, policy
from fairlead.policies.policy_code import function_hash, reads_argument
from fairlead.policies.tasks.interface import TaskPolicy, task_policy
from fairlead.scenarios.loader import load, load_any
from fairlead.sim.tasks import policy_catalog

HERE = __file__
SETTING = Setting(3, 250.0)


def shown(count: int = 3) -> RequestSnapshot:
    return RequestSnapshot(np.zeros(1, REQUEST), np.zeros(count, CANDIDATE), np.zeros(count, np.uint16))


def coin(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return int(u * len(candidates))


def first_feasible(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return int(np.flatnonzero(excluded == 0)[0]) if u >= 0.0 else -1


def drawn(function: Callable[..., int] = coin, kind: Any = "python", probability: Any = None) -> Policy:
    return Policy("theirs", function, kind, package="their-package", probability=probability)


def told(probability: Any) -> float:
    return (
        drawn(probability=lambda candidates, excluded, choice: probability).decider(SETTING).decide(shown()).probability
    )


# ---- what they are shown


@numba.njit
def improve(candidate: Any) -> None:
    candidate["accuracy"] = 1.0


def own_record(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best = np.zeros(1, np.float64)
    best[0] = candidates[0].net_ms  # of its own
    return int(best[0] >= 0.0)


def writes_directly(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    request.min_accuracy = 0.0
    return 0


def writes_to_a_candidate(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    for c in range(len(candidates)):
        if excluded[c] == 0:
            improve(candidates[c])
    return 0


def test_compiled_policies_of_third_parties_write_to_nothing_that_they_are_shown() -> None:
    assert drawn(own_record, "compiled").decider(SETTING).decide(shown()).choice == 1
    for writer, what in ((writes_directly, "min_accuracy"), (writes_to_a_candidate, "accuracy")):
        with pytest.raises(PolicyError, match=f"it writes to '{what}' of a record that it is shown"):
            drawn(writer, "compiled").decider(SETTING)


def halve_the_least(facts: Any) -> Any:
    facts.minimum[...] //= 2
    facts.most[...] = 1
    return []


@task_policy("spoiler", prepare=halve_the_least)
def spoiler(snapshot: Any, parameters: Any, u: float, out: Any) -> int:
    snapshot.capacity[0, 0] += 5
    return 0


def test_task_policies_of_third_parties_change_no_world_but_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> TaskPolicy:
        return replace(spoiler, package="their-package") if name == "spoiler" else policy_catalog.find_task_policy(name)

    monkeypatch.setattr(task_trial, "find_task_policy", find)
    scenario = load_any("tapfinger-3", ["tasks=12"])
    alone = run_task_trial(Trial("tapfinger-3", scenario, 0, ("min", "optimus")))
    beside = run_task_trial(Trial("tapfinger-3", scenario, 0, ("min", "spoiler", "optimus")))
    assert {name: beside.figures[name] for name in alone.figures} == alone.figures


# ---- faults


class OfItsOwn(BaseException):
    """No Exception, and without words."""

    def __str__(self) -> str:
        raise RuntimeError("even that fails")


def raise_at_once(error: BaseException) -> Any:
    raise error


def divides_by_zero(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return 1 // int(u - u)


def raises_compiled(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    if u >= 0.0:
        raise ValueError("the cable is cut")
    return 0


def does_not_compile(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return 0 if candidates[int(u)].acuracy > 0.5 else 1


FAULTS = {
    "raises": (drawn(divides_by_zero), "failed: ZeroDivisionError: "),
    "raises something of its own": (drawn(lambda *given: raise_at_once(OfItsOwn())), "failed: OfItsOwn at "),
    "raises an error of ours": (drawn(lambda *given: raise_at_once(UserError("no"))), "failed: UserError: no at "),
    "raises, compiled": (drawn(raises_compiled, "compiled"), "failed: ValueError: the cable is cut at "),
    "does not compile": (
        drawn(does_not_compile, "compiled"),
        "does not compile: KeyError: 'acuracy' (did you mean 'accuracy'?) at ",
    ),
    "probability raises": (
        drawn(first_feasible, probability=lambda *given: 1 / 0),
        "failed to tell the probability of its choice: ZeroDivisionError: division by zero at ",
    ),
    "probability is no number": (
        drawn(first_feasible, probability=lambda *given: "often"),
        "failed to tell the probability of its choice: ValueError: could not convert string to float: 'often' at ",
    ),
    "probability is 7": (
        drawn(first_feasible, probability=lambda *given: 7),
        "told a probability of 7 for its choice, which must be 0 to 1, or NaN where it is unknown, for request 0",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_no_comparison_with_a_full_log(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, line = FAULTS[fault]
    monkeypatch.setattr(serving_trial, "find", lambda name: bad if name == "theirs" else find(name))
    scenario = load("ecsrl", ["duration_s=1"])
    trial = Trial("ecsrl", scenario, 0, ("theirs", "closest"), False, str(tmp_path))
    result = serving_trial.run_serving_trial(trial)
    assert list(result.figures) == ["closest"]
    assert result.failures["theirs"].startswith(f"policy 'theirs' {line}")
    if line.endswith(" at "):
        assert f" at {HERE}:" in result.failures["theirs"]


def test_the_place_of_a_fault_is_where_it_was_raised_else_where_the_function_begins() -> None:
    line = divides_by_zero.__code__.co_firstlineno
    with pytest.raises(PolicyError, match=f"test_policy_faults.py:{line + 1}$"):
        drawn(divides_by_zero).decider(SETTING).decide(shown())
    line = nothing.__code__.co_firstlineno
    with pytest.raises(PolicyError, match=f"^policy 'theirs' failed: TypeError: .* at {HERE}:{line}$"):
        drawn(nothing).decider(SETTING).decide(shown())  # the conversion of its answer raises, not its own code
    line = raises_compiled.__code__.co_firstlineno
    with pytest.raises(PolicyError, match=f"test_policy_faults.py:{line + 2}$"):
        decide_by(drawn(raises_compiled, "compiled"), shown(), 0.5)


@pytest.mark.parametrize("kind", ["python", "compiled"])
@pytest.mark.parametrize("function", ["does_not_compile", "misspells_a_key", "misspells_a_column", "adds_words"])
def test_the_place_of_a_fault_inside_numpy_or_numba_is_the_policys_own_line(function: str, kind: str) -> None:
    wrong = globals()[function]
    with pytest.raises(PolicyError) as error:
        drawn(wrong, kind).decider(SETTING).decide(shown())
    number = wrong.__code__.co_firstlineno + (1 if function == "does_not_compile" else 2)
    assert str(error.value).endswith(f" at {HERE}:{number}")
    assert ("(did you mean 'accuracy'?)" in str(error.value)) == (function != "adds_words")


def misspells_a_key(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best = 0
    return best if candidates[best]["acuracy"] > 0.5 else 1


def misspells_a_column(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    best = 0
    return best if candidates.acuracy.sum() > 0.5 else 1


def adds_words(request: Any, candidates: Any, excluded: Any, u: float) -> Any:
    best = 0
    return best + "a word"


def test_a_misspelled_field_in_a_function_that_a_compiled_policy_calls_is_found() -> None:
    with pytest.raises(PolicyError, match=r"'acuracy' \(did you mean 'accuracy'\?\)") as error:
        drawn(calls_a_misspeller, "compiled").decider(SETTING)
    assert str(error.value).endswith(f":{misspeller.__code__.co_firstlineno + 2}")


@numba.njit
def misspeller(candidate: Any) -> Any:
    return candidate.acuracy > 0.5


def calls_a_misspeller(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return 0 if misspeller(candidates[0]) else 1


def test_task_policies_have_hints_for_the_fields_of_a_snapshot() -> None:
    with pytest.raises(PolicyError, match=r"has no attribute 'capcity' \(did you mean 'capacity'\?\) at .*test_policy"):
        run_alone(lambda snapshot, parameters, u, out: snapshot.capcity)
    with pytest.raises(PolicyError, match=r"no field of name waitd \(did you mean 'waited'\?\) at .*test_policy"):
        run_alone(lambda snapshot, parameters, u, out: snapshot.pending["waitd"])


def run_alone(function: Callable[..., Any]) -> None:
    made = TaskPolicy("theirs", function, "python", package="their-package")
    empty = (np.zeros(1, PENDING) if name == "pending" else np.zeros(1) for name in Snapshot._fields)
    made.decider(None).decide(Snapshot(*empty), 0.5, Placements(None, None))


def nothing(request: Any, candidates: Any, excluded: Any, u: float) -> Any:
    return None


def test_ctrl_c_is_no_fault() -> None:
    with pytest.raises(KeyboardInterrupt), Guard("theirs"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("probability", [7, -0.25, math.inf, 1.0 + 1e-6])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(PolicyError, match="policy 'theirs' told a probability of"):
        told(probability)


def test_a_sum_of_shares_may_be_rounded_and_nan_is_unknown() -> None:
    assert told(0.25) == 0.25
    assert told(1.0 + 1e-12) == 1.0
    assert math.isnan(told(math.nan))


def test_who_tells_a_probability_can_not_change_what_it_is_shown() -> None:
    def tampers(candidates: Any, excluded: Any, choice: int) -> float:
        candidates["load"], excluded[:] = 9.0, 1
        return 0.5

    asked = shown()
    drawn(probability=tampers).decider(SETTING).decide(asked)
    assert not asked.excluded.any()
    assert not asked.candidates["load"].any()


# ---- what is known of a callable


class Chooser:
    """An object as a policy."""

    def __call__(self, request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return 1

    def draws(self, request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return int(u * len(candidates))

    def does_not(self, request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return 1


def nth(n: int, request: Any, candidates: Any, excluded: Any, u: float) -> int:
    """The one of a number."""
    return n


def other(n: int, request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return n + 0


CALLABLES: dict[str, tuple[Callable[..., int], bool]] = {  # whether it may draw
    "u": (coin, True),
    "no u": (lambda request, candidates, excluded, u: 1, False),
    "all in one": (lambda *given: int(given[3] * len(given[1])), True),
    "the rest in one": (lambda request, candidates, *more: int(more[1] * len(candidates)), True),
    "all in one, unused": (lambda *given, n=1: n, False),
    "in a closure": (lambda request, candidates, excluded, u: (lambda: int(u * 3))(), True),
    "a method": (Chooser().draws, True),
    "a method that does not": (Chooser().does_not, False),
    "an object": (Chooser(), True),
    "a partial": (partial(nth, 1), True),
    "a compiled function": (numba.njit(coin), True),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_code_that_may_draw_or_can_not_be_seen_has_an_unknown_probability(name: str) -> None:
    function, may_draw = CALLABLES[name]
    assert reads_argument(function, 3) is may_draw
    made = drawn(function).decider(SETTING).decide(shown(), 0.5)
    assert made.choice == 1
    assert math.isnan(made.probability) if may_draw else made.probability == 1.0
    assert len(made.hash) == 12


def test_partials_and_objects_are_told_apart_by_what_is_known_of_them() -> None:
    callables = (
        partial(nth, 1),
        partial(nth, 2),
        partial(nth, n=1),
        partial(other, 1),
        partial(nth, (1, 2)),
        Chooser(),
        nth,
    )
    assert len({drawn(function).hash for function in callables}) == len(callables)
    assert drawn(partial(nth, 1)).hash == drawn(partial(nth, 1)).hash
    assert drawn(Chooser()).hash == drawn(Chooser()).hash
    assert drawn(partial(nth, Chooser())).hash == drawn(partial(nth, Chooser())).hash


def test_a_hash_covers_what_a_function_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    before = function_hash(find("slack").function)
    assert function_hash(find("slack").function) == before
    monkeypatch.setattr(chance_in_time, "LIKELY", 0.5)
    number = function_hash(find("slack").function)
    monkeypatch.undo()
    monkeypatch.setattr(chance_in_time, "end_to_end_ms", expected_times.completion_ms)
    assert len({before, number, function_hash(find("slack").function)}) == 3


def test_hashes_of_partials_are_those_of_other_processes() -> None:
    code = "import test_policy_faults as t; print(t.hashes())"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(HERE).parent, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(hashes())


def hashes() -> list[str]:
    made = partial(nth, Chooser()), partial(nth, n="a"), Chooser(), len
    return [drawn(function).hash for function in made]


def test_a_partial_is_described_by_its_function() -> None:
    made = policy("second", kind="python")(partial(nth, 1))
    assert (made.summary, made.package) == ("The one of a number.", "test_policy_faults")


# ---- task policies


def place_nothing(n: int, snapshot: Any, parameters: Any, u: float, out: Placements) -> int:
    """Places nothing."""
    return n


def test_a_partial_can_be_a_task_policy() -> None:
    made = task_policy("idle", kind="python")(partial(place_nothing, 0))
    assert (made.summary, made.package, made.draws) == ("Places nothing.", "test_policy_faults", True)
    assert made.hash != TaskPolicy("idle", partial(place_nothing, 1), "python").hash
