"""Tables on a terminal: however narrow it is, every figure of the page is there, whole, under the same heading."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from documents import document, plain, swept
from fairlead.cli.console import console
from fairlead.cli.experiments.sweep_tables import show_sweep
from fairlead.cli.experiments.tables import print_columns, show_comparison
from fairlead.measure.report.document import OUTCOMES, points
from fairlead.measure.report.report_adapter import adapter_of
from fairlead.measure.report.tables import Columns, tables

WIDTHS = (40, 60, 80, 120, 200)


def printed(show: Any, width: int, *arguments: Any, **options: Any) -> str:
    text = io.StringIO()
    show(Console(file=text, width=width), *arguments, **options)
    return plain(text.getvalue())


def read(text: str, names: list[str]) -> Columns:
    """The columns of all tables in the text; `names` are those of their rows, which may be folded."""
    found: dict[str, list[str]] = {}
    for head, body in re.findall(r"┏.*?┓\n(.*?)\n┡.*?┩\n(.*?)\n└", text, re.DOTALL):
        lines = [[cell.strip() for cell in line.strip("┃").split("┃")] for line in head.splitlines()]
        headings = [" ".join(filter(None, parts)) for parts in zip(*lines, strict=True)]
        rows: list[list[str]] = []
        for line in body.splitlines():
            name, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            if name and (not rows or rows[-1][0] in names):
                rows.append([name, *cells])
            else:
                rows[-1] = [rows[-1][0] + name, *(f"{a} {b}".strip() for a, b in zip(rows[-1][1:], cells, strict=True))]
        for heading, column in zip(headings, zip(*rows, strict=True), strict=True):
            assert heading not in found or heading == headings[0], heading
            found[heading] = list(column)
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_of_the_page_is_on_the_terminal_whole(width: int) -> None:
    made = document(bound=False)
    text = printed(show_comparison, width, made, ["shifting"])
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    compared = [table.columns for table in tables(points(made)[0]) if table.compares]
    wanted = {h: list(map(plain, cells)) for columns in compared for h, cells in columns.items()}
    assert read(text, points(made)[0].ranking) == wanted


@pytest.mark.parametrize("width", WIDTHS)
def test_outcomes_add_up_from_what_is_shown(width: int) -> None:
    made = document(["full-edge"], ["closest", "random-proportional-latency"], seeds=1, bound=False)
    found = read(printed(show_comparison, width, made, ["full-edge"]), points(made)[0].ranking)
    for i in range(2):
        assert sum(float(found[f"{name}, %"][i]) for name in OUTCOMES) == pytest.approx(100.0, abs=0.21)
    assert min(float(cell) for cell in found["inaccurate, %"]) > 0


def test_outcomes_that_occur_share_the_first_table_at_80_columns() -> None:
    made = document(bound=False)
    names = points(made)[0].ranking
    first = printed(show_comparison, 80, made, ["shifting"]).partition("└")[0] + "└"
    assert list(read(first, names)) == ["policy", *(f"{outcome}, %" for outcome in OUTCOMES)]
    assert "random-proportional-\n" not in first  # names are wrapped in their column
    assert read(first, names)["policy"] == names
    for policy in made["scenarios"]["shifting"]["policies"].values():
        policy["figures"]["inaccurate"]["mean"] = policy["figures"]["rejected"]["mean"] = 0.0
    found = read(printed(show_comparison, 80, made, ["shifting"]).partition("└")[0] + "└", names)
    assert list(found) == ["policy", *(f"{outcome}, %" for outcome in OUTCOMES)]  # the same order, whatever is 0


def test_a_share_has_the_same_digits_in_every_table() -> None:
    made = document(bound=False)
    for policy in made["scenarios"]["shifting"]["policies"].values():
        figures = policy["figures"]
        figures["success"] = figures["success_tenant_traffic"] = {"mean": 0.9998, "ci95": 0.0005, "n": 5}
    for heading in ("success, %", "success of tenant traffic, %"):
        cells = next(table.columns[heading] for table in tables(points(made)[0]) if heading in table.columns)
        assert set(map(plain, cells)) == {"99.98 ± 0.05"}


@pytest.mark.parametrize(
    ("given", "width"), [("80", 80), ("60", 60), (None, 200), ("0", 200), ("wide", 200), ("1e2", 200)]
)
def test_output_that_is_piped_is_as_wide_as_columns_says(
    given: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if given is not None:
        monkeypatch.setenv("COLUMNS", given)
    assert console().width == width


def test_the_terminal_says_what_ran_and_the_verdict_of_the_page() -> None:
    made = document()
    made["scenarios"]["shifting"]["workload"] = "66 arrivals a minute for 690 s"
    text = " ".join(printed(show_comparison, 120, made, ["mine.yaml"]).split())
    assert text.startswith(
        "shifting: shifting, made up 66 arrivals a minute for 690 s; with rate=66 5 paired seeds of "
    )
    assert plain(adapter_of(made).verdict(points(made)[0])) in text
    assert "all 12: fairlead show mine.yaml" in text
    assert "1 seed of 10,000 requests, so no interval" in printed(show_comparison, 120, document(seeds=1), ["x"])


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_sweep_marks_the_best_shows_the_bound_and_cuts_nothing(width: int) -> None:
    made = swept([20, 40, 60, 80, 100], policies=["closest", "farthest"])
    made["scenarios"]["rate=60"]["ranking"].reverse()
    for body in made["scenarios"].values():
        for policy in body["policies"].values():
            policy["figures"]["rejected"]["mean"] = 0.0
    text = printed(show_sweep, width, made, "ecsrl")
    success, late, rest = re.split(r"\blate, %\n|inaccurate, %\n", text)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    names = ["closest", "farthest", "upper bound"]
    for part, rows in ((success, names), (late, names[:2])):
        found = read(part, rows)
        assert list(found) == ["policy", *made["scenarios"]]
        assert found["policy"] == rows
    marked = {label: cells[:2] for label, cells in read(success, names).items() if label != "policy"}
    best = {label: [cell.startswith("* ") for cell in cells] for label, cells in marked.items()}
    assert best == {
        label: [body["ranking"][0] == name for name in names[:2]] for label, body in made["scenarios"].items()
    }
    assert all(cells[2] == "97.5 ± 0.4" for label, cells in read(success, names).items() if label != "policy")
    assert "rejected, %: none" in rest


def test_a_cell_that_is_wider_than_the_terminal_is_folded() -> None:
    text = printed(print_columns, 30, {"alternative": ["a" * 60], "what it does": ["sends it where it was before"]})
    assert max(map(len, text.splitlines())) <= 30
    assert text.count("a") > 60
    assert "…" not in text
