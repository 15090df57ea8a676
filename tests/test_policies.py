"""The built-in policies: each by a case worked by hand, then what holds for all of them.

Every case is decided twice, by the plain Python function and by its compiled form, which must agree. Random cases are
made from their number alone.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Reason
from fairlead.domain.records import CANDIDATE, REQUEST
from fairlead.experiments.tune_weights import tune_weights
from fairlead.policies.interface import Policy, find, policy, rules
from fairlead.scenarios.loader import load
from fairlead.sim.serving.run_policy import simulate

POLICIES = rules()
BUILT_IN = {name: p for name, p in POLICIES.items() if p.package == "fairlead"}
BY_NUMBER = {"random", "round-robin", "power-of-two-choices", "random-proportional-latency", "random-proportional-load"}
BY_VALUE = sorted(BUILT_IN.keys() - BY_NUMBER)
DECLINING = {"best-fit", "best-fit-foreseen", "early-drop", "least-taken", "slack-decline"}  # what should be late
SMALLEST_U, LARGEST_U = 2.0**-53, 1.0 - 2.0**-53  # the ends of `randomness.uniform`
CASES = 250


# ---- building and deciding


def make_request(**fields: Any) -> Any:
    """A REQUEST record; what is not given is 0."""
    request = np.zeros(1, REQUEST).view(np.recarray)
    for name, value in fields.items():
        request[name] = value
    return request[0]


def make_candidates(**columns: Any) -> Any:
    """CANDIDATE records from columns; what is not given is 0, rates and degradation 1."""
    candidates = np.zeros(max(np.size(column) for column in columns.values()), CANDIDATE).view(np.recarray)
    for name, column in ({"service_rate": 1.0, "suffered": 1.0} | columns).items():
        candidates[name] = column
    return candidates


def exclude(n: int, *indices: int) -> Any:
    excluded = np.zeros(n, np.uint16)
    excluded[list(indices)] = Reason.NO_CAPACITY
    return excluded


def decide(policy: Policy, request: Any, candidates: Any, excluded: Any, u: float = 0.5) -> int:
    """The answer of the plain function, which the compiled one must give too."""
    answer = policy.function(request, candidates, excluded, u)
    if policy.kind == "compiled":
        assert policy.compiled(request, candidates, excluded, u) == answer
    return answer


def random_case(number: int) -> tuple[Any, Any, Any, float]:
    """Some request and candidates; every other case has small whole numbers, so that many tie."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(1, 9))

    def draw(low: float, high: float, size: int | None = None) -> Any:
        values = rng.uniform(low, high, size)
        return np.ceil(values) if number % 2 else values

    request = make_request(
        seq=rng.integers(0, 10**6),
        deadline_ms=draw(20.0, 200.0),
        min_accuracy=draw(0.0, 1.0),
        size_kb=draw(1.0, 50.0),
    )
    high = {"accuracy": 1.0, "load": 1.0, "net_ms": 30.0, "net_sd_ms": 5.0, "suffered": 4.0}
    numbers = [name for name in CANDIDATE.names if name not in ("node", "variant")]
    candidates = make_candidates(**{name: draw(0.01, high.get(name, 50.0), n) for name in numbers})
    bits = rng.integers(1, 64, n).astype(np.uint16)
    excluded = np.where(rng.random(n) < rng.choice([0.0, 0.3, 0.9, 1.0]), bits, np.uint16(0))
    return request, candidates, excluded, float(rng.random())


def shares(policy: Policy, candidates: Any, excluded: Any, steps: int = 6000) -> dict[int, float]:
    """How much of 0 < u < 1 each candidate gets, by the midpoints of a grid. Off by a step per boundary at most."""
    request = make_request()
    chosen = Counter(policy.compiled(request, candidates, excluded, (i + 0.5) / steps) for i in range(steps))
    return {c: n / steps for c, n in chosen.items()}


# ---- by hand

# End to end, 2 (d + 2 sd) + transfer + processing:
# 0: 2 (5 + 2 * 1) + 3 + 10 = 27    1: 2 (2 + 0) + 0 + 40 = 44
# 2: 2 (1 + 0) + 0 + 1 = 3          3: 2 (9 + 2 * 5) + 0 + 10 = 48
TIMES = make_candidates(net_ms=[5, 2, 1, 9], net_sd_ms=[1, 0, 0, 5], transfer_ms=[3, 0, 0, 0], proc_ms=[10, 40, 1, 10])

# Expected completion, 2 d + transfer + queue + processing * suffered:
# 0: 2 * 10 + 5 + 15 + 20 * 2 = 80    1: 2 * 20 + 0 + 30 + 20 * 1 = 90     2: 2 * 5 + 0 + 0 + 10 * 1 = 20
# 3: 2 * 30 + 1 + 20 + 20 * 1 = 101   4: 2 * 0 + 0 + 0 + 1 * 1 = 1
STATE = make_candidates(
    net_ms=[10, 20, 5, 30, 0],
    transfer_ms=[5, 0, 0, 1, 0],
    queue_ms=[15, 30, 0, 20, 0],
    proc_ms=[20, 20, 10, 20, 1],
    suffered=[2, 1, 1, 1, 1],
    accuracy=[0.7, 0.6, 0.5, 0.9, 0.9],
    energy_mj=[300, 250, 100, 50, 1],
)

# deadline 100. Least taken: processing * (suffered + caused) + queue + what two deviations of the network make it late.
# 0: 20 (2 + 1) + 0 = 60     1: 30 (1 + 0) + 15 + max(0, 2 * 20 + 15 + 30 + 2.8 * 10 - 100 = 13) = 58
# 2: 50 (1 + 0) + 0 = 50, but is inaccurate    3: 10 (1 + 0) + 95 = 105, but is late: 2 * 0 + 95 + 10 > 100
# 4: 10 (1 + 0) + 0 + max(0, 2 * 45 + 10 + 0 - 100 = 0) = 10
TAKEN = make_candidates(
    proc_ms=[20, 30, 50, 10, 10],
    suffered=[2, 1, 1, 1, 1],
    caused=[1, 0, 0, 0, 0],
    queue_ms=[0, 15, 0, 95, 0],
    net_ms=[0, 20, 0, 0, 45],
    net_sd_ms=[0, 10, 0, 0, 0],
    accuracy=[0.7, 0.7, 0.5, 0.7, 0.7],
)

# deadline 100. Best fit, P of the normal law:
# 0: wait 60 (1 - 1 / (2 * 3)) - 20 = 30, slack 100 - 2 * 20 - 30 - 20 = 10, variance 3^2 + 3 * 3^2 + 20^2 / 12 = 69.3:
#    P(z < 1.2) = 0.885, key 0.885 - 0.0015 * 30 + 0.006 * 20 = 0.96
# 1: no wait, slack 100 - 2 * 10 - 5 - 20 * 1.5 = 45, 10 deviations of 4.5: P 1, key 1 + 0.006 * 10 = 1.06
# 2: the same farther away, key 1.18, but is inaccurate
# 3: slack 100 - 2 * 26 - 48 = 0: P 0.5 is too little, though the key is 0.656     4: key 1.18, but is excluded
FITS = make_candidates(
    net_ms=[20, 10, 30, 26, 30],
    transfer_ms=[0, 5, 0, 0, 0],
    proc_ms=[20, 20, 20, 48, 20],
    suffered=[1, 1.5, 1, 1, 1],
    queue_ms=[60, 0, 0, 0, 0],
    in_flight=[3, 0, 0, 0, 0],
    service_rate=[50, 50, 50, 50, 50],
    accuracy=[0.7, 0.7, 0.5, 0.7, 0.7],
)

# deadline 100. Best fit, foreseen: gain = P - makes_late, key = gain - 0.004 wait - 0.1 busy + 0.006 nearest
# 0: slack 100 - 2 * 10 - 30 - 20 = 30, 6 deviations of 5: P 1, gain 0.5 is too little
# 1: P 1, key 1 - 0.1 * 1 + 0 = 0.9     2: P 1, key 1 - 0.004 * 10 + 0.006 * 5 = 0.99
# 3: as 2, and not busy either, but is inaccurate     4: key 1.3, but is excluded
# 5: slack 100 - 2 * 25 - 44 = 6, variance 2 * 2^2 + 1 = 9, 2 deviations: P 0.977, gain 0.877, key 0.877 + 0.06 = 0.937
FORESEEN = make_candidates(
    net_ms=[10, 10, 10, 10, 10, 25],
    net_sd_ms=[0, 0, 0, 0, 0, 2],
    proc_ms=[20, 20, 20, 20, 20, 44],
    proc_sd_ms=[3, 3, 3, 3, 3, 1],
    wait_ms=[30, 0, 10, 0, 0, 0],
    wait_sd_ms=[4, 0, 4, 0, 0, 0],
    makes_late=[0.5, 0, 0, 0, 0, 0.1],
    busy=[0, 1, 0, 0, 0, 0],
    nearest_ms=[0, 0, 5, 5, 50, 10],
    accuracy=[0.7, 0.7, 0.7, 0.5, 0.7, 0.7],
)

# deadline 100, 10 requests a second. Load with the stream, slack = 100 - completion - 1.4 sd - 0.15 processing, P:
# 0: 0.7 + 10/100 = 0.8, 100 - (2 * 10 + 10) - 1.4 * 5 - 1.5 = 61.5, 1 server: 1 - 0.8 exp(-4 * 0.2 * 6.15) = 0.994
# 1: 0.7 + 10/50 = 0.9, 100 - (2 * 20 + 20) - 3 = 37, 1 server: 1 - 0.9 exp(-4 * 0.1 * 1.85) = 0.571
# 2: 0.7 + 10/100 = 0.8, 100 - (2 * 20 + 20) - 3 = 37, 2 servers: 1 - 0.64 exp(-4 * 2 * 0.2 * 1.85) = 0.967
# 3: 0 + 10/50 = 0.2, 100 - (2 * 39 + 20) - 3 = -1: no chance     4: the most likely, but inaccurate
# Slow: 0: 20 + 4 * 5 + 10 - 20 * 0.8 = 34, 2: 60 - 20 * 0.8 = 44.
STREAMS = make_candidates(
    load=[0.7, 0.7, 0.7, 0, 0],
    service_rate=[100, 50, 100, 50, 50],
    proc_ms=[10, 20, 20, 20, 20],
    net_ms=[10, 20, 20, 39, 20],
    net_sd_ms=[5, 0, 0, 0, 0],
    accuracy=[0.7, 0.7, 0.7, 0.7, 0.5],
)
STREAM = {"deadline_ms": 100, "min_accuracy": 0.6, "rate_qps": 10}

HAND_WORKED = {
    # 0.96, 1.06, inaccurate, unlikely and an excluded 1.18.
    "best-fit": (1, {"deadline_ms": 100, "min_accuracy": 0.6}, FITS, [4], 0.5),
    # too many late, 0.9, 0.99, inaccurate, an excluded 1.3, 0.937.
    "best-fit-foreseen": (2, {"deadline_ms": 100, "min_accuracy": 0.6}, FORESEEN, [4], 0.5),
    # 27, 44 and an excluded 48: the slowest is 1.
    "cheaper": (1, {}, TIMES, [2, 3], 0.5),
    # d + 2 sd = 5 + 2 * 1 = 7, 6 + 0 = 6, 2 + 2 * 2 = 6, an excluded 1. Of the two at 6, the load 0.2 < 0.5 decides.
    "closest": (2, {}, make_candidates(net_ms=[5, 6, 2, 1], net_sd_ms=[1, 0, 2, 0], load=[0, 0.5, 0.2, 0]), [3], 0.5),
    # Accurate (>= 0.6): 80, 90, 101, all later than 79: nowhere. At 80 it is 0, see below.
    "early-drop": (-1, {"deadline_ms": 79, "min_accuracy": 0.6}, STATE, [4], 0.5),
    # d + 2 sd = 5 + 2 * 2 = 9, 8 + 0 = 8, 9 + 0 = 9, an excluded 20. Of the two at 9, the load 0.3 < 0.6 decides.
    "farthest": (2, {}, make_candidates(net_ms=[5, 8, 9, 20], net_sd_ms=[2, 0, 0, 0], load=[0.6, 0, 0.3, 0]), [3], 0.5),
    # In time (<= 90) and accurate (>= 0.6): 0 at 300 mJ, 1 at 250 mJ. 2 is inaccurate, 3 late, 4 excluded.
    "least-energy-in-time": (1, {"deadline_ms": 90, "min_accuracy": 0.6}, STATE, [4], 0.5),
    # Accurate (>= 0.6): 80, 90, 101. 2 would take 20 but is inaccurate; 4 is excluded.
    "least-expected-completion": (0, {"deadline_ms": 90, "min_accuracy": 0.6}, STATE, [4], 0.5),
    # 27, 44, an excluded 3, 48.
    "least-impedance": (0, {}, TIMES, [2], 0.5),
    "least-outstanding": (1, {}, make_candidates(in_flight=[3, 2, 1, 4]), [2], 0.5),
    # 60, 58, inaccurate, late and an excluded 10.
    "least-taken": (1, {"deadline_ms": 100, "min_accuracy": 0.6}, TAKEN, [4], 0.5),
    "load-balancing": (1, {}, make_candidates(load=[0.5, 0.4, 0.1, 0.9]), [2], 0.5),
    # Feasible: 0, 2, 3, 4. 0.6 * 4 = 2.4: the first pick is number 2 of them, candidate 3. 0.4 * 3 = 1.2: the second is
    # number 1, candidate 2. In flight 5 and 2.
    "power-of-two-choices": (2, {}, make_candidates(in_flight=[1, 0, 2, 5, 1]), [1], 0.6),
    # Feasible: 0, 2, 3, 4. 0.6 * 4 = 2.4: number 2 of them.
    "random": (3, {}, make_candidates(net_ms=[1, 1, 1, 1, 1]), [1], 0.6),
    # 1/10, 1/20, an excluded 1/1, 1/20: 0.2 in all. 0.6 * 0.2 = 0.12 is past 0.1, not past 0.1 + 0.05.
    "random-proportional-latency": (1, {}, make_candidates(proc_ms=[10, 20, 1, 20]), [2], 0.6),
    # 10, an excluded 100, 20, 30: 60 in all. 0.6 * 60 = 36 is past 10 + 20.
    "random-proportional-load": (3, {}, make_candidates(service_rate=[10, 100, 20, 30]), [1], 0.6),
    # Feasible: 0, 2, 3. 7 mod 3 = 1: number 1 of them.
    "round-robin": (2, {"seq": 7}, make_candidates(net_ms=[1, 1, 1, 1]), [1], 0.5),
    # Likely (P >= 0.85): 0 and 2, slow 34 and 44.
    "slack": (2, STREAM, STREAMS, [], 0.5),
    # 1 (P = 0.571) and 3 (none) are left: 1.
    "slack-decline": (1, STREAM, STREAMS, [0, 2, 4], 0.5),
}


def test_every_built_in_policy_has_a_case_worked_by_hand():
    assert set(HAND_WORKED) == set(BUILT_IN)
    assert len(BUILT_IN) == 19


@pytest.mark.parametrize("name", HAND_WORKED)
def test_case_worked_by_hand(name):
    expected, fields, candidates, out, u = HAND_WORKED[name]
    assert decide(BUILT_IN[name], make_request(**fields), candidates, exclude(len(candidates), *out), u) == expected


@pytest.mark.parametrize(
    ("deadline_ms", "min_accuracy"),
    [(19.0, 0.4), (300.0, 0.95), (60.0, 0.6)],
    ids=["none in time", "none accurate", "none both"],
)
def test_least_energy_takes_the_fastest_where_none_is_accurate_and_in_time(deadline_ms, min_accuracy):
    # 80, 90, 20, 101 ms: 2 is the fastest. In time at 60: only 2, with accuracy 0.5 < 0.6.
    request = make_request(deadline_ms=deadline_ms, min_accuracy=min_accuracy)
    assert decide(find("least-energy-in-time"), request, STATE, exclude(5, 4)) == 2


def test_least_energy_counts_equal_to_the_limits_as_met():
    # 1 takes 90 ms with accuracy 0.6; 0 takes 80 ms with 0.7 but 300 mJ > 250 mJ.
    policy, out = find("least-energy-in-time"), exclude(5, 2, 3, 4)
    assert decide(policy, make_request(deadline_ms=90.0, min_accuracy=0.6), STATE, out) == 1
    assert decide(policy, make_request(deadline_ms=89.9, min_accuracy=0.6), STATE, out) == 0
    assert decide(policy, make_request(deadline_ms=90.0, min_accuracy=0.61), STATE, out) == 0


def test_least_expected_completion_takes_the_fastest_where_none_is_accurate():
    # 80, 90, 20, 101 ms.
    request = make_request(min_accuracy=0.95)
    assert decide(find("least-expected-completion"), request, STATE, exclude(5, 4)) == 2


def test_early_drop_takes_the_soonest_that_is_just_in_time():
    request = make_request(deadline_ms=80.0, min_accuracy=0.6)
    assert decide(find("early-drop"), request, STATE, exclude(5, 4)) == 0
    assert decide(find("early-drop"), request, STATE, exclude(5, 0, 1, 2, 3, 4)) == -1  # nothing is feasible


def test_least_taken_counts_what_a_slow_network_would_make_late():
    # Without the 13 ms it would take 45, less than 0's 60; with 3 ms less to the deadline it counts 16, and 0 is taken.
    policy, request = find("least-taken"), make_request(deadline_ms=97.0, min_accuracy=0.6)
    assert decide(policy, request, TAKEN, exclude(5, 4)) == 0
    assert decide(policy, make_request(deadline_ms=130.0, min_accuracy=0.6), TAKEN, exclude(5, 3, 4)) == 1


def test_least_taken_counts_what_rounding_alone_makes_late_as_in_time():
    """Completion 2 * 1 + 3 + 1 + 4 * 1 = 10, as for `in_time`: up to 1e-9 ms above the deadline are rounding."""
    place = make_candidates(net_ms=1.0, transfer_ms=3.0, queue_ms=1.0, proc_ms=4.0)
    for below_ms, choice in ((0.0, 0), (5.7e-14, 0), (0.9e-9, 0), (1.1e-9, -1)):
        request = make_request(deadline_ms=10.0 - below_ms)
        for name in ("least-taken", "early-drop"):
            assert decide(find(name), request, place, exclude(1)) == choice


def test_least_taken_turns_away_what_no_place_answers_accurately_in_time():
    policy = find("least-taken")
    assert decide(policy, make_request(deadline_ms=100.0, min_accuracy=0.6), TAKEN, exclude(5, 4)) == 1
    assert decide(policy, make_request(deadline_ms=100.0, min_accuracy=0.8), TAKEN, exclude(5)) == -1
    assert decide(policy, make_request(deadline_ms=40.0, min_accuracy=0.6), TAKEN, exclude(5, 2)) == 0  # just in time
    assert decide(policy, make_request(deadline_ms=39.9, min_accuracy=0.6), TAKEN, exclude(5, 2)) == -1


@pytest.mark.parametrize("out", [(), (0,), (2,), (0, 2), (0, 1, 2)])
def test_slack_takes_the_slowest_that_is_likely_in_time_else_the_likeliest(out):
    # P = 0.994, 0.571, 0.967, none (1 ms late), none (inaccurate).
    expected = {(): 2, (0,): 2, (2,): 0, (0, 2): 1, (0, 1, 2): 3}[out]
    assert decide(find("slack"), make_request(**STREAM), STREAMS, exclude(5, *out)) == expected


def test_slack_decline_turns_away_who_has_hardly_a_chance():
    # Of 1 alone, slack 37 - d at d ms less to the deadline: P = 1 - 0.9 exp(-0.02 (37 - d)); 0.3 is at d = 24.4.
    policy = find("slack-decline")
    for less, expected in ((0, 1), (24, 1), (25, -1), (60, -1)):
        request = make_request(**STREAM | {"deadline_ms": 100 - less})
        assert decide(policy, request, STREAMS, exclude(5, 0, 2, 3, 4)) == expected
        assert decide(find("slack"), request, STREAMS, exclude(5, 0, 2, 3, 4)) == 1  # which takes everybody
    assert decide(policy, make_request(**STREAM), STREAMS, exclude(5, 0, 1, 2)) == -1  # late, inaccurate


def test_slack_shares_the_load_of_equal_places():
    # Alike but for the load 0.3 and 0.2, both likely: the emptier one.
    candidates = make_candidates(load=[0.3, 0.2], service_rate=[50, 50], proc_ms=[20, 20])
    assert decide(find("slack"), make_request(deadline_ms=200.0, rate_qps=5.0), candidates, exclude(2)) == 1


@pytest.mark.parametrize("name", ["slack", "slack-decline"])
def test_slack_is_sane_where_load_is_work_in_seconds(name):
    # Decided per request: a backlog of 3 s counts as a load of 1, and who waits there is late.
    candidates = make_candidates(load=[3.0, 0.04], service_rate=[50, 50], proc_ms=[20, 20], queue_ms=[3000, 40])
    assert decide(find(name), make_request(deadline_ms=200.0), candidates, exclude(2)) == 1


@pytest.mark.parametrize("name", BY_VALUE)
def test_of_equals_the_first_feasible_is_taken(name):
    candidates = make_candidates(proc_ms=[7.0] * 4)
    assert decide(BUILT_IN[name], make_request(deadline_ms=100.0), candidates, exclude(4, 0)) == 1


# ---- for all


def cases() -> Iterator[tuple[int, tuple[Any, Any, Any, float]]]:
    return ((number, random_case(number)) for number in range(CASES))


@pytest.mark.parametrize("name", POLICIES)
def test_answers_are_feasible_and_minus_one_only_when_nothing_is(name):
    for number, (request, candidates, excluded, u) in cases():
        answer = decide(POLICIES[name], request, candidates, excluded, u)
        if excluded.all():
            assert answer == -1, f"case {number}"
        elif answer != -1 or name not in DECLINING:
            assert 0 <= answer < len(candidates), f"case {number}"
            assert excluded[answer] == 0, f"case {number}"


@pytest.mark.parametrize("name", POLICIES)
def test_a_decision_changes_none_of_its_arguments(name):
    for number, (request, candidates, excluded, u) in cases():
        before = request.tobytes(), candidates.tobytes(), excluded.tobytes()
        decide(POLICIES[name], request, candidates, excluded, u)
        assert (request.tobytes(), candidates.tobytes(), excluded.tobytes()) == before, f"case {number}"


@pytest.mark.parametrize("name", BY_VALUE)
def test_relabelling_the_candidates_changes_the_label_alone(name):
    for number in range(0, 2 * CASES, 2):  # the cases without ties
        request, candidates, excluded, u = random_case(number)
        if excluded.all():
            continue
        order = np.random.default_rng(number).permutation(len(candidates))
        moved = decide(BUILT_IN[name], request, candidates[order], excluded[order], u)
        assert (order[moved] if moved >= 0 else -1) == decide(BUILT_IN[name], request, candidates, excluded, u), number


@pytest.mark.parametrize("name", BY_VALUE)
def test_policies_that_go_by_value_ignore_the_draw_and_the_counter(name):
    for number in range(50):
        request, candidates, excluded, _ = random_case(number)
        answer = decide(BUILT_IN[name], request, candidates, excluded, SMALLEST_U)
        request.seq += 1
        assert decide(BUILT_IN[name], request, candidates, excluded, LARGEST_U) == answer, f"case {number}"


@pytest.mark.parametrize("name", sorted(BY_NUMBER))
@pytest.mark.parametrize("u", [SMALLEST_U, LARGEST_U])
def test_the_ends_of_the_draw_give_feasible_answers_for_any_number_of_candidates(name, u):
    for n in range(1, 130):
        candidates = make_candidates(proc_ms=np.arange(1.0, n + 1), service_rate=np.arange(1.0, n + 1) / 7)
        answer = decide(BUILT_IN[name], make_request(seq=n), candidates, exclude(n), u)
        assert 0 <= answer < n


# ---- policies that go by number


def test_random_gives_every_feasible_candidate_the_same_share():
    found = shares(find("random"), make_candidates(net_ms=[1, 2, 3, 4]), exclude(4, 1))
    assert found == pytest.approx({0: 1 / 3, 2: 1 / 3, 3: 1 / 3}, abs=1e-3)


def test_random_proportional_load_goes_by_service_rate():
    # 10 + 20 + 30 = 60, the 100 is excluded: 1/6, 1/3, 1/2.
    candidates = make_candidates(service_rate=[10, 100, 20, 30])
    found = shares(find("random-proportional-load"), candidates, exclude(4, 1))
    assert found == pytest.approx({0: 1 / 6, 2: 1 / 3, 3: 1 / 2}, abs=1e-3)


def test_random_proportional_latency_goes_by_the_inverse_of_the_time_end_to_end():
    # 2 (4 + 2 * 1) + 3 + 5 = 20, 2 * 5 + 30 = 40, an excluded 1, 8 + 32 = 40: 1/20, 1/40, 1/40 are to 1/10 as
    # 1/2, 1/4, 1/4.
    candidates = make_candidates(
        net_ms=[4, 5, 0, 0], net_sd_ms=[1, 0, 0, 0], transfer_ms=[3, 0, 0, 8], proc_ms=[5, 30, 1, 32]
    )
    found = shares(find("random-proportional-latency"), candidates, exclude(4, 2))
    assert found == pytest.approx({0: 1 / 2, 1: 1 / 4, 3: 1 / 4}, abs=1e-3)


def test_power_of_two_takes_the_less_loaded_of_two_different_picks():
    # 4 feasible candidates make 6 pairs, all alike. In flight 7, 1, 5, 3: the least loaded wins the 3 pairs it is in,
    # the next 2, the next 1, the most loaded none (it would win if both picks could be the same).
    found = shares(find("power-of-two-choices"), make_candidates(in_flight=[7, 1, 0, 5, 3]), exclude(5, 2))
    assert found == pytest.approx({1: 3 / 6, 4: 2 / 6, 3: 1 / 6}, abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_power_of_two_goes_through_all_ordered_pairs_as_u_grows(n):
    in_flight = np.random.default_rng(n).permutation(n)
    candidates = make_candidates(in_flight=in_flight)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]  # each has 1 / (n (n - 1)) of u
    for cell, pair in enumerate(pairs):
        answer = decide(find("power-of-two-choices"), make_request(), candidates, exclude(n), (cell + 0.5) / len(pairs))
        assert answer == min(pair, key=lambda c: in_flight[c])


def test_power_of_two_keeps_its_first_pick_when_both_are_equally_loaded():
    # 0.9 * 3 = 2.7: the first pick is 2.
    candidates = make_candidates(in_flight=[1, 1, 1])
    assert decide(find("power-of-two-choices"), make_request(), candidates, exclude(3), 0.9) == 2


def test_round_robin_goes_through_the_feasible_candidates_in_turn():
    candidates, excluded = make_candidates(net_ms=[1, 2, 3, 4, 5]), exclude(5, 0, 3)
    answers = [decide(find("round-robin"), make_request(seq=seq), candidates, excluded) for seq in range(7)]
    assert answers == [1, 2, 4, 1, 2, 4, 1]


# ---- the registry


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_policy_is_named_like_its_file_and_says_what_it_is(name):
    policy = BUILT_IN[name]
    assert Path(inspect.getfile(policy.function)).stem.replace("_", "-") == policy.name == name
    assert policy.kind == "compiled"
    assert policy.summary.endswith(".")
    assert policy.source


def test_the_hash_of_a_policy_tells_its_code():
    assert len({p.hash for p in BUILT_IN.values()}) == len(BUILT_IN)
    twin = Policy("closest", BUILT_IN["farthest"].function)
    assert twin.hash == BUILT_IN["farthest"].hash != BUILT_IN["closest"].hash


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"^unknown policy 'closst' \(did you mean 'closest'\?\)$"):
        find("closst")


def test_a_name_that_is_near_to_none_is_answered_with_all():
    with pytest.raises(UserError, match=r"^unknown policy 'zzz' \(known: .*\bcheaper, closest, .*round-robin\b.*\)$"):
        find("zzz")


# ---- weights


def test_a_name_sets_weights_of_a_rule() -> None:
    plain, other = find("best-fit"), find("best-fit:far=0:least=0.5")
    assert other.name == "best-fit:far=0:least=0.5"
    assert plain.hash not in (other.hash, find("best-fit:least=0.5").hash)
    assert find("best-fit:far=0:least=0.5").hash == other.hash
    request = make_request(deadline_ms=100, min_accuracy=0.6)
    likelier_or_farther = make_candidates(net_ms=[0, 20], proc_ms=[20, 50], service_rate=[50, 20], accuracy=[0.7, 0.7])
    excluded = np.zeros(2, np.uint16)
    asked = request, likelier_or_farther, excluded, 0.5
    assert plain.compiled(*asked) == plain.function(*asked) == 1
    assert other.compiled(*asked) == other.function(*asked) == 0
    assert find("best-fit").compiled(*asked) == 1  # the rule itself is as it was


def test_the_name_tells_every_digit_of_a_weight() -> None:
    """Another process finds the rule by this name."""
    exact = find("best-fit").weighted({"least": 0.1 + 0.2})
    assert find(exact.name).values == exact.values
    assert find(exact.name).hash == exact.hash


def test_a_weight_needs_a_number_in_the_module() -> None:
    with pytest.raises(TypeError, match="the weight 'margin' needs a number MARGIN"):
        policy("mine", weights=("margin",))(lambda request, candidates, excluded, u: 0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("best-fit:leas=1", "best-fit has no weight 'leas' (did you mean 'least'?)"),
        ("best-fit:least", "least should be a number, as in best-fit:least=0.5"),
        ("best-fit:least=nan", "least should be a number"),
        ("closest:least=1", "closest has no weights to set"),
        ("bestfit:least=1", "unknown policy 'bestfit' (did you mean 'best-fit'?)"),
    ],
)
def test_weights_that_cannot_be_set_are_told_in_one_line(name: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        find(name)
    assert message in str(error.value)


def test_weights_change_what_a_run_does() -> None:
    scenario = load("ecsrl", ["rate=24000", "duration_s=5"])
    declined = [simulate(scenario, f"best-fit-foreseen:least={least}").figures["rejected"] for least in (0.2, 0.9)]
    assert declined[0] < declined[1]


def test_tuning_finds_weights_that_are_better_on_other_workloads() -> None:
    places = {"overload": load("ecsrl", ["rate=28000", "duration_s=6"])}
    tried: list[str] = []
    found = tune_weights(places, find("best-fit"), 5, lambda done, best: tried.append(best))
    assert found.tried == len(tried)
    assert found.rule.name.startswith("best-fit:")
    assert found.gain.low > 0
    assert found.gain.mean == pytest.approx(found.success["overload"].mean - found.before["overload"].mean)


def test_tuning_leaves_a_rule_alone_that_nothing_can_better() -> None:
    idle = {"idle": load("ecsrl", ["rate=20", "duration_s=4"])}
    rule = find("best-fit")
    assert tune_weights(idle, rule, 2).rule is rule
