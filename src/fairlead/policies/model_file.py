"""Opens the model of a bundle, which may come from anywhere: only one that ends, in little memory, becomes a session.

Before ONNX Runtime sees a file it is looked through here: loops, operators of third parties and data outside of the
file are refused. What is left is tried by a process of its own (`model_trial`) with a limit of memory and of time; only
then is it opened in this one, where all models together get a limited arena. Models that ship are not tried.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 64 << 20  #: Of a model's file.
MOST_MEMORY: Final = 512 << 20  #: That all models of a process may use while they run, in bytes.

_DOMAINS: Final = {b"", b"ai.onnx", b"ai.onnx.ml", b"com.microsoft"}
_ENDLESS: Final = {b"Loop", b"Scan"}
_DEEPEST: Final = 16  # graphs inside of graphs


class Refused(ValueError):
    """A model that is not opened, and why."""


def read_model(file: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file of a bundle. Raises OSError, or Refused for what is no file or too large."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO without a writer would wait for one
    with os.fdopen(descriptor, "rb") as opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise Refused("it is not a regular file")
        if about.st_size > most_bytes:
            raise Refused(f"it has {about.st_size:,} bytes, at most {most_bytes:,} are possible")
        return opened.read(most_bytes + 1)


def look_through(content: bytes) -> None:
    """Raise Refused when the model could run for ever, or needs what is not in the file."""
    for number, value in _fields(content):
        if number == 7:
            _look_through_graph(value, 0)
        elif number == 25:  # a function of the model's own
            for inner, node in _fields(value):
                if inner == 7:
                    _look_through_node(node, 0)


def _look_through_graph(graph: Any, depth: int) -> None:
    if depth > _DEEPEST:
        raise Refused(f"it has graphs inside of graphs, deeper than {_DEEPEST}")
    for number, value in _fields(graph):
        if number == 1:
            _look_through_node(value, depth)
        elif number == 5:
            _look_through_tensor(value)
        elif number == 15:  # a sparse one, of two tensors
            for _, tensor in _fields(value):
                _look_through_tensor(tensor)


def _look_through_node(node: Any, depth: int) -> None:
    for number, value in _fields(node):
        if number == 4 and bytes(value) in _ENDLESS:
            raise Refused(f"it uses the operator {bytes(value).decode()}, which may never end")
        if number == 7 and bytes(value) not in _DOMAINS:
            raise Refused(f"it uses operators of {bytes(value)[:40]!r}, which are not ONNX's")
        if number == 5:
            for inner, part in _fields(value):
                if inner in (5, 10):
                    _look_through_tensor(part)
                elif inner in (6, 11):
                    _look_through_graph(part, depth + 1)


def _look_through_tensor(tensor: Any) -> None:
    for number, value in _fields(tensor):
        if number == 13 or (number == 14 and value != 0):
            raise Refused("it keeps data outside of model.onnx")


def _fields(message: Any) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a Protocol Buffers message: bytes as a view, numbers as they are."""
    if isinstance(message, int):
        raise Refused("it is damaged: a number where a message belongs")
    view, at = memoryview(message), 0
    while at < len(view):
        key, at = _number(view, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(view, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _number(view, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise Refused("it is damaged: no Protocol Buffers message")
        if at + size > len(view):
            raise Refused("it is damaged: it ends early")
        if kind == 2:
            yield key >> 3, view[at : at + size]
        at += size


def _number(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(view) or shift > 63:
            raise Refused("it is damaged: it ends early")
        byte = view[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


@cache
def _limit_memory() -> None:
    """One arena for all sessions that ask for it; beyond its size, running a model fails."""
    import onnxruntime

    about = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    limits = onnxruntime.OrtArenaCfg({"max_mem": MOST_MEMORY})
    onnxruntime.create_and_register_allocator(about, limits)


def open_session(content: bytes) -> Any:
    """A model's session of ONNX Runtime, on one thread."""
    import onnxruntime

    _limit_memory()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # what is wrong is raised
    options.add_session_config_entry("session.use_env_allocators", "1")
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
