"""Tries a model in a process of its own: whether it opens and answers in limited memory and time, without crashing.

    why = try_model(content, [{"observations": ((1, 23), "float32")}])      "" when it may be opened here

The process serves one model after another and ends when nothing was asked for a moment; one that takes too long, or
dies, is replaced. Called by `bundle` for models that do not ship.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from fairlead.domain.errors import one_line
from fairlead.domain.python_child import python_child

MOST_SECONDS: Final = 10.0  #: For opening a model and its trial runs.
MOST_ADDRESS_SPACE: Final = 2 << 30  #: Of the process, in bytes.
_START_S: Final = 120.0  # that a process may take until it is ready: it loads ONNX Runtime
_IDLE_S: Final = 5.0
_END_S: Final = 5.0  # that a process may take to end once its pipes have closed

Inputs = Mapping[str, tuple[Sequence[int], str]]  #: name -> shape and type; all zeros


class _Process:
    """The process that tries models, when there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None

    def ask(self, content: bytes, runs: Sequence[Inputs]) -> str:
        question = json.dumps({"bytes": len(content), "runs": runs}).encode() + b"\n" + content
        with self._lock:
            for _ in range(2):
                fresh = self._running is None or self._running.poll() is not None
                process = self._started()
                try:
                    answer = self._answer(process, question)
                    if answer:
                        return str(json.loads(answer)["why"])
                    code = self._exit_code(process)
                except TimeoutError:
                    self.end()
                    return f"its trial took more than {MOST_SECONDS:g} s"
                except BaseException:  # interrupted: the answer would be taken for that to the next question
                    self.end()
                    raise
                self.end()
                if fresh and code != 0:  # one that waited may have ended itself, or been ended, before it was asked
                    break
        return "its trial ended the process: out of memory, or a crash"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._running is None or self._running.poll() is not None:
            self.end()
            command = python_child("fairlead.policies.model_trial")
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._running = subprocess.Popen(command, start_new_session=True, **pipes)  # a Ctrl-C is ours
            assert self._running.stdout is not None
            with _killed_after(_START_S, self._running):
                ready = self._running.stdout.readline()  # loading is not the model's fault
            if not ready:
                code = self._running.wait()
                raise ImportError(f"the process that tries models does not start (exit code {code})")
        return self._running

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], question: bytes) -> bytes:
        """A line; empty when the process ends without one. Raises TimeoutError."""
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        with _killed_after(MOST_SECONDS, process) as killed, suppress(ConnectionError):  # a broken pipe, say
            process.stdin.write(question)  # waits, too, when nobody reads
            process.stdin.flush()
            answer = process.stdout.readline()
        if answer.endswith(b"\n"):
            return answer
        if killed.is_set():
            raise TimeoutError
        return b""

    @staticmethod
    def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
        """Of a process whose pipes have closed, which may be a little before it ends. None: it does not end."""
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_END_S)
        return None

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._running = self._running, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # it holds what could not be written
                    pipe and pipe.close()


@contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[threading.Event]:
    """Kill a process when this takes longer, which ends all waiting for it; the event says that it was."""
    killed = threading.Event()

    def kill() -> None:
        killed.set()
        process.kill()

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield killed
    finally:
        timer.cancel()
        timer.join()  # it may be about to kill, and the process is not to be another's by then


_PROCESS: Final = _Process()
atexit.register(_PROCESS.end)


def try_model(content: bytes, runs: Sequence[Inputs]) -> str:
    """Open a model elsewhere and run it on zeros of these shapes; why it must not be opened here, "" if it may."""
    return _PROCESS.ask(content, runs)


def _try(content: bytes, runs: Sequence[Any]) -> str:
    import numpy as np

    from fairlead.policies.model_file import open_session

    try:
        session = open_session(content)
        for run in runs:
            session.run(None, {name: np.zeros(shape, dtype) for name, (shape, dtype) in run.items()})
    except Exception as error:  # ONNX Runtime has many ways to say no
        return one_line(error)
    return ""


def _serve() -> None:
    """Try models from standard input, one after the other."""
    import resource

    import onnxruntime  # noqa: F401  (loaded before there is a limit, and before a caller waits)

    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_SPACE, MOST_ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    answers.write(b"ready\n")
    answers.flush()
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        while selector.select(_IDLE_S) and (line := sys.stdin.buffer.readline()):
            head = json.loads(line)
            why = _try(sys.stdin.buffer.read(head["bytes"]), head["runs"])
            answers.write(json.dumps({"why": why}).encode() + b"\n")
            answers.flush()


if __name__ == "__main__":
    _serve()
