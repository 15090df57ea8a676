"""Bundles as policies of the registry: those that ship, by name, and a user's own, by the path of its folder.

Called by `fairlead.policies.interface`. Looks at manifests alone: models are loaded by who runs them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fairlead.domain.decision import RequestSnapshot
from fairlead.domain.errors import UserError
from fairlead.policies.bundle import PLACER, SHIPPED, Bundle, Fault
from fairlead.policies.decider import Decider, Setting
from fairlead.policies.interface import Kind, Policy
from fairlead.policies.learned import Dispatcher, Selector
from fairlead.policies.model_runtime import Clock


@dataclass(frozen=True)
class LearnedPolicy(Policy):
    """A bundle under a name: that of its folder when it ships, else the path as it was given."""

    bundle: Bundle = field(kw_only=True, compare=False)

    @cached_property
    def hash(self) -> str:
        """Identifies manifest and model."""
        return self.bundle.hash

    def decider(self, setting: Setting, clock: Clock | None = None) -> Decider:
        """As Policy has it."""
        if self.selects:
            return Selector(self.name, self.bundle, setting, clock)
        return Dispatcher(self.name, self.bundle, clock)


def shipped() -> dict[str, LearnedPolicy]:
    """The bundles that come with the package, by name."""
    folders = sorted(folder for folder in SHIPPED.glob("*") if folder.is_dir() and folder.name[0] not in "._")
    return {folder.name: _policy(folder.name, folder, "fairlead") for folder in folders}


def is_path(name: str) -> bool:
    """Whether a policy's name is the path of a bundle."""
    try:
        return "/" in name or "\\" in name or (Path(name) / "manifest.json").is_file()
    except OSError:  # no name that a file could have
        return False


def from_folder(name: str) -> LearnedPolicy:
    """The bundle at this path, read anew. If it is broken it falls back; if there is nothing, that is a UserError."""
    if not Path(name).is_dir():
        raise UserError(f"policy {name!r}: no such folder; a bundle is a folder with model.onnx and manifest.json")
    found = _policy(name, Path(name), "")
    if found.bundle.kind == PLACER:
        raise UserError(f"policy {name!r}: it decides on tasks, and this is a scenario of requests")
    return found


def _policy(name: str, folder: Path, package: str) -> LearnedPolicy:
    bundle = Bundle(folder)
    if isinstance(bundle.manifest, Fault):
        summary = f"can't be used: {bundle.manifest.why}"
        return LearnedPolicy(name, _dispatch(bundle), "batch", "learned", summary, package, bundle=bundle)
    kind: Kind = "selector" if bundle.manifest.kind == "selector" else "batch"
    function = _refuse if kind == "selector" else _dispatch(bundle)
    return LearnedPolicy(name, function, kind, "learned", bundle.manifest.summary, package, bundle=bundle)


def _dispatch(bundle: Bundle) -> Callable[[Any, Any, Any, float], int]:
    """`decide` of a dispatcher of the calling thread, which is made when it is first called."""
    own = threading.local()

    def decide(request: Any, candidates: Any, excluded: Any, u: float) -> int:
        if not hasattr(own, "dispatcher"):
            own.dispatcher = Dispatcher(bundle.folder.name, bundle)
        choice: int = own.dispatcher.decide(RequestSnapshot(request, candidates, excluded), u).choice
        return choice

    return decide


def _refuse(request: Any, candidates: Any, excluded: Any, u: float) -> int:
    raise TypeError("a selector chooses the rule of a window and decides no requests: see fairlead.policies.learned")
