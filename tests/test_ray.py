"""Comparisons on a real Ray cluster of two nodes on this machine: the same bytes, whoever dies on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairlead.experiments.fingerprint import difference, ingredients
from fairlead.experiments.ray_workers import _task
from fairlead.experiments.trial import Trial
from fairlead.scenarios.loader import load
from processes import started

SOURCES = Path(__file__).parent.parent / "src"
QUESTION = ["compare", "ecsrl", "--set", "duration_s=5", "--seeds", "4", "--policies", "closest,waits-once"]

# A policy whose first decision of all never ends: its process is to be killed. It tells its id in the file MARK.
PLUGIN = '''
import os, time
from fairlead.policies.interface import policy

@policy("waits-once", kind="python")
def waits_once(request, candidates, excluded, u):
    """The first feasible one."""
    if not os.path.exists(MARK):
        with open(f"{MARK}.{os.getpid()}", "w") as file:
            file.write(str(os.getpid()))
        try:
            os.link(file.name, MARK)
        except FileExistsError:
            pass  # another process is the first
        else:
            time.sleep(600)
    return excluded.tolist().index(0) if (excluded == 0).any() else -1
'''


@dataclass(frozen=True)
class Cluster:
    """What the tests need of it."""

    address: str
    mark: Path  # see PLUGIN; a run that finds it there is an ordinary one
    path: str  # the PYTHONPATH of its nodes


def install(site: Path, name: str, module: str) -> None:
    """A package of one policy, as pip would leave it."""
    information = site / f"{name}_policies-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-policies\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[fairlead.policies]\n{name} = {name}_policies:{name}_once\n")
    (site / f"{name}_policies.py").write_text(module)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    ray_cluster = pytest.importorskip("ray.cluster_utils")
    site = tmp_path_factory.mktemp("site")
    mark = site / "mark"
    mark.write_text("0")
    install(site, "waits", f"MARK = {str(mark)!r}\n{PLUGIN}")
    path = os.pathsep.join([str(site), str(SOURCES)])
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", path)
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        nodes = ray_cluster.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            nodes.add_node(num_cpus=1)
            nodes.wait_for_nodes()
            yield Cluster(nodes.address, mark, path)
        finally:
            nodes.shutdown()


def comparing(path: str, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return started([sys.executable, "-m", "fairlead", *arguments], env=os.environ | {"PYTHONPATH": path})


def fairlead(path: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    with comparing(path, *arguments) as process:
        stdout, stderr = process.communicate(timeout=200)
        return process.returncode, stdout, stderr


def eventually(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    late = time.monotonic() + 100
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < late
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The document of a comparison in one process."""
    file = tmp_path_factory.mktemp("whole") / "out.json"
    assert fairlead(cluster.path, *QUESTION, "--jobs", "1", "--json", str(file))[0] == 0
    assert json.loads(file.read_bytes())["complete"] is True
    return file.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["--jobs", "--ray"])
def test_two_processes_and_a_cluster_give_the_same_bytes(
    cluster: Cluster, whole: bytes, tmp_path: Path, where: str
) -> None:
    file = tmp_path / "out.json"
    value = "2" if where == "--jobs" else cluster.address
    code, _, stderr = fairlead(cluster.path, *QUESTION, where, value, "--json", str(file))
    assert (code, stderr) == (0, f"figures written to {file}\n")  # nothing of Ray's own
    assert file.read_bytes() == whole


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_result(cluster: Cluster, whole: bytes, tmp_path: Path) -> None:
    file, kept = tmp_path / "out.json", tmp_path / "kept.jsonl"
    cluster.mark.unlink()
    options = ["--ray", cluster.address, "--json", str(file), "--checkpoint", str(kept)]
    with comparing(cluster.path, *QUESTION, *options) as process:
        eventually(cluster.mark.exists, process)
        os.kill(int(cluster.mark.read_text()), signal.SIGKILL)
        _, stderr = process.communicate(timeout=100)
        assert process.returncode == 0, stderr
    assert [line for line in stderr.splitlines() if str(tmp_path) not in line] == []
    assert file.read_bytes() == whole
    assert len(kept.read_bytes().splitlines()) == 1 + 4  # each trial once


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(cluster: Cluster, tmp_path: Path) -> None:
    out, kept = tmp_path / "out.json", tmp_path / "kept.jsonl"
    question = ["compare", "ecsrl", "--set", "duration_s=10", "--seeds", "5000", "--policies", "closest"]
    files = ["--json", str(out), "--checkpoint", str(kept)]
    with comparing(cluster.path, *question, "--ray", cluster.address, *files) as process:
        eventually(lambda: kept.exists() and kept.read_bytes().count(b"\n") > 3, process)
        os.killpg(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=100)
        assert process.returncode == 130, stderr
    seeds = len(json.loads(out.read_text())["scenarios"]["ecsrl"]["seeds"])
    assert 3 <= seeds == len(kept.read_bytes().splitlines()) - 1
    assert (
        f"interrupted; {seeds} of 5,000 trials are finished and shown; run the same command again to resume" in stderr
    )


@pytest.mark.slow
def test_a_cluster_with_other_code_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    shutil.copytree(SOURCES / "fairlead", tmp_path / "fairlead")
    with (tmp_path / "fairlead" / "sim" / "serving" / "engine.py").open("a") as source:
        source.write("# changed\n")
    path = os.pathsep.join([str(tmp_path), cluster.path])
    code, stdout, stderr = fairlead(path, *QUESTION, "--ray", cluster.address)
    assert (code, stdout) == (2, "")
    assert stderr.startswith("fairlead: the Ray worker on ")
    assert " would not give the same results: code is " in stderr
    assert len(stderr.splitlines()) == 1


def test_what_differs_is_named() -> None:
    here = ingredients(Trial("ecsrl", load("ecsrl"), 0, ("closest",)))
    assert difference(here) == ""
    assert difference(here | {"fairlead": "9.9"}) == f"fairlead is {here['fairlead']} there and 9.9 here"
    assert difference(here | {"numba": "9.9"}) == f"numba is {here['numba']} there and 9.9 here"
    assert "policy closest is " in difference(here | {"policy closest": "other"})
    assert difference(here | {"trace /nowhere.csv": "other"}).startswith("/nowhere.csv: can't read it")


@pytest.mark.slow
def test_a_policy_that_the_cluster_lacks_is_named(cluster: Cluster, tmp_path: Path) -> None:
    install(tmp_path, "news", "MARK = '/'" + PLUGIN.replace("waits", "news"))
    path = os.pathsep.join([str(tmp_path), cluster.path])
    code, stdout, stderr = fairlead(path, *QUESTION, "--policies", "news-once", "--ray", cluster.address)
    assert (code, stdout) == (2, "")
    assert "the Ray worker on " in stderr
    assert "unknown policy 'news-once'" in stderr
    assert len(stderr.splitlines()) == 1


def test_a_worker_without_fairlead_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ingredients(Trial("ecsrl", load("ecsrl"), 0, ("closest",)))
    monkeypatch.setitem(sys.modules, "fairlead.experiments.fingerprint", None)  # importing it raises ImportError
    answer = _task()(b"", wanted)
    assert isinstance(answer, str)
    assert f"has no fairlead {wanted['fairlead']}: " in answer


def test_without_ray_there_is_one_line_on_how_to_get_it() -> None:
    code = "import sys; sys.modules['ray'] = None; import fairlead.cli.main as m; sys.exit(m.main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, *QUESTION, "--ray", "auto"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fairlead: --ray needs Ray: pip install ray\n"
