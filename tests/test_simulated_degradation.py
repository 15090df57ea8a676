"""The degradation study: cells as the engine runs them, curve and fit by hand, files and tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from builders import LARGE, SMALL, Ask, choosing, deploy, node, play, scenario, shared_device, variant
from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.domain.outcomes import Outcome
from fairlead.domain.scenario import Scenario
from fairlead.experiments.simulated_degradation import RHOS, as_document, simulate_degradation
from fairlead.measure.degradation_matrix import Matrix, by_device, names
from fairlead.measure.report.plots.degradation import curve
from fairlead.scenarios.loader import load


def shared(variants: Any = (SMALL, LARGE), on: Any = ("edge",), limit: int | None = None, **form: Any) -> Scenario:
    """Shared nodes with all of these variants; `small` takes 10 ms and `large` 20 ms."""
    return scenario(
        devices=[shared_device(**form)],
        nodes=[node(name, serving="shared") for name in on],
        variants=variants,
        deployments=[deploy(v.name, name, queue_limit=limit) for v in variants for name in on],
    )


def of(made: Scenario, arriving: str, most: int = 3) -> Matrix:
    (found,) = [m for m in simulate_degradation(made, most).matrices if m.arriving == arriving]
    return found


def test_cells_of_linear_interference_worked_by_hand() -> None:
    small, large = of(shared(rho=0.5), "small"), of(shared(rho=0.5), "large")
    assert (small.device, small.nodes, small.axes, small.alone_ms) == ("chip", ("edge",), ("small", "large"), 10.0)
    assert small.cells[0][0] == 1.0
    assert small.cells[2][1] == pytest.approx(1 + 0.5 * (2 * 10 + 20) / 10)
    assert large.cells[2][1] == pytest.approx(1 + 0.5 * (2 * 10 + 20) / 20)
    assert large.alone_ms == 20.0


def test_a_cell_is_what_a_request_meets_in_a_world() -> None:
    made = shared(rho=0.7)
    asks = [Ask(0.0, work=1e3)] * 3 + [Ask(5.0)]  # two small and a large one are at work when a large one arrives
    world = play(made, asks, policy=choosing(0, 0, 1, 1))
    assert world.rows["service_ms"][-1] / 20.0 == pytest.approx(of(made, "large").cells[2][1])


def test_what_does_not_fit_is_infinite() -> None:
    small, large = variant(run_mb=300.0), variant("large", 0.9, 20.0, run_mb=400.0)  # 998 MB are free
    cells = of(shared([small, large], rho=1.0), "small").cells
    assert [math.isfinite(c) for c in cells[0]] == [True, True, False, False]  # 300 + 2 * 400 is too much
    assert [math.isfinite(row[0]) for row in cells] == [True, True, True, False]
    world = play(shared([small, large], rho=1.0), [Ask(0.0)] * 4)
    assert (world.rows["outcome"] == Outcome.REJECTED).sum() == 1
    assert [math.isfinite(row[0]) for row in of(shared([SMALL], limit=2, rho=1.0), "small").cells] == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_newcomer_beside_what_does_not_fit_is_infinite_although_it_would() -> None:
    small, large = variant(run_mb=1.0), variant("large", 0.9, 20.0, run_mb=600.0)
    cells = of(shared([small, large], rho=1.0), "small").cells
    assert [math.isfinite(c) for c in cells[0]] == [True, True, False, False]


def test_a_device_given_by_a_matrix_shows_that_matrix() -> None:
    tables = {"small": ((1.0, 1.5), (2.0, 3.0)), "large": ((1.0, 1.2), (1.1, math.inf))}
    made = simulate_degradation(shared(axes=("large", "small"), matrix=tables), 2)
    assert [m.axes for m in made.matrices] == [("large", "small")] * 2
    small, large = made.matrices
    assert [row[:2] for row in small.cells[:2]] == [pytest.approx((1.0, 1.5)), pytest.approx((2.0, math.inf))]
    assert large.cells[1][0] == pytest.approx(1.1)
    assert small.cells[2][0] == math.inf  # past the edge
    assert made.by_rho == {}


def test_more_than_two_variants_are_shown_in_pairs_and_one_alone_as_a_column() -> None:
    three = simulate_degradation(shared([SMALL, LARGE, variant("huge", 0.95, 40.0)], rho=1.0), 1).matrices
    assert {m.axes for m in three} == {("small", "large"), ("small", "huge"), ("large", "huge")}
    assert len(three) == 9
    assert names(three)[0] == "small (small, large)"
    (one,) = simulate_degradation(shared([SMALL], rho=1.0), 2).matrices
    assert one.axes == ("small",)
    assert one.cells == ((1.0,), (2.0,), (3.0,))
    assert [level.mean for level in one.curve()] == [1.0, 2.0, 3.0]


def test_nodes_that_are_alike_share_their_matrices() -> None:
    made = simulate_degradation(shared(on=["a", "b"], rho=1.0), 1).matrices
    assert [(m.nodes, m.arriving) for m in made] == [(("a", "b"), "small"), (("a", "b"), "large")]
    assert list(by_device(made)) == ["chip (a, b)"]


def test_network_rules_and_input_sizes_play_no_part() -> None:
    rich = load("ecsrl", ["links.2.delay_ms=900", "rules.admit=[deadline, accuracy]"])
    assert simulate_degradation(rich, 2).matrices == simulate_degradation(load("ecsrl"), 2).matrices


def cells(*rows: tuple[float, ...]) -> Matrix:
    return Matrix("chip", (), "small", ("small", "large"), 10.0, rows)


def test_the_curve_is_the_mean_over_equal_concurrency() -> None:
    levels = cells((1.0, 2.0, 9.0), (4.0, 6.0, 9.0), (math.inf, 9.0, 9.0)).curve()
    assert [(level.running, level.mean, level.cells, level.infinite) for level in levels] == [
        (1, 1.0, 1, 0), (2, 3.0, 2, 0), (3, 7.5, 3, 1),
    ]  # fmt: skip


def test_the_fit_is_by_least_squares_and_leaves_out_what_does_not_fit() -> None:
    fit = cells((1.0, 2.0, 3.0), (2.0, 3.0, 9.0), (6.0, 9.0, 9.0)).fit()  # means 1, 2, 4
    assert fit is not None
    assert (fit.slope, fit.intercept, fit.r2) == pytest.approx((1.5, -2 / 3, 1 - (1 / 6) / (14 / 3)))
    partial = cells((1.0, 2.0, 50.0), (2.0, 50.0, 50.0), (math.inf, 9.0, 9.0)).fit()
    assert partial is not None
    assert (partial.slope, partial.r2) == pytest.approx((1.0, 1.0))
    assert cells((1.0,)).fit() is None
    flat = cells((1.0, 1.0), (1.0, 1.0)).fit()
    assert flat is not None
    assert (flat.slope, flat.r2) == (0.0, 1.0)


def column(*cells: float) -> Matrix:
    return Matrix("chip", (), "small", ("small",), 10.0, tuple((c,) for c in cells))


def test_what_holds_beyond_the_cores_is_fitted_by_itself() -> None:
    """Two cores, not quite a hockey stick. Of 1.1, 1.6 and 2.2 at 2, 3 and 4 the mean is 49/30 and the slope 0.55."""
    regime = column(1.0, 1.1, 1.6, 2.2).beyond(2)
    assert regime is not None
    assert (regime.line.slope, regime.line.intercept) == pytest.approx((0.55, 49 / 30 - 0.55 * 3))
    assert regime.line.r2 == pytest.approx(1 - 6 / 2184)  # residuals 1/60, -2/60, 1/60; about the mean 32, 2, -34 / 60
    assert regime.knee == pytest.approx((1 + 1 / 60) / 0.55)
    assert regime.off == pytest.approx(1 - 2 / 2.2)  # at four it would be 2


def test_a_fit_beyond_the_cores_needs_two_levels_that_fit() -> None:
    assert column(1.0, 1.0, 1.6).beyond(3) is None
    assert column(1.0, 1.0, math.inf, math.inf).beyond(2) is None
    free = column(1.0, 1.0, 1.0).beyond(1)
    assert free is not None
    assert free.knee == math.inf  # it never begins
    halves = column(1.0, 2.0, 3.0).beyond(0.5)  # two threads each on one core
    assert halves is not None
    assert (halves.knee, halves.line.slope) == pytest.approx((1.0, 1.0))


def test_the_line_is_drawn_as_far_as_it_was_fitted() -> None:
    spec = curve([cells((1.0, 2.0, 50.0), (2.0, 50.0, 50.0), (math.inf, 9.0, 9.0))]).spec
    (line,) = (layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == "line")
    assert [(point["running"], point["mean"]) for point in line] == [(1, 1.0), (2, 2.0)]


def test_slopes_grow_with_rho_and_meet_the_scenario_at_its_own() -> None:
    made = simulate_degradation(load("ecsrl"), 3)
    assert tuple(made.by_rho) == RHOS
    for own, at in zip(made.matrices, made.by_rho[0.6], strict=True):
        assert (own.cells == at.cells) == (own.device == "xavier-nx")
    slopes = as_document(made, [])["matrices"][0]["by_rho"]["slope"]
    assert slopes == sorted(slopes)
    assert slopes[-1] / slopes[0] == pytest.approx(1.0 / 0.3)


def test_rho_of_all_devices_is_set_at_once() -> None:
    made = load("ecsrl", ["devices.*.degradation.rho=0.4"])
    rhos = {d.degradation.rho for d in made.devices.values() if d.degradation is not None}
    assert rhos == {0.4}
    assert made.devices["rtx-3080"].degradation is None
    assert {link.delay_ms for link in load("ecsrl", ["links.*.delay_ms=7"]).links} == {7}
    with pytest.raises(UserError, match="no entry has such a field"):
        load("ecsrl", ["devices.*.degradation.ro=0.4"])


def test_a_sweep_over_rho_sets_every_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = ["sweep", "ecsrl", "--param", "devices.*.degradation.rho", "--values", "0.3,1", "--checkpoint", "none"]
    few = ["--seeds", "2", "--jobs", "1", "--set", "duration_s=20", "--policies", "least-expected-completion"]
    assert main([*sweep, *few, "--no-bound", "--json", str(tmp_path / "out.json")]) == 0
    points = json.loads((tmp_path / "out.json").read_text())["scenarios"]
    low, high = (p["policies"]["least-expected-completion"]["figures"]["degradation"]["mean"] for p in points.values())
    assert 1 < low < high - 0.05
    assert "devices.*.degradation.rho=0.3" in capsys.readouterr().out


def test_the_command_prints_the_tables_and_writes_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["degradation", "simulate", "ecsrl", "--json", str(tmp_path / "out.json")]) == 0
    text = capsys.readouterr().out
    assert (
        "jetson-nano (nano): resnet-18 arriving, 34.7 ms alone; down: how many resnet-18 run already, across: " in text
    )
    assert "│ 6       │ 7.00 │    ∞ │" in text
    assert "linear fit: +1.542 for each more, R² 1.000" in text
    assert "7: 8.63 (3 of 7 combinations do not fit)" in text
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["settings"] == {"scenario": "ecsrl", "set": [], "max": 6}
    first = written["matrices"][0]
    assert first["cells"][6][:2] == [pytest.approx(7.0), "inf"]
    assert first["fit"]["slope"] == pytest.approx((34.7 + 72.3) / 2 / 34.7)
    assert first["curve"][6] == {"running": 7, "mean": pytest.approx(8.625, abs=0.001), "cells": 7, "infinite": 3}
    assert first["by_rho"]["rho"] == list(RHOS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["degradation", "simulate", "full-edge"], "full-edge: no node is shared (`serving: shared`), so"),
        (["degradation", "simulate", "ecsrl", "--max", "0"], "--max: expected a whole number from 1 to 12, got '0'"),
        (["degradation", "simulate", "ecsrl", "--json", "/nowhere/out.json"], "the folder /nowhere does not exist"),
        (
            ["degradation", "simulate", "ecsrl", "--json", "x.html", "--report", "x.html"],
            "--json and --report need a file each",
        ),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
