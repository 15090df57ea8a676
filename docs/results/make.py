"""Make the tables of results from what `--json` wrote: `python docs/results/make.py FOLDER`.

FOLDER has the documents that the pages name (full-edge.json, ..., ecsrl-3400.json, ...). Writes aset.csv and ecsrl.csv
beside this file, the pictures, and the tables into the pages, between their marks. Whatever is not in FOLDER stays as
it is. Not part of the package or the site.
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

from fairlead.learn.aset import SEVEN
from fairlead.measure.statistics import Estimate, estimate, paired_difference

HERE = Path(__file__).parent
TOPOLOGIES = ("full-edge", "co-dc-cloud", "dc-cloud", "aset-testbed", "latency-minority", "shifting")
AGENTS = {"aset": "seven", "aset-all": "all"}  # and aset-TOPOLOGY, which picks among the seven
ROOM = 0.02  # a cell has room where the best of the seven is that far below the bound


def main(folder: Path) -> None:
    cells = [cell for name in TOPOLOGIES for cell in read(folder / f"{name}.json")]
    if cells and (HERE / "aset.md").exists():
        write_csv("aset.csv", [row for cell in cells for row in cell_rows(cell)])
        fill("aset.md", "cells", cell_table(cells))
        fill("aset.md", "verdicts", verdicts(cells))
    ecsrl = {file.stem: next(read(file)) for file in sorted(folder.glob("ecsrl*.json"))}
    if ecsrl:
        write_csv("ecsrl.csv", [{"document": name, **row} for name, cell in ecsrl.items() for row in policy_rows(cell)])
    for name, cell in ecsrl.items():
        fill("ecsrl.md", name, policy_table(cell))
    if "ecsrl-pareto" in ecsrl:
        draw("pareto", trade_off(ecsrl["ecsrl-pareto"]))
    for agent in ("ecsrl",):
        if curves := sorted((HERE / "curves").glob(f"{agent}*.csv")):
            draw(f"curves-{agent}", learning(curves))


class Cell:
    """One scenario at one rate: success by policy and seed, and the bound by seed."""

    def __init__(self, scenario: str, rate: str, content: dict[str, Any]) -> None:
        self.scenario, self.rate = scenario, rate
        self.by_seed = {name.removeprefix("pareto/"): p["by_seed"] for name, p in content["policies"].items()}
        self.success = {name: values["success"] for name, values in self.by_seed.items()}
        self.bound = content["bound"]["by_seed"] if content["bound"] else None

    def best(self, names: Any) -> str:
        return max((n for n in names if n in self.success), key=lambda n: estimate(self.success[n]).mean)

    @property
    def rules(self) -> list[str]:
        return [name for name in self.success if not name.startswith(("aset", "ecsrl", "runs/", "w-"))]

    def gain(self, agent: str, rule: str) -> Estimate:
        """Agent - rule, over the same seeds."""
        return paired_difference(self.success[agent], self.success[rule])

    def agents(self) -> Iterator[tuple[str, str]]:
        """The agents of this cell, and the rule that each must beat."""
        for agent in (*AGENTS, f"aset-{self.scenario}"):
            if agent in self.success:
                yield agent, self.best(SEVEN if AGENTS.get(agent, "seven") == "seven" else self.rules)


def read(file: Path) -> Iterator[Cell]:
    if not file.exists():
        return
    document = json.loads(file.read_text())
    if not document["complete"]:
        sys.exit(f"{file}: not complete")
    for label, content in document["scenarios"].items():
        yield Cell(file.stem, label.removeprefix("rate="), content)


def cell_rows(cell: Cell) -> Iterator[dict[str, Any]]:
    for policy, values in cell.success.items():
        success, bound = estimate(values), estimate(cell.bound)
        row = {"scenario": cell.scenario, "rate": cell.rate, "seeds": len(values), "policy": policy}
        row |= {"success": success.mean, "ci95": success.ci95, "bound": bound.mean}
        for name, rules in (("best_of_seven", SEVEN), ("best_rule", cell.rules)):
            best = cell.best(rules)
            gain = cell.gain(policy, best)
            row |= {name: best, f"gain_on_{name}": gain.mean, f"gain_on_{name}_ci95": gain.ci95}
        yield row


def cell_table(cells: list[Cell]) -> str:
    lines = [
        "| scenario | rate | bound | best of the seven | `aset` | agent of its own | best rule of all | `aset-all` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        seven, rule = cell.best(SEVEN), cell.best(cell.rules)
        gains = dict(cell.agents())
        own = f"aset-{cell.scenario}"
        lines.append(
            f"| {cell.scenario} | {cell.rate} | {100 * estimate(cell.bound).mean:.1f} "
            f"| {seven} {100 * estimate(cell.success[seven]).mean:.1f} "
            f"| {gained(cell, 'aset', gains)} | {gained(cell, own, gains)} "
            f"| {rule} {100 * estimate(cell.success[rule]).mean:.1f} | {gained(cell, 'aset-all', gains)} |"
        )
    return "\n".join(lines)


def gained(cell: Cell, agent: str, rules: dict[str, str]) -> str:
    """The gain on the rule, bold where the interval is above 0, and the share of the bound."""
    if agent not in rules:
        return ""
    gain = cell.gain(agent, rules[agent])
    words = f"{100 * gain.mean:+.2f} ± {100 * gain.ci95:.2f}"
    share = estimate(cell.success[agent]).mean / estimate(cell.bound).mean
    return f"{f'**{words}**' if gain.mean > gain.ci95 else words} ({100 * share:.0f} %)"


def verdicts(cells: list[Cell]) -> str:
    lines = ["| agent | cells | worst | cells with room | better there | mean gain |", "|---|---|---|---|---|---|"]
    for agent in (*AGENTS, "of its own"):
        gains = [
            (cell, cell.gain(name, rule), rule)
            for cell in cells
            for name, rule in cell.agents()
            if name == agent or (agent == "of its own" and name not in AGENTS)
        ]
        if not gains:
            continue
        room = [(c, g) for c, g, rule in gains if estimate(c.bound).mean - estimate(c.success[rule]).mean >= ROOM]
        better = sum(g.mean > g.ci95 for _, g in room)
        worst, where, _ = min(((g.mean, c, g) for c, g, _ in gains), key=lambda entry: entry[0])
        mean = sum(g.mean for _, g, _ in gains) / len(gains)
        lines.append(
            f"| {agent} | {len(gains)} | {100 * worst:+.2f} ({where.scenario} at {where.rate}) | {len(room)} "
            f"| {better} | {100 * mean:+.2f} |"
        )
    return "\n".join(lines)


#: What the tables of policies show: the factor and the digits.
FIGURES = {
    "success": (100, 2),
    "late": (100, 2),
    "rejected": (100, 2),
    "energy_per_success_mj": (1, 0),
    "degradation": (1, 2),
}


def policy_rows(cell: Cell) -> Iterator[dict[str, Any]]:
    best = cell.best(cell.rules)
    for policy, values in cell.by_seed.items():
        row: dict[str, Any] = {"policy": policy, "seeds": len(values["success"])}
        for name in FIGURES:
            figure = estimate(values[name])
            row |= {name: figure.mean, f"{name}_ci95": figure.ci95}
        gain = cell.gain(policy, best)
        yield row | {"best_rule": best, "gain": gain.mean, "gain_ci95": gain.ci95}


def policy_table(cell: Cell, most: int = 8) -> str:
    lines = [
        "| policy | in time and accurate, % | gain on the best rule | late | rejected | mJ a success | slow-down |",
        "|---|---|---|---|---|---|---|",
    ]
    best = cell.best(cell.rules)
    ranked = sorted(cell.success, key=lambda n: -estimate(cell.success[n]).mean)
    for policy in ranked[:most]:
        figures = {name: estimate(cell.by_seed[policy][name]) for name in FIGURES}
        words = [f"{scale * figures[name].mean:.{digits}f}" for name, (scale, digits) in FIGURES.items()]
        gain = cell.gain(policy, best)
        success, late, rejected, energy, slow = words
        ci = f"{100 * figures['success'].ci95:.2f}"
        against = "" if policy == best else f"{100 * gain.mean:+.2f} ± {100 * gain.ci95:.2f}"
        lines.append(f"| {policy} | {success} ± {ci} | {against} | {late} | {rejected} | {energy} | {slow} |")
    if cell.bound:
        lines.append(f"| *bound* | {100 * estimate(cell.bound).mean:.2f} | | | | | |")
    return "\n".join(lines)


def trade_off(cell: Cell) -> dict[str, Any]:
    """Success against energy, one point for each policy that is not far off."""
    points = [
        {
            "policy": policy,
            "success, %": 100 * estimate(values["success"]).mean,
            "energy, mJ a success": estimate(values["energy_per_success_mj"]).mean,
            "slow-down": estimate(values["degradation"]).mean,
            "who": "rule" if policy in cell.rules else "agent",
        }
        for policy, values in cell.by_seed.items()
        if estimate(values["success"]).mean > 0.8
    ]
    x, y = ({"field": name, "type": "quantitative", "scale": {"zero": False}} for name in list(points[0])[1:3][::-1])
    encoding = {"x": x, "y": y}
    marks = {"mark": {"type": "point", "filled": True, "size": 60}, "encoding": {"color": {"field": "who"}}}
    words = {
        "mark": {"type": "text", "dx": 6, "align": "left", "fontSize": 9},
        "encoding": {"text": {"field": "policy"}},
    }
    return {"width": 560, "height": 320, "data": {"values": points}, "encoding": encoding, "layer": [marks, words]}


def learning(files: list[Path]) -> dict[str, Any]:
    """The gap to the best rules over the steps of training, a line for each file."""
    rows = [(file.stem, row) for file in files for row in csv.DictReader(file.open()) if row["place"] == "all"]
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
