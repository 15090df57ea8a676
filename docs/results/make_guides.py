"""Make the tables of measured success in the guides: `python docs/results/make_guides.py FOLDER`.

FOLDER has what the commands of the guides wrote: bound/SCENARIO.json (guides/bound.md), fairness.json
(guides/comparing.md) and rho.json (guides/simulated-degradation.md). What is not there is left as it is. Not part of
the package or the site.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from make_aset import rate
from make_rules import ALL
from tables import Cell, fill, read

from fairlead.measure.statistics import Estimate, estimate

STREAMS: Final = ("full-edge", "co-dc-cloud", "dc-cloud", "latency-minority", "aset-testbed")
FAIRNESS: Final = {"success": 100, "success_sla_gold": 100, "success_sla_bronze": 100, "fairness_sla": 1}


def main(folder: Path) -> None:
    files = [folder / "bound" / f"{name}.json" for name in STREAMS]
    if all(file.exists() for file in files):
        fill("../guides/bound.md", "streams", from_bound(read(*files)))
    if (shared := folder / "bound" / "ecsrl.json").exists():
        fill("../guides/bound.md", "requests", from_bound(read(shared)))
    if (fairness := folder / "fairness.json").exists():
        fill("../guides/comparing.md", "fairness", by_class(read(fairness)[0]))
    if (rho := folder / "rho.json").exists():
        fill("../guides/simulated-degradation.md", "rho", by_rho(read(rho)))


def from_bound(cells: list[Cell]) -> str:
    """The best rule with its success, and the bound: a row for each scenario, a column for each rate."""
    rates = sorted({rate(cell) for cell in cells})
    lines = [f"| scenario | {' | '.join(map(str, rates))} |", "|---" * (len(rates) + 1) + "|"]
    for scenario in dict.fromkeys(cell.scenario for cell in cells):
        row = sorted((cell for cell in cells if cell.scenario == scenario), key=rate)
        lines.append(f"| `{scenario}` | {' | '.join(map(best_and_bound, row))} |")
    return "\n".join(lines)


def best_and_bound(cell: Cell) -> str:
    best = cell.best(ALL)
    return f"{best} {100 * cell.mean(best):.1f} / {100 * cell.bound_mean:.1f}"


def by_class(cell: Cell) -> str:
    """Success of the classes under each rule, the fairest first."""
    lines = [
        f"| policy on `{cell.scenario}` | success | gold (latency-sensitive) | bronze (relaxed) | Jain's index over "
        "classes |",
        "|---|---|---|---|---|",
    ]
    found = {
        policy: [(scale, estimate(values[name])) for name, scale in FAIRNESS.items()]
        for policy, values in cell.by_seed.items()
    }
    for policy, figures in sorted(found.items(), key=lambda item: -item[1][-1][1].mean):
        lines.append(f"| {policy} | {' | '.join(plus_minus(figure, scale) for scale, figure in figures)} |")
    return "\n".join(lines)


def by_rho(cells: list[Cell]) -> str:
    """Success of every policy at each rho, best at the last first."""
    lines = [f"| policy | rho {' | '.join(cell.label.rpartition('=')[2] for cell in cells)} |"]
    lines.append("|---" * (len(cells) + 1) + "|")
    for policy in sorted(cells[-1].success, key=lambda name: -cells[-1].mean(name)):
        row = (estimate(cell.success[policy]) for cell in cells)
        lines.append(f"| {policy} | {' | '.join(plus_minus(figure, 100, 2) for figure in row)} |")
    return "\n".join(lines)


def plus_minus(figure: Estimate, scale: int, digits: int = 1) -> str:
    digits = digits if scale == 100 else 3
    return f"{scale * figure.mean:.{digits}f} ± {scale * figure.ci95:.{digits}f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
