"""What is foreseen of candidates, worked by hand, and that it is kept up only where the policy may read it.

The formulas in full are held to the reference simulator (test_reference).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from builders import Ask, finished, link, node, play, rich_scenario, scenario, seen, shared_device, source
from fairlead.domain.records import FORESEEN
from fairlead.domain.scenario import Scenario
from fairlead.domain.workload import Draw
from fairlead.policies.interface import Policy, find
from fairlead.policies.policy_code import may_read
from fairlead.sim.serving.drawn_workload import make_workload
from fairlead.sim.serving.plan import build_plan
from fairlead.sim.serving.run_policy import run_decider, setting_of
from fairlead.sim.serving.world import new_world

# ---- worked by hand


def foreseen(made: Scenario, *asks: Ask) -> Any:
    """What is foreseen of the first candidate of each request, which is taken: (requests,) records."""
    shown: list[Any] = []

    def note(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        shown.append(np.array(candidates[:1]))
        return 0

    play(made, asks, policy=Policy("note", note, "python"))
    return np.concatenate(shown)


def two_sites(**more: Any) -> Scenario:
    """One server that takes 10 ms, next to one site and 20 ms from the other."""
    return scenario(sites=("near", "far"), links=[link(0.0), link(20.0, "far", "edge")], **more)


def test_server_is_free_when_what_it_serves_should_have_ended() -> None:
    shown = foreseen(scenario(), Ask(0.0), Ask(4.0), Ask(5.0))
    assert shown["wait_ms"].tolist() == [0.0, 6.0, 15.0]
    assert shown["wait_sd_ms"].tolist() == [0.0, 0.0, 0.0]
    assert shown["busy"] == pytest.approx([0.0, 1.0 - math.exp(-0.004), 1.0 - math.exp(-0.005)])


def test_service_that_takes_longer_than_expected_is_expected_to_go_on() -> None:
    """Exponential work of mean 1 has a deviation of 1, too: a normal number that is above its mean exceeds it by
    sqrt(2 / pi) deviations in the mean, with a variance of 1 - 2 / pi."""
    made = scenario(sources=[source(work=Draw(exponential=1.0))])
    shown = foreseen(made, Ask(0.0, work=3.0), Ask(10.0))
    mean, sd = 10.0 * math.sqrt(2.0 / math.pi), 10.0 * math.sqrt(1.0 - 2.0 / math.pi)
    z = mean / sd
    share, density = 0.5 * math.erfc(-z / math.sqrt(2.0)), math.exp(-z * z / 2.0) / math.sqrt(2.0 * math.pi)
    wait = mean * share + sd * density
    assert shown["wait_ms"][1] == pytest.approx(wait)
    square = (mean**2 + sd**2) * share + mean * sd * density
    assert shown["wait_sd_ms"][1] == pytest.approx(math.sqrt(square - wait**2))


@pytest.mark.parametrize(("deadline_ms", "makes_late"), [(49.0, 0.0), (50.0, 1.0), (54.9, 1.0), (55.0, 0.0)])
def test_newcomer_that_overtakes_makes_late_whom_it_delays_past_the_deadline(
    deadline_ms: float, makes_late: float
) -> None:
    """The one from afar would be served from 20 to 30 ms, and answered at 50; behind the newcomer 5 ms later."""
    shown = foreseen(two_sites(), Ask(0.0, site=1, deadline_ms=deadline_ms), Ask(15.0))
    assert shown["makes_late"].tolist() == [0.0, makes_late]
    assert shown["wait_ms"].tolist() == [0.0, 0.0]
    assert shown["nearest_ms"].tolist() == [0.0, 0.0]


def test_newcomers_on_a_shared_node_slow_down_and_are_slowed_down() -> None:
    """From 5 to 15 ms both run at half their speed; the newcomer has 5 ms of work left for itself."""
    made = scenario(devices=[shared_device(rho=1.0)], nodes=[node(serving="shared")])
    shown = foreseen(made, Ask(0.0, deadline_ms=12.0), Ask(5.0))
    assert shown["wait_ms"].tolist() == [0.0, 5.0]
    assert shown["makes_late"].tolist() == [0.0, 1.0]
    assert shown["busy"] == pytest.approx([0.0, 1.0 - math.exp(-0.005)])


def test_lone_request_waits_where_even_one_is_slowed_down() -> None:
    made = scenario(devices=[shared_device(curve={"default": (1.5, 3.0)})], nodes=[node(serving="shared")])
    assert foreseen(made, Ask(0.0))["wait_ms"].tolist() == [5.0]


def test_node_that_no_site_reaches_is_nowhere_near() -> None:
    made = rich_scenario()
    plan = build_plan(made)
    world = new_world(plan, make_workload(made, 1))
    shown: list[Any] = []

    def note(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        shown.append((float(request.now_ms), candidates.nearest_ms[0], candidates.wait_ms[0], excluded[0]))
        return int(np.flatnonzero(excluded == 0)[0])

    run_decider(plan, world, Policy("note", note, "python").decider(setting_of(plan)))
    during = [row[1:3] for row in shown if 2000.0 < row[0] < 2500.0]  # the outage of the pair
    assert set(during) == {(math.inf, 0.0)}
    assert {row[1] for row in shown if not 2000.0 < row[0] < 2500.0} == {3.0}


# ---- kept up only where somebody may read them


FIELD, FIELDS = "wait_ms", ("node", "busy")


@numba.njit
def wait_of(candidates: Any) -> float:
    return float(candidates[0].wait_ms)


library, package = ModuleType("library"), ModuleType("package")
vars(library).update(wait_of=wait_of, FIELD=FIELD, proc_of=numba.njit(lambda candidates: candidates[0].proc_ms))
vars(package).update(library=library)


def by_name(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(candidates[0].busy) else 0


def by_text(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(candidates["makes_late"][0]) else 0


def by_named_text(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(candidates[FIELD][0]) else 0


def by_helper(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(wait_of(candidates)) else 0


def by_module(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(library.wait_of(candidates)) else 0


def by_module_of_module(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(package.library.wait_of(candidates)) else 0


def by_text_of_module(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(candidates[library.FIELD][0]) else 0


def by_closure(helper: Any) -> Callable[..., int]:
    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return -1 if np.isnan(helper(candidates)) else 0

    return decide


def by_text_of_closure(field: str) -> Callable[..., int]:
    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return -1 if np.isnan(candidates[field][0]) else 0

    return decide


def by_list(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return -1 if np.isnan(np.array([candidate.wait_sd_ms for candidate in candidates])[0]) else 0


READING = {
    "by name": by_name,
    "as text": by_text,
    "as text that has a name": by_named_text,
    "through a helper": by_helper,
    "through a module": by_module,
    "through a module of a module": by_module_of_module,
    "as text of a module": by_text_of_module,
    "through a closure": by_closure(wait_of),
    "as text of a closure": by_text_of_closure("wait_sd_ms"),
    "in a list": by_list,
}


@pytest.mark.parametrize("how", READING)
def test_compiled_policy_that_reads_what_is_foreseen_gets_it(how: str) -> None:
    """These decline where it is unknown."""
    made = Policy("reads", READING[how])
    assert may_read(made.function, FORESEEN)
    assert made.foresees
    assert play(scenario(), [Ask(0.0), Ask(1.0)], policy=made).rows["choice"].tolist() == [0, 0]


class Decides:
    def __call__(self, request: Any, candidates: Any, excluded: Any, u: float) -> int:
        return 0


def first(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return 0


def proc_of_module(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    return int(library.proc_of(candidates) < 0.0)


MAY_READ: dict[str, tuple[Callable[..., Any], bool]] = {
    "nothing": (first, False),
    "another field through a module": (proc_of_module, False),
    "another field as text": (by_text_of_closure("proc_ms"), False),
    "compiled": (numba.njit(by_helper), True),
    "compiled, nothing": (numba.njit(first), False),
    "a partial": (partial(by_name, None), True),
    "a function within": (lambda *given: (lambda: given[1].wait_ms)(), True),
    "a list of texts": (lambda *given: [given[1][field] for field in FIELDS], True),
    "an object, whose code is not looked for": (Decides(), True),
    "a method": (Decides().__call__, False),
    "no Python": (max, True),
}


@pytest.mark.parametrize("name", MAY_READ)
def test_what_may_be_read_is_seen_in_the_code(name: str) -> None:
    function, expected = MAY_READ[name]
    assert may_read(function, FORESEEN) is expected


@pytest.mark.filterwarnings("error")
def test_code_is_looked_at_in_silence() -> None:
    """NumPy warns of names that it once had, and names of a policy are looked for in all modules that it uses."""
    assert not may_read(lambda candidates: str(np.max(candidates.load)), FORESEEN)


def test_policy_that_reads_nothing_foreseen_costs_nothing_and_decides_alike() -> None:
    made, rule = rich_scenario("stream"), find("least-expected-completion")
    plan = build_plan(made)
    assert not rule.foresees
    plain = finished(made, 3, rule)
    assert all(np.isnan(plain.candidates[name]).all() for name in FORESEEN)
    kept, decider = new_world(plan, make_workload(made, 3)), rule.decider(setting_of(plan))
    decider.foresees = True
    run_decider(plan, kept, decider)
    assert any(kept.candidates["busy"] > 0.0)
    assert seen(kept) == seen(plain)


def test_python_policies_and_those_that_read_it_see_what_is_foreseen() -> None:
    assert Policy("any", first, "python").foresees
    assert {name: find(name).foresees for name in ("closest", "load-balancing")} == {
        "closest": False,
        "load-balancing": False,
    }
