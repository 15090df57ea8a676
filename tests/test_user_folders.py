"""Where caches and data go, who may own them, and what works without them: no home, a full disk, a read-only tree."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.measure.user_folders import temporary_folder, user_cache, user_data
from fairlead.policies import compile_cache
from fairlead.profile.predict.timed_devices import known_devices, shipped_devices
from fairlead.profile.zoo.models import find_model

PACKAGE = Path(compile_cache.__file__).parents[1]
NOBODY = 65534


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's cache; nothing is in it yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    return tmp_path / "cache" / "fairlead"


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and a user whom the system does not know."""
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)


def failing(error: OSError) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(("folder", "variable"), [(user_cache, "XDG_CACHE_HOME"), (user_data, "XDG_DATA_HOME")])
def test_a_relative_folder_of_xdg_is_ignored_as_its_specification_says(
    folder: Callable[[], Path], variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/there")
    assert folder() == Path("/there/fairlead")
    monkeypatch.delenv(variable)
    usual = folder()
    assert usual.is_relative_to(Path.home())
    for ignored in ("here", "./here", ""):
        monkeypatch.setenv(variable, ignored)
        assert folder() == usual


@pytest.mark.parametrize("home", ["", "here", "./here", "~"])
def test_a_home_that_is_empty_or_relative_is_none(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For `os.path.expanduser` an empty one is the root of the file system."""
    monkeypatch.setenv("HOME", home)
    for variable, folder in (("XDG_CACHE_HOME", user_cache), ("XDG_DATA_HOME", user_data)):
        monkeypatch.delenv(variable, raising=False)
        assert folder() is None
        monkeypatch.setenv(variable, "/there")
        assert folder() == Path("/there/fairlead")


class TestCompiledCode:
    def test_its_folder_is_closed_to_others(self, own_cache: Path) -> None:
        folder, why = compile_cache._open_cache()
        assert (folder, why) == (own_cache / f"compiled-{compile_cache.code_hash(*compile_cache._COMPILED_ROOMS)}", "")
        assert [stat.S_IMODE(made.stat().st_mode) for made in (own_cache, folder)] == [0o700, 0o700]
        assert compile_cache._open_cache() == (folder, "")

    @pytest.mark.parametrize("which", ["fairlead", "compiled"])
    @pytest.mark.parametrize("how", ["open", "another's"])
    def test_a_folder_that_others_can_write_to_is_not_trusted(self, which: str, how: str, own_cache: Path) -> None:
        folder, _ = compile_cache._open_cache()
        assert folder is not None
        (folder / "planted").touch()
        suspect = own_cache if which == "fairlead" else folder
        if how == "open":
            suspect.chmod(0o770)
        elif os.geteuid() == 0:
            os.chown(suspect, NOBODY, NOBODY)
        else:
            pytest.skip("needs root: gives a folder away")
        used, why = compile_cache._open_cache()
        assert why.startswith(
            f"others can write to {suspect}" if how == "open" else f"{suspect} belongs to another user"
        )
        assert used is not None
        assert list(used.iterdir()) == []
        assert stat.S_IMODE(used.stat().st_mode) == 0o700
        assert os.environ["NUMBA_CACHE_DIR"] == str(used)  # so that processes that are started here share it

    def test_what_can_be_read_alone_is_used_as_a_copy(self, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder, _ = compile_cache._open_cache()
        assert folder is not None
        (folder / "compiled").write_text("before")
        monkeypatch.setattr(tempfile, "TemporaryFile", failing(OSError(30, "Read-only file system")))
        used, why = compile_cache._open_cache()
        assert why == f"{folder}: Read-only file system"
        assert used is not None
        assert used != folder
        assert (used / "compiled").read_text() == "before"

    @pytest.mark.usefixtures("homeless")
    def test_without_a_home_it_lasts_as_long_as_the_process(self) -> None:
        folder, why = compile_cache._open_cache()
        assert folder is not None
        assert why == "there is no home folder"

    @pytest.mark.usefixtures("homeless")
    def test_where_nothing_can_be_written_it_is_kept_nowhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "mkdtemp", failing(FileNotFoundError(2, "No usable temporary directory")))
        assert compile_cache._open_cache() == (None, "there is no home folder")
        monkeypatch.setattr(compile_cache._config, "CACHE_DIR", "")
        assert not compile_cache.compiled_before()

    def test_the_command_says_why_it_compiles_each_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from fairlead.cli.experiments import run_comparison

        monkeypatch.setattr(run_comparison, "compiled_before", lambda: False)
        monkeypatch.setattr(run_comparison, "why_not_kept", "/home: Read-only file system")
        words = "compiling the engine (it is not kept: /home: Read-only file system; about a minute)"
        assert run_comparison.compiling() == words

    @pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
    def test_what_a_power_cut_has_left_is_compiled_anew(self, suffix: str, tmp_path: Path) -> None:
        assert hits_of_a_kernel(tmp_path) == 0
        assert hits_of_a_kernel(tmp_path) == 1
        (file,) = (tmp_path / "cache").rglob(f"*{suffix}")
        os.truncate(file, 7)
        assert hits_of_a_kernel(tmp_path) == 0
        assert hits_of_a_kernel(tmp_path) == 1

    def test_a_disk_that_is_full_costs_time_alone(self, tmp_path: Path) -> None:
        for _ in range(2):
            assert (
                hits_of_a_kernel(tmp_path, preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (0, 0))) == 0
            )


KERNEL = """
from fairlead.policies.jit import kernel

@kernel
def added(x, y):
    return x + y

assert added(1.0, 2.0) == 3.0
print(sum(added._cache_hits.values()))
"""


def hits_of_a_kernel(folder: Path, **options: object) -> int:
    """How often a fresh process found a kernel in the cache."""
    (folder / "kernel.py").write_text(KERNEL)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(folder / "kernel.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


class TestTemporaryFolder:
    CODE = "from fairlead.measure.user_folders import temporary_folder\nfolder = temporary_folder()\nprint(folder)\n"

    def test_it_is_gone_with_its_process_and_stays_when_a_fork_ends(self) -> None:
        fork = "import os\nif os.fork() == 0:\n    raise SystemExit\nos.wait()\nassert folder.is_dir()\n"
        done = subprocess.run([sys.executable, "-c", self.CODE + fork], capture_output=True, text=True, check=True)
        assert not Path(done.stdout.strip()).exists()

    def test_nobody_else_can_look_into_it(self) -> None:
        assert stat.S_IMODE(temporary_folder().stat().st_mode) == 0o700


@pytest.mark.usefixtures("homeless")
class TestWithoutAHome:
    def test_models_are_turned_into_onnx_for_as_long_as_the_process_lasts(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path, _ = find_model("efficientnet-lite0")
        assert path.is_file()
        assert path.is_relative_to(tempfile.gettempdir())
        assert main(["models", "efficientnet-lite0"]) == 2
        told = "fairlead: there is no home folder to keep the model in: set XDG_CACHE_HOME to a folder\n"
        assert capsys.readouterr().err == told

    def test_there_are_no_calibrations_and_none_is_made(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert known_devices() == shipped_devices()
        assert main(["calibrate"]) == 2
        told = "fairlead: there is no home folder to keep the calibration in: give --output FILE.json\n"
        assert capsys.readouterr().err == told


def as_nobody(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run as user 65534, who may read everything (the interpreter may lie in root's home) and write nothing of ours."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv: becomes user 65534")
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *reading]
    tree, temporary = folder / "tree" / "fairlead", folder / "tmp"
    if not tree.is_dir():
        shutil.copytree(PACKAGE, tree, ignore=shutil.ignore_patterns("__pycache__"))
        temporary.mkdir()
        temporary.chmod(0o1777)
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree.parent), "TMPDIR": str(temporary)} | environment
    return subprocess.run([*prefix, *command], cwd=folder, env=given, capture_output=True, text=True, timeout=1800)


FAIRLEAD = [sys.executable, "-m", "fairlead"]


class TestAsNobody:
    """User 65534 in a tree of root's."""

    def test_they_can_write_nowhere_but_in_the_temporary_folder(self, tmp_path: Path) -> None:
        code = (
            "import os, fairlead; there = os.path.dirname(fairlead.__file__); "
            "print(os.geteuid(), there, [os.access(p, os.W_OK) for p in ('.', there, os.path.expanduser('~'))])"
        )
        done = as_nobody([sys.executable, "-c", code], tmp_path, HOME="/nonexistent")
        assert done.stdout == f"{NOBODY} {tmp_path / 'tree' / 'fairlead'} [False, False, False]\n"

    @pytest.mark.parametrize(
        ("command", "environment"),
        [
            pytest.param("policies", {}, id="without HOME"),
            pytest.param("policies", {"HOME": "/nonexistent"}, id="HOME is missing"),
            pytest.param("compare full-edge --seeds 1", {"HOME": "/root"}, id="HOME is root's", marks=pytest.mark.slow),
        ],
    )
    def test_commands_work(self, command: str, environment: dict[str, str], tmp_path: Path) -> None:
        done = as_nobody([*FAIRLEAD, *command.split()], tmp_path, **environment)
        assert (done.returncode, done.stderr) == (0, "")
        assert "load-balancing" in done.stdout
        assert list((tmp_path / "tmp").iterdir()) == []  # nothing is left behind
