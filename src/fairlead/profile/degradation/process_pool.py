"""Models side by side: processes that each run a model, of which any number can be made to run or rest.

The parent's end of `model_process`. Knows processes, their memory and their times; `measurement` says what is to be
measured. Use as a context: no process is left behind. A process that dies is a RunError.
"""

from __future__ import annotations

import json
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairlead.domain.errors import RunError, UserError
from fairlead.domain.python_child import python_child
from fairlead.profile.analysis import Tensor

Mix = tuple[int, ...]  #: how many of each model run


@dataclass(frozen=True)
class RunnableModel:
    """A model and the inputs that it is run on."""

    name: str
    path: Path
    inputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Memory:
    """What one process takes, in MB: all of it, for the loaded model alone, and what runs add to that."""

    process_mb: float
    model_mb: float
    run_mb: float


class ProcessPool:
    """The processes, by model. They are started when they are first needed, and rest when they are not."""

    def __init__(self, models: Sequence[RunnableModel], threads: int = 1) -> None:
        self._models, self._threads = models, threads
        self._there: list[list[_Process]] = [[] for _ in models]  # by model; the first of them run, the rest rests
        self._running: Mix = (0,) * len(models)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._all():
            process.kill()

    def memory(self, model: int) -> Memory:
        """Of a model's first process, after its first runs."""
        self.rest()
        self._start(model, 1)
        told = self._there[model][0].memory
        run_mb = max(0.0, told["warm_mb"] - told["loaded_mb"])
        return Memory(told["warm_mb"], max(0.0, told["loaded_mb"] - told["bare_mb"]), run_mb)

    def missing(self, mix: Mix) -> list[int]:
        """The models of processes that this mix would need to start, each as often as that."""
        return [m for m, count in enumerate(mix) for _ in range(count - len(self._there[m]))]

    def alive(self) -> Mix:
        """How many processes of each model there are."""
        return tuple(map(len, self._there))

    def dismiss(self, mix: Mix) -> None:
        """End all but these."""
        self.run(tuple(map(min, self._running, mix)))
        for there, count in zip(self._there, mix, strict=True):
            for process in there[count:]:
                process.kill()
            del there[count:]

    def run(self, mix: Mix) -> None:
        """Have exactly these run, each past its first run. What must be started is started while all others rest."""
        if self.missing(mix):
            self.rest()
            for model, count in enumerate(mix):
                self._start(model, count)
        for model, count in enumerate(mix):
            stopping = self._there[model][count : self._running[model]]
            starting = self._there[model][self._running[model] : count]
            for process, word in [*((p, "rest") for p in stopping), *((p, "run") for p in starting)]:
                process.say(do=word)
            for process in (*stopping, *starting):
                process.hear()
        self._running = mix

    def rest(self) -> None:
        """Have nothing run."""
        self.run((0,) * len(self._models))

    def mark(self) -> None:
        """Count runs from now on."""
        for process in self._active():
            process.say(do="mark")

    def wait(self, seconds: float) -> None:
        """Let them run for this long; a process that dies is noticed at once."""
        active = {process.output: process for process in self._active()}
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for output in select.select(list(active), [], [], left)[0]:
                active[output].hear()  # without a question, output means that the process died

    def times_ms(self) -> list[list[float]]:
        """Of each model, the times of all runs since the mark; they go on."""
        active = list(self._active())
        for process in active:
            process.say(do="tell")
        told: list[list[float]] = [[] for _ in self._models]
        for process in active:
            told[process.index] += process.hear()["times_ms"]
        return told

    def pids(self) -> list[int]:
        """Of all processes."""
        return [process.pid for process in self._all()]

    def _all(self) -> list[_Process]:
        return [process for there in self._there for process in there]

    def _active(self) -> Iterable[_Process]:
        return (p for there, count in zip(self._there, self._running, strict=True) for p in there[:count])

    def _start(self, model: int, count: int) -> None:
        there = self._there[model]
        fresh = [_Process(self._models[model], model, self._threads) for _ in range(count - len(there))]
        there += fresh  # first of all, so that they are ended if one of them does not load
        for process in fresh:
            process.memory = process.hear()


class _Process:
    """One process and its pipes."""

    def __init__(self, model: RunnableModel, index: int, threads: int) -> None:
        self.index, self._name = index, model.name
        self.memory: Mapping[str, float] = {}
        command = python_child("fairlead.profile.degradation.model_process")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # a session of its own: Ctrl-C reaches us alone, and we end it
        self._process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
        self.output, self.pid = self._process.stdout, self._process.pid
        inputs = [{"name": t.name, "shape": t.shape, "type": t.type} for t in model.inputs]
        self.say(model=str(model.path), inputs=inputs, threads=threads)

    def say(self, **words: Any) -> None:
        """One line to it."""
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def hear(self) -> dict[str, Any]:
        """One line from it; waits for it."""
        line = self.output.readline()
        if not line:
            raise self._died()
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise UserError(f"{self._name}: the model does not run: {told['error']}")
        return told

    def kill(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                pipe.close()

    def _died(self) -> RunError:
        code = self._process.wait()
        by = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        hint = "; out of memory? --memory-mb N sets a limit" if code == -signal.SIGKILL else ""
        return RunError(f"{self._name}: a process died ({by}{hint})")
