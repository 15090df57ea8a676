"""What the makers of result pages share: reading what `--json` wrote, tables between marks, CSV files, pictures."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import vl_convert

from fairlead.measure.statistics import Estimate, estimate, paired_difference

HERE = Path(__file__).parent


class Cell:
    """What was found in one place: figures by policy and seed, and the bound by seed."""

    def __init__(self, scenario: str, label: str) -> None:
        self.scenario, self.label = scenario, label
        self.by_seed: dict[str, Any] = {}
        self.seeds: list[int] = []
        self.definition: dict[str, Any] = {}
        self.bound: list[float] = []

    def add(self, content: dict[str, Any]) -> None:
        """What a document has of this place."""
        if self.seeds and (self.seeds, self.definition) != (content["seeds"], content["definition"]):
            sys.exit(f"{self.scenario} {self.label}: documents of different seeds or settings")
        self.seeds, self.definition = content["seeds"], content["definition"]
        self.by_seed |= {name: p["by_seed"] for name, p in content["policies"].items()}
        if content["bound"]:
            self.bound = content["bound"]["by_seed"]

    @property
    def success(self) -> dict[str, list[float]]:
        return {name: values["success"] for name, values in self.by_seed.items()}

    def mean(self, policy: str) -> float:
        """Of successes."""
        return estimate(self.success[policy]).mean

    @property
    def bound_mean(self) -> float:
        return estimate(self.bound).mean

    def best(self, names: Any) -> str:
        """The policy of these that has the most successes."""
        return max((name for name in names if name in self.success), key=self.mean)

    def gain(self, policy: str, rule: str) -> Estimate:
        """Policy - rule, over the same seeds."""
        return paired_difference(self.success[policy], self.success[rule])


def read(*files: Path) -> list[Cell]:
    """The places that these documents have, each with the policies of all of them."""
    cells: dict[tuple[str, str], Cell] = {}
    for file in files:
        document = json.loads(file.read_text())
        if not document["complete"]:
            sys.exit(f"{file}: not complete")
        for label, content in document["scenarios"].items():
            scenario = content["definition"]["name"]
            cells.setdefault((scenario, label), Cell(scenario, label)).add(content)
    return list(cells.values())


def points(gain: Estimate, digits: int = 2) -> str:
    """A difference of shares as the pages have it."""
    return difference(gain, digits, 100)


def difference(gap: Estimate, digits: int, scale: int = 1) -> str:
    """With its interval, and with a sign unless it rounds to 0."""
    mean = f"{scale * gap.mean:+z.{digits}f}"
    return f"{mean if float(mean) else mean.lstrip('+')} ± {scale * gap.ci95:.{digits}f}"


def learning(files: dict[str, Path]) -> dict[str, Any]:
    """The gap to the best rules over the steps of training, a line for each file."""
    rows = [(who, row) for who, file in files.items() for row in csv.DictReader(file.open()) if row["place"] == "all"]
    values = [{"training": who, "steps": int(r["step"]), "gap, points": 100 * float(r["gap"])} for who, r in rows]
    x, y = ({"field": name, "type": "quantitative"} for name in ("steps", "gap, points"))
    encoding = {"x": x, "y": y, "color": {"field": "training", "type": "nominal"}}
    line = {"type": "line", "point": True}
    return {"width": 560, "height": 260, "data": {"values": values}, "mark": line, "encoding": encoding}


def draw(name: str, plot: dict[str, Any]) -> None:
    """Write NAME.svg."""
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": "white", **plot}
    (HERE / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(whole))


def write_csv(name: str, rows: list[dict[str, Any]]) -> None:
    """Write NAME, with a column for each key of the first row."""
    with (HERE / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})


def fill(page: str, mark: str, text: str) -> None:
    """Put the text between `<!-- mark -->` and `<!-- end -->`."""
    path = HERE / page
    pattern = rf"(<!-- {re.escape(mark)} -->\n).*?(\n?<!-- end -->)"
    filled, found = re.subn(pattern, lambda m: f"{m[1]}{text}\n<!-- end -->", path.read_text(), flags=re.DOTALL)
    if not found:
        sys.exit(f"{path}: no <!-- {mark} -->")
    path.write_text(filled)
