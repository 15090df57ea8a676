"""What a run of a model really does: the kernels that ONNX Runtime makes of its layers, each with its sizes and times.

Kernels are what is left after fusion: a convolution with its normalisation and activation is one. Times come from ONNX
Runtime's own profile, sizes from there too; attributes, and weights that were packed away, from the graph that it runs.
Called by `fairlead profile --measure` and by prediction. Runs the model in this process; writes nothing that stays.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.domain.errors import UserError
from fairlead.profile.analysis import Layer, Tensor
from fairlead.profile.onnx_file import attributes_of, import_onnx, make_tensor, read_model, size_inputs
from fairlead.profile.operators import layer_type_of, macs_of
from fairlead.profile.runtime import make_inputs, open_session, run_once

_BLOCKED = "com.microsoft.nchwc"  # the domain of operators on channels in blocks
_ENOUGH_S, _MOST_RUNS, _FEWEST_RUNS = 2.0, 50, 5  # where the number of runs is not given
_SUFFIX = "_kernel_time"
_CALLERS = ("If", "Loop", "Scan")  # their events have the events of what they call in them


@dataclass(frozen=True, kw_only=True)
class Kernel(Layer):
    """A layer as it is run. MACs are those of the model: channels that fill up a block don't count, though they move.

    Times are of all its calls in a run (a loop's body is called often), without those that it calls itself.
    """

    calls: int  # in a run
    median_ms: float  # over runs
    min_ms: float  # the best of the runs: what it takes when nothing is in its way


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A model, run several times. Whole runs are timed without profiling, in turn with those that are profiled."""

    kernels: tuple[Kernel, ...]  # in the order in which they first ran
    wall_ms: tuple[float, ...]  # of each run
    thread_ms: tuple[float, ...]  # the calling thread's time on the CPU; with one thread that is all of it

    @property
    def kernels_ms(self) -> float:
        """The sum over kernels, each at its best."""
        return sum(one.min_ms for one in self.kernels)


def measure(
    path: Path, sizes: Mapping[str, int] | None = None, batch: int = 1, runs: int | None = None, threads: int = 1
) -> list[Kernel]:
    """The kernels of a model; sizes and batch as for `analyse`. Without `runs` there are as many as fit two seconds."""
    return list(measure_runs(path, sizes, batch, runs, threads).kernels)


def measure_runs(
    path: Path, sizes: Mapping[str, int] | None = None, batch: int = 1, runs: int | None = None, threads: int = 1
) -> Measurement:
    """The kernels, and the times of whole runs."""
    model = read_model(path)
    content = model.SerializeToString()
    inputs = make_inputs(size_inputs(path, model, sizes, batch))
    with tempfile.TemporaryDirectory(prefix="fairlead-") as made:
        folder = Path(made)
        plain = open_session(content, threads, save_to=folder / "run.onnx", weights_in=path.parent)
        graph = _Graph.read(folder / "run.onnx")
        if graph.blocked:
            (folder / "before").mkdir()
            saved = folder / "before" / "run.onnx"
            open_session(content, optimise="extended", save_to=saved, weights_in=path.parent)
            graph.unblocked = _Graph.read(saved)
        # The graph as it is run, run as it is, so that every node has a name, which its events carry.
        profiled = open_session(graph.content, threads, optimise="no", profile_to=folder / "profile", weights_in=folder)
        wall_ms, thread_ms = _take_turns(path, profiled, plain, inputs, runs)
        events = json.loads(Path(profiled.end_profiling()).read_text(encoding="utf-8"))
    kernels = _kernels(path, graph, _calls(events))
    return Measurement(kernels=tuple(kernels), wall_ms=tuple(wall_ms), thread_ms=tuple(thread_ms))


def _take_turns(
    path: Path, profiled: Any, plain: Any, inputs: dict[str, Any], runs: int | None
) -> tuple[list[float], list[float]]:
    """Run both, one after the other; the first run of each is for warming up."""
    wall_ms: list[float] = []
    thread_ms: list[float] = []
    began = time.perf_counter()
    while True:
        run_once(path, profiled, inputs)
        wall, thread = time.perf_counter(), time.thread_time()
        run_once(path, plain, inputs)
        wall_ms.append(1e3 * (time.perf_counter() - wall))
        thread_ms.append(1e3 * (time.thread_time() - thread))
        done = len(wall_ms) - 1
        enough = done >= _MOST_RUNS or (done >= _FEWEST_RUNS and time.perf_counter() - began > _ENOUGH_S)
        if (done >= runs) if runs else enough:
            return wall_ms[1:], thread_ms[1:]


def _inside(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        yield from (graph for graph in (attribute.g, *attribute.graphs) if graph.node)


@dataclass
class _Graph:
    """The graph that is run: its nodes, and its constants."""

    content: bytes  # as a file has it; weights are in another
    nodes: dict[str, Any] = field(default_factory=dict)  # by name
    makers: dict[str, Any] = field(default_factory=dict)  # nodes by the tensors that they make
    constants: dict[str, Tensor] = field(default_factory=dict)
    unblocked: _Graph | None = None  # the same without blocks of channels

    @classmethod
    def read(cls, path: Path) -> _Graph:
        model = import_onnx().load(str(path), load_external_data=False)
        _give_names(model.graph)
        made = cls(model.SerializeToString())
        made._note(model.graph)
        return made

    def _note(self, graph: Any) -> None:
        for one in graph.initializer:
            self.constants[one.name] = make_tensor(one.name, tuple(one.dims), one.data_type)
        for node in graph.node:
            self.nodes[node.name] = node
            self.makers |= dict.fromkeys(node.output, node)
            for inside in _inside(node):
                self._note(inside)

    @property
    def blocked(self) -> bool:
        return any(node.domain == _BLOCKED for node in self.nodes.values())

    def before(self, node: Any) -> Any:
        """The node that a blocked one was made of, found by its name, which is that of what it makes; None: unknown."""
        if node.domain != _BLOCKED or self.unblocked is None:
            return None
        made = node.name.removesuffix("_nchwc")
        return self.unblocked.makers.get(made) or self.unblocked.makers.get(made.removesuffix("_bn"))

    def true_weight(self, node: Any) -> tuple[int, ...] | None:
        """The shape of a blocked convolution's weight before it was filled up to whole blocks."""
        before = self.before(node)
        weight = self.unblocked.constants.get(before.input[1]) if before and self.unblocked else None
        return weight.shape if weight else None


def _give_names(graph: Any, taken: set[str] | None = None) -> None:
    """A name of its own for every node."""
    taken = set() if taken is None else taken
    for node in graph.node:
        wanted = node.name or f"{node.op_type}:{next(iter(node.output), '')}"
        names = (wanted, *(f"{wanted}:{n}" for n in range(2, len(taken) + 3)))
        node.name = next(name for name in names if name not in taken)
        taken.add(node.name)
        for inside in _inside(node):
            _give_names(inside, taken)


@dataclass
class _Call:
    """An event of a kernel."""

    name: str
    run: int
    self_us: int  # without the events inside of it
    arguments: Mapping[str, Any]


def _calls(events: Iterable[Mapping[str, Any]]) -> list[_Call]:
    """The calls of all runs but the first, in order."""
    events = sorted(events, key=lambda event: (event.get("ts", 0), -event.get("dur", 0)))
    calls: list[_Call] = []
    callers: list[tuple[int, _Call]] = []  # that have not ended, with their ends
    run = -1  # the first is for warming up
    for event in events:
        run += event["name"] == "model_run"
        if run < 1 or event.get("cat") != "Node" or not event["name"].endswith(_SUFFIX):
            continue
        call = _Call(event["name"].removesuffix(_SUFFIX), run, event["dur"], event["args"])
        callers = [(end, caller) for end, caller in callers if event["ts"] < end]
        if callers:
            callers[-1][1].self_us -= event["dur"]
        if event["args"]["op_name"] in _CALLERS:
            callers.append((event["ts"] + event["dur"], call))
        calls.append(call)
    return calls


def _kernels(path: Path, graph: _Graph, calls: list[_Call]) -> Iterator[Kernel]:
    """One for each node that ran, of all of its calls: sizes as in the first call, MACs of a run."""
    by_node: dict[str, list[_Call]] = {}
    for call in calls:
        by_node.setdefault(call.name, []).append(call)
    runs = sorted({call.run for call in calls})
    for own in by_node.values():
        times = [sum(call.self_us for call in own if call.run == run) / 1e3 for run in runs]
        first = [_layer(path, graph, call) for call in own if call.run == own[0].run]
        yield Kernel(
            **vars(first[0]) | {"macs": sum(one.macs for one in first)},
            calls=len(first),
            median_ms=statistics.median(times),
            min_ms=max(0.0, min(times)),
        )


def _layer(path: Path, graph: _Graph, call: _Call) -> Layer:
    """What was called, with its sizes."""
    node, operator = graph.nodes.get(call.name), call.arguments["op_name"]
    if node is None or node.op_type != operator:
        raise UserError(f"{path}: ONNX Runtime ran {call.name!r} ({operator}), which is not in the graph that it saved")
    given = _given(graph, node, call.arguments["input_type_shape"])
    made = _tensors([name for name in node.output if name], call.arguments["output_type_shape"])
    shapes, outputs = [tensor.shape if tensor else () for tensor in given], [tensor.shape for tensor in made] or [()]
    attributes = attributes_of(node)
    if node.op_type == "Conv" and (true := graph.true_weight(node)):
        shapes[1], outputs[0] = true, (outputs[0][0], true[0], *outputs[0][2:])
    before = graph.before(node)
    meant = before.op_type if before else operator  # a normalisation by itself becomes a convolution
    known = [tensor for tensor in given if tensor]
    return Layer(
        name=call.name,
        operator=operator,
        layer_type=layer_type_of(meant, attributes, shapes, outputs),
        macs=macs_of(meant, attributes, shapes, outputs),
        inputs=tuple(one for one in known if one.name not in graph.constants),
        weights=tuple(one for one in known if one.name in graph.constants),
        outputs=tuple(made),
    )


def _given(graph: _Graph, node: Any, told: list[Mapping[str, list[int]]]) -> list[Tensor | None]:
    """The inputs of a node, by place. The profile leaves out what is not given, and weights that were packed before."""
    left = list(told)
    found: list[Tensor | None] = []
    for name in node.input:
        constant = graph.constants.get(name)
        packed = constant and (not left or list(constant.shape) != next(iter(left[0].values())))
        if not name or not (packed or left):
            found.append(None)
        elif constant:
            found.append(constant)
            del left[: 0 if packed else 1]
        else:
            found += _tensors([name], [left.pop(0)])
    return found


def _tensors(names: Iterable[str], told: Iterable[Mapping[str, list[int]]]) -> list[Tensor]:
    types = import_onnx().TensorProto
    made = []
    for name, one in zip(names, told, strict=False):
        ((dtype, shape),) = one.items()
        made.append(make_tensor(name, tuple(shape), getattr(types, dtype.upper(), 0)))
    return made
