"""A short run of every fuzzer (`make fuzz` runs them for long), and that what they look for would be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import runner
from fuzz.runner import fuzz
from fuzz.targets import TARGETS
from fuzz.targets.planted import CASES

SECONDS = 600.0  # which no run takes: the number of cases ends it


@pytest.mark.parametrize("target", TARGETS)
def test_no_case_fails(target: str) -> None:
    result = fuzz(target, seed=1, seconds=SECONDS, cases=24)
    assert not result.failures
    assert result.words.total() == result.cases == 24
    assert len(result.words) > 1  # some are refused, some not


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_case_of_many_fails(target: str) -> None:
    result = fuzz(target, seed=2, seconds=SECONDS, cases=300)
    assert not result.failures
    assert result.cases == 300


def test_planted_faults_are_found_and_kept_and_the_cases_after_them_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LIMIT_MB", 300)  # a worker has some 100, the fault takes 350
    result = fuzz("planted", seed=1, seconds=SECONDS, cases=len(CASES), failures=tmp_path, limit_s=1.5)
    expected = {number: kind for number, (kind, _) in enumerate(CASES) if kind}
    assert {failure["number"]: failure["failure"] for failure in result.failures} == expected
    assert result.cases == len(CASES)
    assert result.words["read"] == len(CASES) - len(expected) + 1  # what takes too much memory ends nevertheless
    assert "1 tracebacks, 1 deaths, 2 hangs, 1 over memory" in str(result)
    for number, kind in expected.items():
        kept = tmp_path / f"planted-1-{number}"
        assert (kept / "files" / "number").read_text() == str(number)
        assert (kept / "failure.txt").read_text().startswith(f"{kind}\n")
    assert 'raise KeyError("planted")' in (tmp_path / "planted-1-1" / "failure.txt").read_text()


def test_a_worker_that_does_not_start_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)the worker does not start: .*KeyError: 'nothing'"):
        fuzz("nothing", seed=1, seconds=SECONDS, cases=1)
