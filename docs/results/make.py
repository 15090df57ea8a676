"""Make the tables of results from what `--json` wrote: `python docs/results/make.py FOLDER`.

FOLDER has the documents that the page names (ecsrl-3400.json, ...). Writes ecsrl.csv beside this file, the picture of
the curves, and the tables into the page, between their marks. Not part of the package or the site.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vl_convert

from fairlead.measure.statistics import Estimate, estimate, paired_difference
from fairlead.policies.bundle import SHIPPED

HERE = Path(__file__).parent
#: The trainings of the dispatcher, by seed; the one that ships has its curve in the package.
CURVES = {
    "seed 0": HERE / "curves/ecsrl-0.csv",
    "seed 1, ships": SHIPPED / "ecsrl/curve.csv",
    "seed 2": HERE / "curves/ecsrl-2.csv",
}


def main(folder: Path) -> None:
    cells = {file.stem: Cell(file) for file in sorted(folder.glob("ecsrl*.json"))}
    write_csv("ecsrl.csv", [{"document": name, **row} for name, cell in cells.items() for row in policy_rows(cell)])
    for name, cell in cells.items():
        fill("ecsrl.md", name, policy_table(cell))
    draw("curves-ecsrl", learning(CURVES))


class Cell:
    """What a comparison on one scenario found: figures by policy and seed, and the bound by seed."""

    def __init__(self, file: Path) -> None:
        document = json.loads(file.read_text())
        if not document["complete"]:
            sys.exit(f"{file}: not complete")
        (content,) = document["scenarios"].values()
        self.by_seed = {name: p["by_seed"] for name, p in content["policies"].items()}
        self.success = {name: values["success"] for name, values in self.by_seed.items()}
        self.bound = content["bound"]["by_seed"]
        rules = [name for name in self.success if not name.startswith(("ecsrl", "runs/"))]
        self.best = max(rules, key=lambda name: estimate(self.success[name]).mean)  # of the rules

    def gain(self, policy: str) -> Estimate:
        """On the best rule, over the same seeds."""
        return paired_difference(self.success[policy], self.success[self.best])


#: What the tables of policies show: the factor and the digits.
FIGURES = {
    "success": (100, 2),
    "late": (100, 2),
    "rejected": (100, 2),
    "energy_per_success_mj": (1, 0),
    "degradation": (1, 2),
}


def policy_rows(cell: Cell) -> Iterator[dict[str, Any]]:
    for policy, values in cell.by_seed.items():
        row: dict[str, Any] = {"policy": policy, "seeds": len(values["success"])}
        for name in FIGURES:
            figure = estimate(values[name])
            row |= {name: figure.mean, f"{name}_ci95": figure.ci95}
        gain = cell.gain(policy)
        yield row | {"best_rule": cell.best, "gain": gain.mean, "gain_ci95": gain.ci95}


def policy_table(cell: Cell, most: int = 8) -> str:
    lines = [
        "| policy | in time and accurate, % | gain on the best rule | late | rejected | mJ a success | slow-down |",
        "|---|---|---|---|---|---|---|",
    ]
    ranked = sorted(cell.success, key=lambda n: -estimate(cell.success[n]).mean)
    for policy in ranked[:most]:
        figures = {name: estimate(cell.by_seed[policy][name]) for name in FIGURES}
        words = [f"{scale * figures[name].mean:.{digits}f}" for name, (scale, digits) in FIGURES.items()]
        gain = cell.gain(policy)
        success, late, rejected, energy, slow = words
        ci = f"{100 * figures['success'].ci95:.2f}"
        against = "" if policy == cell.best else f"{100 * gain.mean:+.2f} ± {100 * gain.ci95:.2f}"
        lines.append(f"| {policy} | {success} ± {ci} | {against} | {late} | {rejected} | {energy} | {slow} |")
    lines.append(f"| *bound* | {100 * estimate(cell.bound).mean:.2f} | | | | | |")
    return "\n".join(lines)


def learning(files: dict[str, Path]) -> dict[str, Any]:
    """The gap to the best rules over the steps of training, a line for each file."""
    rows = [(who, row) for who, file in files.items() for row in csv.DictReader(file.open()) if row["place"] == "all"]
    values = [{"training": who, "steps": int(r["step"]), "gap, points": 100 * float(r["gap"])} for who, r in rows]
    x, y = ({"field": name, "type": "quantitative"} for name in ("steps", "gap, points"))
    encoding = {"x": x, "y": y, "color": {"field": "training", "type": "nominal"}}
    line = {"type": "line", "point": True}
    return {"width": 560, "height": 260, "data": {"values": values}, "mark": line, "encoding": encoding}


def draw(name: str, plot: dict[str, Any]) -> None:
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": "white", **plot}
    (HERE / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(whole))


def write_csv(name: str, rows: list[dict[str, Any]]) -> None:
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def fill(page: str, mark: str, text: str) -> None:
    """Put the text between `<!-- mark -->` and `<!-- end -->`, where the page has them."""
    path = HERE / page
    pattern = rf"(<!-- {re.escape(mark)} -->\n).*?(\n?<!-- end -->)"
    path.write_text(re.sub(pattern, lambda m: f"{m[1]}{text}\n<!-- end -->", path.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
