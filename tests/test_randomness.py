"""Counter-based draws: what they are, how they are distributed, and that nothing but their key decides them.

Seeds are fixed, so a test always gives the same answer; limits of statistics are at 4 standard errors or p > 1e-3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from scipy import special, stats

from fairlead.policies import randomness
from fairlead.policies.randomness import exponential, inverse_normal, normal, uniform

N = 100_000
WORD = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15

# Keys (seed, purpose, id, k) of N draws each, by what varies.
ALONG: dict[str, Callable[[int], tuple[int, int, int, int]]] = {
    "ids": lambda i: (0, randomness.WORK, i, 0),
    "k": lambda i: (0, randomness.SPACING, 0, i),
    "k of a later id": lambda i: (7, randomness.ARRIVAL, 12_345, i),
    "seeds": lambda i: (i, randomness.POLICY, 3, 0),
}

# Pairs of keys that differ in one thing and must not be related.
APART: dict[str, tuple[Callable[[int], tuple[int, int, int, int]], Callable[[int], tuple[int, int, int, int]]]] = {
    "purposes": (lambda i: (0, randomness.WORK, i, 0), lambda i: (0, randomness.QUALITY, i, 0)),
    "seeds": (lambda i: (0, randomness.WORK, i, 0), lambda i: (1, randomness.WORK, i, 0)),
    "far seeds": (lambda i: (0, randomness.WORK, i, 0), lambda i: (2**32, randomness.WORK, i, 0)),
    "ids": (lambda i: (0, randomness.WORK, i, 0), lambda i: (0, randomness.WORK, i + 1, 0)),
    "k": (lambda i: (0, randomness.NETWORK, i, 0), lambda i: (0, randomness.NETWORK, i, 1)),
    "id and k": (lambda i: (0, randomness.STREAM, i, 0), lambda i: (0, randomness.STREAM, 0, i + 1)),
    "seed and purpose": (lambda i: (i, 1, 0, 0), lambda i: (1, i + 2, 0, 0)),
    "seed and id": (lambda i: (i, 6, 1, 0), lambda i: (1, 6, i + 2, 0)),
}


def draw(function: Callable[..., float], key: Callable[[int], tuple[int, int, int, int]]) -> Any:
    return np.array([function(*key(i)) for i in range(N)])


def mix(x: int) -> int:
    """The finaliser of splitmix64, in whole numbers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def expected_uniform(seed: int, purpose: int, id_: int, k: int) -> float:
    """What `uniform` says it does, in whole numbers."""
    x = mix((seed * GOLDEN + purpose) & WORD)
    x = mix(x ^ ((id_ * GOLDEN) & WORD))
    x = mix((x + k * GOLDEN) & WORD)
    return ((x >> 12) + 0.5) / 2**52


# ---- what a draw is


def test_the_mixer_is_that_of_splitmix64():
    # The published generator, seeded with 0, starts with these two numbers.
    assert mix(GOLDEN) == 0xE220A8397B1DCDAF
    assert mix(2 * GOLDEN & WORD) == 0x6E789E6AA1B965F4


@pytest.mark.parametrize("seed", [0, 1, 12_345, 2**31, 2**62])
def test_a_draw_is_the_hash_of_its_key(seed):
    keys = [(seed, p, i, k) for p in (1, 9) for i in (0, 1, 77, 10**6, 2**40) for k in (0, 1, 5, 10**9)]
    assert [uniform(*key) for key in keys] == [expected_uniform(*key) for key in keys]


def test_plain_python_and_compiled_code_draw_the_same():
    @numba.njit
    def draws(seed: int, purpose: int, ids: Any, k: int) -> Any:
        out = np.empty((3, len(ids)))
        for j in range(len(ids)):
            out[0, j] = uniform(seed, purpose, ids[j], k)
            out[1, j] = exponential(seed, purpose, ids[j], k)
            out[2, j] = normal(seed, purpose, ids[j], k)
        return out

    for dtype in (np.int64, np.uint32, np.int32):
        ids = np.arange(1000, dtype=dtype)
        compiled = draws(5, randomness.WORK, ids, 2)
        called = [[f(5, randomness.WORK, int(i), 2) for i in ids] for f in (uniform, exponential, normal)]
        assert compiled.tolist() == called


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # the products are meant to wrap
def test_the_plain_functions_give_what_their_compiled_forms_give():
    keys = [ALONG[along](i) for along in ALONG for i in range(200)]
    for function in (uniform, exponential, normal):
        assert [function.py_func(*key) for key in keys] == [function(*key) for key in keys]


def test_a_draw_does_not_depend_on_what_was_drawn_before():
    keys = [(s, p, i, k) for s in (0, 1) for p in (1, 2) for i in range(50) for k in range(3)]
    forwards = {key: uniform(*key) for key in keys}
    backwards = {key: uniform(*key) for key in reversed(keys)}
    assert forwards == backwards


def test_different_keys_give_different_draws():
    # 2 * 9 * 80 * 80 = 115,200 draws out of 2^52: two the same by chance once in 680,000 such tests.
    keys = [(s, p, i, k) for s in (0, 1) for p in range(1, 10) for i in range(80) for k in range(80)]
    assert len({uniform(*key) for key in keys}) == len(keys)


def test_every_purpose_has_a_number_of_its_own():
    numbers = {name: value for name, value in vars(randomness).items() if name.isupper() and isinstance(value, int)}
    legs = {name for name in numbers if name.endswith(("UP", "DOWN"))}
    assert sorted(numbers[name] for name in legs) == [0, 1, 2, 3]
    purposes = {name: value for name, value in numbers.items() if name not in legs}
    assert len(purposes) >= 9
    assert len(set(purposes.values())) == len(purposes)


# ---- how draws are distributed


@pytest.mark.parametrize("along", ALONG)
def test_uniform_draws_are_uniform(along):
    draws = draw(uniform, ALONG[along])
    assert draws.min() > 0.0
    assert draws.max() < 1.0
    # Variance 1/12; that of the sample variance is (1/80 - 1/144) / N = 1/180 / N.
    assert draws.mean() == pytest.approx(0.5, abs=4 * np.sqrt(1 / 12 / N))
    assert draws.var() == pytest.approx(1 / 12, abs=4 * np.sqrt(1 / 180 / N))
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    low_digits = draws * 1000 % 1
    for digits in (draws, low_digits):
        assert stats.chisquare(np.histogram(digits, 100, (0, 1))[0]).pvalue > 1e-3


@pytest.mark.parametrize("along", ALONG)
def test_consecutive_draws_are_not_related(along):
    draws = draw(uniform, ALONG[along])
    for lag in (1, 2, 3, 16):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 4 / np.sqrt(N)


@pytest.mark.parametrize("apart", APART)
def test_draws_of_different_keys_are_independent(apart):
    one, other = (draw(uniform, key) for key in APART[apart])
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(N)
    cells = np.histogram2d(one, other, 20, ((0, 1), (0, 1)))[0]
    assert stats.chisquare(cells.ravel()).pvalue > 1e-3


def test_exponential_draws_have_mean_1_and_are_exponential():
    draws = draw(exponential, ALONG["k"])
    # Variance 1; that of the sample variance is (9 - 1) / N.
    assert draws.mean() == pytest.approx(1.0, abs=4 / np.sqrt(N))
    assert draws.var() == pytest.approx(1.0, abs=4 * np.sqrt(8 / N))
    assert draws.min() > 0.0
    assert stats.kstest(draws, "expon").pvalue > 1e-3


def test_normal_draws_are_standard_normal():
    draws = draw(normal, ALONG["ids"])
    # Variance 1; that of the sample variance is (3 - 1) / N.
    assert draws.mean() == pytest.approx(0.0, abs=4 / np.sqrt(N))
    assert draws.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / N))
    assert stats.kstest(draws, "norm").pvalue > 1e-3


def test_all_draws_of_a_key_come_from_its_uniform_number():
    for key in [(0, 6, i, 0) for i in range(100)]:
        assert exponential(*key) == pytest.approx(-np.log(uniform(*key)), rel=1e-15)
        assert normal(*key) == inverse_normal(uniform(*key))


# ---- the normal quantile


def test_the_normal_quantile_is_that_of_scipy():
    tail = np.logspace(-300, -0.31, 20_000)
    middle = np.linspace(0.001, 0.999, 20_001)
    switches = [0.075, 0.925, np.exp(-25.0)]  # where the algorithm changes its formula
    ends = [2.0**-53, 1 - 2.0**-53, 1e-300, 1 - 1e-15]  # the extreme draws of `uniform`, the ends of the claim
    p = np.concatenate([tail, middle, 1 - tail[tail > 1e-15], np.nextafter(switches, 0), switches, ends])
    found = np.array([inverse_normal(x) for x in p])
    np.testing.assert_allclose(found, special.ndtri(p), rtol=1e-13, atol=0)


def test_the_normal_quantile_is_odd_around_a_half():
    assert inverse_normal(0.5) == 0.0
    for p in (2.0**-k for k in range(2, 53)):  # 1 - p is exact
        assert inverse_normal(1 - p) == -inverse_normal(p)
