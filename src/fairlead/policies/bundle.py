"""A learned policy as a folder, its bundle: `model.onnx` and `manifest.json`.

Reading a bundle never raises: what is wrong with it is a `Fault`, and its host (`fairlead.policies.learned`,
`fairlead.policies.tasks.learned`) falls back to a rule. The model of a selector or dispatcher maps `observations`
float32 (B, F) to `values` float32 (B, A), one for each action. ONNX Runtime is imported when a model is first needed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

import numpy as np

from fairlead.domain.errors import one_line, shown
from fairlead.domain.outcomes import Fallback
from fairlead.policies.model_file import MOST_BYTES, look_through, open_session, read_model
from fairlead.policies.model_trial import Inputs, try_model
from fairlead.policies.observe import DISPATCH_VERSION, PREFERENCE, WINDOW_VERSION, dispatch_size, window_size

FORMAT: Final = 1
SHIPPED: Final = Path(__file__).parent / "bundles"  #: Every folder in here is a policy of its name.
PLACER: Final = "placer"  #: The kind of bundles that place tasks (`policies.tasks.learned`), and decide on no request.
LAST_RESORT: Final = "load-balancing"  #: Decides for a bundle that names no rule.
_MOST_MANIFEST: Final = 4 << 20  # bytes
_VERSIONS: Final = {"selector": WINDOW_VERSION, "dispatcher": DISPATCH_VERSION}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a bundle."""

    reason: Fallback
    why: str


@dataclass(frozen=True, kw_only=True)
class ModelManifest:
    """What a bundle of any kind says about itself, checked. `document` is the whole file."""

    kind: str
    summary: str
    budget_us: float  # for one decision
    sha256: str  # of model.onnx
    document: dict[str, Any]

    @property
    def outputs(self) -> Mapping[str, str]:
        """The model's outputs and their types."""
        raise NotImplementedError

    @property
    def trials(self) -> Sequence[Inputs]:
        """Inputs that a model must be able to answer."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Manifest(ModelManifest):
    """What a selector's or a dispatcher's bundle says about itself."""

    kind: Literal["selector", "dispatcher"]
    actions: tuple[str, ...]  # selector: names of the rules that it picks from
    slots: int  # how many nodes (selector) or candidates (dispatcher) it has inputs for
    mix: bool  # selector: whether the optional inputs are there
    window_ms: float  # selector: the window that it was trained for
    preference: tuple[float, ...]  # dispatcher: the weights that it is asked to heed
    low: Any  # float32 (F,): the least and
    high: Any  # float32 (F,): the most of each input that was seen in training
    scenarios: tuple[str, ...]  # trained on

    @property
    def features(self) -> int:
        """F, the number of inputs."""
        return dispatch_size(self.slots) if self.kind == "dispatcher" else window_size(self.slots, self.mix)

    @property
    def values(self) -> int:
        """A, the number of outputs: one for each rule, or for each candidate and for the rejection."""
        return self.slots + 1 if self.kind == "dispatcher" else len(self.actions)

    @property
    def outputs(self) -> Mapping[str, str]:
        """As ModelManifest has it."""
        return {"values": "float32"}

    @property
    def trials(self) -> Sequence[Inputs]:
        """As ModelManifest has it."""
        return [{"observations": ((b, self.features), "float32")} for b in (1, 2)]


AnyManifest = TypeVar("AnyManifest", bound=ModelManifest)


class Model:
    """A model whose every answer is looked at: what has another shape or type raises."""

    def __init__(self, session: Any, outputs: Mapping[str, str]) -> None:
        self._session, self._names = session, list(outputs)
        self._types = [np.dtype(name) for name in outputs.values()]

    def run(self, inputs: Mapping[str, Any], shape: tuple[int, ...]) -> list[Any]:
        """All outputs, each of this shape."""
        answer: list[Any] = self._session.run(self._names, inputs)
        for name, values, dtype in zip(self._names, answer, self._types, strict=True):
            if type(values) is not np.ndarray or values.shape != shape or values.dtype != dtype:
                found = f"{values.dtype} {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
                raise ValueError(f"{name} are {found}, not {dtype} {shape}")
        return answer


class ModelBundle(Generic[AnyManifest]):
    """One folder. Its manifest is read at once, its model when it is needed, and either only once: what decides is what
    the hash names, also where the folder has changed since. `checked` looks at the manifest.
    """

    def __init__(self, folder: Path, checked: Callable[[dict[str, Any]], AnyManifest | Fault]) -> None:
        self.folder = folder
        self._manifest_file = _read(folder / "manifest.json", _MOST_MANIFEST)
        document = _manifest_document(self._manifest_file)
        self.manifest: AnyManifest | Fault = document if isinstance(document, Fault) else checked(document)
        self.kind = document.get("kind") if isinstance(document, dict) else None  # whatever it says
        named = document.get("fallback") if isinstance(document, dict) else None
        self.fallback: str = named if isinstance(named, str) else LAST_RESORT  # the name of a rule

    @cached_property
    def model(self) -> Model | Fault:
        """The model, ready to run on one thread; verified by its hash and, unless it ships, by a trial elsewhere."""
        if isinstance(self.manifest, Fault):
            return self.manifest
        if isinstance(content := self._model_file, Fault):
            return content
        if hashlib.sha256(content).hexdigest() != self.manifest.sha256:
            return Fault(Fallback.CORRUPT, "model.onnx is not the one that manifest.json names (sha256)")
        try:
            return self._opened(content, self.manifest)
        except ImportError as error:
            return Fault(Fallback.MISSING, one_line(error))
        except Exception as error:  # ONNX Runtime has many ways to say no
            return Fault(Fallback.CORRUPT, f"model.onnx: {one_line(error)}")

    def _opened(self, content: bytes, manifest: ModelManifest) -> Model | Fault:
        if not self.ships:
            look_through(content)
            if why := try_model(content, manifest.trials):
                return Fault(Fallback.CORRUPT, f"model.onnx: {why}")
        return Model(open_session(content), manifest.outputs)

    @property
    def fault(self) -> Fault | None:
        """Why the model is never asked; opens it."""
        return self.model if isinstance(self.model, Fault) else None

    @property
    def ships(self) -> bool:
        """Whether it is part of this package, and so as trustworthy as its code."""
        return Path(__file__).resolve().parent in self.folder.resolve().parents

    @cached_property
    def _model_file(self) -> bytes | Fault:
        return _read(self.folder / "model.onnx", MOST_BYTES)

    @cached_property
    def hash(self) -> str:
        """Identifies manifest and model, whatever their state."""
        digest = hashlib.sha256()
        for name, content in (("manifest.json", self._manifest_file), ("model.onnx", self._model_file)):
            digest.update(name.encode() + (b"missing" if isinstance(content, Fault) else content))
        return digest.hexdigest()[:12]


class Bundle(ModelBundle[Manifest]):
    """The bundle of a selector or a dispatcher."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _checked)

    @cached_property
    def model(self) -> Model | Fault:
        """As ModelBundle has it; it answers with a value for each action."""
        model, manifest = super().model, self.manifest
        if isinstance(model, Model) and isinstance(manifest, Manifest):
            for b in (1, 2):
                try:
                    model.run({"observations": np.zeros((b, manifest.features), np.float32)}, (b, manifest.values))
                except Exception as error:
                    return Fault(Fallback.CORRUPT, f"model.onnx: {one_line(error)}")
        return model

    def values(self, observations: Any) -> Any:
        """What the model makes of observations (B, F): float32 (B, A). Raises when it can't be asked."""
        assert isinstance(self.model, Model)
        assert isinstance(self.manifest, Manifest)
        return self.model.run({"observations": observations}, (len(observations), self.manifest.values))[0]

    @cached_property
    def arithmetic(self) -> str:
        """What the model makes of some inputs here: the last digits, and so choices, differ between processors."""
        if isinstance(self.model, Fault) or isinstance(self.manifest, Fault):
            return ""
        steps = np.linspace(0.0, 1.0, 64, dtype=np.float32)[:, None]
        inputs = self.manifest.low + steps * (self.manifest.high - self.manifest.low)
        try:
            return hashlib.sha256(b"".join(self.values(row[None]).tobytes() for row in inputs)).hexdigest()[:12]
        except Exception:  # then the rule decides
            return ""


def _read(file: Path, most_bytes: int) -> bytes | Fault:
    try:
        return read_model(file, most_bytes)
    except OSError as error:
        return Fault(Fallback.MISSING, f"{file.name}: {error.strerror}")
    except ValueError as error:
        return Fault(Fallback.CORRUPT, f"{file.name}: {error}")


def _manifest_document(content: bytes | Fault) -> dict[str, Any] | Fault:
    if isinstance(content, Fault):
        return content
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        return Fault(Fallback.CORRUPT, f"manifest.json: not valid JSON: {error}")
    return document if isinstance(document, dict) else Fault(Fallback.CORRUPT, "manifest.json: expected a map")


def checked_budget_us(value: Any) -> float:
    """The time for a decision as a manifest has it. Raises ValueError: NaN or infinity would be no limit at all."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value <= sys.float_info.max:
        raise ValueError(f"budget_us is {shown(value)}, expected a number above 0")
    return float(value)


def _checked(document: dict[str, Any]) -> Manifest | Fault:
    try:
        if document["format"] != FORMAT:
            return Fault(Fallback.VERSION, f"it has format {shown(document['format'])}, this version runs {FORMAT}")
        if document["features"] != (wanted := _VERSIONS[document["kind"]]):
            return Fault(Fallback.VERSION, f"trained on {shown(document['features'])}, this version shows {wanted!r}")
        with np.errstate(over="raise"):  # of numbers that float32 does not have
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
        budget_us=checked_budget_us(document["budget_us"]),
        scenarios=tuple(dict.fromkeys(str(s["name"]) for s in document["scenarios"])),
        sha256=str(document["sha256"]),
        document=document,
    )
    if made.slots < 1 or made.values < 1:
        raise ValueError("sizes or actions are empty")
    if made.low.shape != (made.features,) or made.high.shape != (made.features,):
        raise ValueError(f"low and high need {made.features} numbers each")
    return made
