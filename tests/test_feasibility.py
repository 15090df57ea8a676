"""Who can take a request: the reason bits, by cases worked by hand, computed by compiled code and by plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairlead.domain.outcomes import Reason
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.policies import feasibility

CAPACITY, MEMORY, LATE = Reason.NO_CAPACITY, Reason.NO_MEMORY, Reason.TOO_LATE
INACCURATE, UNREACHABLE, NOT_ALLOWED = Reason.TOO_INACCURATE, Reason.UNREACHABLE, Reason.NOT_ALLOWED


def make_request(**fields: float) -> Any:
    request = np.zeros(1, REQUEST).view(np.recarray)
    for name, value in fields.items():
        request[name] = value
    return request[0]


def make_candidates(n: int, **columns: Any) -> Any:
    candidates = np.zeros(n, CANDIDATE).view(np.recarray)
    for name, column in columns.items():
        candidates[name] = column
    return candidates


def as_bits(*reasons: int) -> Any:
    return np.array(reasons, np.uint16)


@pytest.fixture(params=["compiled", "python"])
def form(request: pytest.FixtureRequest) -> Callable[[str], Callable[..., Any]]:
    """Gives a function of `feasibility` in one of its two forms."""
    compiled = request.param == "compiled"
    return lambda name: getattr(feasibility, name) if compiled else getattr(feasibility, name).py_func


def added(function: Callable[..., Any], request: Any, candidates: Any, before: Any, *flags: bool) -> list[int]:
    """The bits after the call."""
    excluded = before.copy()
    assert function(request, candidates, excluded, *flags) is None
    return excluded.tolist()


# ---- nominal misses

# End to end, 2 (d + 2 sd) + transfer + processing; queue and load do not count:
# 0: 2 (10 + 2 * 5) + 3 + 20 = 63    1: 2 (10 + 2 * 5) + 0 + 20 = 60    2: 2 (1 + 0) + 0 + 5 = 7
NOMINAL = make_candidates(
    3,
    net_ms=[10, 10, 1],
    net_sd_ms=[5, 5, 0],
    transfer_ms=[3, 0, 0],
    proc_ms=[20, 20, 5],
    queue_ms=[0, 0, 1e6],
    suffered=[1, 1, 9],
    accuracy=[0.9, 0.7, 0.6],
)
STRICT = make_request(deadline_ms=60.0, min_accuracy=0.7)


@pytest.mark.parametrize(
    ("by_deadline", "by_accuracy", "expected"),
    [
        (False, False, [0, 0, 0]),
        (True, False, [LATE, 0, 0]),  # 63 > 60; 60 is in time
        (False, True, [0, 0, INACCURATE]),  # 0.6 < 0.7; 0.7 is accurate
        (True, True, [LATE, 0, INACCURATE]),
    ],
)
def test_nominal_misses_exclude_only_where_the_rules_admit_by_them(form, by_deadline, by_accuracy, expected):
    assert added(form("nominal_misses"), STRICT, NOMINAL, as_bits(0, 0, 0), by_deadline, by_accuracy) == expected


def test_a_candidate_can_miss_both(form):
    request = make_request(deadline_ms=6.9, min_accuracy=0.65)  # 7 > 6.9, 0.6 < 0.65
    assert added(form("nominal_misses"), request, NOMINAL, as_bits(0, 0, 0), True, True) == [
        LATE,
        LATE,
        LATE | INACCURATE,
    ]


def test_nominal_misses_keep_the_bits_that_were_set(form):
    before = as_bits(UNREACHABLE, MEMORY, 0)
    assert added(form("nominal_misses"), STRICT, NOMINAL, before, True, True) == [
        UNREACHABLE | LATE,
        MEMORY,
        INACCURATE,
    ]


# ---- overbooking


@pytest.mark.parametrize(
    ("load", "service_rate", "rate_qps", "full"),
    [
        (0.5, 20.0, 10.0, False),  # 0.5 + 10 / 20 = 1
        (0.5, 20.0, 10.1, True),  # 0.5 + 10.1 / 20 = 1.005
        (0.0, 5.0, 6.0, True),  # 6 / 5 = 1.2
        (0.9, 100.0, 10.0, False),  # 0.9 + 0.1 = 1
        (1.0, 100.0, 0.0, False),  # a single request books nothing
        (1.0, 1e6, 1.0, True),  # 1 + 1e-6
        (0.5 + 1e-13, 20.0, 10.0, False),  # 1 + 1e-13: rounding does not exclude
        (0.5 + 1e-11, 20.0, 10.0, True),  # 1 + 1e-11: more than that does
    ],
)
def test_a_stream_may_fill_a_deployment_but_not_more(form, load, service_rate, rate_qps, full):
    candidates = make_candidates(1, load=load, service_rate=service_rate)
    bits = added(form("overbooked"), make_request(rate_qps=rate_qps), candidates, as_bits(0))
    assert bits == [CAPACITY if full else 0]


def test_overbooking_is_found_candidate_by_candidate_and_keeps_other_bits(form):
    # 0.9 + 2 / 10 = 1.1, 0.5 + 2 / 10 = 0.7, 0.9 + 2 / 40 = 0.95, 0.99 + 2 / 40 = 1.04
    candidates = make_candidates(4, load=[0.9, 0.5, 0.9, 0.99], service_rate=[10, 10, 40, 40])
    before = as_bits(0, NOT_ALLOWED, 0, MEMORY)
    assert added(form("overbooked"), make_request(rate_qps=2.0), candidates, before) == [
        CAPACITY,
        NOT_ALLOWED,
        0,
        CAPACITY | MEMORY,
    ]


# ---- is anything feasible, and if not, why


@pytest.mark.parametrize(
    ("reasons", "feasible"),
    [((0,), True), ((CAPACITY,), False), ((NOT_ALLOWED, LATE, 0), True), ((NOT_ALLOWED, LATE | MEMORY), False)],
)
def test_something_is_feasible_when_a_candidate_has_no_bit(form, reasons, feasible):
    assert form("any_feasible")(as_bits(*reasons)) is feasible


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((CAPACITY,), CAPACITY),
        ((NOT_ALLOWED,), NOT_ALLOWED),
        ((CAPACITY | UNREACHABLE,), UNREACHABLE),  # the hardest obstacle of one candidate
        ((UNREACHABLE, LATE, NOT_ALLOWED), LATE),  # of several candidates the one that is easiest to lift
        ((CAPACITY | UNREACHABLE, MEMORY), MEMORY),  # hardest 16 and 2: the bit of capacity does not count
        ((CAPACITY | MEMORY, LATE | CAPACITY), MEMORY),  # hardest 2 and 4
        ((CAPACITY | INACCURATE, CAPACITY | LATE | MEMORY, NOT_ALLOWED | CAPACITY), LATE),  # hardest 8, 4 and 32
        ((CAPACITY | MEMORY | LATE | INACCURATE | UNREACHABLE | NOT_ALLOWED,), NOT_ALLOWED),
        ((INACCURATE | LATE, NOT_ALLOWED, CAPACITY), CAPACITY),
    ],
)
def test_a_rejection_is_put_down_to_the_easiest_of_the_hardest_obstacles(form, reasons, expected):
    assert form("rejection_reason")(as_bits(*reasons)) == expected


def test_the_order_of_the_candidates_does_not_change_the_reason(form):
    reasons = as_bits(CAPACITY | UNREACHABLE, MEMORY | LATE, NOT_ALLOWED)  # hardest 16, 4, 32
    found = {form("rejection_reason")(np.roll(reasons, shift)) for shift in range(3)}
    assert found == {LATE}
