"""Make the pictures of results in the docs from real runs: `python docs/images/make.py [NAME ...]`, some minutes.

Run by hand when the look of tables or reports changes; not part of the package or the site. Needs what the browser
tests need (the dev extra and a Chromium). Overwrites compare-table.svg and the PNG files beside it.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from browser import chromium  # noqa: E402

TABLE = ["compare", "full-edge", "--seeds", "5"]
REPORTS = {
    "compare.html": ["compare", "shifting", "ecsrl", "--seeds", "5"],
    "sweep.html": ["sweep", "full-edge", "--param", "rate", "--values", "20:120:20", "--seeds", "5",
                   "--checkpoint", "none"],
    "tasks.html": ["compare", "tapfinger-3", "--policies", "tuned-rule,sia,optimus,min,tiresias", "--seeds", "20"],
    "degradation.html": ["degradation", "simulate", "ecsrl"],
    "explain.html": ["explain", "ecsrl", "--policy", "ecsrl", "--set", "rate=18500", "--set", "duration_s=60",
                     "--at", "30", "--replay"],
}  # fmt: skip
#: Name, report, what is at its top (none: the top of the page), width, height, more.
PICTURES = [
    ("report-light", "compare.html", None, 1280, 1120, {}),
    ("report-dark", "compare.html", "figure[data-plot=over-time]", 1280, 1110, {"color_scheme": "dark"}),
    ("report-phone", "compare.html", "#controls", 360, 780, {"device_scale_factor": 2}),
    ("sweep", "sweep.html", "#plots", 1280, 820, {}),
    ("tasks", "tasks.html", None, 1280, 1090, {}),
    ("tasks-dark", "tasks.html", "figure[data-plot=alive]", 1280, 745, {"color_scheme": "dark"}),
    ("simulated-degradation", "degradation.html", "#plots", 1280, 1240, {}),
    ("explain", "explain.html", None, 1280, 1420, {}),
]
#: Plots as `--plots` writes them: name, command, and which of its plots.
_MEASURED = ["degradation", "measure", "efficientnet-lite0", "ppocr-det"]
_TRACE = ["trace", "convnet", "inference", "--cpu", "1,2", "--out", "traces"]
PLOTS = [
    ("measured-degradation-matrix", _MEASURED, "*-matrix-1.png"),
    ("measured-degradation-curve", _MEASURED, "*-curve.png"),
    ("trace", _TRACE, "convnet-progress.png"),
]
COLUMNS = 112


def main(wanted: list[str]) -> None:
    if not wanted or "compare-table" in wanted:
        (HERE / "compare-table.svg").write_text(table(first_table(in_terminal(TABLE))))
    pictures = [p for p in PICTURES if not wanted or p[0] in wanted]
    plots = [p for p in PLOTS if not wanted or p[0] in wanted]
    with tempfile.TemporaryDirectory() as folder:
        for file in dict.fromkeys(p[1] for p in pictures):
            command = [sys.executable, "-m", "fairlead", *REPORTS[file], "--report", file]
            subprocess.run(command, cwd=folder, check=True)
        for arguments in (_MEASURED, _TRACE):
            mine = [plot for plot in plots if plot[1] == arguments]
            if mine:
                command = [sys.executable, "-m", "fairlead", *arguments, "--plots", arguments[0]]
                subprocess.run(command, cwd=folder, check=True)
            for name, _, plot in mine:
                (made,) = Path(folder, arguments[0]).glob(plot)
                shutil.copy(made, HERE / f"{name}.png")
        if pictures:
            shoot(Path(folder), pictures)


def in_terminal(command: list[str]) -> str:
    """What the command writes to a terminal of that many columns."""
    ours, its = pty.openpty()
    env = os.environ | {"COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen([sys.executable, "-m", "fairlead", *command], stdout=its, env=env) as process:
        os.close(its)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # how Linux says that the other end is closed
            pass
    if process.returncode:
        sys.exit(process.returncode)
    return written.decode().replace("\r\n", "\n").rstrip()


def first_table(text: str) -> str:
    """The text up to the end of its first table, without the further tables of columns that did not fit."""
    lines = text.splitlines()
    return "\n".join([*lines[: next(n for n, line in enumerate(lines) if "└" in line) + 1], "[...]"])


def table(text: str) -> str:
    """The text as a picture of a terminal, which loads no fonts."""
    out = Console(record=True, width=COLUMNS, file=io.StringIO())
    out.print(Text.from_ansi(text))
    form = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code, monospace", "Fira Code, DejaVu Sans Mono, monospace")
    return out.export_svg(title=" ".join(["fairlead", *TABLE]), code_format=form, unique_id="compare-table")


def shoot(folder: Path, pictures: list[tuple[Any, ...]]) -> None:
    """Open the reports and take the pictures."""
    with chromium() as browser:
        for name, file, top, width, height, more in pictures:
            page = browser.new_page(viewport={"width": width, "height": height}, **more)
            page.goto((folder / file).as_uri())
            page.wait_for_selector("main[aria-busy=false]")
            if top:
                page.locator(top).evaluate("e => scrollTo({top: e.getBoundingClientRect().top + scrollY - 16})")
            if name == "report-dark":
                points = page.locator("figure[data-plot=over-time] .mark-symbol.role-mark path")
                points.nth(points.count() // 6).hover()
                page.locator("#vg-tooltip-element.visible").wait_for()
            page.screenshot(path=HERE / f"{name}.png")
            page.close()


if __name__ == "__main__":
    main(sys.argv[1:])
