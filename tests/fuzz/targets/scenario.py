"""Scenario files with what they extend, `--set`, `--param` and `--values`: shown, and where they are small, run."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import yaml

import fairlead.scenarios

from ..mutate import HOSTILE, NUMBERS, WORDS, changed_text, changed_tree
from ..target import Target, command, compile_first, word

SHIPPED = Path(fairlead.scenarios.__file__).parent
FIELDS = (
    "rate", "duration_s", "window_ms", "dispatch", "admit", "nodes.*.count", "links.0.delay_ms", "speed", "tasks",
    "devices", "workload.sources.*.deadline_ms", "title", "pending", "links.99.delay_ms", "nodes..", "*.*.*", "a.b.c",
    "resources.gpu.elastic", "clusters.*.amounts.gpu", "workload.sites", "types.*.share", "rules",
)  # fmt: skip


class ScenarioTarget(Target):
    """See the module."""

    name = "scenario"

    def __init__(self, seeds: Path) -> None:
        super().__init__(seeds)
        compile_first()
        self._files = {path: path.read_bytes() for path in sorted(SHIPPED.rglob("*.yaml"))}

    def make(self, random: Random, folder: Path) -> None:
        """One of the shipped files, changed, beside those that it extends."""
        path = random.choice(list(self._files))
        for other, content in self._files.items():
            if other.parent == path.parent:
                (folder / other.name).write_bytes(content)
        for csv in path.parent.glob("*.csv"):
            (folder / csv.name).write_bytes(csv.read_bytes())
        changed = [path, *([p for p in self._files if p.parent == path.parent] if random.random() < 0.2 else [])]
        for one in random.sample(changed, min(len(changed), 2)):
            (folder / one.name).write_bytes(_changed(random, self._files[one]))
        (folder / "case.yaml").write_bytes((folder / path.name).read_bytes())

    def run(self, random: Random, folder: Path) -> str:
        """Show it, or sweep it; where it is small, run it."""
        sets = [argument for _ in range(random.choice((0, 0, 0, 1, 2))) for argument in ("--set", _setting(random))]
        if random.random() < 0.05:
            field, values = random.choice(FIELDS), ",".join(_text(random) for _ in range(2))
            values = random.choice((values, f"{_text(random)}:{_text(random)}:{_text(random)}"))
            asked = ["sweep", "ecsrl", f"--param={field}", f"--values={values}", "--checkpoint", "none"]
            return word(command([*asked, "--policies", ","])[0])  # all is read, and nothing is run: no policy is named
        code, _ = command(["show", "case.yaml", *sets])
        if code == 0 and (policies := _runnable("case.yaml", [s for s in sets if s != "--set"])):
            few = ["--policies", policies, "--seeds", "1", "--jobs", "1", "--no-bound"]
            code, _ = command(["compare", "case.yaml", *sets, *few])
            return "run" if code == 0 else "refused to run"
        return word(code)


def _changed(random: Random, content: bytes) -> bytes:
    if random.random() < 0.5:
        return changed_text(random, content)
    tree = changed_tree(random, yaml.safe_load(content))
    try:
        text = yaml.safe_dump(tree, allow_unicode=random.random() < 0.5, sort_keys=False)
    except (RecursionError, yaml.YAMLError):
        return changed_text(random, content)
    return text.encode("utf-8", "surrogatepass")


def _setting(random: Random) -> str:
    return f"{random.choice(FIELDS)}={_text(random)}"


def _text(random: Random) -> str:
    """What one can type: no NUL, and no halves of characters."""
    hostile = random.choice(HOSTILE).decode("utf-8", "replace")
    made = str(random.choice((random.choice(NUMBERS), random.choice(WORDS), hostile, 20, 60, 100)))
    return made.replace("\0", "").encode("utf-8", "replace").decode()


def _runnable(file: str, overrides: list[str]) -> str:
    """Policies to run a scenario with, where that takes no time to speak of; empty: none."""
    from fairlead.domain.scenario import Scenario
    from fairlead.domain.workload import mean_of
    from fairlead.scenarios.loader import load_any

    scenario: Any = load_any(file, overrides)
    if not isinstance(scenario, Scenario):
        small = scenario.workload.tasks <= 300 and scenario.rules.most_steps <= 10_000 and scenario.rules.pending <= 50
        most = [most + 1 for most in scenario.most_per_task().values()]
        small &= all(n <= 40 for n in most) and len(most) <= 3 and len(scenario.clusters) <= 12
        return "min,shortest-first" if small else ""
    workload, rules = scenario.workload, scenario.rules
    drawn = [source for source in workload.sources.values() if source.arrivals.process != "trace"]
    requests = 0.0
    for source in drawn:
        streams = workload.arrivals_per_ms(source) * workload.duration_s * 1000.0
        most = max([1.0, *(phase.rate for phase in source.phases)])
        each = 1.0 if source.length_s is None else 1.0 + mean_of(source.length_s) * mean_of(source.rate_qps)
        requests += streams * most * each
    windows = workload.duration_s * 1000.0 / rules.window_ms * len(scenario.nodes)
    return "load-balancing,closest" if requests <= 2e6 and windows <= 1e5 else ""
