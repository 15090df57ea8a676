"""The report: a page that a browser draws without a network, plots as files, one line on documents that won't do."""

from __future__ import annotations

import copy
import json
import math
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import bundles
from browser import Open
from documents import BINS, EVIL, NODES, POLICIES, document, estimate, plain, refusals, swept, unfinished
from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.measure.numerals import counted
from fairlead.measure.report.comparison_page import page, write_report
from fairlead.measure.report.degradation_document import devices
from fairlead.measure.report.degradation_page import verdict as degradation_verdict
from fairlead.measure.report.degradation_page import write_degradation_report
from fairlead.measure.report.document import check, highlighted, points
from fairlead.measure.report.explanation_page import write_explanation_report
from fairlead.measure.report.phrases import percent, plus_minus, verdict
from fairlead.measure.report.plot_files import write_plots
from fairlead.measure.report.plots import Plot, plots_of, plots_of_all
from fairlead.measure.report.style import HUES, by_look, fill_of, look_of
from fairlead.measure.report.tables import tables
from fairlead.measure.statistics import Estimate


def said(made: dict[str, Any]) -> str:
    return plain(verdict(points(made)[0]))


# The words


def test_the_verdict_names_the_best_its_lead_and_the_bound() -> None:
    made = document()
    made["scenarios"]["shifting"]["policies"]["power-of-two-choices"]["behind_best"]["ci95"] = 0.005
    assert said(made) == (
        "cheaper is best: 95.0 ± 0.6 % of requests in time and accurate, 1.2 ± 0.5 points ahead of "
        "power-of-two-choices; the upper bound for any policy is 97.5 ± 0.4 %, 2.4 ± 0.8 points above cheaper."
    )


def test_policies_within_the_interval_are_not_told_apart() -> None:
    made = document()
    assert "cheaper leads: " in said(made)
    assert "accurate, but its lead over power-of-two-choices (1.2 ± 1.4 points) is within the margin of error;" in said(
        made
    )
    unsure(made, "random")
    assert "(1.2 ± 1.4 points) and random is within" in said(made)
    unsure(made, *POLICIES)
    assert said(made).count("margin of error") == 1
    assert "(1.2 ± 50.0 points), least-energy-in-time, " in said(made)
    assert " and 8 more is within" in said(made)


def test_policies_that_do_not_differ_tie_and_a_bound_that_is_met_is_reached() -> None:
    made = document(["shifting"], ["closest", "cheaper", "farthest"])
    body = made["scenarios"]["shifting"]
    best, second, third = body["ranking"]
    body["policies"][second]["behind_best"] |= {"mean": -0.00001, "ci95": 0.00002}
    body["policies"][third]["behind_best"]["ci95"] = 0.5
    body["bound"]["by_seed"] = body["policies"][best]["by_seed"]["success"]
    words = said(made)
    assert words.startswith(f"{best} and {second} tie: 95.0 ± 0.6 % of requests in time and accurate")
    assert f", but their lead over {third} (" in words
    assert f"; the upper bound for any policy is 97.5 ± 0.4 %, which {best} reaches." in words
    assert "0.00" not in words
    body["policies"][third]["behind_best"] |= {"mean": 0.0, "ci95": 0.0}
    words = f"{best}, {second} and {third} tie: 95.0 ± 0.6 % of requests in time and accurate; the upper bound"
    assert said(made).startswith(words)


def test_a_later_policy_that_is_not_told_apart_is_named_although_the_second_is() -> None:
    made = document()
    made["scenarios"]["shifting"]["policies"]["power-of-two-choices"]["behind_best"]["ci95"] = 0.005
    unsure(made, "random")
    behind = -100 * points(made)[0].behind_best("random").mean
    assert "cheaper leads: " in said(made)
    assert (
        "1.2 ± 0.5 points ahead of power-of-two-choices, but its lead over random "
        f"({behind:.1f} ± 50.0 points) is within the margin of error;" in said(made)
    )


def test_numbers_are_written_whole_and_zero_has_no_sign() -> None:
    assert plain(plus_minus(Estimate(-0.001, 0.0004, 5), "{:.2f}")) == "0.00 ± 0.00"
    assert plain(percent(Estimate(-0.00001, math.nan, 1))) == "0.0"
    assert [counted(n, "request") for n in (0, 1, 1.25, 2412)] == [
        "0 requests", "1 request", "1 request", "2,412 requests",
    ]  # fmt: skip


def energies(made: dict[str, Any], **by_seed: list[float | None]) -> None:
    """Give policies (with _ for -) their energy per success by seed, and the mean that follows."""
    for name, values in by_seed.items():
        policy = made["scenarios"]["shifting"]["policies"][name.replace("_", "-")]
        known = [v for v in values if v is not None]
        policy["by_seed"]["energy_per_success_mj"] = values
        policy["figures"]["energy_per_success_mj"] = estimate(sum(known) / len(known), 1.0, len(known))


def test_where_success_is_a_tie_the_verdict_tells_who_needs_less_energy() -> None:
    made = document(["shifting"], ["closest", "cheaper", "farthest"])  # cheaper leads, closest and farthest follow
    best, level, clear = points(made)[0].ranking
    for policy, ci95 in ((level, 0.5), (clear, 0.001)):
        made["scenarios"]["shifting"]["policies"][policy]["behind_best"]["ci95"] = ci95
    assert "energy" not in said(made)  # the document has no energy by seed
    energies(made, **{best: [100.0, 110.0, 120.0, 130.0, 140.0], level: [88.0, 98.0, 106.0, 114.0, 122.0]})
    energies(made, **{clear: [1.0, 1.0, 1.0, 1.0, 1.0]})  # is behind in success for certain: no rival
    assert f" {level} uses 12 % less energy per success than {best}." in said(made)
    energies(made, **{best: [50.0, 60.0, 66.0, 74.0, 80.0]})
    assert f" {best} uses 38 % less energy per success than {level}." in said(made)
    energies(made, **{best: [80.0, 106.0, 98.0, 122.0, 114.0]})
    assert "Their difference in energy per success is within the margin of error, too." in said(made)
    energies(made, **{best: [100.0, 110.0, 120.0, 130.0, 140.0], level: [99.5, 109.5, 119.5, 129.5, 139.5]})
    assert "nergy" not in said(made)  # less than 1 %
    made["scenarios"]["shifting"]["policies"][level]["behind_best"]["ci95"] = 0.001
    assert "nergy" not in said(made)  # success tells them apart


def test_seeds_without_a_request_are_named() -> None:
    made = document()
    for policy in made["scenarios"]["shifting"]["policies"].values():
        policy["by_seed"]["requests"] = [10, 0, 10, 0, 10]
    assert said(made).endswith(" No request arrives with seeds 1 and 3; shares and times are means over the others.")


def unsure(made: dict[str, Any], *policies: str) -> None:
    """Widen the intervals of what they are behind the best."""
    for policy in policies:
        made["scenarios"]["shifting"]["policies"][policy]["behind_best"]["ci95"] = 0.5


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            document(seeds=1),
            "leads: 95.0 % of requests in time and accurate, 1.2 points ahead of power-of-two-choices (one seed, ",
        ),
        (
            document(policies=["closest"], bound=False),
            "95.0 ± 0.6 % of requests in time and accurate (the only policy).",
        ),
        (document(scenarios={"dc-cloud": unfinished()}), "No seed is finished, so there is nothing to say yet."),
    ],
)
def test_the_verdict_claims_no_more_than_there_is(made: dict[str, Any], words: str) -> None:
    assert words in said(made)


def test_the_tables_have_every_policy_the_bound_and_the_phases() -> None:
    outcomes, phases, *others = tables(points(document())[0])
    assert len(others) == 4
    assert all(table.rows == points(document())[0].ranking for table in (phases, *others))
    assert outcomes.rows[:2] == ["upper bound", "cheaper"]
    assert plain(outcomes.columns["success, %"][0]) == "97.5 ± 0.4"
    assert outcomes.columns["late, %"][0] == ""
    assert outcomes.columns["rejected for, %"][1] == "no-capacity 1.5, too-late 0.5"  # of 5 % that fail: 0.3, 0.1 parts
    assert list(phases.columns) == ["policy", "0 to 150 s", "150 to 450 s", "450 to 690 s"]
    assert list(outcomes.columns)[1:6] == [
        "success, %", "late, %", "inaccurate, %", "rejected, %", "behind best, points",
    ]  # fmt: skip
    assert "3,400 ± 40" in map(plain, tables(points(document())[0])[3].columns["energy per success, mJ"])


def test_the_page_has_every_table_with_its_heads_and_rows() -> None:
    html = plain(page(document()))
    for table in tables(points(document())[0]):
        assert all(f'<th scope="col">{heading}</th>' in html for heading in table.columns)
        for row in zip(*table.columns.values(), strict=True):
            cells = "".join(f"<td>{plain(cell)}</td>" for cell in row[1:])
            assert f'<th scope="row">{row[0]}</th>{cells}' in html


# The plots


def test_the_best_three_stand_out_and_in_a_sweep_all_that_lead() -> None:
    made, few, sweep = document(), document(policies=POLICIES[:5]), swept()
    assert highlighted(made, points(made)[0]) == ["cheaper", "power-of-two-choices", "least-energy-in-time"]
    assert len(highlighted(few, points(few)[0])) == 5
    assert set(highlighted(sweep, points(sweep)[0])) == {p.ranking[0] for p in points(sweep)}


def test_thirteen_policies_look_different_and_readable_on_both_themes() -> None:
    assert len({look_of(i) for i in range(13)}) == 13
    for colour in HUES:
        assert min(contrast(colour, "#ffffff"), contrast(colour, "#16191d")) >= 3


def test_policies_that_stand_out_together_differ_in_hue() -> None:
    made = document(["a", "b", "c"])
    places = {name: i for i, name in enumerate(by_look(made))}
    for point in points(made):
        assert len({look_of(places[name])[0] for name in highlighted(made, point)}) == 3
    assert sorted(places) == sorted(POLICIES)


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_latency_plot_counts_rejected_requests_as_never_answered() -> None:
    point = points(document())[0]
    latency = next(p for p in plots_of(document(), point, legend=False) if p.name == "latency")
    assert latency.spec is not None
    best = latency.spec["data"]["values"][0]
    outcomes = point.detail("cheaper")["outcomes"]
    answered = sum(point.detail("cheaper")["latency"]) / sum(map(sum, outcomes.values()))
    assert best["share"][-1] == pytest.approx(answered, abs=0.001)
    assert best["share"] == sorted(best["share"])


def test_a_load_of_nothing_by_nothing_is_left_blank() -> None:
    made = document(policies=["closest"])
    made["scenarios"]["shifting"]["policies"]["closest"]["detail"]["load"]["dc"][:2] = [None, "inf"]
    load = plots(made)["load"]
    assert load.spec is not None
    (row,) = [r for r in load.spec["layer"][0]["data"]["values"] if r["node"] == "dc"]
    assert row["load"][:2] == [None, None]
    assert isinstance(row["load"][2], float)


def test_every_plot_has_the_bound() -> None:
    made = document()
    for plot in plots_of(made, points(made)[0], legend=False):
        assert "pass" in plot.caption, plot.name
    for plot in plots_of(document(bound=False), points(document(bound=False))[0], legend=False):
        assert "pass" not in plot.caption, plot.name


def test_queue_nodes_get_a_sentence_instead_of_an_empty_plot() -> None:
    made = document(degradation=False)
    energy = plots_of(made, points(made)[0], legend=False)[-1]
    assert energy.spec is None
    assert "The slow-down is 1 for every policy" in energy.caption


def plots(made: dict[str, Any]) -> dict[str, Plot]:
    """Those of the first label by name, and those of all labels together."""
    found = plots_of(made, points(made)[0], legend=False)
    return {plot.name: plot for plot in [*found, *plots_of_all(made, legend=False)]}


def test_one_seed_has_no_intervals_and_promises_none() -> None:
    for name, plot in plots(swept(seeds=1)).items():
        assert "interval" not in plot.caption.replace("One seed, so no intervals.", ""), name
        assert ("One seed, so no intervals." in plot.caption) == (name in {"outcomes", "sweep", "energy"}), name
        assert not re.search(r'_low":', json.dumps(plot.spec)), name
    for name in ("outcomes", "sweep", "energy"):
        caption = plots(swept())[name].caption
        assert "95 % interval" in caption
        assert "One seed" not in caption


def test_a_policy_without_an_interval_beside_others_gets_no_line() -> None:
    made = document(policies=["closest", "random"])
    made["scenarios"]["shifting"]["policies"]["random"]["figures"]["success"]["ci95"] = None
    rows = {row["policy"]: row for row in (plots(made)["outcomes"].spec or {})["data"]["values"]}
    assert "success_low" in rows["closest"]
    assert "success_low" not in rows["random"]


def test_captions_say_what_a_reader_may_miss() -> None:
    drawn = plots(swept())
    for name in ("sweep", "over-time", "time-average"):
        assert "axis need not start at 0" in drawn[name].caption
    assert (
        "of each policy alone. To compare policies, use 'behind best', whose differences are paired by seed."
        in drawn["sweep"].caption
    )


def test_text_alternatives_are_there_for_every_choice() -> None:
    drawn = plots(swept())
    for name in ("sweep", "over-time", "time-average"):
        assert list(drawn[name].findings) == ["success", "late", "inaccurate", "rejected"]
        assert drawn[name].finding == drawn[name].findings["success"] != drawn[name].findings["late"]
    assert "share of late requests is lowest" in drawn["over-time"].findings["late"]
    assert "late under the best by value: rate=20 cheaper 2.5" in plain(drawn["sweep"].findings["late"])
    for policy, finding in drawn["load"].findings.items():
        assert finding.startswith(f"Under {policy} the most loaded node is ")
    assert set(drawn["load"].findings) == set(POLICIES)


def selecting(made: dict[str, Any], policy: str, *actions: str) -> dict[str, Any]:
    """The document, in which the policy chose a third of the actions in each span, in turn."""
    for body in made["scenarios"].values():
        chosen = [[actions[i] for i in range(len(actions)) if (b + i) % 3 == 0] for b in range(BINS)]
        shares = {a: [(a in there) / len(there) for there in chosen] for a in actions}
        body["policies"][policy]["detail"]["learned"] = {"decisions": BINS, "fallbacks": {}, "active": shares}
    return made


def test_the_active_policy_is_drawn_for_selectors_alone() -> None:
    assert "active" not in plots(document())
    made = selecting(document(), "random", "closest", "farthest", "cheaper")
    for body in made["scenarios"].values():
        shares = body["policies"]["random"]["detail"]["learned"]["active"]
        shares["never-there"] = [0.0] * BINS
        shares["closest"][0], shares["farthest"][0], shares["cheaper"][0] = 0.25, 0.25, 0.5  # together in one span
    drawn = plots(made)["active"]
    strip = (drawn.spec or {})["layer"][0]
    rows = {row["action"]: row for row in strip["data"]["values"]}
    assert set(rows) == {"closest", "farthest", "cheaper"}  # what was never active has no colour and no row
    assert [rows[a]["share"][:3] for a in ("closest", "farthest", "cheaper")] == [
        [0.25, 0, 0],
        [0.25, 0, 1],
        [0.5, 1, 0],
    ]
    for b in range(BINS):
        parts = sorted((row["low"][b], row["high"][b]) for row in rows.values())
        assert all(high == low for (_, high), (low, _) in pairwise(parts))  # one upon the other
    colours = strip["encoding"]["color"]["scale"]
    assert len(set(colours["range"])) == 3
    assert "Under random the active policy is cheaper 35%, farthest 34% and closest 31%" in drawn.finding
    assert [layer["name"] for layer in (drawn.spec or {})["layer"][1:]] == ["ink_changes", "ink_numbers"]


def test_thirteen_actions_have_a_colour_each_and_the_hue_of_their_line_while_it_is_free() -> None:
    made = selecting(document(), "random", *POLICIES)
    scale = (plots(made)["active"].spec or {})["layer"][0]["encoding"]["color"]["scale"]
    assert len(set(scale["range"])) == 13
    first = scale["domain"][0]
    assert scale["range"][0] == fill_of(by_look(made).index(first) % len(HUES))


def test_an_action_that_is_not_compared_leaves_the_others_their_colours() -> None:
    made = selecting(document(policies=["closest", "random"]), "random", "cheaper", "closest", "farthest")
    scale = (plots(made)["active"].spec or {})["layer"][0]["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert colours["closest"] == fill_of(by_look(made).index("closest"))
    assert len(set(colours.values())) == 3


def test_the_time_average_is_of_all_requests_so_far() -> None:
    made = document(policies=["closest"])
    drawn = plots(made)["time-average"]
    (window,) = [t for t in (drawn.spec or {})["layer"][-1]["transform"] if "window" in t]
    assert window["groupby"] == ["policy"]
    outcomes = points(made)[0].detail("closest")["outcomes"]
    end = sum(outcomes["success"]) / sum(map(sum, outcomes.values()))
    assert drawn.finding == f"At the end of the run the time average of success is: closest {end:.1%}."


def test_scenarios_stand_side_by_side_in_a_comparison_of_several() -> None:
    assert "across" not in plots(document())
    assert "across" not in plots(swept())
    drawn = plots(document(["shifting", "ecsrl"]))["across"]
    rows = (drawn.spec or {})["layer"][0]["data"]["values"]
    assert len(rows) == 2 * len(POLICIES)
    assert rows[0]["label"] == "shifting"
    assert {"success", "late", "inaccurate", "rejected", "success_low", "late_high"} <= set(rows[0])
    assert plain(drawn.findings["late"]).startswith("Requests late under the best by scenario: shifting cheaper 2.5")
    half = document(scenarios=document()["scenarios"] | {"dc-cloud": unfinished()})
    assert "across" not in plots(half)


def test_utilisation_is_of_every_policy_and_node() -> None:
    drawn = plots(document())["utilisation"]
    rows = (drawn.spec or {})["data"]["values"]
    assert len(rows) == len(POLICIES) * len(NODES)
    assert [row["busy"] for row in rows[: len(NODES)]] == pytest.approx([0.3, 0.4, 0.5, 0.6, 0.7])
    assert plain(drawn.finding) == "Under cheaper the busiest node is cloud, 70.0 ± 0.6 %."


def test_energy_against_degradation_has_its_front_and_in_a_sweep_a_line_a_policy() -> None:
    drawn = plots(document())["energy"]
    rows, front = (drawn.spec or {})["data"]["values"], (drawn.spec or {})["layer"][0]["data"]["values"]
    for on in front:
        assert not any(r["energy"] < on["energy"] and r["degradation"] < on["degradation"] for r in rows)
    assert [r["energy"] for r in front] == sorted((r["energy"] for r in front), reverse=True)
    lines = plots(swept())["energy-sweep"]
    assert lines.spec is not None
    closest = [row for row in lines.spec["data"]["values"] if row["policy"] == "closest"]
    assert [row["label"] for row in closest] == ["rate=20", "rate=40", "rate=60", "rate=80"]
    assert [row["order"] for row in closest] == [0, 1, 2, 3]
    assert "energy-sweep" not in plots(swept(degradation=False))


@pytest.mark.parametrize(("values", "kind"), [((20, 40.5), "quantitative"), (("stream", "request"), "ordinal")])
def test_a_sweep_has_a_true_axis_for_numbers_alone(values: tuple[Any, ...], kind: str) -> None:
    plot = plots(swept(values))["sweep"]
    assert plot.spec is not None
    assert plot.spec["layer"][0]["encoding"]["x"]["type"] == kind


def test_plots_are_written_as_svg_and_png_under_safe_names(tmp_path: Path) -> None:
    made = document(["../etc/a b", "..-etc-A b"])
    written = write_plots(made, tmp_path / "plots")
    assert sorted(tmp_path.rglob("*.*")) == sorted(written)
    assert {p.name for p in written if "latency" in p.name} == {
        "etc_a_b-latency.svg", "etc_a_b-latency.png", "-etc-A_b-latency.svg", "-etc-A_b-latency.png",
    }  # fmt: skip
    svg = (tmp_path / "plots" / "etc_a_b-outcomes.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "upper bound 97.5" in svg
    assert "What became of the requests" in svg
    png = (tmp_path / "plots" / "etc_a_b-outcomes.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") > 1520  # 760 wide, twice


def test_files_and_pages_say_what_ran(tmp_path: Path) -> None:
    made = document(["shifting", "ecsrl"], policies=["closest", "random"])
    for label, rate in (("shifting", 66), ("ecsrl", 3400)):
        made["scenarios"][label]["workload"] = f"{rate} arrivals a minute for 300 s"
    write_plots(made, tmp_path)

    def text(name: str) -> str:
        return " ".join(" ".join(ElementTree.fromstring((tmp_path / f"{name}.svg").read_text()).itertext()).split())

    one = "ecsrl: ecsrl, made up; 3400 arrivals a minute for 300 s; with rate=66; 5 paired seeds"
    assert one in text("ecsrl-latency")
    each = "shifting: shifting, made up; 66 arrivals a minute for 300 s; ecsrl: ecsrl, made up; 3400 arrivals a minute"
    assert each in text("across")
    html = page(made)
    assert html.count('<p class="ran">ecsrl, made up; 3400 arrivals a minute for 300 s</p>') == 2  # verdict and tables
    alone = page(document(["shifting"]))
    assert '<p class="subtitle">shifting, made up; with rate=66; 5 paired seeds</p>' in alone
    assert '<p class="ran">' not in alone


def test_a_sweep_has_a_file_of_its_own_beside_those_of_its_values(tmp_path: Path) -> None:
    names = {p.name for p in write_plots(swept([20, 40], policies=["closest", "random"]), tmp_path)}
    assert {"sweep.svg", "sweep.png", "rate=20-outcomes.svg", "rate=40-load.png"} <= names
    assert len(names) == 2 * (2 + 2 * 7)


def test_names_that_differ_in_capitals_alone_get_files_of_their_own(tmp_path: Path) -> None:
    names = [p.name.lower() for p in write_plots(document(["edge", "Edge"], policies=["closest"]), tmp_path)]
    assert len(names) == len(set(names)) == 2 * (1 + 2 * 7)


def test_a_drawing_too_large_to_be_one_is_refused(tmp_path: Path) -> None:
    made = document(["shifting"], policies=["closest"])
    made["scenarios"]["shifting"]["policies"]["closest"]["detail"]["latency"][3] = 10**9
    with pytest.raises(UserError, match=r"^the plot shifting-latency would have .* can't be right$"):
        write_plots(made, tmp_path)


# Documents that won't do


SHORT = {"seeds": [0], "policies": ["closest"], "sweep": {"param": "rate", "values": [20]}}


def broken(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    made = document()
    change(made["scenarios"]["shifting"])
    return made


def active(body: dict[str, Any]) -> dict[str, Any]:
    """What was active under closest, which is made a selector."""
    made: dict[str, Any] = {"random": [1.0] * BINS}
    body["policies"]["closest"]["detail"]["learned"] = {"decisions": 1, "fallbacks": {}, "active": made}
    return made


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "not a result of `fairlead compare`"),
        ({"scenarios": {}}, "not a result of `fairlead compare`"),
        (broken(lambda s: s["policies"]["closest"].pop("detail")), "shifting, closest: no detail over time in it"),
        (broken(lambda s: s.pop("time_s")), "no detail over time in it (an older fairlead made it)"),
        (broken(lambda s: s["time_s"].pop()), f"outcomes.success has {BINS} bins where {BINS - 1} are expected"),
        (broken(lambda s: s["policies"].pop("random")), "shifting: random is in its ranking, but not in its policies"),
        (broken(lambda s: s["ranking"].append("random")), "shifting: ranking has a policy twice"),
        (broken(lambda s: s.update(assumptions=[5])), "writes it: scenarios.shifting.assumptions.0: input should be a"),
        (broken(lambda s: s["time_s"].__setitem__(3, math.nan)), "scenarios.shifting.time_s.3: input should be a fini"),
        (broken(lambda s: s["time_s"].reverse()), "shifting: the edges in time_s should grow"),
        (broken(lambda s: s["latency_ms"].__setitem__(0, 0)), "edges in latency_ms should grow from above 0"),
        (broken(lambda s: active(s).update(random=[1.0])), "closest: learned.active.random has 1 bins where 30 are ex"),
        (document(versions=3), "not as fairlead writes it: versions: input should be a valid dictionary"),
        (swept() | {"settings": SHORT}, "1 values were swept, but it has 4"),
    ],
)
def test_what_no_report_can_be_made_of_is_refused_in_one_line(made: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        check(made)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_whatever_is_wrong_in_a_document_makes_a_line_or_a_page() -> None:
    whole = swept([20], policies=["closest"], seeds=2)
    active(whole["scenarios"]["rate=20"])
    figures = whole["scenarios"]["rate=20"]["policies"]["closest"]["figures"]
    for name in set(figures) - {"success", "energy_per_success_mj"}:  # the others are read alike
        del figures[name]
    assert refusals(whole) > 500


def test_the_command_writes_page_and_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tmp_path / "out.json"
    result.write_text(json.dumps(document(policies=["closest", "random"])))
    assert main(["report", str(result), "--plots", str(tmp_path / "plots")]) == 0
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / "plots").iterdir())) == 14
    assert capsys.readouterr().err == (f"report written to {tmp_path}/out.html\n14 plots written to {tmp_path}/plots\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory; give a file that `fairlead compare --json` wrote"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", "not a result of `fairlead compare` or `fairlead sweep`"),
    ],
)
def test_the_command_refuses_what_is_no_result(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "out.json").write_text(content)
    assert main(["report", str(tmp_path / "out.json")]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"fairlead: {tmp_path}/out.json: ")
    assert message in line
    assert line.count("\n") == 1
    assert not (tmp_path / "out.html").exists()


def test_without_the_extra_one_line_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert main(["report", str(tmp_path / "out.json")]) == 2
    assert "pip install vl-convert-python" in capsys.readouterr().err


# The page, in a browser


def test_every_plot_is_drawn_without_a_complaint_or_a_network(open_page: Open) -> None:
    found = open_page(document(["shifting", "ecsrl"]))
    for plot in ("across", "outcomes", "over-time", "time-average", "latency", "load", "utilisation", "energy"):
        assert found.marks(plot) > 15, plot
        label = found.page.locator(f"figure[data-plot={plot}] .plot").get_attribute("aria-label")
        assert "cheaper" in (label or ""), plot
    bars = found.page.locator("figure[data-plot=outcomes] .mark-rect.role-mark path")
    cells = found.page.locator("figure[data-plot=load] .mark-rect.role-mark path")
    assert bars.count() == 4 * len(POLICIES)
    assert cells.count() == BINS * len(NODES)
    for plot in ("over-time", "time-average", "latency"):
        assert len(found.lines(plot)) == 3, plot
    assert found.page.locator("figure[data-plot=over-time] .notes li").all_inner_texts() == [
        "at 150 s: video-analytics: rate x 3.8; tele-operation: rate x 1.4",
        "at 450 s: all sources: rate x 2.2",
    ]


SMALL = ["--seeds", "2", "--jobs", "1", "--set", "duration_s=20", "--policies", "closest,load-balancing,farthest"]


def test_the_report_of_a_comparison_is_drawn(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    assert main(["compare", "shifting", "ecsrl", *SMALL, "--report", str(file)]) == 0
    found = open_page(file)
    for plot in ("across", "outcomes", "over-time", "time-average", "latency", "load", "utilisation"):
        assert found.marks(plot) > 15, plot
    assert "upper bound" in (found.page.locator("figure[data-plot=outcomes] svg").text_content() or "")
    found.page.locator("#label").select_option(label="ecsrl")
    assert found.marks("energy") > 5  # its nodes share
    assert found.page.locator("figure[data-plot=load] .mark-rect.role-mark path").count() == 4 * 100  # nodes, bins
    assert found.complaints == []


def test_the_report_of_a_sweep_is_drawn(open_page: Open, tmp_path: Path) -> None:
    file, values = tmp_path / "out.html", "10,60,120"
    sweep = ["sweep", "full-edge", "--param", "rate", "--values", values, "--checkpoint", "none"]
    assert main([*sweep, *SMALL, "--report", str(file), "--plots", str(tmp_path / "plots")]) == 0
    found = open_page(file)
    assert found.marks("sweep") > 20
    assert found.page.locator("figure[data-plot=energy-sweep]").count() == 0  # nothing degrades there
    assert len(found.lines("sweep")) == 4  # three policies and the bound
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {"sweep.png", "sweep.svg", "rate=120-over-time.svg", "rate=10-latency.png"} <= names


def test_strips_of_the_active_policy_are_drawn_for_each_label(open_page: Open) -> None:
    made = selecting(selecting(document(["shifting", "ecsrl"]), "random", *POLICIES), "closest", *POLICIES[:4])
    found = open_page(made)
    cells = found.page.locator("figure[data-plot=active] .mark-rect.role-mark path")
    expected = sum(
        x > 0
        for p in ("random", "closest")
        for shares in points(made)[0].detail(p)["learned"]["active"].values()
        for x in shares
    )
    assert cells.count() == expected
    assert found.page.locator("figure[data-plot=active] .role-legend-label text").count() == len(POLICIES)
    cells.first.hover()
    tip = found.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "of the time" in tip.inner_text()
    found.page.locator("#label").select_option(label="ecsrl")
    found.settled()
    assert cells.count() == expected
    assert found.complaints == []


def test_outcomes_across_scenarios_follow_chooser_and_checkboxes(open_page: Open) -> None:
    found = open_page(document(["shifting", "ecsrl"]))
    marks = found.page.locator("figure[data-plot=across] .mark-symbol.role-mark path")
    shown = marks.count()
    assert shown % 2 == 0
    where = marks.first.get_attribute("transform")
    found.page.locator("figure[data-plot=across] select").select_option("late")
    found.settled()
    assert marks.first.get_attribute("transform") != where
    assert found.page.locator("figure[data-plot=across] .ink_bound_marks path:visible").count() == 0
    found.page.get_by_role("button", name="All").click()
    found.settled()
    assert marks.count() == 2 * len(POLICIES)
    assert found.complaints == []


def test_nothing_moves_while_the_plots_are_drawn(open_page: Open) -> None:
    shifts = """new Promise(done => new PerformanceObserver(list => done(list.getEntries().map(e => e.value)))
        .observe({type: "layout-shift", buffered: true}) ?? setTimeout(() => done([]), 300))"""
    made = selecting(document(["shifting", "ecsrl"]), "random", *POLICIES)
    assert sum(open_page(made).page.evaluate(shifts)) < 0.01


def test_a_checkbox_reached_and_switched_by_keyboard_changes_the_plots(open_page: Open) -> None:
    found = open_page(document())
    found.page.keyboard.press("Tab")
    assert found.page.evaluate("document.activeElement.textContent") == "Skip to the plots"
    box = found.page.get_by_label("closest", exact=True)
    for _ in range(12):
        found.page.keyboard.press("Tab")
        if box.evaluate("box => box === document.activeElement"):
            break
    assert box.evaluate("box => box.matches(':focus-visible') && getComputedStyle(box).outlineStyle") == "solid"
    faded = found.page.locator("figure[data-plot=outcomes] .ink_faded_marks text")
    assert (len(found.lines("over-time")), len(found.lines("latency")), faded.count()) == (3, 3, 10)
    found.page.keyboard.press("Space")
    assert (len(found.lines("over-time")), len(found.lines("latency")), faded.count()) == (4, 4, 9)
    found.page.get_by_role("button", name="None").click()
    assert (len(found.lines("over-time")), len(found.lines("latency")), faded.count()) == (0, 0, 13)
    assert found.complaints == []


def test_choosers_change_outcome_policy_and_scenario(open_page: Open) -> None:
    found = open_page(document(["shifting", "ecsrl"]))
    before = found.lines("over-time")
    found.page.locator("figure[data-plot=over-time] select").select_option("late")
    assert found.lines("over-time") != before
    cells = found.page.locator("figure[data-plot=load] .mark-rect.role-mark")
    loads = cells.inner_html()
    found.page.get_by_label("Policy", exact=True).select_option("random")
    found.settled()
    assert cells.inner_html() != loads
    found.page.locator("#label").select_option(label="ecsrl")
    first = found.settled().locator("figure[data-plot=outcomes] .role-axis-label text").all_text_contents()
    assert "least-impedance" in first[: len(POLICIES)]
    assert found.page.locator("#tables h3:visible").all_inner_texts() == ["ecsrl"]
    assert found.page.get_by_label("Policy", exact=True).input_value() == "random"  # what was chosen stays
    assert found.page.locator(".policies input:checked").first.get_attribute("value") in {"least-impedance", "cheaper"}
    assert found.complaints == []


def test_text_alternatives_follow_the_choices(open_page: Open) -> None:
    found = open_page(swept())

    def told(plot: str) -> str:
        return found.settled().locator(f"figure[data-plot={plot}] .plot").get_attribute("aria-label") or ""

    assert told("sweep").startswith("Best by value")
    assert told("load").startswith("Under cheaper ")
    found.page.locator("figure[data-plot=sweep] select").select_option("late")
    found.page.locator("figure[data-plot=over-time] select").select_option("rejected")
    found.page.get_by_label("Policy", exact=True).select_option("random")
    assert told("sweep").startswith("Requests late under the best by value")
    assert "share of rejected requests" in told("over-time")
    assert told("load").startswith("Under random ")
    found.page.get_by_label("rate", exact=True).select_option("rate=80")
    assert "share of rejected requests" in told("over-time")  # what was chosen stays
    assert told("load").startswith("Under random ")


def test_a_plot_that_cannot_be_drawn_says_so_and_the_others_go_on(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_report(document(["shifting", "ecsrl"]), file)
    html = file.read_text()
    drawn = '"latency":{"caption"'
    assert html.count(drawn) == 2
    first = html.index('"mark":', html.index(drawn))
    file.write_text(html[:first] + '"mark":"no such mark","was":' + html[first + len('"mark":') :])
    found = open_page(file, quiet=False)
    figure = found.page.locator("figure[data-plot=latency]")
    assert figure.locator(".failed").inner_text() == "This plot could not be drawn; the tables below have its numbers."
    assert figure.locator(".plot").is_hidden()
    assert found.complaints[0].startswith("error: latency: ")
    assert found.marks("load") > 20  # it comes after
    before = found.lines("over-time")
    found.page.locator("figure[data-plot=over-time] select").select_option("late")
    assert found.lines("over-time") != before
    found.page.locator("#label").select_option(label="ecsrl")
    assert found.marks("latency") > 20
    assert figure.locator(".failed").is_hidden()


def test_success_is_written_where_it_can_be_read(open_page: Open) -> None:
    made = document(policies=["closest", "farthest", "random"])
    low = made["scenarios"]["shifting"]["policies"][made["scenarios"]["shifting"]["ranking"][-1]]["figures"]
    low["success"]["mean"], low["late"]["mean"] = 0.02, 0.9
    found = open_page(made)

    def texts(name: str) -> list[str]:
        marks = found.settled().locator(f"figure[data-plot=outcomes] .{name}_marks text")
        return [plain(text) for text in marks.all_text_contents()]

    assert texts("on_bar") == ["95.0 ± 0.6 %", "93.8 ± 0.6 %"]
    assert texts("ink_beside") == texts("halo_beside") == ["2.0 ± 0.6 %"]
    bar = found.page.locator("figure[data-plot=outcomes] .mark-rect.role-mark path").nth(8).bounding_box()
    text = found.page.locator("figure[data-plot=outcomes] .ink_beside_marks text").bounding_box()
    assert bar is not None
    assert text is not None
    assert text["x"] > bar["x"] + bar["width"]
    found.page.get_by_role("button", name="None").click()
    assert texts("on_bar") == []
    assert texts("ink_faded") == ["95.0 ± 0.6 %", "93.8 ± 0.6 %"]
    assert texts("ink_beside") == ["2.0 ± 0.6 %"]


def test_one_value_has_bars_where_more_have_bands(open_page: Open) -> None:
    one, more = swept([20], bound=False), swept([20, 40], bound=False)
    areas, bars = "figure[data-plot=sweep] .mark-area path", "figure[data-plot=sweep] .mark-rule.role-mark line"
    found = open_page(one).page
    assert found.locator(areas).count() == 0
    heights = found.locator(bars).evaluate_all("all => all.map(one => Math.abs(one.getAttribute('y2')))")
    assert len(heights) == 3  # the best three
    assert min(heights) > 5
    found = open_page(more).page
    assert found.locator(areas).count() > 0
    assert found.locator(bars).count() == 0


def test_one_seed_is_drawn_without_intervals(open_page: Open) -> None:
    found = open_page(swept(seeds=1, bound=False))
    assert found.page.locator("figure .mark-rule.role-mark:not(.ink_changes_marks) line").count() == 0
    assert found.page.locator("figure[data-plot=sweep] .mark-area").count() == 0
    assert found.marks("energy") > 20


def test_the_legend_of_loads_says_that_it_ends_at_200_percent(open_page: Open) -> None:
    legend = open_page(document()).page.locator("figure[data-plot=load] .role-legend-label text")
    assert legend.all_text_contents() == ["0%", "50%", "100%", "200 % or more"]


def test_the_page_says_what_told_apart_leaves_open() -> None:
    words = "Each policy is compared with the best at 95 % by itself, and the best is chosen on the same seeds"
    assert words in " ".join(page(document()).split("<script")[0].split())


def test_without_javascript_nothing_stays_busy() -> None:
    assert "aria-busy" not in page(document()).split("<script")[0]


def test_a_tooltip_tells_number_and_interval(open_page: Open) -> None:
    found = open_page(document())
    found.page.locator("figure[data-plot=outcomes] .mark-rect.role-mark path").first.hover()
    tip = found.page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    text = plain(tip.inner_text())
    assert "cheaper" in text
    assert "95.0 ± 0.6 %" in text


def test_a_sweep_is_drawn_with_its_bound_and_a_chooser_of_values(open_page: Open) -> None:
    found = open_page(swept())
    assert len(found.lines("sweep")) == 5  # four policies lead somewhere, and the bound
    before = found.lines("sweep")
    found.page.locator("figure[data-plot=sweep] select").select_option("rejected")
    after = found.lines("sweep")
    assert len(after) == 4
    assert not set(after) & set(before)
    found.page.get_by_label("rate", exact=True).select_option("rate=80")
    assert found.settled().locator("#tables h3:visible").all_inner_texts() == ["rate=80"]
    assert found.complaints == []


@pytest.mark.parametrize(
    "made",
    [
        document(seeds=1, bound=False, degradation=False, policies=["closest"]),
        document(stopped="interrupted", complete=False, scenarios=document()["scenarios"] | {"dc-cloud": unfinished()}),
        document(complete=False, scenarios={"dc-cloud": unfinished()}),
        swept([20]),
        swept(["stream", "request"], param="dispatch", seeds=1, bound=False),
    ],
    ids=["one of all", "a scenario without seeds", "no seeds at all", "one value", "words, one seed, no bound"],
)
def test_poor_documents_make_sound_pages(open_page: Open, made: dict[str, Any]) -> None:
    found = open_page(made)
    for option in found.page.locator("#label option").evaluate_all("all => all.map(one => one.value)"):
        found.page.locator("#label").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('change')) }", option)
        found.settled()
    assert found.complaints == []
    notice = found.page.locator(".notice")
    assert notice.count() == (0 if made["complete"] else 1)


def test_what_is_missing_is_said_first(open_page: Open) -> None:
    made = document(complete=False, stopped="interrupted", failures={"mine": "mine: ZeroDivisionError (seed 3)"})
    made["settings"]["policies"].append("mine")
    made["settings"]["seeds"] = list(range(7))
    notice = open_page(made).page.locator(".notice").inner_text()
    assert "Stopped early: interrupted." in notice
    assert "shifting: 5 of 7 seeds are finished." in notice
    assert "mine failed and is left out: mine: ZeroDivisionError (seed 3)" in notice


def test_names_are_text_whatever_they_contain(open_page: Open) -> None:
    made = document([EVIL, "other"], policies=[EVIL, "closest"], stopped=EVIL, complete=False, failures={EVIL: EVIL})
    body = made["scenarios"][EVIL]
    body["title"], body["assumptions"] = EVIL, [EVIL]
    body["changes"] = [{"at_s": 100.0, "what": EVIL}]
    for policy in body["policies"].values():
        policy["detail"]["load"][EVIL] = policy["detail"]["load"].pop("dc")
    found = open_page(made)
    found.page.locator("figure[data-plot=outcomes] .mark-rect.role-mark path").first.hover()
    found.page.locator("#vg-tooltip-element").wait_for(state="visible")
    assert found.page.title().endswith("Fairlead")
    assert found.page.locator("img").count() == 0
    assert found.page.locator("script").count() == 3
    assert EVIL in found.page.locator(".verdicts dt").first.inner_text()
    assert found.complaints == []


def test_the_theme_follows_the_system_and_the_button(open_page: Open) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('.plot .role-axis-label text')).fill"
    dark = open_page(document(), color_scheme="dark").page
    in_dark = dark.evaluate(f"[{colour}, {text}]")
    light = open_page(document(), color_scheme="light").page
    in_light = light.evaluate(f"[{colour}, {text}]")
    assert in_dark[0] == "rgb(22, 25, 29)"
    assert in_light[0] == "rgb(255, 255, 255)"
    light.get_by_role("button", name="Dark theme").click()
    assert light.evaluate(f"[{colour}, {text}]") == in_dark
    light.emulate_media(media="print")
    assert light.evaluate(colour) == in_light[0]


@pytest.mark.parametrize(
    "made", [document(["a-scenario-of-a-rather-long-name", "ecsrl"]), swept()], ids=["compare", "sweep"]
)
def test_a_phone_never_scrolls_sideways(open_page: Open, made: dict[str, Any]) -> None:
    found = open_page(made, width=360)
    assert not found.scrolls_sideways()
    assert found.page.locator(".policies").is_hidden()
    found.page.get_by_text("Choose what is shown").click()
    assert found.page.locator(".policies").is_visible()
    found.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert not found.scrolls_sideways()
    svg = found.page.locator("figure[data-plot=over-time] svg").bounding_box()
    assert svg is not None
    assert 300 < svg["width"] <= 328


def test_plots_follow_the_width_of_the_window(open_page: Open) -> None:
    found = open_page(document())
    plot = found.page.locator("figure[data-plot=latency] svg")
    wide = plot.bounding_box()
    assert wide is not None
    found.page.set_viewport_size({"width": 1000, "height": 900})
    found.page.wait_for_function(
        "w => document.querySelector('figure[data-plot=latency] svg').clientWidth < w", arg=wide["width"]
    )
    narrow = plot.bounding_box()
    assert narrow is not None
    assert 0.5 * wide["width"] < narrow["width"] < wide["width"] - 100


def test_paper_has_no_controls_and_everything_open(open_page: Open) -> None:
    found = open_page(document(), width=718)
    found.page.emulate_media(media="print")
    found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    for control in ("button", "select", "input"):
        assert found.page.locator(f"{control}:visible").count() == 0, control
    assert found.page.locator("details:not([open])").count() == 0
    assert found.page.locator(".policies label:visible").count() == 3  # the legend of the lines
    assert not found.scrolls_sideways()
    assert found.page.locator("figure").first.evaluate("f => getComputedStyle(f).breakInside") == "avoid"


def test_every_control_and_region_has_a_name(open_page: Open) -> None:
    tree = open_page(document(["shifting", "ecsrl"])).page
    for role in ("checkbox", "combobox", "button", "img", "region"):
        found = tree.get_by_role(role).all()
        assert found
        for one in found:
            assert one.evaluate("e => e.ariaLabel || e.labels?.[0]?.textContent || e.textContent").strip(), role


# Degradation matrices


def degradation_document(**top: Any) -> dict[str, Any]:
    """Two devices: one with two models, one that was measured with a single one."""
    pair = {"device": "board", "nodes": ["a", "b"], "axes": ["ssd", "resnet"], "alone_ms": 12.5}
    cells = [[1.0, 1.5, 2.25], [2.0, 2.5, 3.0], [3.0, "inf", "inf"]]
    slopes = {"rho": [0.3, 1.0], "slope": [0.4, 1.25]}
    one = {"device": "stick", "nodes": [], "arriving": "ssd", "axes": ["ssd"], "alone_ms": 5.0}
    return {
        "kind": "degradation",
        "fairlead": "0.1.0",
        "versions": {"python": "3.11.9"},
        "settings": {"scenario": "made-up", "set": ["rate=66"], "max": 2},
        "title": "made up",
        "measured": "nowhere",
        "assumptions": ["devices.board: all numbers"],
        "matrices": [
            *(pair | {"arriving": m, "cells": cells, "by_rho": slopes} for m in ("ssd", "resnet")),
            one | {"cells": [[1.0], [1.75]]},
        ],
    } | top


def test_matrices_become_heat_maps_a_curve_and_slopes_for_each_device() -> None:
    board, stick = devices(degradation_document())
    assert [plot.name for plot in board.plots()] == ["matrix-1", "matrix-2", "curve", "by-rho"]
    assert [plot.name for plot in stick.plots()] == ["matrix-1", "curve"]
    cells = (board.plots()[0].spec or {})["data"]["values"]
    assert [(c["m"], c["r"], c["text"]) for c in cells[-3:]] == [(2, 0, "3.00"), (2, 1, "∞"), (2, 2, "∞")]
    assert "∞: there is no room for it" in board.plots()[0].caption
    assert "∞" not in stick.plots()[0].caption
    lines, means = (layer["data"]["values"] for layer in (board.plots()[2].spec or {})["layer"])
    assert [p["mean"] for p in means[:3]] == pytest.approx([1.0, 1.75, (2.25 + 2.5 + 3.0) / 3])
    assert [line["running"] for line in lines] == [1, 3, 1, 3]
    assert "from 0.40 to 1.25" in board.plots()[3].finding


def test_the_verdict_on_a_device_tells_slopes_and_room() -> None:
    board, stick = devices(degradation_document())
    assert degradation_verdict(stick) == (
        "The slow-down grows with each further workload: it adds 0.75 to that of ssd (R² 1.000); all mixes of up to 2 "
        "workloads fit."
    )
    assert degradation_verdict(board).startswith(
        "The slow-down grows with each further workload: it adds 0.79 to that of ssd (R² 0.99"
    )
    tight = degradation_document()
    tight["matrices"][0]["cells"] = [[1.0, 1.5], ["inf", "inf"]]
    assert degradation_verdict(devices(tight)[0]).endswith("; from 2 workloads on, not all mixes fit.")


def test_the_page_of_matrices_is_drawn_for_each_device(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    write_degradation_report(degradation_document(title=EVIL), file)
    found = open_page(file)
    cells = found.page.locator("figure[data-plot=matrix-1] .mark-rect.role-mark path")
    assert cells.count() == 9
    assert found.page.locator("figure[data-plot=matrix-2] .mark-rect.role-mark path").count() == 9
    assert len(found.lines("curve")) == len(found.lines("by-rho")) == 2
    texts = found.page.locator("figure[data-plot=matrix-1] .mark-text.role-mark text").all_text_contents()
    assert texts.count("∞") == 2
    found.page.locator("figure[data-plot=matrix-1] .mark-text.role-mark text").first.hover()
    found.page.locator("#vg-tooltip-element").wait_for(state="visible")
    assert found.page.locator("#tables h3:visible").all_inner_texts() == ["board (a, b)"]
    found.page.get_by_label("Device").select_option("stick")
    found.settled()
    assert cells.count() == 2
    assert found.page.locator("figure[data-plot=matrix-2]").is_hidden()
    assert found.page.locator("figure[data-plot=by-rho]").is_hidden()
    assert found.page.locator("#tables h3:visible").all_inner_texts() == ["stick"]
    assert found.page.locator("img").count() == 0
    assert found.complaints == []
    assert not open_page(file, width=360).scrolls_sideways()


def test_the_report_of_a_study_is_drawn_fresh_and_from_its_file(
    open_page: Open, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fresh, saved, files = tmp_path / "fresh.html", tmp_path / "saved.html", tmp_path / "plots"
    assert main(["degradation", "simulate", "ecsrl", "--json", str(tmp_path / "out.json"), "--report", str(fresh)]) == 0
    assert main(["report", str(tmp_path / "out.json"), "-o", str(saved), "--plots", str(files)]) == 0
    assert saved.read_bytes() == fresh.read_bytes()
    found = open_page(fresh)
    assert found.page.locator("figure[data-plot=matrix-1] .mark-rect.role-mark path").count() == 49
    assert found.marks("curve") > 15
    assert "24 plots written" in capsys.readouterr().err
    svg = (files / "jetson-nano_nano-matrix-1.svg").read_text()
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "∞" in svg


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("matrices"), "matrices: field required"),
        (lambda d: d.update(matrices=[]), "matrices: list should have at least 1 item"),
        (lambda d: d["matrices"][0]["cells"].append([1.0]), "matrices.0.cells: rows should be of equal length"),
        (lambda d: d["matrices"][2].update(cells=[[1.0, 2.0]]), "of one cell where there is one axis"),
        (lambda d: d["matrices"][0].update(cells=[[1.0, None]]), "should be numbers above 0, or 'inf'"),
        (lambda d: d["matrices"][0]["by_rho"]["rho"].pop(), "matrices.0.by_rho: should have a slope for each rho"),
        (lambda d: d["matrices"][0].update(alone_ms="fast"), "matrices.0.alone_ms: input should be a valid number"),
    ],
)
def test_matrices_that_are_not_sound_are_refused_in_one_line(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = copy.deepcopy(degradation_document())
    change(made)
    (tmp_path / "out.json").write_text(json.dumps(made))
    assert main(["report", str(tmp_path / "out.json")]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"fairlead: {tmp_path}/out.json: ")
    assert message in line
    assert line.count("\n") == 1


# An explained decision


def explanation(folder: Path, *more: str) -> dict[str, Any]:
    """That of one request."""
    bundle = bundles.dispatcher(folder / "agent", candidates=8)
    asked = ["--at", "2", "--set", "duration_s=5", "--json", str(folder / "why.json"), *more]
    assert main(["explain", "ecsrl", "--policy", str(bundle), *asked]) == 0
    return dict(json.loads((folder / "why.json").read_text()))


def test_an_explained_decision_is_drawn(open_page: Open, tmp_path: Path) -> None:
    file = tmp_path / "why.html"
    whole = explanation(tmp_path, "--replay", "--report", str(file))
    made, found = whole["decision"], open_page(file)
    assert found.page.locator("figure:visible").count() == 4
    moved = [d for d in made["drivers"] if d["move"]]
    bars = {"worth": len(made["alternatives"]), "inputs": sum(not d["group"] for d in moved)}
    for name, number in bars.items():
        assert found.page.locator(f"figure[data-plot={name}] .mark-rect.role-mark path").count() == number
    assert found.page.locator("h1").inner_text().endswith(f"chose {made['chosen']}")
    assert found.page.locator("#controls").is_hidden()
    assert not open_page(file, width=360).scrolls_sideways()
    made["alternatives"][0]["name"] = whole["title"] = whole["settings"]["policy"] = EVIL
    write_explanation_report(whole, file)
    assert open_page(file).page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("decision"), "decision: field required"),
        (lambda d: d["settings"].pop("policy"), "settings.policy: field required"),
        (lambda d: d["settings"].update(set=[2.0]), "settings.set.0: input should be a valid string"),
        (lambda d: d["decision"].update(alternatives=[]), "decision.alternatives: list should have at least 1 item"),
        (lambda d: d["decision"]["drivers"][0].update(name="x", group=False), "drivers.0: x is not among the inputs"),
        (lambda d: d["decision"]["drivers"][0].update(move="inf"), "decision.drivers.0.move: input should be a valid"),
    ],
)
def test_an_explanation_that_is_not_sound_is_refused_in_one_line(
    change: Callable[[dict[str, Any]], Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = explanation(tmp_path)
    change(made)
    (tmp_path / "why.json").write_text(json.dumps(made))
    capsys.readouterr()
    assert main(["report", str(tmp_path / "why.json")]) == 2
    line = capsys.readouterr().err
    assert message in line
    assert line.count("\n") == 1


# The page, as text


def test_the_page_is_the_same_bytes_each_time_and_small() -> None:
    made = document(["a", "b", "c", "d", "e"])
    assert page(made) == page(copy.deepcopy(made))
    assert len(page(made)) < 2_000_000


def test_the_page_forbids_every_connection_and_foreign_script() -> None:
    html = page(document())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert not re.search(r'(?:src|href)="(?!#)', html.split('<script type="application/json"')[0])


def test_page_and_plots_say_which_workload_ran(tmp_path: Path) -> None:
    made = swept([66, 99], policies=["closest"])
    made["settings"]["set"] = ["duration_s=690"]
    for value, body in zip((66, 99), made["scenarios"].values(), strict=True):
        body |= {"title": "made up", "workload": f"{value} arrivals a minute for 690 s"}
    assert "made up; with duration_s=690; 5 paired seeds<" in page(made)
    write_plots(made, tmp_path)
    assert "rate=99: made up; 99 arrivals a minute for 690 s; with duration_s=690; 5 paired seeds<" in (
        tmp_path / "rate=99-latency.svg"
    ).read_text().replace("\N{NO-BREAK SPACE}", " ")
    del made["scenarios"]["rate=66"]
    made["settings"]["sweep"] = None
    assert "made up; 99 arrivals a minute for 690 s; with duration_s=690; 5 paired seeds<" in page(made)


def test_the_page_says_how_the_result_was_made() -> None:
    html = page(document())
    versions = "fairlead 0.1.0, python 3.11.9, numba 0.61.0"
    for words in ("0 to 4", "rate=66", versions, "12 assumptions of shifting"):
        assert words in html
    assert '<th scope="row">closest</th><td>fairlead</td><td>compiled</td><td>000000000001</td>' in html
