"""The examples: each is complete, runs by its one command as its README says, and shows what it is for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "examples"

# Folder -> its command, and what it must print: these patterns, or if there are none, exactly what its README shows.
EXAMPLES = {
    "01-your-own-edge": ("sh run.sh", [r"\d+ assumptions", r"│ closest +│ +\d\d\.\d+ ± .*│ +-[3-9]\d\.\d+ ±"]),
    "02-policy-plugin": ("sh run.sh", [r"│ most-accurate-in-time +│ +9\d\.\d+ ±", r"│ tenant-affinity +│ +9\d\.\d+ ±"]),
    "03-replay-a-trace": (
        "sh run.sh",
        [r"(?s)gate:.*│ closest +│ 100\.00.*gate-traced:.*│ closest +│ +[4-7]\d\.\d+ ±"],
    ),
    "04-read-the-decisions": (
        "../../.venv/bin/python main.py",
        [r"nano +1\d\d\d +1\d\d\d ", r"retail: [5-9]\d\d requests saved, 0 lost"],
    ),
    "05-gym": ("../../.venv/bin/python main.py", []),
}


def test_every_example_is_run() -> None:
    assert sorted(EXAMPLES) == sorted(p.name for p in ROOT.iterdir() if p.is_dir())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs_by_its_command_and_shows_what_it_is_for(name: str, tmp_path: Path) -> None:
    command, shown = EXAMPLES[name]
    readme = (ROOT / name / "README.md").read_text()
    assert f"```bash\n{command}\n```" in readme
    copy = shutil.copytree(ROOT / name, tmp_path / "examples" / name)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    environment = os.environ | {"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1"}  # no environment is active
    done = subprocess.run(command.split(), cwd=copy, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    for pattern in shown:
        assert re.search(pattern, done.stdout), f"{pattern} not in:\n{done.stdout}"
    assert shown or f"```text\n{done.stdout}```" in readme, done.stdout
