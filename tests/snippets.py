"""Finds the fenced blocks of a Markdown page and runs them by their language; `test_docs` calls it for every page.

CONTRIBUTING.md tells authors how their blocks are run. What is not known here is an error, so that nothing escapes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairlead.cli.main import main
from fairlead.scenarios.loader import available_tasks, load
from fairlead.sim.serving.run_policy import simulate

ROOT = Path(__file__).parent.parent

#: Put behind what the page says, where the last word counts: a page shows real questions, CI asks small ones.
_FEW = ["--seeds", "1", "--set", "duration_s=5", "--jobs", "1"]
_SHORT = ["--set", "duration_s=5", "--hyper", "validations=1", "--hyper", "validation_workloads=2"]
CHEAP = {
    "compare": _FEW,
    "sweep": [*_FEW, "--no-bound"],  # the bound takes most of the time; `compare` has it
    "trace": ["--cpu", "1", "--repeats", "1"],
    "train aset": [*_SHORT, "--hyper", "groups=1", "--hyper", "learning_starts=1", "--steps", "20"],
    "train tapfinger": [
        *["--set", "tasks=12", "--hyper", "validations=1", "--hyper", "validation_workloads=2", "--hyper", "worlds=8"],
        *[
            "--hyper",
            "group=4",
            "--hyper",
            "rollout=4",
            "--hyper",
            "minibatches=1",
            "--hyper",
            "clone=1",
            "--steps",
            "32",
        ],
    ],
    "train ecsrl": [*_SHORT, "--hyper", "worlds=4", "--hyper", "group=2", "--hyper", "rollout=16", "--steps", "64"],
}

#: Commands that are not run here, and why.
NOT_RUN = {
    r"^source ": "changes the reader's shell",
    r"^(\S*/)?(uv )?pip install |^apt install ": "changes the environment; test_plugins installs the example",
    r"^(\S*/)?pre-commit install$": "writes into .git",
    r"^sh run\.sh$|^(\S*/)?python main\.py$": "test_examples runs it",
    r"^ray (start|stop|status)| --ray ": "test_ray runs it on a cluster of its own",
    r"^python -m benchmarks\.": "takes minutes: `make bench`",
    r"^python -m fairlead\.learn\.tapfinger ": "needs a GPU to be quick; test_tapfinger runs it",
    r"^fairlead (compare|sweep) .*--json results/": "takes hours, and agents of the reader's own",
    r"^fairlead degradation measure ": "takes minutes; test_measured_degradation runs it",
    r"^fairlead (show|compare) here\.yaml": "written by the line before; test_measured_degradation runs it",
    r"^fairlead detect --watch": "goes on until it is told to stop; test_detect runs it",
    r"^(\S*/)?fairlead trace convnet ": "takes minutes; test_trace runs small ones",
    r"^fairlead calibrate( --train)?( .*#.*)?$| --device here": "times this machine; test_calibrate does it",
    r"^fairlead evaluate$": "takes half a minute; test_calibrate has it",
    r"^fairlead explain .*--policy \./runs/": "a bundle of the reader's own; test_explain runs it",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, what it says of itself, what is in it."""

    line: int
    language: str
    title: str  # the file that it is
    continues: bool  # with the names of the Python block before
    text: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order. Raises AssertionError at a block that has no end or no fence."""
    lines, found, i = page.splitlines(), [], 0
    while i < len(lines):
        opening = re.match(r"( *)(`{3,}|~{3,})(.*)$", lines[i])
        if opening is None:
            assert not _indented_code(lines, i), (
                f"line {i + 1}: a block made by indentation (use a fence with a language)"
            )
            i += 1
            continue
        indent, fence, info = opening.groups()
        closing = re.compile(rf" *{re.escape(fence)}{fence[0]}*\s*")
        end = next((j for j in range(i + 1, len(lines)) if closing.fullmatch(lines[j])), None)
        assert end is not None, f"line {i + 1}: a block without an end"
        language, title = info.split(" ")[0].strip(), re.search(r'title="([^"]+)"', info)
        continues = i > 0 and lines[i - 1].strip() == "<!-- continues -->"
        text = "".join(f"{line.removeprefix(indent)}\n" for line in lines[i + 1 : end])
        found.append(Block(i + 1, language, title[1] if title else "", continues, text))
        i = end + 1
    return found


def _indented_code(lines: list[str], i: int) -> bool:
    """Whether Markdown takes line i as code by its indentation: after a blank line, outside of lists and boxes."""
    if not re.match(r"    +\S", lines[i]) or i == 0 or lines[i - 1].strip():
        return False
    outer = next((line for line in reversed(lines[:i]) if line.strip() and not line.startswith(" ")), "")
    return not re.match(r"([-*+]|\d+\.|!!!|\?\?\?|===) ?", outer)


def run_page(page: str, folder: Path) -> None:
    """Run a page's blocks from top to bottom in `folder`, which is the current one."""
    names: dict[str, Any] = {}
    for block in blocks(page):
        file = folder / (block.title or f"block-{block.line}.{block.language}")
        if block.title:
            file.write_text(block.text)
        try:
            if block.language == "python":
                names = names if block.continues else {"__name__": "__main__"}
                exec(compile(block.text, str(file), "exec"), names)
            elif block.language == "bash":
                for line in block.text.replace("\\\n", " ").splitlines():
                    run_command(line, folder)
            elif block.language == "yaml":
                file.write_text(block.text)
                if is_of_tasks(file) or is_catalog(file):
                    continue  # its other files come below, or it is no scenario; commands run it
                assert len(simulate(load(str(file), ["duration_s=5"]), "load-balancing").rows) > 0
            elif block.language == "toml":
                tomllib.loads(block.text)
            elif block.language == "json":
                json.loads(block.text)
            else:
                assert block.language in ("text", "csv"), f"unknown language {block.language!r} of a block"
        except BaseException as error:
            error.add_note(f"in the block at line {block.line}")
            raise


def _of_tasks(command: str, arguments: list[str]) -> list[str]:
    """What makes a question cheap if it is one of tasks."""
    named = [a for a in arguments[1:] if a in available_tasks() or (a.endswith(".yaml") and is_of_tasks(Path(a)))]
    if not named or command not in ("compare", "sweep", "tune"):
        return []
    return ["--workloads", "2"] if command == "tune" else ["--seeds", "1", "--set", "tasks=20", "--jobs", "1"]


def is_catalog(file: Path) -> bool:
    """Whether these are devices to detect."""
    return set(yaml.safe_load(file.read_text())) == {"devices"}


def is_of_tasks(file: Path) -> bool:
    return yaml.safe_load(file.read_text()).get("world") == "tasks"


def run_command(line: str, folder: Path) -> None:
    """Run one command line; AssertionError when it fails or is a command that is not known here."""
    words = shlex.split(line, comments=True)
    if not words or any(re.search(pattern, " ".join(words)) for pattern in NOT_RUN):
        return
    name, arguments = Path(words[0]).name, words[1:]
    if name == "fairlead":
        command = " ".join(arguments[: 2 if arguments[0] == "train" else 1])
        code = main([*arguments, *(_of_tasks(command, arguments) or CHEAP.get(command, []))])
    elif name == "make":  # CI runs the targets for real: .ci/run
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        code = subprocess.run(["make", "--dry-run", "--silent", "-C", str(ROOT), *arguments], env=clean).returncode
    elif name == "python":
        code = subprocess.run([sys.executable, *arguments], cwd=folder, timeout=300).returncode
    else:
        raise AssertionError(f"{line}: not a command that docs can show (see NOT_RUN in tests/snippets.py)")
    assert code == 0, f"{line}: exit code {code}"
