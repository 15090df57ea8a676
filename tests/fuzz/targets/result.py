"""Results that `--json` writes, of every type: made into pages, and now and then into plots."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from ..mutate import changed_text, changed_tree
from ..target import Target, command, word

_SMALL = ["--seeds", "2", "--jobs", "1"]
_MADE: dict[str, list[str]] = {
    "compare": ["compare", "ecsrl", "--set", "duration_s=5", "--policies", "closest,ecsrl,random", *_SMALL],
    "sweep": ["sweep", "aset-testbed", "--param", "rate", "--values", "20,40", "--set", "duration_s=5",
              "--policies", "closest,load-balancing", "--checkpoint", "none", *_SMALL],
    "tasks": ["compare", "tapfinger-3", "--set", "tasks=10", "--policies", "min,tuned-rule,optimus", *_SMALL],
    "degradation": ["degradation", "simulate", "ecsrl"],
    "explanation": ["explain", "ecsrl", "--policy", "ecsrl", "--at", "2", "--set", "duration_s=5"],
}  # fmt: skip


class ResultTarget(Target):
    """See the module."""

    name = "result"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        for name, words in _MADE.items():
            file = seeds / f"{name}.json"
            if not file.exists() and (told := command([*words, "--json", file]))[0]:
                raise RuntimeError(f"no result was made: {told}")
        self._texts = {name: (seeds / f"{name}.json").read_bytes() for name in _MADE}
        self._trees = {name: json.loads(text) for name, text in self._texts.items()}

    def make(self, random: Random, folder: Path) -> None:
        """A result, changed."""
        name = random.choice(list(_MADE))
        if random.random() < 0.6:
            content = json.dumps(changed_tree(random, self._trees[name])).encode()
        else:
            content = changed_text(random, self._texts[name])
        (folder / "case.json").write_bytes(content)

    def run(self, random: Random, folder: Path) -> str:
        """Make the page of it, seldom the plots, which take long."""
        plots = ["--plots", "plots"] if random.random() < 0.03 else []
        return word(command(["report", "case.json", "-o", "case.html", *plots])[0])
