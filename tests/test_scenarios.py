"""Scenario files: what ships is sound, and what is wrong with a file is said in one line with its place."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.domain.errors import UserError
from fairlead.domain.scenario import check
from fairlead.experiments.scenario_hints import hints
from fairlead.scenarios.loader import available, available_tasks, load, load_tasks
from fairlead.sim.serving.plan import build_plan

SHIPPED = ["aset-testbed", "co-dc-cloud", "dc-cloud", "ecsrl", "full-edge", "latency-minority", "shifting"]

SMALL: dict[str, Any] = {
    "title": "small",
    "devices": {
        "board": {
            "compute_tops": 1,
            "memory_mb": 1000,
            "power_idle_w": 1,
            "power_busy_w": 5,
            "price_per_h": 0.1,
            "assumed": True,
        }
    },
    "nodes": {"edge": {"device": "board", "assumed": True}},
    "links": [{"from": "*", "to": "*", "delay_ms": 1, "assumed": True}],
    "models": {
        "m": {
            "variants": {
                "v": {
                    "accuracy": 0.9,
                    "memory_mb": 100,
                    "assumed": True,
                    "latency": {"board": {"base_ms": 10, "assumed": True}},
                }
            }
        }
    },
    "deployments": [{"variant": "v", "nodes": ["edge"], "assumed": True}],
    "workload": {
        "rate_per_min": 600,
        "duration_s": 10,
        "sites": ["s"],
        "assumed": True,
        "sources": {
            "a": {"model": "m", "tenant": "t", "sla": "g", "deadline_ms": 50, "min_accuracy": 0.5, "assumed": True}
        },
    },
    "rules": {"assumed": True},
}


def small(tmp_path: Path, path: str = "", value: Any = None, drop: bool = False) -> str:
    """A sound small scenario as a file, with one place changed or dropped."""
    data: Any = yaml.safe_load(yaml.safe_dump(SMALL))
    if path:
        *parents, last = [int(p) if p.isdigit() else p for p in path.split("/")]
        place = data
        for part in parents:
            place = place[part]
        if drop:
            del place[last]
        else:
            place[last] = value
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(file)


def error_of(file: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load(file, overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


def line_of(file: str, text: str) -> int:
    return next(i for i, line in enumerate(Path(file).read_text().splitlines(), 1) if text in line)


def test_the_scenarios_of_the_issue_ship_and_are_sound() -> None:
    assert sorted(available()) == SHIPPED
    for name in SHIPPED:
        assert list(check(load(name))) == []


def test_titles_name_no_rate_and_no_length_which_set_may_change() -> None:
    for scenario in (*map(load, available()), *map(load_tasks, available_tasks())):
        found = re.search(r"\d (requests|tasks|arrivals|clients)|minute|second|\ds\b|a step", scenario.title)
        assert not found, scenario.title


def test_a_deadline_that_no_variant_can_meet_gets_a_hint() -> None:
    assert [line for scenario in map(load, available()) for line in hints(scenario)] == []
    (line,) = hints(load("ecsrl", ["workload.sources.detect.deadline_ms=0.1"]))
    assert line == (
        "ecsrl: workload.sources.detect.deadline_ms is 0.1 ms, less than the 25.06 ms of the fastest variant of "
        "detection: was 0.1 s meant (100 ms)?"
    )


def test_what_arrives_is_told_from_what_was_set() -> None:
    assert load("ecsrl", ["rate=18500", "duration_s=0.5"]).workload_in_words() == "18,500 arrivals a minute for 0.5 s"
    assert load("shifting").workload_in_words().endswith(" s, in phases of other rates")
    assert load_tasks("tapfinger-3", ["rate=2", "tasks=1"]).workload_in_words() == "1 task, 2 a step of 10 s"


def test_the_three_aset_topologies_have_equal_total_capacity() -> None:
    def totals(name: str) -> tuple[float, float, float]:
        s = load(name)
        devices = [(s.devices[n.device], n.count) for n in s.nodes.values()]
        return (
            sum(d.compute_tops * count for d, count in devices),
            sum(d.memory_mb * count for d, count in devices),
            sum(d.power_busy_w * count for d, count in devices),
        )

    assert totals("full-edge") == totals("co-dc-cloud") == totals("dc-cloud")
    assert (
        load("full-edge").workload.sources == load("dc-cloud").workload.sources == load("co-dc-cloud").workload.sources
    )


def test_ecsrl_asks_seventeen_thousand_requests_in_five_minutes_on_the_posters_devices() -> None:
    s = load("ecsrl")
    assert s.workload.rate_per_min * s.workload.duration_s / 60 == 17_000
    assert s.workload.duration_s == 300
    assert {n.device: n.count for n in s.nodes.values()} == {
        "jetson-nano": 1,
        "jetson-tx2": 1,
        "xavier-nx": 1,
        "rtx-3080": 4,
    }


def test_the_testbed_has_the_workers_of_table_iii() -> None:
    s = load("aset-testbed")
    assert [(c.name, len(c.nodes)) for c in s.clusters] == [("cluster-1", 2), ("cluster-2", 1), ("cluster-3", 2)]
    assert all(s.devices[n.device].memory_mb == 8192 for n in s.nodes.values())


def test_assumptions_are_listed_with_their_paths() -> None:
    found = dict(load("ecsrl").assumptions())
    assert found["devices.jetson-tx2"] == "price_per_h"
    assert found["devices.jetson-nano.degradation"] == "all numbers"
    assert "devices.xavier-nx.degradation" not in found  # has a source


def test_a_sound_file_loads_and_takes_its_name_from_the_file(tmp_path: Path) -> None:
    s = load(small(tmp_path))
    assert (s.name, list(s.nodes), s.rules.dispatch) == ("small", ["edge"], "request")


def test_a_file_can_extend_a_shipped_scenario(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: full-edge\ntitle: mine\nworkload: {rate_per_min: 10}\n")
    mine, base = load(str(file)), load("full-edge")
    assert (mine.name, mine.title, mine.workload.rate_per_min) == ("mine", "mine", 10)
    assert mine.nodes == base.nodes
    assert mine.workload.sources == base.workload.sources


WRONG = [
    ("nodes/edge/devcie", "board", "devcie", "unknown field (did you mean 'device'?)"),
    ("links/0/delay_ms", "2ms", "delay_ms", "expected a number in milliseconds, got '2ms'"),
    ("devices/board/memory_mb", "4 GB", "memory_mb", "expected a number in megabytes, got '4 GB'"),
    ("devices/board/memory_mb", True, "memory_mb", "expected a number in megabytes, got True"),
    ("nodes/edge/count", 1.5, "count", "expected a whole number, got 1.5"),
    ("nodes/edge/serving", "fifo", "serving", "expected 'queue' or 'shared', got 'fifo'"),
    ("nodes/edge/device", "bord", "device: bord", "unknown device 'bord' (did you mean 'board'?)"),
    ("deployments/0/variant", "w", "variant: w", "unknown variant 'w'"),
    ("workload/sources/a/model", "n", "model: n", "unknown model 'n'"),
    ("workload/sources/a/deadline_ms", "fast", "deadline_ms", "expected a number in milliseconds, got 'fast'"),
    ("workload/sources/a/deadline_ms", {"unifrom": [1, 2]}, "unifrom", "unknown field (did you mean 'uniform'?)"),
    ("workload/sources/a/deadline_ms", {"uniform": [1, 2], "exponential": 3}, "deadline_ms", "exactly one of uniform"),
    ("workload/sources/a/deadline_ms", -5, "deadline_ms", "deadline_ms must be above 0, got -5"),
    ("workload/sources/a/sites", {"x": 1}, "x: 1", "unknown site 'x'"),
    ("models/m/variants/v/accuracy", 90, "accuracy", "accuracy must lie in 0..1, got 90"),
    ("models/m/variants/v/memory_mb", 2000, "edge:", "its variants need 2000 MB and it has 1000 MB"),
    ("models/m/variants/v/latency", {}, "deployments", "'v' has no latency on 'board'"),
    ("links/0/delay_ms", float("inf"), "delay_ms", "delay_ms must be finite, got inf"),
    ("workload/sources/a/min_accuracy", 75, "min_accuracy", "min_accuracy must lie in 0..1, got 75"),
    ("workload/sources/a/deadline_ms", {"uniform": [9, 5]}, "uniform", "uniform takes the lower end first"),
    ("workload/sources/a/sites", {"s": 0}, "s: 0", "sites need weights of 0 or above, not all 0"),
    ("workload/duration_s", 1e12, "workload", "requests: more than 2e+07 don't fit into memory"),
    ("rules/window_ms", 1e-7, "window_ms", "windows: use longer ones"),
    ("links/0/delay_ms", 1e16, "delay_ms", "delay_ms must be at most 1e+15, got 1e+16"),
    ("models/m/variants/v/latency/board/base_ms", 1e-13, "base_ms", "base_ms must be at least 1e-12, got 1e-13"),
    ("models/m/variants/v/accuracy_sd", 1e16, "accuracy_sd", "accuracy_sd must be at most 1e+15"),
    ("devices/board/power_busy_w", float("inf"), "power_busy_w", "power_busy_w must be finite, got inf"),
    ("workload/sources/a/work", {"lognormal": [1, 1e16]}, "lognormal", "numbers must be at most 1e+15"),
    ("workload/sources/a/deadline_ms", {"choice": [], "weights": []}, "choice", "at least one value"),
    ("workload/sources/a/sites", {"s": float("inf")}, "s: .inf", "sites must be finite"),
    (
        "workload/sources/a/arrivals",
        {"process": "mmpp", "burst_mean_s": 1e-9, "assumed": True},
        "mmpp",
        "arrivals and bursts to draw: 1e+08 are possible",
    ),
    (
        "workload/sources/a/arrivals",
        {"process": "mmpp", "calm_mean_s": 1e6, "burst_mean_s": 1e-3, "burst_factor": 1e10, "assumed": True},
        "mmpp",
        "arrivals and bursts to draw",
    ),
    ("workload/sources/a/length_s", {"exponential": 1e12}, "workload", "requests: more than 2e+07"),
    ("deployments/0/servers", 10**9, "servers", "more than 1,000,000 servers in all"),
    ("deployments/0/batching", {"max": 2**31, "assumed": True}, "batching", "max must be at most 1,000,000"),
    ("nodes/edge/name", "other", "name: other", "leave it out, because the key 'edge' is the name"),
    ("links", [], "links", "no link from site 's' to node 'edge'"),
    ("links/0/to", "egde", "egde", "no node is called 'egde' (did you mean 'edge'?)"),
    ("deployments", [], "model: m", "model 'm' fits nowhere: none of its variants is deployed on any node"),
    ("nodes/edge/serving", "shared", "devices", "node 'edge' is shared: its device needs a degradation"),
    ("devices/board/power_busy_w", 0.5, "power_busy_w", "power_busy_w must be at least power_idle_w"),
    ("link_changes", [{"at_s": 1, "up": False, "assumed": True}], "link_changes", "never ends"),
]


@pytest.mark.parametrize(("path", "value", "at", "message"), WRONG)
def test_what_is_wrong_is_said_in_one_line_with_file_and_line(
    tmp_path: Path, path: str, value: Any, at: str, message: str
) -> None:
    file = small(tmp_path, path, value)
    text = error_of(file)
    assert message in text
    assert text.startswith(f"{file}:")
    assert abs(int(text.removeprefix(f"{file}:").split(":")[0]) - line_of(file, at)) <= 1


@pytest.mark.parametrize(
    ("many", "what"), [("nodes", "links from sites and nodes to nodes"), ("link_changes", "changes of a link each")]
)
def test_a_scenario_that_is_too_large_is_refused_at_once(tmp_path: Path, many: str, what: str) -> None:
    edge = {"device": "board", "assumed": True}
    changes = [{"at_s": i, "delay_ms": 1, "assumed": True} for i in range(2000)]
    made = {
        "nodes": {"nodes": {"edge": edge} | {f"n{i}": edge for i in range(3000)}},
        "link_changes": {"nodes": {"edge": edge} | {f"n{i}": edge for i in range(100)}, "link_changes": changes},
    }
    base = Path(small(tmp_path))
    (tmp_path / "large.yaml").write_text(yaml.safe_dump({"extends": base.stem} | made[many]))
    assert f" {what}: at most 4,000,000 are possible" in error_of(str(tmp_path / "large.yaml"))


def test_thousands_of_nodes_and_links_are_checked_in_seconds(tmp_path: Path) -> None:
    sites, nodes = [f"s{i}" for i in range(300)], [f"n{i}" for i in range(700)]
    link = {"delay_ms": 1, "assumed": True}
    large = {
        "extends": Path(small(tmp_path)).stem,
        "nodes": {name: {"device": "board", "assumed": True} for name in nodes},
        "links": [{"from": "*", "to": name, **link} for name in ("edge", *nodes)]
        + [{"from": s, "to": "n1*", **link} for s in sites],
        "link_changes": [{"at_s": 1, "from": site, "delay_ms": 9, "assumed": True} for site in sites],
        "workload": {"sites": ["s", *sites]},
    }
    (tmp_path / "large.yaml").write_text(yaml.safe_dump(large))
    began = time.process_time()
    plan = build_plan(load(str(tmp_path / "large.yaml")))
    assert time.process_time() - began < 20  # three seconds; pair by pair it was many minutes
    assert plan.links.shape == (301 + 701, 701)
    assert len(plan.changes) == 300 * 701


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    assert "the field 'base_ms' is missing" in error_of(
        small(tmp_path, "models/m/variants/v/latency/board/base_ms", drop=True)
    )
    assert "the field 'workload' is missing" in error_of(small(tmp_path, "workload", drop=True))


def test_numbers_without_a_source_are_refused(tmp_path: Path) -> None:
    text = error_of(small(tmp_path, "devices/board/assumed", drop=True))
    assert "devices.board: its numbers need 'source: ...' or 'assumed: true'" in text


def test_broken_yaml_and_double_keys_give_their_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("title: x\nnodes: [1, 2\nlinks: 3\n")
    assert error_of(str(file)).startswith(f"{file}:3: not valid YAML")
    file.write_text("title: x\ntitle: y\n")
    assert error_of(str(file)) == f"{file}:2: title is given twice"
    file.write_text("- 1\n")
    assert "a scenario is a map of sections" in error_of(str(file))
    file.write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in error_of(str(file))


def test_extending_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for wrong in ("5", "[3]", "null", "{a: 1}"):
        file.write_text(f"title: x\nextends: {wrong}\n")
        assert error_of(str(file)).startswith(f"{file}:2: extends: expected the name of a scenario")
    (tmp_path / "other.yaml").write_text("extends: mine\n")
    file.write_text("extends: ../" + tmp_path.name + "/other\n")
    assert error_of(str(file)).endswith("other.yaml:1: extends: 'mine' extends this file in turn")
    file.write_text("title: x\nextends: mine\n")
    assert error_of(str(file)) == f"{file}:2: extends: it extends itself"
    file.write_text("title: x\nextends: mine.yaml\n")
    told = f"{file}:2: extends: expected the name of a scenario without its ending, got 'mine.yaml'"
    assert error_of(str(file)) == told
    file.write_text("title: x\nextends: [ecsrl, ecsrl]\n")
    assert error_of(str(file)) == f"{file}:2: extends: 'ecsrl' is named twice"
    for n in range(9):  # each is extended by two, so that the last is read 512 times
        (tmp_path / f"left-{n}.yaml").write_text(f"extends: [left-{n + 1}, right-{n + 1}]\n")
        (tmp_path / f"right-{n}.yaml").write_text(f"extends: [left-{n + 1}, right-{n + 1}]\n")
    (tmp_path / "left-9.yaml").write_text("title: x\n")
    (tmp_path / "right-9.yaml").write_text("title: x\n")
    assert "more than 50 files in all" in error_of(str(tmp_path / "left-0.yaml"))


def test_a_file_can_extend_the_shipped_scenario_of_its_own_name(tmp_path: Path) -> None:
    file = tmp_path / "ecsrl.yaml"
    file.write_text("extends: ecsrl\ntitle: mine\nworkload: {rate_per_min: 1e3}\n")
    assert load(str(file)).workload.rate_per_min == 1000
    assert load("ecsrl", ["rate=2e3"]).workload.rate_per_min == 2000


def test_unknown_names_suggest_the_nearest() -> None:
    assert "unknown scenario 'full_edge' (did you mean 'full-edge'?)" in error_of("full_edge")
    assert "No such file" in error_of("nowhere.yaml")


def test_overrides_reach_short_names_and_paths() -> None:
    s = load("full-edge", ["rate=90", "dispatch=request", "nodes.dc.count=8", "links.3.delay_ms=30"])
    assert (s.workload.rate_per_min, s.rules.dispatch, s.nodes["dc"].count) == (90, "request", 8)
    assert s.links[3].delay_ms == 30


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rate", "expected key=value"),
        ("rat=3", "unknown field (did you mean 'rate'?)"),
        ("rate=fast", "workload.rate_per_min: expected a number in arrivals a minute, got 'fast'"),
        ("rate=0", "rate_per_min must be above 0, got 0"),
        ("nodes.dcc.count=3", "nothing at 'dcc' (did you mean 'dc'?)"),
        ("nodes.dc.cont=3", "unknown field (did you mean 'count'?)"),
        ("links.99.delay_ms=1", "links has the entries 0..15, not 99"),
    ],
)
def test_wrong_overrides_are_named(override: str, message: str) -> None:
    text = error_of("full-edge", override)
    assert text.startswith("--set ")
    assert message in text


def test_a_trace_is_found_beside_its_scenario_and_checked_at_load(tmp_path: Path) -> None:
    (tmp_path / "arrivals.csv").write_text("time_s,deadline_ms\n0.5,40\n0.25,40\n")
    file = small(tmp_path, "workload/sources/a/arrivals", {"process": "trace", "file": "arrivals.csv", "assumed": True})
    assert error_of(file).startswith(f"{tmp_path / 'arrivals.csv'}:3: time_s must not go back")
