"""Task bundles that ship: they decide as they did when they were made, and say how that was."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import task_golden
from fairlead.policies.tasks.learned import learned_task_policies
from fairlead.policies.tasks.observe import Observations

CURVES = Path(__file__).parents[1] / "docs/results/curves"


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_decide_as_they_did(name: str) -> None:
    policy = learned_task_policies()[name]
    found = task_golden.asked_again(policy, np.load(task_golden.FOLDER / f"{name}.npz"))
    assert len(found) > 10
    for then, now in found:
        assert (then["slot"] == now["slot"]).all()
        assert (then["allocation"] == now["allocation"]).all()
        assert np.allclose(then["score"], now["score"], atol=1e-3)


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_see_what_they_saw(name: str) -> None:
    then, now = np.load(task_golden.FOLDER / f"{name}.npz"), task_golden.arrays(learned_task_policies()[name])
    if then[task_golden.ARITHMETIC] == now[task_golden.ARITHMETIC]:
        assert sorted(then) == sorted(now)
        compared = sorted(then)
    else:
        compared = [key for key in then if key.startswith("0.") and key[2:] in Observations._fields]
    for key in compared:
        assert np.array_equal(then[key], now[key]), key


@pytest.mark.parametrize("name", sorted(learned_task_policies()))
def test_bundles_that_ship_say_how_they_were_made(name: str) -> None:
    about = learned_task_policies()[name].placer.document
    with (CURVES / f"bundle-{name}.csv").open() as file:
        gap, ci95 = min((float(row["gap"]), float(row["ci95"])) for row in csv.DictReader(file))
    assert about["reproduce"].startswith("fairlead train tapfinger --scenario")
    assert about["validation"]["gap"] == pytest.approx(gap, abs=1e-4)
    assert gap + ci95 < 0, "better than the tuned rule where it was validated"
