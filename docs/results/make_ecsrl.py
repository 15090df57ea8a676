"""Make the tables of ecsrl.md about trainings and weights: `python docs/results/make_ecsrl.py FOLDER`.

FOLDER has ecsrl-pareto.json and others of DOCUMENTS. Writes ecsrl.csv beside this file, where what the folder does not
have stays as it is, the pictures, and the tables into the page. Not part of the package or the site.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from tables import HERE, Cell, draw, fill, learning, points, read, write_csv

from fairlead.measure.statistics import estimate

#: The trainings, by seed; that of seed 1 ships.
CURVES = {
    "seed 0": HERE / "curves/ecsrl-0.csv",
    "seed 1, ships": HERE / "curves/bundle-ecsrl.csv",
    "seed 2": HERE / "curves/ecsrl-2.csv",
}
DOCUMENTS = ("3400", "18500", "rho-0.3", "rho-0.6", "rho-1", "pareto", "target")  # the last two have a table each
#: What the tables show: the factor and the digits.
FIGURES = {
    "success": (100, 2),
    "late": (100, 2),
    "rejected": (100, 2),
    "energy_per_success_mj": (1, 0),
    "degradation": (1, 2),
}


def main(folder: Path) -> None:
    files = (folder / f"ecsrl-{name}.json" for name in DOCUMENTS)
    cells = {file.stem: read(file)[0] for file in files if file.exists()}
    made = [{"document": name, **row} for name, cell in cells.items() for row in rows(cell)]
    write_csv("ecsrl.csv", sorted([*made, *kept(cells)], key=lambda row: row["document"]))
    for name in cells.keys() & {"ecsrl-pareto", "ecsrl-target"}:
        fill("ecsrl.md", name, table(cells[name]))
    if "ecsrl-pareto" in cells:
        draw("pareto", trade_off(cells["ecsrl-pareto"]))
    draw("curves-ecsrl", learning(CURVES))


def kept(cells: Collection[str]) -> list[dict[str, Any]]:
    """The rows that ecsrl.csv has of other documents."""
    with (HERE / "ecsrl.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["document"] not in cells]


def is_rule(policy: str) -> bool:
    return not policy.startswith(("ecsrl", "runs/", "pareto/"))


def best_rule(cell: Cell) -> str:
    return cell.best(filter(is_rule, cell.success))


def rows(cell: Cell) -> Iterator[dict[str, Any]]:
    best = best_rule(cell)
    for policy, values in cell.by_seed.items():
        row: dict[str, Any] = {"policy": policy, "seeds": len(values["success"])}
        for name in FIGURES:
            figure = estimate(values[name])
            row |= {name: figure.mean, f"{name}_ci95": figure.ci95}
        gain = cell.gain(policy, best)
        yield row | {"best_rule": best, "gain": gain.mean, "gain_ci95": gain.ci95}


def table(cell: Cell) -> str:
    """All agents, and the rules down to the fifth."""
    lines = [
        "| policy | in time and accurate, % | gain on the best rule | late | rejected | mJ per success | slow-down |",
        "|---|---|---|---|---|---|---|",
    ]
    best, ranked = best_rule(cell), sorted(cell.success, key=lambda name: -cell.mean(name))
    shown = [*filter(is_rule, ranked)][:5]
    for policy in (name for name in ranked if name in shown or not is_rule(name)):
        figures = {name: estimate(cell.by_seed[policy][name]) for name in FIGURES}
        words = [f"{scale * figures[name].mean:.{digits}f}" for name, (scale, digits) in FIGURES.items()]
        success, late, rejected, energy, slow = words
        ci = f"{100 * figures['success'].ci95:.2f}"
        against = "" if policy == best else points(cell.gain(policy, best))
        lines.append(f"| {policy} | {success} ± {ci} | {against} | {late} | {rejected} | {energy} | {slow} |")
    lines.append(f"| *bound* | {100 * cell.bound_mean:.2f} | | | | | |")
    return "\n".join(lines)


def trade_off(cell: Cell) -> dict[str, Any]:
    """Slow-down against energy, a point for each pair of weights."""
    values = [
        {
            "weights": policy.removeprefix("pareto/w-").replace("-", ", "),
            "success, %": 100 * cell.mean(policy),
            "energy per success, mJ": estimate(figures["energy_per_success_mj"]).mean,
            "slow-down": estimate(figures["degradation"]).mean,
        }
        for policy, figures in cell.by_seed.items()
        if policy.startswith("pareto/")
    ]
    x, y = (
        {"field": name, "type": "quantitative", "scale": {"zero": False, "nice": True}}
        for name in ("energy per success, mJ", "slow-down")
    )
    colour = {"field": "success, %", "type": "quantitative", "scale": {"zero": False, "scheme": "viridis"}}
    marks = {"mark": {"type": "point", "filled": True, "size": 80}, "encoding": {"color": colour}}
    words = {
        "mark": {"type": "text", "dx": 7, "dy": -7, "align": "left", "fontSize": 10},
        "encoding": {"text": {"field": "weights"}},
    }
    plot = {"width": 560, "height": 320, "data": {"values": values}, "encoding": {"x": x, "y": y}}
    return plot | {"layer": [marks, words]}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
