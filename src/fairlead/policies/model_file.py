"""Opens the model of a bundle, which may come from anywhere: only one that ends, in little memory, becomes a session.

Before ONNX Runtime sees a file it is looked through here: loops, operators of third parties and data outside of the
file are refused, and so is what could hold them unseen. What is left is tried by a process of its own (`model_trial`)
with a limit of memory and of time; only then is it opened in this one, where all models together get a limited arena.
Models that ship are not tried.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 64 << 20  #: Of a model's file.
MOST_MEMORY: Final = 512 << 20  #: That all models of a process may use while they run, in bytes.

_DOMAINS: Final = {b"", b"ai.onnx", b"ai.onnx.ml", b"com.microsoft"}
_ENDLESS: Final = {b"Loop", b"Scan"}
_DEEPEST: Final = 16  # graphs inside of graphs
_MOST_FIELDS: Final = 1_000_000  # of all messages that are looked at: a third of a second
_ORT_FORMAT: Final = b"ORTM"  # in bytes 4 to 7

# Messages of onnx.proto that hold operators or tensors: their last field, and by field such messages inside of them.
# What is not listed here would not be looked at: a test compares it with the onnx package.
_MESSAGES: Final[dict[str, tuple[int, dict[int, str]]]] = {
    "ModelProto": (26, {7: "GraphProto", 20: "TrainingInfoProto", 25: "FunctionProto"}),
    "TrainingInfoProto": (4, {1: "GraphProto", 2: "GraphProto"}),
    "FunctionProto": (14, {7: "NodeProto", 11: "AttributeProto"}),
    "GraphProto": (16, {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"}),
    "NodeProto": (10, {5: "AttributeProto"}),
    "AttributeProto": (
        23,
        {
            5: "TensorProto",
            6: "GraphProto",
            10: "TensorProto",
            11: "GraphProto",
            22: "SparseTensorProto",
            23: "SparseTensorProto",
        },
    ),
    "SparseTensorProto": (3, {1: "TensorProto", 2: "TensorProto"}),
    "TensorProto": (16, {}),
}


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
    if content[4:8] == _ORT_FORMAT:  # ONNX Runtime would not read it as Protocol Buffers, and so not as we do
        raise Refused("it is in ONNX Runtime's own format, expected ONNX")
    _look_through(content, "ModelProto", 0, count())


def _look_through(message: Any, message_type: str, depth: int, fields: Iterator[int]) -> None:
    if message_type == "GraphProto":
        if depth > _DEEPEST:
            raise Refused(f"it has graphs inside of graphs, deeper than {_DEEPEST}")
        depth += 1
    last, inside = _MESSAGES[message_type]
    for number, value in _fields(message):
        if next(fields) >= _MOST_FIELDS:
            raise Refused(f"it has more than {_MOST_FIELDS:,} parts")
        if number > last:  # also of numbers past 29 bits, which ONNX Runtime cuts off and so takes for others
            raise Refused(f"it has field {number} in {message_type}, whose known fields end at {last}")
        if number in inside:
            _look_through(value, inside[number], depth, fields)
        elif message_type == "NodeProto" and number in (4, 7):
            _check_operator(number, value)
        elif message_type == "TensorProto" and (number == 13 or (number == 14 and value != 0)):
            raise Refused("it keeps data outside of model.onnx")


def _check_operator(number: int, value: Any) -> None:
    if isinstance(value, int):  # `bytes` would make so many of them
        raise Refused("it is damaged: a number where a name belongs")
    name = bytes(value)
    if number == 4 and name in _ENDLESS:
        raise Refused(f"it uses the operator {name.decode()}, which may never end")
    if number == 7 and name not in _DOMAINS:
        raise Refused(f"it uses operators of {name[:40]!r}, which are not ONNX's")


def _fields(message: Any) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a Protocol Buffers message: bytes as a view, numbers as they are."""
    if isinstance(message, int):
        raise Refused("it is damaged: a number where a message belongs")
    view, at = memoryview(message), 0
    while at < len(view):
        key, at = _number(view, at)
        wire_type = key & 7
        if wire_type == 0:
            value, at = _number(view, at)
            yield key >> 3, value
            continue
        if wire_type == 2:
            size, at = _number(view, at)
        elif wire_type in (1, 5):
            size = 8 if wire_type == 1 else 4
        else:
            raise Refused("it is damaged: no Protocol Buffers message")
        if at + size > len(view):
            raise Refused("it is damaged: it ends early")
        if wire_type == 2:
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
