"""A learned policy as a folder, its bundle: `model.onnx` and `manifest.json`.

Reading a bundle never raises: what is wrong with it is a `Fault`, and whoever runs it (`fairlead.policies.learned`)
falls back to a rule. A model maps `observations` float32 (B, F) to `values` float32 (B, A), one for each action.
ONNX Runtime is imported when a model is first needed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from fairlead.domain.errors import one_line
from fairlead.domain.outcomes import Fallback
from fairlead.policies.observe import DISPATCH_VERSION, PREFERENCE, WINDOW_VERSION, dispatch_size, window_size

FORMAT: Final = 1
SHIPPED: Final = Path(__file__).parent / "bundles"  #: Every folder in here is a policy of its name.
PLACER: Final = "placer"  #: The kind of bundles that place tasks (`policies.tasks.learned`), and decide on no request.
LAST_RESORT: Final = "load-balancing"  #: Decides for a bundle that names no rule.
_VERSIONS: Final = {"selector": WINDOW_VERSION, "dispatcher": DISPATCH_VERSION}

Model = Callable[[Any], Any]  # float32 (B, F) -> float32 (B, A)


@dataclass(frozen=True)
class Fault:
    """What is wrong with a bundle."""

    reason: Fallback
    why: str


@dataclass(frozen=True)
class Manifest:
    """What a bundle says about itself, checked. `document` is the whole file."""

    kind: Literal["selector", "dispatcher"]
    summary: str
    actions: tuple[str, ...]  # selector: names of the rules that it picks from
    slots: int  # how many nodes (selector) or candidates (dispatcher) it has inputs for
    mix: bool  # selector: whether the optional inputs are there
    window_ms: float  # selector: the window that it was trained for
    preference: tuple[float, ...]  # dispatcher: the weights that it is asked to heed
    low: Any  # float32 (F,): the least and
    high: Any  # float32 (F,): the most of each input that was seen in training
    budget_us: float  # for one decision
    scenarios: tuple[str, ...]  # trained on
    sha256: str  # of model.onnx
    document: dict[str, Any]

    @property
    def features(self) -> int:
        """F, the number of inputs."""
        return dispatch_size(self.slots) if self.kind == "dispatcher" else window_size(self.slots, self.mix)

    @property
    def values(self) -> int:
        """A, the number of outputs: one for each rule, or for each candidate and for the rejection."""
        return self.slots + 1 if self.kind == "dispatcher" else len(self.actions)


class Bundle:
    """One folder. Its manifest is read at once, its model when it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        document = read_manifest(folder / "manifest.json")
        self.manifest: Manifest | Fault = document if isinstance(document, Fault) else _checked(document)
        self.kind = document.get("kind") if isinstance(document, dict) else None  # whatever it says
        named = document.get("fallback") if isinstance(document, dict) else None
        self.fallback: str = named if isinstance(named, str) else LAST_RESORT  # the name of a rule

    @cached_property
    def model(self) -> Model | Fault:
        """The model, ready to run on one thread; verified by its hash and by a trial."""
        if isinstance(self.manifest, Fault):
            return self.manifest
        try:
            content = (self.folder / "model.onnx").read_bytes()
        except OSError as error:
            return Fault(Fallback.MISSING, f"model.onnx: {error.strerror}")
        if hashlib.sha256(content).hexdigest() != self.manifest.sha256:
            return Fault(Fallback.CORRUPT, "model.onnx is not the one that manifest.json names (sha256)")
        try:
            return _open(content, self.manifest)
        except ImportError as error:
            return Fault(Fallback.MISSING, one_line(error))
        except Exception as error:  # ONNX Runtime has many ways to say no
            return Fault(Fallback.CORRUPT, f"model.onnx: {one_line(error)}")

    @cached_property
    def hash(self) -> str:
        """Identifies manifest and model, whatever their state."""
        return folder_hash(self.folder)

    @cached_property
    def arithmetic(self) -> str:
        """What the model makes of some inputs here: the last digits, and so choices, differ between processors."""
        if isinstance(self.model, Fault) or isinstance(self.manifest, Fault):
            return ""
        steps = np.linspace(0.0, 1.0, 64, dtype=np.float32)[:, None]
        inputs = self.manifest.low + steps * (self.manifest.high - self.manifest.low)
        return hashlib.sha256(b"".join(self.model(row[None]).tobytes() for row in inputs)).hexdigest()[:12]


def folder_hash(folder: Path) -> str:
    """Identifies the manifest and the model in a folder, whatever their state."""
    digest = hashlib.sha256()
    for name in ("manifest.json", "model.onnx"):
        try:
            content = (folder / name).read_bytes()
        except OSError:
            content = b"missing"
        digest.update(name.encode() + content)
    return digest.hexdigest()[:12]


def open_session(content: bytes) -> Any:
    """A model's session of ONNX Runtime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # what is wrong is raised
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _open(content: bytes, manifest: Manifest) -> Model:
    session = open_session(content)

    def run(observations: Any) -> Any:
        return session.run(["values"], {"observations": observations})[0]

    for b in (1, 2):
        values = run(np.zeros((b, manifest.features), np.float32))
        if values.shape != (b, manifest.values) or values.dtype != np.float32:
            raise ValueError(f"values are {values.dtype} {values.shape}, not float32 {(b, manifest.values)}")
    return run


def read_manifest(file: Path) -> dict[str, Any] | Fault:
    try:
        document = json.loads(file.read_bytes())
    except OSError as error:
        return Fault(Fallback.MISSING, f"{file.name}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        return Fault(Fallback.CORRUPT, f"{file.name}: not valid JSON: {error}")
    return document if isinstance(document, dict) else Fault(Fallback.CORRUPT, f"{file.name}: it is no map")


def _checked(document: dict[str, Any]) -> Manifest | Fault:
    try:
        if document["format"] != FORMAT:
            return Fault(Fallback.VERSION, f"it has format {document['format']}, this version runs {FORMAT}")
        if document["features"] != (wanted := _VERSIONS[document["kind"]]):
            return Fault(Fallback.VERSION, f"trained on {document['features']!r}, this version shows {wanted!r}")
        return _manifest(document)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        return Fault(Fallback.CORRUPT, f"manifest.json: {one_line(error)}")


def _manifest(document: dict[str, Any]) -> Manifest:
    dispatcher = document["kind"] == "dispatcher"
    made = Manifest(
        kind=document["kind"],
        summary=str(document["summary"]),
        actions=() if dispatcher else tuple(map(str, document["actions"])),
        slots=int(document["sizes"]["candidates" if dispatcher else "nodes"]),
        mix=not dispatcher and bool(document["mix"]),
        window_ms=0.0 if dispatcher else float(document["window_ms"]),
        preference=tuple(float(document["settings"][name]) for name in PREFERENCE) if dispatcher else (),
        low=np.array(document["low"], np.float32),
        high=np.array(document["high"], np.float32),
        budget_us=float(document["budget_us"]),
        scenarios=tuple(dict.fromkeys(str(s["name"]) for s in document["scenarios"])),
        sha256=str(document["sha256"]),
        document=document,
    )
    if made.slots < 1 or made.values < 1:
        raise ValueError("sizes or actions are empty")
    if made.low.shape != (made.features,) or made.high.shape != (made.features,):
        raise ValueError(f"low and high need {made.features} numbers each")
    return made
