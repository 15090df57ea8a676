"""Models of bundles that may be anybody's: what is refused before ONNX Runtime sees them, and how they are tried."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.external_data_helper import set_external_data

import bundles
from fairlead.domain.outcomes import Fallback
from fairlead.policies import model_file, model_trial
from fairlead.policies.bundle import Bundle, Fault
from fairlead.policies.model_file import Refused, look_through
from fairlead.policies.model_trial import _Process

# ---- looked through


def stored_outside(name: str = "weights") -> onnx.TensorProto:
    tensor = numpy_helper.from_array(np.ones(4, np.float32), name)
    set_external_data(tensor, "secret.bin", 0)
    tensor.ClearField("raw_data")
    return tensor


def sparse(values: onnx.TensorProto, indices: onnx.TensorProto | None = None) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(values, indices or numpy_helper.from_array(np.arange(4)), [4])


def with_attribute(attribute: onnx.AttributeProto, to: str = "values") -> bytes:
    """A model of one operator with this attribute."""
    made = helper.make_node("Constant", [], [to])
    made.attribute.append(attribute)
    return model_of([made])


def model_of(nodes: list[onnx.NodeProto], sparse_initializer: Any = (), **more: Any) -> bytes:
    answer = helper.make_tensor_value_info("values", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "graph", [], [answer], sparse_initializer=sparse_initializer)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9, **more)
    return bytes(made.SerializeToString())


def with_default(attribute: onnx.AttributeProto) -> bytes:
    """A model whose function has this attribute unless told otherwise."""
    about = {"domain": "ai.onnx", "fname": "Mine", "inputs": [], "outputs": ["y"], "nodes": [], "opset_imports": []}
    return model_of([], functions=[helper.make_function(**about, attribute_protos=[attribute])])


def in_training(tensor: onnx.TensorProto) -> bytes:
    made = onnx.ModelProto.FromString(model_of([]))
    made.training_info.add().algorithm.initializer.append(tensor)
    return bytes(made.SerializeToString())


TENSOR, ATTRIBUTE = stored_outside(), helper.make_attribute
HIDDEN = {
    "a tensor": with_attribute(ATTRIBUTE("value", TENSOR)),
    "tensors": with_attribute(ATTRIBUTE("value", [TENSOR])),
    "a sparse tensor": with_attribute(ATTRIBUTE("sparse_value", sparse(TENSOR))),
    "indices of a sparse tensor": with_attribute(
        ATTRIBUTE("sparse_value", sparse(numpy_helper.from_array(np.ones(4, np.float32)), TENSOR))
    ),
    "sparse tensors": with_attribute(ATTRIBUTE("sparse_value", [sparse(TENSOR)])),
    "a sparse weight": model_of([], [sparse(TENSOR)]),
    "what a function has unless told otherwise": with_default(ATTRIBUTE("value", TENSOR)),
    "the same, sparse": with_default(ATTRIBUTE("value", sparse(TENSOR))),
    "a training": in_training(TENSOR),
}


@pytest.mark.parametrize("where", HIDDEN)
def test_data_outside_of_a_model_is_found_wherever_it_is_named(where: str) -> None:
    with pytest.raises(Refused, match=r"outside of model\.onnx"):
        look_through(HIDDEN[where])


def test_sparse_weights_inside_of_a_model_are_allowed() -> None:
    inside = sparse(numpy_helper.from_array(np.ones(4, np.float32), "weights"))
    for model in (model_of([], [inside]), with_attribute(ATTRIBUTE("sparse_value", inside))):
        look_through(model)


def test_every_message_that_can_hold_a_tensor_is_looked_through() -> None:
    """As the onnx package has them; one that adds a field stops here."""

    def holds(message: Any, around: tuple[str, ...] = ()) -> bool:
        inner = [field.message_type for field in message.fields if field.message_type]
        around = (*around, message.name)
        return message.name == "TensorProto" or any(holds(m, around) for m in inner if m.name not in around)

    found, left = {}, [onnx.ModelProto.DESCRIPTOR]
    while left:
        message = left.pop()
        inside = {f.number: f.message_type for f in message.fields if f.message_type and holds(f.message_type)}
        found[message.name] = max(f.number for f in message.fields), {n: m.name for n, m in inside.items()}
        left += [m for m in inside.values() if m.name not in found]
    assert found == model_file._MESSAGES


def test_fields_that_only_onnx_runtime_would_understand_are_refused() -> None:
    hidden, tag = HIDDEN["a sparse tensor"], bytes([22 << 3 & 0x7F | 2 | 0x80, 22 >> 4])
    assert hidden.count(tag) == 1
    attribute = ATTRIBUTE("sparse_value", sparse(TENSOR)).SerializeToString()
    past_32_bits = attribute.replace(tag, bytes([tag[0], tag[1] | 0x80, 0x80, 0x80, 0x10]))
    assert onnx.AttributeProto.FromString(attribute).HasField("sparse_tensor")
    node = helper.make_node("Constant", [], ["values"]).SerializeToString()
    node += bytes([5 << 3 | 2, len(past_32_bits)]) + past_32_bits
    graph = bytes([1 << 3 | 2, len(node) & 0x7F | 0x80, len(node) >> 7]) + node
    model = bytes([7 << 3 | 2, len(graph) & 0x7F | 0x80, len(graph) >> 7]) + graph
    with pytest.raises(Refused, match=r"field \d+ in AttributeProto"):
        look_through(model)
    with pytest.raises(Refused, match="ONNX Runtime's own format"):
        look_through(b"\x12\x06\0\0ORTM" + model_of([]))


def test_number_in_the_place_of_an_operators_name_takes_no_memory() -> None:
    node = bytes([4 << 3, *[0xFF] * 8, 0x7F])  # of 2^63 - 1
    with pytest.raises(Refused, match="a number where a name belongs"):
        look_through(bytes([7 << 3 | 2, len(node) + 2, 1 << 3 | 2, len(node)]) + node)


# ---- tried

RUNS: Any = [{"observations": ((1, 3), "float32")}]
SOUND = bundles.linear(np.ones((3, 2)), np.zeros(2))
CLOSE = "import os, sys, time; os.close(0); os.close(1); time.sleep(0.5); "  # the pipes close before it ends
ENDED = "its trial ended the process: out of memory, or a crash"


@pytest.fixture
def process() -> Iterator[_Process]:
    made = _Process()
    yield made
    made.end()


def stand_in(code: str) -> subprocess.Popen[bytes]:
    """In the place of a process that tries models, and ready."""
    command = [sys.executable, "-c", f"print('ready', flush=True); {code}"]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    return made


@pytest.mark.parametrize("end", ["sys.exit(0)", "sys.exit(1)", "os.kill(os.getpid(), 9)"])
def test_sound_model_is_tried_anew_when_the_idle_process_ends_as_it_is_asked(process: _Process, end: str) -> None:
    process._running = ending = stand_in(CLOSE + end)
    assert ending.poll() is None
    assert process.ask(SOUND, RUNS) == ""
    assert process._running is not ending


def test_sound_model_is_tried_anew_when_a_fresh_process_ends_itself_before_it_is_asked(
    process: _Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does when this process is stopped for longer than that one waits."""
    first, real = [stand_in(CLOSE + "os._exit(0)")], process._started

    def started() -> subprocess.Popen[bytes]:
        if not first:
            return real()
        process._running = first.pop()
        return process._running

    monkeypatch.setattr(process, "_started", started)
    assert process.ask(SOUND, RUNS) == ""


def test_model_that_ends_the_process_is_not_said_to_be_slow(process: _Process, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def crashes() -> subprocess.Popen[bytes]:
        process._running = stand_in("import sys; sys.stdin.readline(); " + CLOSE + "os.kill(os.getpid(), 9)")
        begun.append(process._running)
        return process._running

    monkeypatch.setattr(process, "_started", crashes)
    assert process.ask(SOUND, RUNS) == ENDED
    assert len(begun) == 1  # it was fresh: nobody else has ended it
    assert begun[0].returncode == -9


def test_model_that_does_not_answer_is_said_to_be_slow(process: _Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_trial, "MOST_SECONDS", 0.1)
    process._running = slow = stand_in("import time; time.sleep(60)")
    assert process.ask(SOUND, RUNS) == "its trial took more than 0.1 s"
    assert slow.returncode == -9


def test_answer_that_was_not_waited_for_is_not_taken_for_the_next_one(
    process: _Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_and_interrupted(running: subprocess.Popen[bytes], question: bytes) -> bytes:
        assert running.stdin is not None
        running.stdin.write(question)
        running.stdin.flush()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(_Process, "_answer", staticmethod(asked_and_interrupted))
        with pytest.raises(KeyboardInterrupt):
            process.ask(SOUND, RUNS)
    assert "Protobuf" in process.ask(b"no model", RUNS)


def test_process_that_does_not_start_is_not_the_models_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_trial, "_PROCESS", process := _Process())
    monkeypatch.setattr(model_trial, "python_child", lambda module: [sys.executable, "-c", "raise SystemExit(1)"])
    model = Bundle(bundles.dispatcher(tmp_path)).model
    assert isinstance(model, Fault)
    assert model.reason is Fallback.MISSING
    assert "does not start (exit code 1)" in model.why
    process.end()
