"""Runs the cases of a target in a worker, watches it, keeps what fails, and sums up in one line."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT_S = 10.0
LIMIT_MB = 2048
FAILURES = {"traceback": "tracebacks", "death": "deaths", "hang": "hangs", "memory": "over memory"}
_BUSY = 6  # on a machine that does other things, a case has so many times as long before it counts as hanging
_START_S = 600.0  # a worker may have to compile first
_TREE = Path(__file__).parents[2]


@dataclass
class Result:
    """What came of a target's cases."""

    target: str
    seed: int
    seconds: float = 0.0
    cases: int = 0
    words: Counter[str] = field(default_factory=Counter)  # how often they were taken, refused and the like
    failures: list[dict[str, Any]] = field(default_factory=list)  # with `failure`, one of FAILURES
    peak_mb: float = 0.0

    def __str__(self) -> str:
        counts = Counter(one["failure"] for one in self.failures)
        figures = ", ".join(f"{counts[failure]} {name}" for failure, name in FAILURES.items())
        went = ", ".join(f"{count} {word}" for word, count in sorted(self.words.items()))
        return (
            f"{self.target}: {self.cases} cases in {self.seconds:.0f} s (seed {self.seed}): {figures}; "
            f"{went or 'nothing ended'}; peak {self.peak_mb:.0f} MB"
        )


def fuzz(
    target: str,
    seed: int,
    seconds: float,
    cases: int | None = None,
    first: int = 0,
    failures: Path | None = None,
    limit_s: float = LIMIT_S,
) -> Result:
    """Run cases for so many seconds, and no more than so many. Files of failures go into a folder of that name."""
    result, number = Result(target, seed), first
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{target}-") as home:
        worker = _Worker(target, seed, Path(home))
        began = time.monotonic()  # what a worker needs to start, and maybe to compile, is no time of cases
        try:
            while time.monotonic() - began < seconds and (cases is None or result.cases < cases):
                worker.begin(number)
                went = worker.wait(limit_s)
                result.cases += 1
                result.words.update([went["word"]] if went.get("word") else [])
                result.peak_mb = max(result.peak_mb, went.get("peak_mb", 0.0))
                if "failure" in went:
                    result.failures.append(went | {"number": number})
                    _keep(failures, Path(home) / "case", f"{target}-{seed}-{number}", went)
                    if went["failure"] != "traceback":
                        worker.kill()
                        worker = _Worker(target, seed, Path(home))
                number += 1
        finally:
            worker.kill()
    result.seconds = time.monotonic() - began
    return result


def _keep(failures: Path | None, case: Path, name: str, failure: dict[str, Any]) -> None:
    if failures is None:
        return
    kept = failures / name
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    if case.is_dir():
        shutil.copytree(case, kept / "files", symlinks=True, ignore=_special)
    (kept / "failure.txt").write_text(f"{failure['failure']}\n{failure.get('traceback', failure.get('error', ''))}\n")
    print(f"{name}: {failure['failure']}: {failure.get('error', '')[:300]}", flush=True)


def _special(folder: str, names: list[str]) -> list[str]:
    """Pipes and the like, which can't be copied."""
    paths = [Path(folder, name) for name in names]
    return [path.name for path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())]


class _Worker:
    """A process that runs cases."""

    def __init__(self, target: str, seed: int, home: Path) -> None:
        read, write = os.pipe()
        command = [sys.executable, "-m", f"{__package__}.worker", target, str(seed), str(home), str(write)]
        tree = _TREE if __package__ == "tests.fuzz" else _TREE / "tests"  # as pytest finds it
        environment = os.environ | {"XDG_DATA_HOME": str(home / "data")}
        self._errors = (home / "worker.log").open("wb")
        self._process = subprocess.Popen(
            command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=self._errors, stderr=self._errors,
            pass_fds=[write], start_new_session=True, text=True,
        )  # fmt: skip
        os.close(write)
        self._answers, self._log = os.fdopen(read), home / "worker.log"
        if not self._answered(_START_S) or not self._answers.readline():
            self.kill()
            raise RuntimeError(f"the worker does not start: {self._log.read_text(errors='replace')[-2000:]}")

    def begin(self, number: int) -> None:
        """Have it run a case."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()

    def wait(self, limit_s: float) -> dict[str, Any]:
        """How the case went; `failure` is there where it failed."""
        began, processor_s = time.monotonic(), self._processor_s()
        while not self._answered(0.5):
            took = time.monotonic() - began
            if took > limit_s and (self._processor_s() - processor_s > limit_s / 2 or took > _BUSY * limit_s):
                return {"failure": "hang", "error": f"no end after {took:.0f} s"}
        line = self._answers.readline()
        if not line:
            code = self._process.wait()
            return {"failure": "death", "error": f"ended with {code}: {self._log.read_text(errors='replace')[-500:]}"}
        made: dict[str, Any] = json.loads(line)
        if made["error"]:
            made["failure"] = "traceback"
        elif made["peak_mb"] > LIMIT_MB:
            made |= {"failure": "memory", "error": f"{made['peak_mb']:.0f} MB"}
        return made

    def kill(self) -> None:
        """End it, and what it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._answers.close()
        self._errors.close()

    def _answered(self, seconds: float) -> bool:
        return bool(select.select([self._answers], [], [], seconds)[0])

    def _processor_s(self) -> float:
        """What it and its children have used."""
        ticks = os.sysconf("SC_CLK_TCK")
        return sum(sum(map(int, fields[11:15])) / ticks for fields in _family(self._process.pid))


def _family(pid: int) -> Iterator[list[str]]:
    """What /proc/N/stat says behind the name, of a process and those that it has started."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if pid in (int(stat.parent.name), int(fields[1])):
                yield fields
