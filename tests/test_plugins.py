"""Policies of third parties, through the real command: the example package, then policies that misbehave.

A broken policy costs one line on standard error that names it, never a traceback and never the figures of the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.domain.outcomes import Reason
from fairlead.domain.records import CANDIDATE, REQUEST

EXAMPLE = Path(__file__).parent.parent / "examples" / "02-policy-plugin"
TASKS = ("compare", "tapfinger-3", "--set", "tasks=16", "--seeds", "2", "--jobs", "1")
QUESTION = ("compare", "ecsrl", "--set", "duration_s=5", "--seeds", "2", "--jobs", "1")


# ---- running the command


def command(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def fairlead(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command with the packages of `site` installed."""
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [command("fairlead"), *arguments], env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def listing(output: str) -> dict[str, list[str]]:
    """The rows of `fairlead policies` by name: [what it does, source, kind, package]."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if "│" in line]
    return {name: rest for name, *rest in rows if name}


def lines_about(name: str, text: str) -> list[str]:
    return [line for line in text.splitlines() if f"'{name}'" in line]


def figures(file: Path, policy: str) -> Any:
    return json.loads(file.read_text())["scenarios"]["ecsrl"]["policies"][policy]


# ---- the example


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where the example is installed."""
    site = tmp_path_factory.mktemp("example")
    install = [command("uv"), "pip", "install", "--quiet", "--offline", "--no-cache", "--python", sys.executable]
    options = ["--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*install, *options, str(EXAMPLE)], check=True, timeout=300)
    return site


def test_the_policies_of_the_example_are_listed(example):
    result = fairlead(example, "policies")
    assert (result.returncode, result.stderr) == (0, "")
    found = listing(result.stdout)
    assert found["most-accurate-in-time"][2:] == ["compiled", "fairlead-example-policies"]
    assert found["tenant-affinity"][2:] == ["python", "fairlead-example-policies"]
    assert found["closest"][2:] == ["compiled", "fairlead"]
    assert found["first-come"][2:] == ["compiled", "", "fairlead-example-policies"]
    assert found["min"][2:] == ["compiled", "", "fairlead"]


def test_the_policies_of_the_example_are_compared(example, tmp_path):
    file = tmp_path / "out.json"
    names = "most-accurate-in-time,tenant-affinity,closest"
    result = fairlead(example, *QUESTION, "--policies", names, "--json", str(file))
    assert result.returncode == 0, result.stderr
    for name in names.split(","):
        assert name in result.stdout
        assert 0.0 < figures(file, name)["figures"]["success"]["mean"] <= 1.0
        assert len(figures(file, name)["by_seed"]["success"]) == 2


def test_the_task_policy_of_the_example_is_compared(example, tmp_path):
    file = tmp_path / "out.json"
    result = fairlead(example, *TASKS, "--policies", "first-come,min", "--json", str(file))
    assert (result.returncode, result.stderr) == (0, f"figures written to {file}\n")
    document = json.loads(file.read_text())
    packages = {name: who["package"] for name, who in document["policies"].items()}
    assert packages == {"first-come": "fairlead-example-policies", "min": "fairlead"}
    policies = document["scenarios"]["tapfinger-3"]["policies"]
    assert 1.0 < policies["first-come"]["figures"]["completion_steps"]["mean"] < 100.0


@pytest.mark.slow
def test_the_policies_of_the_example_are_found_by_worker_processes(example, tmp_path):
    files = [tmp_path / f"jobs-{jobs}.json" for jobs in "12"]
    for jobs, file in zip("12", files, strict=True):
        question = (*QUESTION, "--jobs", jobs, "--policies", "most-accurate-in-time,tenant-affinity")
        assert fairlead(example, *question, "--json", str(file)).returncode == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def decide(name: str, deadline_ms: float, out: int, tenant: int = 0, **columns: Any) -> int:
    """The answer of a policy of the example when candidate `out` is excluded."""
    module = import_module("fairlead_example_policies")
    request, candidates = np.zeros(1, REQUEST).view(np.recarray), np.zeros(4, CANDIDATE).view(np.recarray)
    request.deadline_ms, request.tenant, candidates.suffered = deadline_ms, tenant, 1.0
    for field, column in columns.items():
        candidates[field] = column
    excluded = np.zeros(4, np.uint16)
    excluded[out] = Reason.NO_MEMORY
    return getattr(module, name).function(request[0], candidates, excluded, 0.5)


def test_most_accurate_in_time_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    # 2 d + processing: 2 * 5 + 20 = 30, 2 * 10 + 30 = 50, 2 * 20 + 30 = 70, an excluded 1.
    columns = {"net_ms": [5, 10, 20, 0], "proc_ms": [20, 30, 30, 1], "accuracy": [0.6, 0.7, 0.8, 0.9]}
    assert decide("most_accurate_in_time", 60.0, 3, **columns) == 1
    assert decide("most_accurate_in_time", 70.0, 3, **columns) == 2
    assert decide("most_accurate_in_time", 29.0, 3, **columns) == 0  # none in time: the fastest


def test_tenant_affinity_keeps_a_tenant_on_its_node_while_that_is_in_time(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    nodes = {"node": [0, 1, 2, 3]}
    homes = [decide("tenant_affinity", 50.0, 3, tenant, **nodes, proc_ms=[10, 20, 30, 1]) for tenant in range(40)]
    assert set(homes) == {0, 1, 2}  # tenants are spread over what is feasible, whatever is fastest there
    for tenant, home in enumerate(homes):
        slow = [60.0 if c == home else 10.0 for c in range(4)]  # 60 > 50: its node would be late
        assert decide("tenant_affinity", 50.0, 3, tenant, **nodes, proc_ms=slow) not in (home, 3)
        assert decide("tenant_affinity", 5.0, 3, tenant, **nodes, proc_ms=slow) == home  # none in time


# ---- misbehaving ones

MODULE = '''
from numba import njit

from fairlead.policies.interface import policy


@policy("good", kind="python")
def good(request, candidates, excluded, u):
    """The first feasible one."""
    return excluded.tolist().index(0)


@policy("raises-in-python", kind="python")
def raises_in_python(request, candidates, excluded, u):
    """Raises at its eleventh decision."""
    if request.seq == 10:
        raise RuntimeError("the cable is cut\\nand this is a second line")
    return excluded.tolist().index(0)


@policy("raises-compiled")
def raises_compiled(request, candidates, excluded, u):
    """Raises at its eleventh decision."""
    if request.seq == 10:
        raise ValueError("the cable is cut")
    for c in range(len(candidates)):
        if not excluded[c]:
            return c
    return -1


@policy("past-the-end-in-python", kind="python")
def past_the_end_in_python(request, candidates, excluded, u):
    """One too far."""
    return len(candidates)


@policy("past-the-end-compiled")
def past_the_end_compiled(request, candidates, excluded, u):
    """One too far."""
    return len(candidates)


@policy("negative", kind="python")
def negative(request, candidates, excluded, u):
    """An index from the end."""
    return -2


@policy("nothing", kind="python")
def nothing(request, candidates, excluded, u):
    """No answer."""


@policy("takes-excluded-in-python", kind="python")
def takes_excluded_in_python(request, candidates, excluded, u):
    """An excluded one as soon as there is one."""
    return int(excluded.argmax())


@policy("takes-excluded-compiled")
def takes_excluded_compiled(request, candidates, excluded, u):
    """An excluded one as soon as there is one."""
    for c in range(len(candidates)):
        if excluded[c]:
            return c
    return 0


@policy("does-not-compile")
def does_not_compile(request, candidates, excluded, u):
    """Numba has no sorting with a key of its own making over records."""
    return sorted(range(len(candidates)), key=lambda c: str(candidates[c]))[0]


@policy("exits", kind="python")
def exits(request, candidates, excluded, u):
    """Wants to end the process, with [/markup] in its summary."""
    raise SystemExit(0)


@policy("huge", kind="python")
def huge(request, candidates, excluded, u):
    """The largest index there is."""
    return 2**63 - 1


@policy("half", kind="python")
def half(request, candidates, excluded, u):
    """Between two candidates."""
    return 0.5


@policy("clears-the-bits")
def clears_the_bits(request, candidates, excluded, u):
    """Makes itself a feasible candidate."""
    excluded[0] = 0
    return 0


@policy("moves-the-deadline")
def moves_the_deadline(request, candidates, excluded, u):
    """Makes every answer one in time."""
    relax(request)
    return 0


@njit(cache=True)
def relax(request):
    request.deadline_ms = 1e9


@policy("misspells")
def misspells(request, candidates, excluded, u):
    """A field that candidates don't have."""
    return 0 if candidates[0].acuracy > 0.5 else 1


@policy("closest", kind="python")
def taken(request, candidates, excluded, u):
    """A name that Fairlead has."""
    return 0


def undecorated(request, candidates, excluded, u):
    return 0
'''

ENTRY_POINTS = """[fairlead.policies]
good = broken_policies:good
raises-in-python = broken_policies:raises_in_python
raises-compiled = broken_policies:raises_compiled
past-the-end-in-python = broken_policies:past_the_end_in_python
past-the-end-compiled = broken_policies:past_the_end_compiled
negative = broken_policies:negative
nothing = broken_policies:nothing
takes-excluded-in-python = broken_policies:takes_excluded_in_python
takes-excluded-compiled = broken_policies:takes_excluded_compiled
does-not-compile = broken_policies:does_not_compile
exits = broken_policies:exits
huge = broken_policies:huge
half = broken_policies:half
clears-the-bits = broken_policies:clears_the_bits
moves-the-deadline = broken_policies:moves_the_deadline
misspells = broken_policies:misspells
does-not-import = broken_import:anything
not-there = broken_policies:nobody
undecorated = broken_policies:undecorated
taken = broken_policies:taken
"""

# What each is reported for. The candidates are 4 in this scenario, and some are out of memory now and then.
FAILING = {
    "raises-in-python": "failed: RuntimeError: the cable is cut at ",
    "raises-compiled": "failed: ValueError: the cable is cut at ",
    "past-the-end-in-python": "chose index 4, of 4 candidates, for request 0 (",
    "past-the-end-compiled": "chose index 4, of 4 candidates, for request 0 (",
    "negative": "chose index -2, of 4 candidates, for request 0 (",
    "nothing": "failed: TypeError: ",
    "takes-excluded-in-python": ", which is excluded, for request ",
    "takes-excluded-compiled": ", which is excluded, for request ",
    "does-not-compile": "does not compile: ",
    "exits": "failed: SystemExit: 0 at ",
    "huge": "chose index 9223372036854775807, of 4 candidates, for request 0 (",
    "half": "failed: TypeError: 'float' object cannot be interpreted as an integer at ",
    "clears-the-bits": "does not compile: TypingError: ",
    "moves-the-deadline": "does not compile: TypeError: it writes to 'deadline_ms' of a record that it is shown",
    "misspells": "does not compile: KeyError: 'acuracy' (did you mean 'accuracy'?) at ",
}

# Entry point -> what is quoted in its line, and the line's end.
UNUSABLE = {
    "does-not-import": ("does-not-import", "did not load: RuntimeError: a library is missing"),
    "not-there": ("not-there", "did not load: AttributeError: module 'broken_policies' has no attribute 'nobody'"),
    "undecorated": ("undecorated", "is a function, not a @policy"),
    "taken": ("closest", "has a name that is taken"),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a package of misbehaving policies (and a good one) is installed."""
    site = tmp_path_factory.mktemp("broken")
    information = site / "broken_policies-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-policies\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "broken_policies.py").write_text(MODULE)
    (site / "broken_import.py").write_text('raise RuntimeError("a library is missing")\n')
    return site


@pytest.fixture(scope="module")
def untroubled(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The figures of `good` when no broken policy is run, which goes well though some are installed."""
    file = tmp_path_factory.mktemp("untroubled") / "out.json"
    result = fairlead(broken, *QUESTION, "--policies", "good", "--json", str(file))
    assert result.returncode == 0, result.stderr
    assert json.loads(file.read_text())["complete"] is True
    assert result.stderr == f"figures written to {file}\n"  # nothing of those that were not asked for
    return figures(file, "good")


def test_broken_policies_do_not_stop_the_listing(broken):
    result = fairlead(broken, "policies")
    assert result.returncode == 0
    found = listing(result.stdout)
    assert found["closest"][3] == "fairlead"
    assert {name for name, row in found.items() if "broken-policies" in row[3:4]} == {"good", *FAILING}
    expected = [f"fairlead: policy {quoted!r} of 'broken-policies' {what}" for quoted, what in UNUSABLE.values()]
    assert sorted(result.stderr.splitlines()) == sorted(expected)


@pytest.mark.parametrize("name", FAILING)
def test_a_policy_that_fails_is_named_and_the_figures_of_others_are_whole(name, broken, untroubled, tmp_path):
    file = tmp_path / "out.json"
    result = fairlead(broken, *QUESTION, "--policies", f"{name},good", "--json", str(file))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    (line,) = lines_about(name, result.stderr)
    assert line.startswith(f"fairlead: policy {name!r} ")
    assert FAILING[name] in line
    document = json.loads(file.read_text())
    assert document["complete"] is False
    assert list(document["failures"]) == [name]
    assert figures(file, "good") == untroubled


@pytest.mark.slow
def test_several_policies_that_fail_are_all_named(broken, untroubled, tmp_path):
    file = tmp_path / "out.json"
    names = ",".join([*FAILING, "good"])
    result = fairlead(broken, *QUESTION, "--policies", names, "--jobs", "2", "--json", str(file))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert [len(lines_about(name, result.stderr)) for name in FAILING] == [1] * len(FAILING)
    assert sorted(json.loads(file.read_text())["failures"]) == sorted(FAILING)
    assert figures(file, "good") == untroubled


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_policy_that_did_not_load_can_not_be_asked_for(name, broken, tmp_path):
    file = tmp_path / "out.json"
    result = fairlead(broken, *QUESTION, "--policies", f"{name},good", "--json", str(file))
    assert result.returncode == 2
    quoted, what = UNUSABLE[name]
    assert result.stderr.splitlines() == [f"fairlead: policy {quoted!r} of 'broken-policies' {what}"]
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not file.exists()


# ---- of tasks

TASK_MODULE = '''
from fairlead.domain.task_records import START
from fairlead.policies.interface import policy
from fairlead.policies.tasks.interface import task_policy


def place(snapshot, out, amounts):
    """Starts the first task that can start."""
    for p in range(len(snapshot.pending)):
        for n in range(len(snapshot.free)):
            if snapshot.excluded[p, n] == 0:
                out.rows[0] = (snapshot.pending["task"][p], n, START)
                out.amounts[0] = snapshot.minimum[snapshot.pending["type"][p]] if amounts is None else amounts
                return 1
    return 0


@task_policy("good", kind="python")
def good(snapshot, parameters, u, out):
    """The first that can start."""
    return place(snapshot, out, None)


@task_policy("scribbles", kind="python")
def scribbles(snapshot, parameters, u, out):
    """As the good one, then writes over what it was shown."""
    count = place(snapshot, out, None)
    for part in (snapshot.free, snapshot.capacity, snapshot.minimum, snapshot.most):
        part[...] = 0
    return count


@task_policy("raises-in-python", kind="python")
def raises_in_python(snapshot, parameters, u, out):
    raise RuntimeError("the cable is cut\\nand this is a second line")


@task_policy("raises-compiled")
def raises_compiled(snapshot, parameters, u, out):
    if len(snapshot.pending) > 1:
        raise ValueError("the cable is cut")
    return 0


@task_policy("exits", kind="python")
def exits(snapshot, parameters, u, out):
    raise SystemExit(0)


def cannot(facts):
    raise KeyError("speeds")


@task_policy("can-not-prepare", kind="python", prepare=cannot)
def can_not_prepare(snapshot, parameters, u, out):
    return 0


@task_policy("takes-too-much", kind="python")
def takes_too_much(snapshot, parameters, u, out):
    return place(snapshot, out, 1000)


@task_policy("too-many-in-python", kind="python")
def too_many_in_python(snapshot, parameters, u, out):
    return len(out.rows) + 1


@task_policy("too-many-compiled")
def too_many_compiled(snapshot, parameters, u, out):
    return len(out.rows) + 1


@task_policy("does-not-compile")
def does_not_compile(snapshot, parameters, u, out):
    return sorted(range(3), key=lambda n: str(snapshot))[0]


@task_policy("optimus", kind="python")
def taken(snapshot, parameters, u, out):
    return 0


@task_policy("tapfinger-3-agents", kind="python")
def taken_by_a_model(snapshot, parameters, u, out):
    return 0


@policy("of-requests", kind="python")
def of_requests(request, candidates, excluded, u):
    return 0
'''

FAILING_TASKS = {
    "raises-in-python": "failed: RuntimeError: the cable is cut at ",
    "raises-compiled": "failed: ValueError: the cable is cut at ",
    "exits": "failed: SystemExit: 0 at ",
    "can-not-prepare": "failed while it prepared: KeyError: 'speeds' at ",
    "takes-too-much": "can't start task 0 on cluster ",
    "too-many-in-python": "returned no number of placements from 0 to ",
    "too-many-compiled": "returned no number of placements from 0 to ",
    "does-not-compile": "does not compile: TypingError: ",
}

UNUSABLE_TASKS = {
    "not-there": ("not-there", "did not load: AttributeError: module 'broken_tasks' has no attribute 'nobody'"),
    "undecorated": ("undecorated", "is a function, not a @task_policy"),
    "of-requests": ("of-requests", "is a Policy, not a @task_policy"),
    "taken": ("optimus", "has a name that is taken"),
    "taken-by-a-model": ("tapfinger-3-agents", "has a name that is taken"),
}


@pytest.fixture(scope="module")
def broken_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where a package of misbehaving task policies (and two good ones) is installed."""
    site = tmp_path_factory.mktemp("broken-tasks")
    information = site / "broken_tasks-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-tasks\nVersion: 1.0\n")
    functions = {name: name.replace("-", "_") for name in ("good", "scribbles", *FAILING_TASKS, *UNUSABLE_TASKS)}
    functions |= {"not-there": "nobody", "undecorated": "place"}
    lines = [f"{name} = broken_tasks:{function}" for name, function in functions.items()]
    (information / "entry_points.txt").write_text("\n".join(["[fairlead.task_policies]", *lines]))
    (site / "broken_tasks.py").write_text(TASK_MODULE)
    return site


def test_task_policies_that_load_are_listed_and_others_reported(broken_tasks):
    result = fairlead(broken_tasks, "policies")
    assert result.returncode == 0
    rows = [row for row in listing(result.stdout).items() if "broken-tasks" in row[1][4:5]]
    assert {name for name, _ in rows} == {"good", "scribbles", *FAILING_TASKS}
    assert listing(result.stdout)["optimus"][4] == "fairlead"
    expected = [f"fairlead: policy {quoted!r} of 'broken-tasks' {what}" for quoted, what in UNUSABLE_TASKS.values()]
    assert sorted(result.stderr.splitlines()) == sorted(expected)


def test_task_policies_that_fail_are_named_and_the_figures_of_others_are_whole(broken_tasks, tmp_path):
    file = tmp_path / "out.json"
    names = ",".join(["good", "scribbles", *FAILING_TASKS, "min"])
    result = fairlead(broken_tasks, *TASKS, "--policies", names, "--json", str(file))
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    for name, what in FAILING_TASKS.items():
        (line,) = lines_about(name, result.stderr)
        assert f"policy {name!r} {what}" in line
    document = json.loads(file.read_text())
    assert sorted(document["failures"]) == sorted(FAILING_TASKS)
    whole = document["scenarios"]["tapfinger-3"]["policies"]
    assert sorted(whole) == ["good", "min", "scribbles"]
    assert whole["good"] == whole["scribbles"], "it was given copies"


@pytest.mark.parametrize("name", UNUSABLE_TASKS)
def test_a_task_policy_that_did_not_load_can_not_be_asked_for(name, broken_tasks):
    quoted, what = UNUSABLE_TASKS[name]
    result = fairlead(broken_tasks, *TASKS, "--policies", f"{name},min")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [f"fairlead: policy {quoted!r} of 'broken-tasks' {what}"]
    assert result.stdout == ""
