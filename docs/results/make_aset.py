"""Make the tables of aset.md about what agents pick from: `python docs/results/make_aset.py FOLDER`.

FOLDER has what the commands of the page wrote: SCENARIO.json, or several documents SCENARIO-*.json; FOLDER/more the
same of the run with more seeds. Writes the tables, aset.csv and the pictures. Not part of the package or the site.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tables import HERE, Cell, draw, fill, learning, points, read, write_csv

from fairlead.learn.aset.agent import SEVEN
from fairlead.measure.statistics import Estimate, estimate, paired_difference
from fairlead.policies.bundle import SHIPPED

SCENARIOS = ("full-edge", "co-dc-cloud", "dc-cloud", "aset-testbed", "latency-minority", "shifting")
ALL = tuple(json.loads((SHIPPED / "aset-all/manifest.json").read_text())["actions"])
#: What the agents of the tables pick from.
AGENTS = {"aset": SEVEN, "its own": SEVEN, "aset-all": ALL}
ROOM = 0.02  # a cell has room where the best of what an agent picks from is that far below the bound


def main(folder: Path) -> None:
    cells, more = cells_of(folder), cells_of(folder / "more")
    write_csv("aset.csv", [row for cell in cells for row in rows(cell)])
    fill("aset.md", "cells", table(cells))
    fill("aset.md", "verdicts", verdicts(cells))
    fill("aset.md", "more", with_more_seeds(cells, more))
    fill("aset.md", "shifting", shifting([cell for cell in cells if cell.scenario == "shifting"]))
    draw("gains-aset", gains(cells))
    draw("curves-aset", learning({name: HERE / f"curves/bundle-{name}.csv" for name in agent_names()}))


def cells_of(folder: Path) -> list[Cell]:
    """What a folder's documents have, in the order of the tables."""
    files = (f for s in SCENARIOS for f in [folder / f"{s}.json", *sorted(folder.glob(f"{s}-*.json"))] if f.exists())
    return sorted(read(*files), key=lambda cell: (SCENARIOS.index(cell.scenario), rate(cell)))


def agent_names() -> list[str]:
    return ["aset", *map(own, SCENARIOS), "aset-all"]


def rate(cell: Cell) -> int:
    return int(cell.label.removeprefix("rate="))


def own(scenario: str) -> str:
    """The agent of one topology."""
    return f"aset-{scenario.removeprefix('aset-')}"


def name_in(cell: Cell, agent: str) -> str:
    return own(cell.scenario) if agent == "its own" else agent


def gain_of(cell: Cell, agent: str) -> Estimate:
    return cell.gain(name_in(cell, agent), cell.best(AGENTS[agent]))


def has_room(cell: Cell, agent: str) -> bool:
    return cell.bound_mean - cell.mean(cell.best(AGENTS[agent])) >= ROOM


def rows(cell: Cell) -> Iterator[dict[str, Any]]:
    for policy, values in cell.success.items():
        success = estimate(values)
        row = {"scenario": cell.scenario, "rate": rate(cell), "seeds": len(values)}
        row |= {"policy": policy, "success": success.mean, "ci95": success.ci95, "bound": cell.bound_mean}
        for name, among in (("best_of_seven", SEVEN), ("best_rule", ALL)):
            best = cell.best(among)
            gain = cell.gain(policy, best)
            row |= {name: best, f"gain_on_{name}": gain.mean, f"gain_on_{name}_ci95": gain.ci95}
        yield row


def table(cells: list[Cell]) -> str:
    lines = [
        "| scenario | rate | bound | best of the seven | `aset` | its own agent | best of the 14 | `aset-all` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        found = {agent: gained(cell, agent) for agent in AGENTS}
        best = {among: cell.best(among) for among in (SEVEN, ALL)}
        lines.append(
            f"| {cell.scenario} | {rate(cell)} | {100 * cell.bound_mean:.1f} "
            f"| {best[SEVEN]} {100 * cell.mean(best[SEVEN]):.1f} | {found['aset']} | {found['its own']} "
            f"| {best[ALL]} {100 * cell.mean(best[ALL]):.1f} | {found['aset-all']} |"
        )
    return "\n".join(lines)


def gained(cell: Cell, agent: str) -> str:
    """The gain on the best of its rules, bold where the interval is above 0, and the share of the bound."""
    gain, share = gain_of(cell, agent), cell.mean(name_in(cell, agent)) / cell.bound_mean
    return f"{f'**{points(gain)}**' if gain.mean > gain.ci95 else points(gain)} ({100 * share:.0f} %)"


def verdicts(cells: list[Cell]) -> str:
    lines = [
        "| agent | mean gain on the best of its rules | worst cell | better | worse | cells with room | better there |",
        "|---|---|---|---|---|---|---|",
    ]
    for agent in AGENTS:
        gains = [(gain_of(cell, agent), cell) for cell in cells]
        worst, cell = min(gains, key=lambda entry: entry[0].mean)
        where = f"{cell.scenario} at {rate(cell)}"
        room = [gain for gain, cell in gains if has_room(cell, agent)]
        better, worse = (sum(sign * gain.mean > gain.ci95 for gain, _ in gains) for sign in (1, -1))
        lines.append(
            f"| {agent} | {points(overall(cells, agent))} | {points(worst)} ({where}) | {better} "
            f"| {worse} | {len(room)} | {sum(gain.mean > gain.ci95 for gain in room)} |"
        )
    return "\n".join(lines)


def with_more_seeds(cells: list[Cell], more: list[Cell]) -> str:
    """What each topology's own agent gains on the best of the seven over the seeds of `more`; room as in `cells`."""
    found = {(cell.scenario, rate(cell)): cell for cell in more}
    rates = sorted({rate(cell) for cell in cells})
    lines = [f"| scenario | {' | '.join(map(str, rates))} |", "|---" * (len(rates) + 1) + "|"]
    better = room = 0
    for scenario in SCENARIOS:
        row = []
        for cell in (cell for cell in cells if cell.scenario == scenario):
            again = found.get((scenario, rate(cell)))
            gain = gain_of(again, "its own") if again else None
            above = gain is not None and gain.mean > gain.ci95
            room += has_room(cell, "its own")
            better += above and has_room(cell, "its own")
            text = points(gain) if gain else "not run"
            row.append(f"**{text}**" if above else text)
        lines.append(f"| {scenario} | {' | '.join(row)} |")
    return "\n".join([*lines, "", f"Better in {better} of the {room} cells with room."])


def overall(cells: list[Cell], agent: str) -> Estimate:
    """The mean gain over all cells, seed by seed."""
    mine = [cell.success[name_in(cell, agent)] for cell in cells]
    return paired_difference(mean_of(mine), mean_of([cell.success[cell.best(AGENTS[agent])] for cell in cells]))


def mean_of(by_cell: list[list[float]]) -> list[float]:
    """Over cells, seed by seed."""
    return [sum(values) / len(values) for values in zip(*by_cell, strict=True)]


def shifting(cells: list[Cell]) -> str:
    """What agents gain on each of their rules, over all rates together."""
    agents = {"aset": SEVEN, own("shifting"): SEVEN, "aset-all": ALL}
    lines = ["| gain on | " + " | ".join(f"`{agent}`" for agent in agents) + " |", "|---" * (len(agents) + 1) + "|"]
    mean = {policy: mean_of([cell.success[policy] for cell in cells]) for policy in (*agents, *ALL)}
    for rule in sorted(ALL, key=lambda rule: -sum(mean[rule])):
        gains = (points(paired_difference(mean[a], mean[rule])) if rule in its else "" for a, its in agents.items())
        lines.append(f"| {rule} | {' | '.join(gains)} |")
    return "\n".join(lines)


def gains(cells: list[Cell]) -> dict[str, Any]:
    """What each topology's own agent and the one for all gain on the best of the seven, over the rate."""
    values = [
        {"scenario": c.scenario, "agent": agent, "clients a minute": rate(c)}
        | {"gain, points": 100 * g.mean, "low": 100 * (g.mean - g.ci95), "high": 100 * (g.mean + g.ci95)}
        for c in cells
        for agent in ("aset", "its own")
        for g in [gain_of(c, agent)]
    ]
    x = {"field": "clients a minute", "type": "quantitative", "scale": {"domain": [10, 130]}}
    colour, offset = ({"field": "agent", "type": "nominal"} for _ in range(2))
    y = {"field": "gain, points", "type": "quantitative"}
    interval = {"y": {"field": "low", "type": "quantitative", "title": "gain, points"}, "y2": {"field": "high"}}
    layers = [
        {"mark": {"type": "rule", "color": "#999"}, "encoding": {"y": {"datum": 0}}},
        {"mark": {"type": "line", "point": True}, "encoding": {"x": x, "y": y, "color": colour}},
        {"mark": {"type": "rule"}, "encoding": {"x": x, **interval, "color": offset}},
    ]
    panel = {"width": 190, "height": 130, "layer": layers}
    facet = {"field": "scenario", "type": "nominal", "sort": list(SCENARIOS), "title": None}
    return {"data": {"values": values}, "facet": facet, "columns": 3, "spec": panel}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
