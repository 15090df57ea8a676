"""Files that scenarios name: traces of arrivals (CSV, Parquet), curves of progress (CSV), throughputs (JSON)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from random import Random
from typing import Any

from ..mutate import NUMBERS, WORDS, changed_bytes, changed_text, changed_tree
from ..target import Target, command, compile_first, word
from .scenario import SHIPPED

_ARRIVALS = {
    "time_s": [0.0, 0.25, 0.5, 1.0, 1.5], "stream": ["a", "b", "a", "c", "b"], "size_kb": [1.0, 2.5, 3.0, 4.0, 1.0],
    "deadline_ms": [100.0, 50.0, 100.0, 75.0, 80.0], "min_accuracy": [0.0, 0.5, 0.7, 0.6, 0.1],
    "site": ["site-1", "site-1", "site-2", "site-2", "site-1"],
}  # fmt: skip
_SERVING = """\
extends: full-edge
workload:
  duration_s: 2
  sources:
    traced: {model: detection, tenant: t, sla: s, deadline_ms: 100, min_accuracy: 0.1, assumed: true,
             arrivals: {process: trace, file: FILE, assumed: true}}
"""
_GAVEL = """\
extends: tapfinger-3
types:
  a: {share: 0, minimum: {cpu: 1, gpu: 1}, assumed: true,
      speed: {form: gavel, file: FILE, job: J, gpu: k80, total_steps: 1000, resource: gpu, assumed: true}}
"""
_THROUGHPUTS = {"k80": {f"('J', {n})": {"null": 5.0 * n, "('K', 1)": [1.0, 2.0]} for n in (1, 2, 4)}}


class TraceTarget(Target):
    """See the module."""

    name = "trace"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        compile_first()

    def make(self, random: Random, folder: Path) -> None:
        """One of the formats, changed, and a scenario that names it."""
        form = random.choice(("csv", "csv", "parquet", "parquet", "curves", "gavel"))
        if form == "curves":
            for path in (SHIPPED / "tasks").iterdir():
                (folder / path.name).write_bytes(path.read_bytes())
            content = (SHIPPED / "tasks" / "testbed.csv").read_bytes()
            (folder / "testbed.csv").write_bytes(changed_text(random, content))
            (folder / "case.yaml").write_text("extends: tapfinger-testbed-3\n")
            return
        ending = {"csv": "csv", "parquet": "parquet", "gavel": "json"}[form]
        text = _GAVEL if form == "gavel" else _SERVING
        (folder / "case.yaml").write_text(text.replace("FILE", f"case.{ending}"))
        content = {"csv": _csv, "parquet": _parquet, "gavel": _gavel}[form](random)
        (folder / f"case.{ending}").write_bytes(content)

    def run(self, random: Random, folder: Path) -> str:
        """Show it, and sometimes run it."""
        code, _ = command(["show", "case.yaml"])
        if code == 0 and random.random() < 0.3:
            tasks = "curves" if (folder / "testbed.csv").exists() else (folder / "case.json").exists()
            policies = "min" if tasks else "closest"
            few = ["--set", "tasks=20"] if tasks else ["--set", "rate=10"]
            code, _ = command(["compare", "case.yaml", *few, "--policies", policies, "--seeds", "1", "--no-bound"])
            return "run" if code == 0 else "refused to run"
        return word(code)


def _csv(random: Random) -> bytes:
    columns = dict(_ARRIVALS) if random.random() < 0.5 else _changed_columns(random)
    rows = zip(*(map(str, column) for column in columns.values()), strict=False)
    lines = [",".join(map(str, columns)), *(",".join(row) for row in rows)]
    text = random.choice(("\n", "\n", "\r\n")).join(lines).encode("utf-8", "surrogatepass") + b"\n"
    return changed_text(random, text) if random.random() < 0.8 else text


def _parquet(random: Random) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns = dict(_ARRIVALS) if random.random() < 0.4 else _changed_columns(random)
    content = io.BytesIO()
    try:
        names, arrays = list(columns), [pyarrow.array(column) for column in columns.values()]
        names += random.choice(([], [], names[:1]))
        table = pyarrow.table([*arrays, *arrays][: len(names)], names=names)
        options = {
            "compression": random.choice(("snappy", "gzip", "zstd", "none")),
            "use_dictionary": random.random() < 0.5,
        }
        pyarrow.parquet.write_table(table, content, **options)
    except (pyarrow.ArrowException, UnicodeEncodeError, OverflowError, TypeError):
        pyarrow.parquet.write_table(pyarrow.table(_ARRIVALS), content)
        return changed_bytes(random, content.getvalue())
    return changed_bytes(random, content.getvalue()) if random.random() < 0.6 else content.getvalue()


def _changed_columns(random: Random) -> dict[str, list[Any]]:
    columns = {name: list(values) for name, values in _ARRIVALS.items() if name == "time_s" or random.random() < 0.7}
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(list(columns))
        odd = random.choice((random.choice(NUMBERS), random.choice(WORDS), None, [1.0], {"a": 1}, b"\xff", True))
        change = random.randrange(5)
        if change == 0:
            columns[name] = [odd] * 5
        elif change == 1:
            columns[name] = [odd if row == random.randrange(5) else value for row, value in enumerate(columns[name])]
        elif change == 2:
            columns[random.choice((*WORDS, "Time_s", "time_s "))] = columns.pop(name)
        elif change == 3:
            columns |= {f"column {i}": [1] * 5 for i in range(random.choice((1, 2000)))}
        else:
            columns = {other: values * random.choice((0, 1, 200)) for other, values in columns.items()}
    return columns


def _gavel(random: Random) -> bytes:
    if random.random() < 0.4:
        return changed_text(random, json.dumps(_THROUGHPUTS).encode())
    return json.dumps(changed_tree(random, _THROUGHPUTS)).encode()
