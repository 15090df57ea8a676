"""Bundles: manifests and models of the shipped ones, changed; run on requests or tasks beside their fallback."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import fairlead.policies

from ..mutate import changed_bytes, changed_text, changed_tree
from ..target import Target, command, compile_first, word

_POLICIES = Path(fairlead.policies.__file__).parent
_LARGEST = 400_000
_SERVING = {"aset-testbed": "aset-testbed", "aset": "aset-testbed", "ecsrl": "ecsrl"}
_TASKS = {"tapfinger-3-agents": "tapfinger-3", "tapfinger-3-single-agents": "tapfinger-3"}


class BundleTarget(Target):
    """See the module."""

    name = "bundle"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        compile_first()
        folders = {name: _POLICIES / "bundles" / name for name in _SERVING}
        folders |= {name: _POLICIES / "tasks" / "bundles" / name for name in _TASKS}
        self._bundles = {
            name: ((folder / "manifest.json").read_bytes(), (folder / "model.onnx").read_bytes())
            for name, folder in folders.items()
            if (folder / "model.onnx").stat().st_size < _LARGEST
        }

    def make(self, random: Random, folder: Path) -> None:
        """A bundle with something changed; its sum most often fits to its model."""
        name = random.choice(list(self._bundles))
        manifest, model = self._bundles[name]
        if random.random() < 0.6:
            model = changed_bytes(random, model) if random.random() < 0.5 else _changed_model(random, model)
        if random.random() < 0.8:
            document = json.loads(manifest) | {"sha256": hashlib.sha256(model).hexdigest()}
            if random.random() < 0.6:
                document = changed_tree(random, document)
            manifest = json.dumps(document).encode()
        elif random.random() < 0.5:
            manifest = changed_text(random, manifest)
        bundle = folder / name
        bundle.mkdir()
        for file, content in (("manifest.json", manifest), ("model.onnx", model)):
            if (odd := random.random()) < 0.01:
                os.mkfifo(bundle / file)
            elif odd < 0.02:
                (bundle / file).symlink_to(random.choice(("/dev/zero", file, "nowhere", ".")))
            elif odd > 0.03:
                (bundle / file).write_bytes(content)

    def run(self, random: Random, folder: Path) -> str:
        """Compare it on a scenario of its world, for a moment."""
        (bundle,) = folder.iterdir()
        scenario = (_SERVING | _TASKS)[bundle.name]
        few = ["--set", "tasks=12"] if bundle.name in _TASKS else ["--set", "duration_s=2"]
        code, told = command(
            ["compare", scenario, *few, "--policies", f"./{bundle.name}", "--seeds", "1", "--jobs", "1", "--no-bound"]
        )
        return "fell back" if "fell back" in told else word(code)


def _changed_model(random: Random, content: bytes) -> bytes:
    import onnx

    from .onnx_model import change, messages

    model: Any = onnx.load_from_string(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        change(random, random.choice(list(messages(model))))
    return bytes(model.SerializeToString())
