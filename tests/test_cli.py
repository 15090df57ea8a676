"""The command: fast to start, light to import, one clear line and exit code 2 on wrong input."""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import pytest

from fairlead.cli.main import _RUN, _parser, main
from processes import alive, children, started

FAIRLEAD = [sys.executable, "-m", "fairlead"]


def fairlead(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FAIRLEAD, *arguments], capture_output=True, text=True, timeout=300, **options)


WRONG = [
    (["compar"], "unknown command 'compar' (did you mean 'compare'?)"),
    (["compare"], "SCENARIO"),
    (["compare", "fulledge"], "unknown scenario 'fulledge' (did you mean 'full-edge'?)"),
    (["compare", "full-edge", "full-edge"], "two scenarios are called 'full-edge'"),
    (["compare", "full-edge", "--policies", "closst"], "unknown policy 'closst' (did you mean 'closest'?)"),
    (["compare", "full-edge", "--policies", "ruels,ecsrl"], "unknown policy 'ruels' (did you mean 'rules'?)"),
    (["compare", "full-edge", "--policies", ","], "--policies: names are missing"),
    (
        ["compare", "full-edge", "--seeds", "0"],
        "--seeds: expected a whole number from 1 to 1,000,000, got '0'",
    ),
    (
        ["compare", "full-edge", "--seeds", "many"],
        "expected a whole number from 1 to 1,000,000, got 'many'",
    ),
    (["compare", "full-edge", "--seeds", "9" * 5000], "expected a whole number from 1 to 1,000,000, got '99999"),
    (["compare", "full-edge", "--jobs", "0"], "argument --jobs: expected a whole number from 1 to 10,000, got '0'"),
    (
        ["compare", "full-edge", "--sets", "rate=1"],
        "unknown option --sets (did you mean '--set'?) (see fairlead co",
    ),
    (
        ["predict", "m.onnx", "--devise=x"],
        "unknown option --devise (did you mean '--device'?) (see fairlead ",
    ),
    (["degradation", "simulate", "ecsrl", "--zzz"], "unknown option --zzz (see fairlead degradation simulate --help)"),
    (["show", "ecsrl", "-x"], "unknown argument -x (see fairlead show --help)"),
    (["scenarios", "ecsrl"], "unknown argument ecsrl (see fairlead scenarios --help)"),
    (["--zzz"], "unrecognized arguments: --zzz (see fairlead --help)"),
    (
        ["sweep", "ecsrl", "full-edge", "--param", "rate", "--values", "1"],
        "sweep takes one SCENARIO, and full-edge is one more (see fairlead sweep --help)",
    ),
    (["compare", "full-edge", "--set", "rat=1"], "unknown field (did you mean 'rate'?)"),
    (
        ["compare", "full-edge", "--set", "unknown=1"],
        "(known: admit, assumed, dispatch, duration_s, offload_",
    ),
    (["compare", "full-edge", "--json", "/nowhere/out.json"], "the folder /nowhere does not exist"),
    (["compare", "full-edge", "--first-seed", "-1"], "argument --first-seed: expected a whole number from 0 to 2,147"),
    (["compare", "full-edge", "--first-seed", "2147483647"], "--first-seed 2147483647: expected all seeds below 2^31"),
    (["compare", "full-edge", "--jobs", "2", "--ray", "auto"], "argument --ray: not allowed with argument --jobs"),
    (["compare", "full-edge", "--ray", "local"], "--ray local: expected host:port, auto or ray://host:port"),
    (["compare", "full-edge", "--ray", f"{'a' * 5000}:1"], ":1: no Ray cluster answers there"),
    (["compare", "full-edge", "--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: no Ray cluster answers there"),
    (["compare", "full-edge", "--checkpoint", "/nowhere/kept"], "/nowhere/kept: can't keep the checkpoint there"),
    (["compare", "full-edge", "--checkpoint", "x.json", "--json", "x.json"], "x.json: --json and --checkpoint need"),
    (["compare", "full-edge", "--log", ""], "--log: a name is missing"),
    (
        ["compare", "full-edge", "--log", "logs", "--checkpoint", "kept"],
        "--log can't be used with --checkpoint: finished",
    ),
    (["compare", "full-edge", "--log", "logs", "--ray", "auto"], "--log can't be used with --ray: each machine would"),
    (["compare", "tapfinger-3", "--log", "logs"], "--log: tasks have no decision log; requests do"),
    (["compare", "full-edge", "--log", "/proc/logs"], "/proc/logs: can't make this folder"),
    (["sweep", "full-edge"], "the following arguments are required: --param, --values"),
    (["sweep", "full-edge", "--param", "rat", "--values", "1,2"], "--param rat: unknown field (did you mean 'rate'?)"),
    (["sweep", "full-edge", "--param", "rate", "--values", "20,20"], "--values 20,20: rate=20 is given twice"),
    (["sweep", "full-edge", "--param", "rate", "--values", "1,x"], "--param rate=x: workload.rate_per_min: expected"),
    (["compare", "ecsrl", "--set", "rate=1e12"], "fairlead: --set rate=1e12: workload: about 5e+12 requests: more"),
    (["show", "dc-clod"], "unknown scenario 'dc-clod' (did you mean 'dc-cloud'?)"),
    (["show", "ecsrl", "--set", "workload.duration_s=5 min"], "expected a number in seconds, got '5 min'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_input_gets_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    done = fairlead(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.startswith("fairlead: ")
    assert len(done.stderr.splitlines()) == 1
    assert max(map(len, done.stderr.split())) <= 210  # what was typed is cut where it is long


def typed_options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a command, and of those below it, whose text is turned into something else."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from typed_options(below)
        elif action.type is not None:
            yield action


def test_every_option_for_a_number_says_what_it_expects() -> None:
    options = list(typed_options(_parser()))
    assert len(options) > 30
    for option in options:
        assert callable(option.type)
        for text in ("abc", "", "x" * 5000):
            with pytest.raises(argparse.ArgumentTypeError, match=r"^expected a .*number.*, got '") as error:
                option.type(text)
            assert len(str(error.value)) < 200
        if option.default is not None:
            assert option.type(str(option.default)) == option.default


def test_help_comes_in_under_half_a_second_and_has_examples() -> None:
    """Of processor time, which tests beside this one don't lengthen."""
    best = 9.0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = fairlead("--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "fairlead compare full-edge" in done.stdout
    assert best < 0.5


def test_the_cli_imports_neither_numba_nor_what_it_does_not_need() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'gymnasium', 'kubernetes', 'lightkube', 'stable_baselines3', 'ray'):\n"
        "    sys.modules[name] = None\n"  # importing any of them now raises ImportError
        "import fairlead.cli, fairlead.cli.main\n"
        "heavy = {'numba', 'numpy', 'scipy', 'pydantic', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "import fairlead.cli.experiments.compare, fairlead.cli.catalog.listing\n"
        "import fairlead.sim.serving.run_policy, fairlead.sim.reference.serving\n"
        "print('imported')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


def test_scenarios_policies_and_show_tell_what_there_is() -> None:
    scenarios, policies, show = fairlead("scenarios"), fairlead("policies"), fairlead("show", "ecsrl")
    assert (scenarios.returncode, policies.returncode, show.returncode) == (0, 0, 0)
    for name in ("full-edge", "co-dc-cloud", "dc-cloud", "aset-testbed", "latency-minority", "shifting", "ecsrl"):
        assert name in scenarios.stdout
    for name in ("closest", "random-proportional-load", "least-expected-completion", "least-energy-in-time"):
        assert name in policies.stdout
    assert "31 assumptions" in show.stdout
    assert re.search(r"NVIDIA GA102 whitepaper\s+│ devices.rtx-3080 ", show.stdout)
    assert "devices.jetson-nano: power_idle_w, price_per_h" in show.stdout


def test_show_gives_the_share_of_the_rate_where_shares_do_not_add_up_to_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "full-edge"]) == 0
    assert "of the rate" not in capsys.readouterr().out
    assert main(["show", "full-edge", "--set", "workload.sources.*.share=1"]) == 0
    assert capsys.readouterr().out.count("1 (25 % of the rate)") == 4


def test_compare_shows_a_table_and_writes_json(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = fairlead(
        "compare",
        "ecsrl",
        "--set",
        "duration_s=5",
        "--policies",
        "closest,farthest",
        "--seeds",
        "2",
        "--json",
        str(out),
    )
    assert done.returncode == 0, done.stderr
    assert "2 paired seeds" in done.stdout
    for word in ("closest", "farthest", "behind", "rejected, %", "energy per", "success, mJ", "gold, %", "assumed:"):
        assert word in done.stdout
    assert json.loads(out.read_text())["scenarios"]["ecsrl"]["seeds"] == [0, 1]
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


SEEDS = 5000  # more than anyone waits for


@contextmanager
def comparing(out: Path, jobs: str, finished: int) -> Iterator[subprocess.Popen[str]]:
    """A long comparison whose progress bar has shown that many finished trials."""
    command = [*FAIRLEAD, "compare", "ecsrl", "--set", "duration_s=20", "--seeds", str(SEEDS), "--json", str(out)]
    terminal = {"FORCE_COLOR": "1", "TTY_INTERACTIVE": "1", "COLUMNS": "150"}  # the bar as in a terminal
    with started([*command, "--jobs", jobs], env=os.environ | terminal) as process:
        assert process.stderr is not None
        seen = ""
        while not any(int(n) >= finished for n in re.findall(rf"(\d+)/{SEEDS}", seen)):
            character = process.stderr.read(1)
            assert character, f"it ended early: {seen[-300:]}"
            seen += character
        yield process


def kept(process: subprocess.Popen[str], out: Path, exit_code: int, why: str) -> int:
    """How many seeds a comparison kept that was stopped; checks that it says so."""
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == exit_code, stderr
    assert "Traceback" not in stderr
    document = json.loads(out.read_text())
    seeds = len(document["scenarios"]["ecsrl"]["seeds"])
    assert document["complete"] is False
    are = "is" if seeds == 1 else "are"
    keep = "with --checkpoint FILE they would be kept, and the same command would resume"
    assert f"fairlead: {why}; {seeds} of {SEEDS:,} trials {are} finished and shown; {keep}\n" in stderr
    assert f"{seeds} paired seeds" in stdout
    return seeds


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [c for c in children(process.pid) if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


def test_sigterm_does_the_same_and_leaves_no_worker_behind(tmp_path: Path) -> None:
    with comparing(tmp_path / "out.json", "2", finished=3) as process:
        workers = workers_of(process)
        process.terminate()
        assert 3 <= kept(process, tmp_path / "out.json", 130, "interrupted") < SEEDS
        assert len(workers) == 2
        assert not any(map(alive, workers))


def test_json_can_go_to_standard_output() -> None:
    done = fairlead("compare", "ecsrl", "--set", "duration_s=5", "--policies", "closest", "--seeds", "2", "--json", "-")
    assert json.loads(done.stdout)["scenarios"]["ecsrl"]["best"] == "closest"
    assert "2 paired seeds" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["show", "full-edge"]])
def test_a_reader_that_has_gone_is_no_error(arguments: list[str]) -> None:
    """As `fairlead show full-edge | head -1` is."""
    with started([*FAIRLEAD, *arguments]) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert (process.communicate(timeout=100)[1], process.returncode) == ("", 0)


def test_a_reader_that_has_gone_does_not_cost_the_file(tmp_path: Path) -> None:
    question = ["compare", "ecsrl", "--set", "duration_s=5", "--policies", "closest", "--seeds", "2"]
    with started([*FAIRLEAD, *question, "--json", "out.json"], cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.communicate(timeout=100)
        assert process.returncode == 0
    assert json.loads((tmp_path / "out.json").read_text())["complete"] is True


def test_the_progress_bar_says_that_it_compiles_and_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.progress import Progress

    from fairlead.cli.experiments.run_comparison import ProgressTeller
    from fairlead.policies import compile_cache

    question = argparse.Namespace(command="sweep", ray=None)
    for cached, words in ((True, "sweeping"), (False, "compiling the engine (first run; about a minute)")):
        monkeypatch.setattr(compile_cache._config, "CACHE_DIR", str(tmp_path))
        (tmp_path / "serving_1").mkdir(exist_ok=True)
        index = tmp_path / "serving_1" / "handle._advance_worlds-1.py311.nbi"
        index.touch() if cached else index.unlink()
        bar = Progress(disable=True)
        tell = ProgressTeller(bar, question, Path("kept.jsonl"))
        tell(12, 60)
        assert bar.tasks[0].description == words
        tell(13, 60)
        assert (bar.tasks[0].description, bar.tasks[0].completed, bar.tasks[0].total) == ("sweeping", 13, 60)
    assert capsys.readouterr().err == 2 * "12 of 60 trials are already finished (kept.jsonl)\n"


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_numbers_are_never_cut_whatever_the_terminal(columns: int) -> None:
    policies = "closest,random-proportional-latency"
    question = ["compare", "ecsrl", "--set", "duration_s=5", "--policies", policies, "--seeds", "2"]
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(columns), "NO_COLOR": "1"}
    code = (
        "import sys; import fairlead.cli.main as m; m.prepare(); sys.stdout.isatty = lambda: True; sys.exit(m.main())"
    )
    command = [sys.executable, "-c", code, *question]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    assert "…" not in plain
    assert re.search(r"random-proportional-latency +│ +\d+\.\d+ ± \d+\.\d+ +│", plain)
    for heading in ("success, %", "late, %", "inaccurate, %", "rejected, %", "success, mJ"):
        assert plain.count(heading) == 1


@pytest.mark.parametrize("place", _RUN.values())
def test_every_command_is_where_the_command_line_looks_for_it(place: str) -> None:
    module, _, function = place.partition(":")
    assert callable(getattr(import_module(f"fairlead.cli.{module}"), function))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_keeps_the_finished_runs_and_says_so(tmp_path: Path, jobs: str) -> None:
    with comparing(tmp_path / "out.json", jobs, finished=1) as process:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        assert 1 <= kept(process, tmp_path / "out.json", 130, "interrupted") < SEEDS


def test_a_killed_worker_costs_no_finished_run(tmp_path: Path) -> None:
    with comparing(tmp_path / "out.json", "2", finished=3) as process:
        os.kill(workers_of(process)[0], signal.SIGKILL)
        why = "a worker process was killed (out of memory? try fewer --jobs)"
        assert 3 <= kept(process, tmp_path / "out.json", 1, why) < SEEDS


@pytest.mark.parametrize("ignored", [False, True])
def test_ctrl_c_ends_any_command_however_it_was_started(ignored: bool, tmp_path: Path) -> None:
    with started([*FAIRLEAD, "detect", "--watch", "--root", str(tmp_path)], sigint_ignored=ignored) as process:
        assert process.stdout is not None
        assert "no accelerator so far" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0  # there is no other end


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "ecsrl", "--json", "a.html", "--report", "a.html"], "--json and --report need a file each"),
        (
            ["compare", "ecsrl", "--report", "b.html", "--checkpoint", "b.html"],
            "--report and --checkpoint need a file each",
        ),
        (["compare", "ecsrl", "--report", "out.pdf"], "its name should end in .html"),
        (["sweep", "ecsrl", "--param", "rate", "--values", "20:120"], "the step is missing"),
        (["compare", "ecsrl", "--report", ""], "--report: a name is missing"),
        (["compare", "ecsrl", "--seeds", "99999999999999999999"], "--seeds"),
        (["compare", "ecsrl", "--plots", "taken/plots"], "taken/plots: can't make this folder"),
        (["report", "taken", "-o", "taken"], "the result and -o need a file each"),
        (["sweep", "ecsrl", "--param", "rate", "--values", "nan:1:1"], "expected start:stop:step"),
        (["sweep", "ecsrl", "--param", "rate", "--values", "1:2:1e-999"], "more than 1000 values"),
        (["sweep", "ecsrl", "--param", "rate", "--values", "2024-01-01"], "expected a number in arrivals a minute"),
    ],
)
def test_what_would_destroy_or_can_not_be_is_refused_before_any_work(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("{}")
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert (tmp_path / "taken").read_text() == "{}"
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*FAIRLEAD, "scenarios"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "fairlead: standard output: No space left on device\n")
