"""Paths that a user names and that lead nowhere: links in a circle, names that are too long, folders that have gone.

Each is wrong input: one line that names the path, and exit code 2. Nothing is run or written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.cli.main import main
from fairlead.domain.errors import UserError
from fairlead.measure.write_files import check_different, check_writable, write_whole

LOOP = "Too many levels of symbolic links"
LONG = "n" * 5000
TOO_LONG = "File name too long"
NO_FOLDER = "Not a directory"
GONE = "the working folder no longer exists; change to another one"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with two links that point to each other, one to itself, and a file."""
    (tmp_path / "a.yaml").symlink_to("b")
    (tmp_path / "b").symlink_to("a.yaml")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that wrong input gets."""
    assert main(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert line.startswith("fairlead: ")
    return line


CIRCLES = [
    ("report a.yaml", "a.yaml: this path can't be used"),
    ("report a.yaml -o x.html", "a.yaml: this path can't be used"),
    ("report file -o loop", "loop: this path can't be used"),
    ("compare ecsrl --json a.yaml", "a.yaml: this path can't be used"),
    ("compare ecsrl --report loop/x.html", "loop/x.html: this path can't be used"),
    ("compare ecsrl --checkpoint loop", "loop: this path can't be used"),
    ("sweep ecsrl --param rate --values 1,2 --checkpoint loop", "loop: this path can't be used"),
    ("tune tapfinger-3 --json loop", "loop: this path can't be used"),
    ("detect --json --output loop", "loop: this path can't be used"),
    ("show a.yaml", "a.yaml: can't read it"),
]


@pytest.mark.parametrize(("arguments", "words"), CIRCLES)
def test_links_that_lead_in_a_circle(
    arguments: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(arguments, capsys) == f"fairlead: {words}: {LOOP}"
    assert sorted(os.listdir(here)) == ["a.yaml", "b", "file", "loop"]


def test_links_that_lead_in_a_circle_are_told_whatever_the_version_of_python(here: Path) -> None:
    """From 3.13 on, `resolve` returns them as they are: they must not be replaced by what is written."""
    for refuse in (check_writable, lambda path: write_whole(path, "text"), lambda path: check_different({"-o": path})):
        for path in (Path("loop"), here / "loop" / "x", Path("nowhere/../loop")):
            with pytest.raises(UserError, match=f"this path can't be used: {LOOP}"):
                refuse(path)
    assert (here / "loop").is_symlink()


NAMES = [
    "report {}",
    "report file -o {}",
    "report file --plots {}",
    "compare {}",
    "compare {}.yaml",
    "compare ecsrl --json {}",
    "compare ecsrl --report {}.html",
    "compare ecsrl --plots {}",
    "compare ecsrl --log {}",
    "compare ecsrl --checkpoint {}",
    "compare ecsrl --policies {}",
    "compare ecsrl --policies ./{}",
    "compare tapfinger-3 --policies ./{}",
    "sweep ecsrl --param rate --values 1,2 --json {}",
    "tune tapfinger-3 --json {}",
    "explain ecsrl --policy ./{} --at 1",
    "train aset --scenario ecsrl --out {}",
    "train tapfinger --scenario tapfinger-3 --out {}",
    "train tapfinger --scenario tapfinger-3 --world {}",
    "detect --root {}",
    "detect --catalog {}",
    "detect --json --output {}",
    "show {}",
    "show {}.yaml",
    "profile {}",
    "profile {}.onnx",
    "predict {} --all",
    "predict mobilenet-v2 --device ./{}",
    "calibrate --output {}.json",
    "trace ./{} --cpu 1 --out out",
    "trace convnet --cpu 1 --out {}",
    "degradation measure {}",
    "degradation simulate ecsrl --json {}",
]


@pytest.mark.parametrize("arguments", NAMES)
def test_a_name_that_is_too_long_is_wrong_input_wherever_it_is_given(
    arguments: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(arguments.format(LONG), capsys)
    assert "n" * 90 in line  # it is named
    assert "n" * 201 not in line  # and cut
    assert sorted(os.listdir(here)) == ["a.yaml", "b", "file", "loop"]


def test_a_path_below_a_file_is_wrong_input(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ("compare ecsrl --checkpoint file/x", "compare ecsrl --json file/x", "report file/x"):
        assert refusal(arguments, capsys).endswith(f": {NO_FOLDER}")


def test_the_longest_name_that_a_file_can_have_is_written(here: Path) -> None:
    """The temporary file beside it has a shorter name."""
    for name in ("n" * 255, "\N{GRINNING FACE}" * 63):
        check_writable(Path(name))
        write_whole(Path(name), "text")
        assert (here / name).read_text() == "text"
    assert len(os.listdir(here)) == 6


@pytest.mark.parametrize(
    "arguments",
    [
        "report x.json",
        "compare ecsrl --json x.json",
        "compare ecsrl --checkpoint kept",
        "sweep ecsrl --param rate --values 1,2",
        "trace ./x.py --cpu 1 --out out",
        "detect --root .",
    ],
)
def test_a_working_folder_that_has_gone(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder := tmp_path / "d").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert refusal(arguments, capsys).endswith(GONE)
