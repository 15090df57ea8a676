"""Standard output and error that are closed, full, gone or ASCII, and text that would steer a terminal or a page."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import main as command
from fairlead.cli.console import columns_table, console
from fairlead.cli.main import main
from fairlead.cli.standard_streams import note, say
from fairlead.domain.errors import UserError, error_line, one_line, printable
from fairlead.experiments.workers import noted_interrupts
from fairlead.measure.interrupts import STOPS, on_stop
from fairlead.measure.report.render import write_any_plots, write_any_report

FAIRLEAD = f"{sys.executable} -m fairlead"
SHORT = "compare ecsrl --set duration_s=5 --seeds 2 --policies closest"


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sh", "-c", line], cwd=folder, env=os.environ | variables, capture_output=True, timeout=300)


class TestStreams:
    @pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full", "2>&- 2</dev/null"])
    def test_what_is_closed_or_full_costs_no_result(self, closed: str, tmp_path: Path) -> None:
        done = shell(f"{FAIRLEAD} {SHORT} --json out.json {closed}", tmp_path)
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr
        assert json.loads((tmp_path / "out.json").read_text())["complete"] is True

    def test_a_file_does_not_get_what_is_told(self, tmp_path: Path) -> None:
        """The first file that is opened gets the lowest number that is free: that of standard error, were it closed."""
        done = shell(f"{FAIRLEAD} {SHORT} --checkpoint kept.jsonl >&- 2>&- <&-", tmp_path)
        assert done.returncode == 0
        header, *trials = (tmp_path / "kept.jsonl").read_text().splitlines()
        assert json.loads(header) == {"fairlead": "checkpoint"}
        assert [json.loads(trial)["seed"] for trial in trials] == [0, 1]

    def test_wrong_input_stays_wrong_when_nobody_can_be_told(self, tmp_path: Path) -> None:
        assert shell(f"{FAIRLEAD} show nothing >&- 2>&-", tmp_path).returncode == 2

    def test_who_reads_what_is_told_may_go(self, tmp_path: Path) -> None:
        first = shell(f"{FAIRLEAD} {SHORT} --checkpoint kept.jsonl", tmp_path)
        assert first.returncode == 0
        again = [*FAIRLEAD.split(), *SHORT.split(), "--checkpoint", "kept.jsonl", "--json", "out.json"]
        process = subprocess.Popen(again, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stderr is not None
        process.stderr.close()  # before "2 of 2 trials were finished before" is told
        assert b"closest" in process.communicate(timeout=300)[0]
        assert process.returncode == 0
        assert json.loads((tmp_path / "out.json").read_text())["complete"] is True

    def test_what_ascii_lacks_is_spelled_in_straight_tables(self, tmp_path: Path) -> None:
        done = shell(f"{FAIRLEAD} {SHORT}", tmp_path, PYTHONIOENCODING="ascii")
        assert (done.returncode, done.stderr) == (0, b"")
        lines = done.stdout.decode("ascii").splitlines()
        (row,) = (line for line in lines if line.startswith("| closest") and "+-" in line and "best" in line)
        heading = next(line for line in lines if line.startswith("| policy"))
        assert [i for i, c in enumerate(row) if c == "|"] == [i for i, c in enumerate(heading) if c == "|"]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert all(re.fullmatch(r"closest|best|\d+\.\d+ \+- \d+\.\d+", cell) for cell in cells), cells

    def test_a_file_name_that_is_no_text_can_be_told(self, tmp_path: Path) -> None:
        line = rf"""{FAIRLEAD} show "$(printf 'a\377\033[31m.yaml')" """
        for environment in ({}, {"PYTHONIOENCODING": "ascii"}):
            done = shell(line, tmp_path, **environment)
            assert done.returncode == 2
            assert done.stderr.startswith(rb"fairlead: a\udcff\x1b[31m.yaml: ")
            assert done.stderr.count(b"\n") == 1


EVIL = "\x1b[31mred\x9b\x07 \u202etxet\r\n"
SPELLED = r"\x1b[31mred\x9b\x07 \u202etxet\r\n"


class TestForeignText:
    def test_control_characters_are_spelled(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert printable(EVIL) == SPELLED
        assert printable("Straße, 3 ± 1 µs, \N{THUMBS UP SIGN}") == "Straße, 3 ± 1 µs, \N{THUMBS UP SIGN}"
        say(EVIL)
        note(EVIL)
        assert capsys.readouterr() == (SPELLED + "\n", SPELLED + "\n")

    def test_error_lines_print_and_end(self) -> None:
        assert error_line(UserError("unknown field '\ufeffrate'")) == r"unknown field '\ufeffrate'"
        line = error_line(UserError(f"begin {'a' * 100_000} end"))
        assert len(line) < 4000
        assert line.startswith("begin")
        assert line.endswith("end")

    def test_lines_and_tables_show_it_as_it_is(self, capsys: pytest.CaptureFixture[str]) -> None:
        table = columns_table("[bold]name[/bold]")
        table.add_row("[red]\x1b[31m[/red] :warning:")
        console().print(table)
        console().print("\x1b]0;title\x07 of a line\nand another")
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert "[bold]name[/bold]" in said
        assert r"[red]\x1b[31m[/red] :warning:" in said
        assert said.endswith("\\x1b]0;title\\x07 of a line\nand another\n")

    def test_brackets_of_a_scenario_are_no_markup(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        title = "[red]a[/red] [link=http://x]b[/link] :warning:"
        file = tmp_path / "mine.yaml"
        file.write_text(f"extends: ecsrl\ntitle: '{title}'\n")
        assert main(["show", str(file)]) == 0
        assert title in capsys.readouterr().out

    def test_an_error_of_numba_loses_its_colours(self) -> None:
        error = TypeError(
            "Failed in nopython mode pipeline (step: x)\n\x1b[1m\x1b[1mcannot add\x1b[0m a \x1b[1mfloat\x1b[0m"
        )
        assert one_line(error) == "TypeError: cannot add a float"

    def test_an_error_is_one_line(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        def wrong(arguments: list[str]) -> int:
            raise UserError(f"{EVIL}: no such file")

        monkeypatch.setattr(command, "_run", wrong)
        assert main([]) == 2
        assert capsys.readouterr().err == f"fairlead: {SPELLED}: no such file\n"

    def test_a_page_and_plots_show_it_as_it_is(self, tmp_path: Path) -> None:
        """vl-convert, which draws the plots, ends the process where a control character is in a text."""
        markup = '<img src=x onerror="alert(1)">'
        file = tmp_path / "out.json"
        assert main([*SHORT.split(), "--json", str(file)]) == 0
        document = json.loads(file.read_text())
        document = {key: renamed(value, EVIL + markup) for key, value in document.items()}
        before = json.loads(file.read_text())
        write_any_report(before, tmp_path / "before.html")
        write_any_report(document, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert page.count("<img") == (tmp_path / "before.html").read_text().count("<img")
        assert "&lt;img" in page
        assert not {"\x1b", "\x9b", "\x07"} & set(page)
        for plot in write_any_plots(document, tmp_path / "plots"):
            assert plot.suffix == ".png" or not {"<img", "\x1b"} & set(plot.read_text().split('"'))


def renamed(value: Any, evil: str) -> Any:
    """The document with this behind the names of its policy and its scenario, wherever they are."""
    names = {"closest", "ecsrl"}
    if isinstance(value, dict):
        return {key + evil if key in names else key: renamed(item, evil) for key, item in value.items()}
    if isinstance(value, list):
        return [renamed(item, evil) for item in value]
    return value + evil if value in names else value


@pytest.fixture
def signals_at_first() -> Iterator[None]:
    """Signals as a shell hands them on, also where the tests run under `nohup`."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOPS if number != signal.SIGINT}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals_at_first")
class TestSignals:
    @pytest.mark.parametrize("number", STOPS)
    def test_every_command_is_interrupted(
        self, number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = [signal.getsignal(one) for one in STOPS]
        monkeypatch.setattr(command, "_run", lambda _: signal.raise_signal(number))
        assert main([]) == 130
        assert capsys.readouterr().err == "fairlead: interrupted\n"
        assert [signal.getsignal(one) for one in STOPS] == before

    @pytest.mark.parametrize("number", STOPS)
    def test_comparisons_and_trainings_note_it(self, number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
        with noted_interrupts() as noted:
            assert not noted.is_set()
            signal.raise_signal(number)
            assert noted.is_set()
            signal.raise_signal(signal.SIGHUP)  # of a terminal that is closed there may be several
        assert capfd.readouterr().err == "\nfinishing what is under way; Ctrl-C again drops it\n"

    def test_a_second_ctrl_c_drops_what_is_under_way(self) -> None:
        with noted_interrupts():
            signal.raise_signal(signal.SIGTERM)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    def test_nohup_is_heeded(self) -> None:
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            with on_stop(signal.default_int_handler):
                signal.raise_signal(signal.SIGHUP)
                assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGHUP, before)
