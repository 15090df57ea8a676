"""Traces: what is read from CSV and Parquet, and the one line that says what is wrong with a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from fairlead.domain.errors import UserError
from fairlead.scenarios.arrival_traces import read_trace

SITES = ("east", "west")
COLUMNS: dict[str, list[Any]] = {
    "time_s": [0.0, 0.5, 0.5, 2.0],
    "stream": [7, 12, 7, 12],
    "size_kb": [1.0, 2.5, 3.0, 4.0],
    "deadline_ms": [100.0, 50.0, 100.0, 75.0],
    "min_accuracy": [0.0, 0.5, 0.75, 1.0],
    "site": ["west", "east", "east", "west"],
}


def csv_file(folder: Path, columns: dict[str, list[Any]] = COLUMNS) -> str:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    return text_file(folder, "\n".join(lines) + "\n")


def text_file(folder: Path, text: str | bytes) -> str:
    path = folder / "trace.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def parquet_file(folder: Path, columns: dict[str, list[Any]] = COLUMNS) -> str:
    path = str(folder / "trace.parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


@pytest.mark.parametrize("write", [csv_file, parquet_file])
def test_all_columns_are_read(tmp_path: Path, write: Any) -> None:
    trace = read_trace(write(tmp_path), 10.0, SITES)
    assert trace.time_s.tolist() == COLUMNS["time_s"]
    assert {name: values.tolist() for name, values in trace.columns.items()} == {
        name: COLUMNS[name] for name in ("size_kb", "deadline_ms", "min_accuracy")
    }
    assert trace.stream is not None
    assert trace.stream.tolist() == [1, 0, 1, 0]  # '12' comes before '7'
    assert trace.site is not None
    assert trace.site.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("write", [csv_file, parquet_file])
def test_time_alone_is_enough(tmp_path: Path, write: Any) -> None:
    trace = read_trace(write(tmp_path, {"time_s": [1, 2]}), 10.0, SITES)
    assert trace.time_s.tolist() == [1.0, 2.0]
    assert (trace.columns, trace.stream, trace.site) == ({}, None, None)


@pytest.mark.parametrize("write", [csv_file, parquet_file])
def test_rows_from_the_duration_on_are_cut(tmp_path: Path, write: Any) -> None:
    trace = read_trace(write(tmp_path), 2.0, SITES)
    assert trace.time_s.tolist() == [0.0, 0.5, 0.5]
    assert trace.columns["size_kb"].tolist() == [1.0, 2.5, 3.0]
    assert trace.stream is not None
    assert trace.stream.tolist() == [1, 0, 1]
    assert trace.site is not None
    assert trace.site.tolist() == [1, 0, 0]


def test_spaces_around_column_names_and_numbers_do_not_matter(tmp_path: Path) -> None:
    trace = read_trace(text_file(tmp_path, "time_s, size_kb\r\n1 , 2\r\n"), 10.0, SITES)
    assert trace.columns["size_kb"].tolist() == [2.0]


def complaint(file: str) -> str:
    """What the user is told, without the folder: one line."""
    with pytest.raises(UserError) as error:
        read_trace(file, 10.0, SITES)
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert message.startswith(file)
    return message[len(file) - len(Path(file).name) :]


WRONG = {
    "no time": ("size_kb,site\n1,east\n", "trace.csv: the column time_s is missing (has: size_kb, site)"),
    "near column": ("time_s,deadline\n1,2\n", "trace.csv: unknown column 'deadline' (did you mean 'deadline_ms'?)"),
    "far column": (
        "time_s,qqq\n1,2\n",
        "trace.csv: unknown column 'qqq' (known: deadline_ms, min_accuracy, site, size_kb, stream, time_s)",
    ),
    "unsorted": (
        "time_s\n1\n3\n2.5\n4\n",
        "trace.csv:4: time_s must not go back: 2.5 after 3 (sort the file by time_s)",
    ),
    "not a number": ("time_s,size_kb\n1,2\n2,big\n", "trace.csv:3: size_kb must be a number, got 'big'"),
    "nothing": ("time_s,size_kb\n1,\n", "trace.csv:2: size_kb must be a number, got ''"),
    "not finite": ("time_s\n1\n2\nnan\n", "trace.csv:4: time_s must be finite, got 'nan'"),
    "infinite": ("time_s,deadline_ms\n1,inf\n", "trace.csv:2: deadline_ms must be finite, got 'inf'"),
    "negative time": ("time_s\n-1\n2\n", "trace.csv:2: time_s must be 0 or above, got -1"),
    "negative size": ("time_s,size_kb\n1,1\n2,-3\n", "trace.csv:3: size_kb must be above 0, got -3"),
    "huge size": ("time_s,size_kb\n1,1e308\n", "trace.csv:2: size_kb must be 1e-12 to 1e+15, got 1e+308"),
    "no deadline": ("time_s,deadline_ms\n1,0\n", "trace.csv:2: deadline_ms must be above 0, got 0"),
    "short row": ("time_s,size_kb\n1,2\n3\n", "trace.csv:3: 1 values, the header has 2 columns"),
    "long row": ("time_s\n1\n2,3\n", "trace.csv:3: 2 values, the header has 1 columns"),
    "empty": ("", "trace.csv: the column time_s is missing (has: none)"),
    "header only": ("time_s,size_kb\n", "trace.csv: no rows"),
    "near site": ("time_s,site\n1,east\n2,wst\n", "trace.csv:3: unknown site 'wst' (did you mean 'west'?)"),
    "far site": ("time_s,site\n1,moon\n", "trace.csv:2: unknown site 'moon' (known: east, west)"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_wrong_csv_is_told_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(text_file(tmp_path, text)) == message


def test_negative_accuracy_is_told_with_its_true_bound(tmp_path: Path) -> None:
    file = text_file(tmp_path, "time_s,min_accuracy\n1,0\n2,-0.5\n")
    assert complaint(file) == "trace.csv:3: min_accuracy must be in 0..1, got -0.5"


def test_byte_order_mark_does_not_matter(tmp_path: Path) -> None:
    trace = read_trace(text_file(tmp_path, b"\xef\xbb\xbftime_s\n1\n"), 10.0, SITES)
    assert trace.time_s.tolist() == [1.0]


def test_column_that_comes_twice_is_told(tmp_path: Path) -> None:
    assert "size_kb" in complaint(text_file(tmp_path, "time_s,size_kb,size_kb\n1,2,3\n"))


def test_binary_file_is_no_csv(tmp_path: Path) -> None:
    assert complaint(text_file(tmp_path, b"time_s\n\xff\xfe\x00\n")).startswith("trace.csv: not a CSV text file: ")


def test_missing_file_is_told(tmp_path: Path) -> None:
    assert complaint(str(tmp_path / "none.csv")) == "none.csv: can't read it: No such file or directory"


def test_folder_is_no_trace(tmp_path: Path) -> None:
    assert complaint(str(tmp_path)).endswith(": can't read it: it is a folder, not a file")


def test_missing_parquet_file_is_told(tmp_path: Path) -> None:
    assert complaint(str(tmp_path / "none.parquet")).startswith("none.parquet: can't read it: ")


@pytest.mark.parametrize("content", [b"time_s\n1\n2\n3\n", b""])
def test_parquet_file_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.parquet"
    path.write_bytes(content)
    assert complaint(str(path)).startswith("trace.parquet: can't read it as Parquet: ")


WRONG_PARQUET: dict[str, tuple[dict[str, list[Any]], str]] = {
    "no time": ({"size_kb": [1.0]}, "trace.parquet: the column time_s is missing (has: size_kb)"),
    "unsorted": (
        {"time_s": [1.0, 0.5]},
        "trace.parquet:3: time_s must not go back: 0.5 after 1 (sort the file by time_s)",
    ),
    "null": ({"time_s": [1.0, None]}, "trace.parquet:3: time_s must be a number, got None"),
    "words": ({"time_s": ["soon"]}, "trace.parquet:2: time_s must be a number, got 'soon'"),
    "site": ({"time_s": [1.0], "site": ["wst"]}, "trace.parquet:2: unknown site 'wst' (did you mean 'west'?)"),
}


@pytest.mark.parametrize(("columns", "message"), WRONG_PARQUET.values(), ids=WRONG_PARQUET)
def test_wrong_parquet_is_told_in_one_line(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    assert complaint(parquet_file(tmp_path, columns)) == message
